/* save.c - writing the zip archives that torch.load reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/torch/write.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/zip.h"

/*
 * The records, in PyTorch's order (torch/serialization.py, _save(); caffe2/serialize/
 * inline_container.cc), ours at the end. Of those that newer versions add, `.format_version` is
 * left out: it lets them compute the offsets of records from the padding of PyTorch's own writer,
 * which differs from ours.
 */
enum { FIRST_STORAGE = 3, VERSION_AND_ID = 2 };

struct archive {
	const char *path;
	struct gt_tree *root;
	struct gt_torch_writer tree;
	struct gt_zip_writer zip;
	char *pickle;
	size_t pickle_bytes;
	/* places of the sources, then of tensors that need a CRC-32 of their own */
	struct gt_copy_place *places;
	struct gt_digests digests;
	int fd;
};

static int add_archive_record(
    struct archive *a, const char *name, uint64_t size, struct gt_err *err)
{
	char path[64];
	uint64_t unused;

	snprintf(path, sizeof(path), "archive/%s", name);
	return gt_zip_add(&a->zip, path, size, &unused, err);
}

/* A record whose bytes are known is written at once. */
static int add_text(
    struct archive *a, const char *name, const char *text, size_t size, struct gt_err *err)
{
	int rc = add_archive_record(a, name, size, err);

	return rc ? rc : gt_zip_put(&a->zip, a->zip.count - 1, a->fd, text, err);
}

/* All sizes are known: where each record is to be. */
static int lay_out_archive(struct archive *a, struct gt_err *err)
{
	char name[48], *digests = NULL;
	size_t size = 0;
	int rc = add_text(a, "data.pkl", a->pickle, a->pickle_bytes, err);

	if (!rc)
		rc = add_text(a, ".storage_alignment", "64", 2, err);
	if (!rc)
		rc = add_text(a, "byteorder", "little", 6, err);
	for (size_t i = 0; !rc && i < a->tree.count; i++) {
		snprintf(name, sizeof(name), "data/%zu", i);
		rc = add_archive_record(a, name, gt_torch_source_bytes(a->tree.sources[i]), err);
	}
	if (!rc)
		rc = add_text(a, "version", "3\n", 2, err);
	if (!rc)
		rc = add_archive_record(a, ".data/serialization_id", 40, err);
	if (!rc)
		rc = gt_digests_print(&a->digests, &digests, &size, err);
	free(digests);
	return rc ? rc : add_archive_record(a, GT_DIGEST_RECORD, size, err);
}

static bool is_all(const struct gt_torch_source *s, const struct gt_tree_tensor *t)
{
	return gt_ckpt_tensor_is_contiguous(t) && t->offset == s->first &&
	       gt_ckpt_tensor_count(t) == s->count;
}

/* Places for the sources, then for the tensors that need a sum of their own: those that are no
 * source as a whole. The number is the place of each tensor. */
static size_t plan_places(struct archive *a, size_t *place_of)
{
	size_t count = a->tree.count;

	for (size_t i = 0; i < a->tree.count; i++)
		a->places[i] = gt_torch_source_place(
		    a->tree.sources[i], a->zip.base + a->zip.records[FIRST_STORAGE + i].data);
	for (size_t i = 0; i < a->digests.count; i++) {
		const struct gt_tree_tensor *t = a->digests.entries[i].tensor;
		const struct gt_torch_source *s = gt_torch_writer_source(&a->tree, t);

		place_of[i] = is_all(s, t) ? s->key : count++;
		if (place_of[i] >= a->tree.count)
			a->places[place_of[i]] = gt_copy_sum(t, s->as);
	}
	return count;
}

static int fill_archive(struct archive *a, struct gt_err *err)
{
	size_t *place_of = gt_calloc(a->digests.count, sizeof(*place_of), err);
	int rc;

	a->places = gt_calloc(a->tree.count + a->digests.count, sizeof(*a->places), err);
	rc = place_of && a->places ? 0 : GT_ENOMEM;
	if (!rc)
		rc = gt_copy_tensors(
		    a->fd, a->places, plan_places(a, place_of), a->tree.options->progress, err);
	gt_copy_losses(a->places, rc ? 0 : a->tree.count, a->tree.options->losses);
	for (size_t i = 0; !rc && i < a->tree.count; i++)
		a->zip.records[FIRST_STORAGE + i].crc = a->places[i].crc;
	for (size_t i = 0; !rc && i < a->digests.count; i++)
		a->digests.entries[i].crc = a->places[place_of[i]].crc;
	free(place_of);
	return rc;
}

