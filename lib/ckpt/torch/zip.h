/* zip.h - inside ckpt: the archives of torch.save and torch.jit.save, record by record. */
#ifndef GT_CKPT_TORCH_ZIP_H
#define GT_CKPT_TORCH_ZIP_H

#include "lib/ckpt/format.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/zip/zip.h"

/*
 * ROOT/data.pkl the pickle ROOT/data/KEY the bytes of a storage ROOT/byteorder "little" or "big";
 * absent before 2.1: little (or the writer's, untold) ROOT/version of the format
 * ROOT/.data/serialization_id, ROOT/.format_version, ROOT/.storage_alignment not needed ROOT is one
 * name for all, the file's stem as a rule. TorchScript adds ROOT/constants.pkl tensors of the code,
 * with storages ROOT/constants/KEY ROOT/code/... the classes of data.pkl's objects Source:
 * torch/serialization.py, caffe2/serialize/inline_container.cc,
 * torch/csrc/jit/serialization/export_module.cpp.
 */

struct gt_torch_archive {
	struct gt_zip zip;
	const char *root; /* "archive", not zero-terminated */
	int root_length;
	bool swapped; /* numbers have the other endianness */
	struct gt_arena *arena;
};

/* The record ROOT/NAME, or NULL. */
const struct gt_zip_record *gt_torch_archive_find(
    const struct gt_torch_archive *archive, const char *name);

/* A pickle, PART.pkl, with the bytes of its storages, PART/KEY. */
struct gt_torch_part {
	struct gt_tree *tree;
	const unsigned char *pickle; /* borrowed from the archive or the arena */
	size_t pickle_bytes;
	const char *record; /* its name */
	const struct gt_torch_location *locations;
};

int gt_torch_archive_read(struct gt_torch_archive *archive, const char *part,
    struct gt_torch_part *out, struct gt_err *err);

/*
 * Give the objects of TorchScript's modules the shape that pickled nn.Modules have: state with
 * `_parameters`, `_buffers` and `_modules`, then the other attributes; so that gt_state_dict_find()
 * walks both alike. The constants of the code go to the state of the root, under "constants.pkl".
 */
int gt_torchscript_shape(
    struct gt_torch_archive *archive, struct gt_tree *root, struct gt_err *err);

extern const struct gt_ckpt_format gt_format_torchscript;

#endif
