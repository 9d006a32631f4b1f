/* zip.h - private: read the zip archives that torch.save() and torch.jit.save() write. */
#ifndef GT_CKPT_TORCH_ZIP_H
#define GT_CKPT_TORCH_ZIP_H

#include "lib/ckpt/format.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/zip/zip.h"

/*
 * Records are named ROOT/NAME (torch/zip.c lists them); ROOT is usually the name of the file
 * without its ending.
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

/* Set archive->swapped by the record ROOT/byteorder. */
int gt_torch_archive_byteorder(struct gt_torch_archive *archive, struct gt_err *err);

/* A part of an archive: a pickle PART.pkl and its storages PART/KEY. */
struct gt_torch_part {
	struct gt_tree *tree;
	const unsigned char *pickle; /* in the arena of the archive */
	size_t pickle_bytes;
	const char *record; /* name of the record of the pickle */
	/* linked list of the places in the pickle that name a device, the last one first */
	const struct gt_torch_location *locations;
};

/* Read a part, such as "data", into the arena of the archive; tensors borrow from the mapping. */
int gt_torch_archive_read(struct gt_torch_archive *archive, const char *part,
    struct gt_torch_part *out, struct gt_err *err);

/* Read the object of torch.save() from an archive that is a part of a file, into an arena; tensors
 * borrow from `part`, which must stay where it is. */
int gt_torch_zip_read(struct gt_tree **out, const struct gt_mapping *part, struct gt_arena *arena,
    struct gt_err *err);

/*
 * Change TorchScript modules to the form of pickled nn.Modules, and add constants.pkl to the root.
 */
int gt_torchscript_shape(
    struct gt_torch_archive *archive, struct gt_tree *root, struct gt_err *err);

/* The format of TorchScript archives; it has no row in the table: gt_format_torch_zip sets it. */
extern const struct gt_ckpt_format gt_format_torchscript;

/* Return whether an archive without data.pkl is one of torch.export. */
bool gt_torch_export_is(const struct gt_zip *zip);

/* Open an archive of torch.export whose directory is read: sets root, format and exported. */
int gt_torch_export_open(
    struct gt_ckpt *ckpt, struct gt_torch_archive *archive, struct gt_err *err);

/* The format of these archives; like gt_format_torchscript it has no row in the table. */
extern const struct gt_ckpt_format gt_format_torch_export;

#endif