/* 40 digits that are the same for the same records: PyTorch's are a hash of their names and one of
 * their CRCs (inline_container.cc, writeSerializationId()). */
static void serialization_id(const struct archive *a, size_t records, char out[41])
{
	uint64_t names = 0xcbf29ce484222325, sums = names; /* FNV-1a, by words */

	for (size_t i = 0; i < records; i++) {
		for (const char *p = a->zip.records[i].name; *p; p++)
			names = (names ^ (unsigned char)*p) * 0x100000001b3;
		sums = (sums ^ a->zip.records[i].crc) * 0x100000001b3;
	}
	snprintf(out, 41, "%020llu%020llu", (unsigned long long)names, (unsigned long long)sums);
}

/* What depends on the sums of the storages. */
static int put_sums(struct archive *a, struct gt_err *err)
{
	size_t last = FIRST_STORAGE + a->tree.count + VERSION_AND_ID, size;
	char id[41], *digests = NULL;
	int rc;

	serialization_id(a, last - 1, id);
	rc = gt_zip_put(&a->zip, last - 1, a->fd, id, err);
	if (!rc)
		rc = gt_digests_print(&a->digests, &digests, &size, err);
	if (!rc)
		rc = gt_zip_put(&a->zip, last, a->fd, digests, err);
	free(digests);
	return rc;
}

/* The walks do not change the tree: gt_tree_check() could cut cycles, and gets no arena to. */
static int put_archive(struct archive *a, int fd, struct gt_err *err)
{
	int rc = gt_torch_writer_collect(&a->tree, a->root, err);

	a->fd = fd;
	if (!rc)
		rc = gt_digests_collect(&a->digests, a->root, NULL, NULL, err);
	if (!rc)
		rc = gt_torch_writer_pickle(&a->tree, a->root, &a->pickle, &a->pickle_bytes, err);
	if (!rc)
		rc = lay_out_archive(a, err);
	if (!rc)
		rc = fill_archive(a, err);
	if (!rc)
		rc = put_sums(a, err);
	if (!rc)
		rc = gt_zip_finish(&a->zip, a->fd, err);
	return rc;
}

static int write_archive(void *self, int fd, struct gt_err *err)
{
	struct archive *a = self;
	int rc = put_archive(a, fd, err);

	return rc ? gt_err_prefix(err, "'%s'", a->path) : 0;
}

static void release_archive(struct archive *a)
{
	gt_torch_writer_release(&a->tree);
	gt_zip_release(&a->zip);
	gt_digests_release(&a->digests);
	free(a->places);
	free(a->pickle);
}

int gt_torch_write_archive(int fd, uint64_t at, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, uint64_t *end, struct gt_err *err)
{
	struct archive a = {
		.root = (struct gt_tree *)root, .tree.options = options, .zip.base = at
	};
	int rc = put_archive(&a, fd, err);

	*end = a.zip.base + a.zip.end;
	release_archive(&a);
	return rc;
}

static int save(struct gt_file_name name, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct archive a = {
		.path = name.path, .root = (struct gt_tree *)root, .tree.options = options
	};
	int rc = gt_ckpt_write_file(name, options->no_sync, write_archive, &a, err);

	release_archive(&a);
	return rc;
}

int gt_torch_write_zip(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	return save((struct gt_file_name){ .path = path }, root, options, err);
}

int gt_torch_save(struct gt_file_name file, const struct gt_tree *root, struct gt_err *err)
{
	static const struct gt_ckpt_write_options none = { 0 };

	if (!root) /* passes an earlier failure on */
		return err && err->code ? err->code : GT_ENOMEM;
	return save(file, root, &none, err);
}
