/* write.c - writing numpy's archives of arrays. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/npz/npy.h"
#include "lib/ckpt/npz/npz.h"
#include "lib/ckpt/safetensors/edit.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/flat.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/check.h"
#include "lib/ckpt/zip/crc.h"

struct array {
	unsigned char *header;
	size_t header_size;
	uint64_t at; /* of the header in the file */
};

struct writer {
	struct gt_flat flat;
	struct array *arrays;         /* of flat.tensors */
	struct gt_copy_place *places; /* the same */
	struct gt_zip_writer zip;
};

/* The record of a tensor: its header, then its elements. */
static int add_array(struct writer *w, size_t i, struct gt_err *err)
{
	const struct gt_flat_tensor *t = &w->flat.tensors[i];
	struct array *a = &w->arrays[i];
	char *name;
	int rc = gt_npy_format(
	    &a->header, &a->header_size, t->as, t->tensor->ndim, t->tensor->shape, err);

	if (rc)
		return gt_err_prefix(err, "tensor '%.200s'", t->name);
	name = gt_asprintf(err, "%s.npy", t->name);
	if (!name)
		return GT_ENOMEM;
	if (gt_zip_check_name(name, strlen(name), 0, GT_ERR_IGNORED))
		rc = gt_err_set(err, GT_ENOTSUP,
		    "tensor '%.200s': a zip archive has no room for this name", t->name);
	else
		rc = gt_zip_add(&w->zip, name, a->header_size + t->size_bytes, &a->at, err);
	free(name);
	w->places[i] = (struct gt_copy_place){
		.offset = a->at + a->header_size,
		.size_bytes = t->size_bytes,
		.tensor = t->tensor,
		.as = t->as,
	};
	return rc;
}

static int write_archive(void *self, int fd, struct gt_err *err)
{
	struct writer *w = self;
	int rc = 0;

	for (size_t i = 0; i < w->flat.count && !rc; i++)
		rc = add_array(w, i, err);
	if (!rc)
		rc = gt_copy_tensors(fd, w->places, w->flat.count, err);
	for (size_t i = 0; i < w->flat.count && !rc; i++) {
		const struct array *a = &w->arrays[i];

		rc = gt_write_at(fd, a->at, a->header, a->header_size, err);
		w->zip.records[i].crc = gt_crc32_join(gt_crc32(0, a->header, a->header_size),
		    w->places[i].crc, w->places[i].size_bytes);
	}
	return rc ? rc : gt_zip_finish(&w->zip, fd, err);
}

static void release(struct writer *w)
{
	for (size_t i = 0; w->arrays && i < w->flat.count; i++)
		free(w->arrays[i].header);
	free(w->arrays);
	free(w->places);
	gt_zip_release(&w->zip);
	gt_flat_release(&w->flat);
}

static int prepare(struct writer *w, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	int rc = gt_tree_check((struct gt_tree *)root, NULL, err);

	if (!rc && options->shard_bytes)
		rc = gt_err_set(err, GT_ENOTSUP, "npz is one file, without shards");
	if (!rc)
		rc = gt_flat_list(&w->flat, root, "npz", options, err);
	if (rc)
		return rc;
	w->arrays = gt_calloc(w->flat.count, sizeof(*w->arrays), err);
	w->places = gt_calloc(w->flat.count, sizeof(*w->places), err);
	return w->arrays && w->places ? 0 : GT_ENOMEM;
}

int gt_npz_write(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	const struct gt_edit_target target = { .output = path, .no_sync = options->no_sync };
	struct writer w = { 0 };
	int rc = prepare(&w, root, options, err);

	if (!rc)
		rc = gt_edit_replace(NULL, &target, write_archive, &w, err);
	gt_copy_losses(w.places, rc ? 0 : w.flat.count, options->losses);
	release(&w);
	return rc ? gt_err_prefix(err, "'%s'", path) : 0;
}

/* ---- edits ---- */

/* The same tensors under their new names. */
static int rename_all(struct gt_tree **out, const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    struct gt_arena *arena, struct gt_err *err)
{
	const struct gt_tree *root = ckpt->root;
	int rc = 0;

	*out = gt_tree_dict(arena, err);
	if (!*out)
		return GT_ENOMEM;
	for (size_t i = 0, next = 0; i < root->seq.count && !rc; i++) {
		const struct gt_tree_item *item = &root->seq.items[i];
		const char *name = item->key->string.bytes;

		/* changes are in the tree's order, and there are none but names */
		if (next < edit->count && !strcmp(edit->changes[next].from, name))
			name = edit->changes[next++].to;
		rc = gt_tree_set(*out, name, item->value, arena, err);
	}
	return rc;
}

int gt_npz_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	static const struct gt_ckpt_write_options options = { 0 };
	struct gt_arena arena = { 0 };
	struct writer w = { 0 };
	struct gt_tree *root;
	int rc = rename_all(&root, ckpt, edit, &arena, err);

	if (!rc)
		rc = prepare(&w, root, &options, err);
	if (rc)
		gt_err_prefix(err, "'%s'", target->input);
	else
		rc = gt_edit_replace(ckpt, target, write_archive, &w, err);
	release(&w);
	gt_arena_release(&arena);
	for (size_t i = 0; i < ckpt->root->seq.count; i++)
		result->moved_bytes += ckpt->root->seq.items[i].value->tensor.storage->size_bytes;
	result->replaced = !target->output;
	result->why = "the names of a zip archive's records have no room to change";
	return rc;
}
