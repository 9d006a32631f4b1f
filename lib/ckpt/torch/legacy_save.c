/* legacy_save.c - writing the five pickles and the storages of torch's older format. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/base/file.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/torch/write.h"
#include "lib/ckpt/tree/tree.h"

/* The format is told in torch/legacy.c. */

struct legacy {
	struct gt_torch_writer tree;
	struct gt_copy_place *places;
	uint64_t at; /* where the next bytes go */
	int fd;
};

static int put(struct legacy *l, const void *bytes, size_t size, struct gt_err *err)
{
	int rc = gt_write_at(l->fd, l->at, bytes, size, err);

	l->at += size;
	return rc;
}

/* A pickle without tensors. */
static int put_tree(struct legacy *l, const struct gt_tree *tree, struct gt_err *err)
{
	struct gt_pickle_writer w = { 0 };
	char *bytes;
	size_t size;
	int rc = tree ? gt_pickle_write(&w, tree, &bytes, &size, err) : err->code;

	if (rc)
		return rc;
	rc = put(l, bytes, size, err);
	free(bytes);
	return rc;
}

/* The magic number, the version, and the C types of the writer. */
static int put_header(struct legacy *l, struct gt_arena *a, struct gt_err *err)
{
	static const unsigned char magic[] =
	    "\x80\2\x8a\n\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
	struct gt_tree *sizes = gt_tree_dict(a, err), *system = gt_tree_dict(a, err);
	int rc = put(l, magic, sizeof(magic) - 1, err);

	if (!rc)
		rc = put_tree(l, gt_tree_int(a, 1001, err), err);
	if (!rc)
		rc = gt_tree_set(sizes, "short", gt_tree_int(a, 2, err), a, err);
	if (!rc)
		rc = gt_tree_set(sizes, "int", gt_tree_int(a, 4, err), a, err);
	if (!rc)
		rc = gt_tree_set(sizes, "long", gt_tree_int(a, 4, err), a, err);
	if (!rc)
		rc = gt_tree_set(system, "protocol_version", gt_tree_int(a, 1001, err), a, err);
	if (!rc)
		rc = gt_tree_set(system, "little_endian", gt_tree_bool(a, true, err), a, err);
	if (!rc)
		rc = gt_tree_set(system, "type_sizes", sizes, a, err);
	return rc ? rc : put_tree(l, system, err);
}

/* The keys of the storages, in the order in which their bytes follow. */
static int put_keys(struct legacy *l, struct gt_arena *a, struct gt_err *err)
{
	struct gt_tree *keys = gt_tree_list(a, err);
	char key[24];
	int rc = keys ? 0 : GT_ENOMEM;

	for (size_t i = 0; !rc && i < l->tree.count; i++) {
		snprintf(key, sizeof(key), "%zu", i);
		rc = gt_tree_append(keys, gt_tree_string(a, key, err), a, err);
	}
	return rc ? rc : put_tree(l, keys, err);
}

static int put_storages(struct legacy *l, struct gt_err *err)
{
	int rc = 0;

	l->places = gt_calloc(l->tree.count, sizeof(*l->places), err);
	if (!l->places)
		return GT_ENOMEM;
	for (size_t i = 0; !rc && i < l->tree.count; i++) {
		const struct gt_torch_source *s = l->tree.sources[i];
		unsigned char count[8];

		gt_put_le(count, gt_torch_source_units(s), sizeof(count));
		rc = put(l, count, sizeof(count), err);
		l->places[i] = gt_torch_source_place(s, l->at);
		l->at += gt_torch_source_bytes(s);
	}
	if (!rc)
		rc = gt_copy_tensors(l->fd, l->places, l->tree.count, err);
	gt_copy_losses(l->places, rc ? 0 : l->tree.count, l->tree.options->losses);
	return rc;
}

static int write_legacy(struct legacy *l, struct gt_tree *root, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	char *pickle = NULL;
	size_t bytes = 0;
	int rc = gt_torch_writer_collect(&l->tree, root, err);

	if (!rc)
		rc = put_header(l, &arena, err);
	if (!rc)
		rc = gt_torch_writer_pickle(&l->tree, root, &pickle, &bytes, err);
	if (!rc)
		rc = put(l, pickle, bytes, err);
	if (!rc)
		rc = put_keys(l, &arena, err);
	if (!rc)
		rc = put_storages(l, err);
	free(pickle);
	gt_arena_release(&arena);
	return rc;
}

int gt_torch_write_legacy(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct legacy l = { .tree = { .options = options, .views = true } };
	struct gt_atomic_file file;
	int rc =
	    gt_torch_write_open(&file, (struct gt_file_name){ .path = path }, root, options, err);

	if (rc)
		return rc;
	l.fd = fileno(file.stream);
	rc = write_legacy(&l, (struct gt_tree *)root, err);
	gt_torch_writer_release(&l.tree);
	free(l.places);
	return gt_torch_write_close(&file, rc, err);
}
