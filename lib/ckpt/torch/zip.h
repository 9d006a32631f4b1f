/* zip.h - private: read the zip archives that torch.save() and torch.jit.save() write. */
#ifndef GT_CKPT_TORCH_ZIP_H
#define GT_CKPT_TORCH_ZIP_H

#include "lib/ckpt/format.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/zip/zip.h"

/*
 * The records of an archive. ROOT is the same for all records, usually the name of the file without
 * its ending.
 *
 *   ROOT/data.pkl                  the pickle
 *   ROOT/data/KEY                  the bytes of a storage
 *   ROOT/byteorder                 "little" or "big"; if absent, gtrain assumes "little"
 *   ROOT/version                   version of the format
 *   ROOT/.data/serialization_id    not needed
 *   ROOT/.format_version           not needed
 *   ROOT/.storage_alignment        not needed
 *
 * PyTorch before 2.1 writes no ROOT/byteorder, although it writes the bytes in the byte order of
 * its host. TorchScript adds these records:
 *
 *   ROOT/constants.pkl             a pickle with the tensors that the code uses as constants
 *   ROOT/constants/KEY             the bytes of their storages
 *   ROOT/code/...                  source code of the classes of the objects in data.pkl
 *
 * Source: torch/serialization.py, caffe2/serialize/inline_container.cc,
 * torch/csrc/jit/serialization/export_module.cpp.
 */

struct gt_torch_archive {
	struct gt_zip zip;
	const char *root; /* ROOT, such as "archive"; root_length bytes, not zero-terminated */
	int root_length;
	bool swapped; /* the byte order of the storages is not that of the host */
	struct gt_arena *arena;
};

/* Return the record ROOT/NAME, or NULL. */
const struct gt_zip_record *gt_torch_archive_find(
    const struct gt_torch_archive *archive, const char *name);

/* A part of an archive: a pickle PART.pkl and its storages PART/KEY. */
struct gt_torch_part {
	struct gt_tree *tree;
	const unsigned char *pickle; /* in the arena of the archive */
	size_t pickle_bytes;
	const char *record; /* name of the record of the pickle */
	/* linked list of the places in the pickle that name a device, the last one first */
	const struct gt_torch_location *locations;
};

/*
 * Read one part of an archive. `part` is its name, such as "data". The tensors borrow their bytes
 * from the mapping of the file. The tree is allocated in the arena of the archive.
 */
int gt_torch_archive_read(struct gt_torch_archive *archive, const char *part,
    struct gt_torch_part *out, struct gt_err *err);

/*
 * Change the objects of TorchScript modules to the form of pickled nn.Modules, so that
 * gt_state_dict_find() handles both in the same way. The state of each module then has
 * `_parameters`, `_buffers` and `_modules`, followed by the other attributes. The tensors of
 * constants.pkl are added to the state of the root module, under "constants.pkl".
 */
int gt_torchscript_shape(
    struct gt_torch_archive *archive, struct gt_tree *root, struct gt_err *err);

/* The format of TorchScript archives. It has no row in the table of formats (lib/ckpt/format.h):
 * gt_format_torch_zip opens them, and sets it. */
extern const struct gt_ckpt_format gt_format_torchscript;

#endif
