/* save.c - writing the zip archives that torch.load reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
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
enum { DATA_PKL, STORAGE_ALIGNMENT, BYTEORDER, FIRST_STORAGE };

struct archive {
	struct gt_torch_writer tree;
	struct gt_zip_writer zip;
	char *pickle;
	size_t pickle_bytes;
	struct gt_copy_place
	    *places; /* of the sources, then of tensors that need a sum of their own */
	struct gt_digests digests;
	int fd;
};

static int add(struct archive *a, const char *name, uint64_t size, struct gt_err *err)
{
	char path[64];
	uint64_t unused;

	snprintf(path, sizeof(path), "archive/%s", name);
	return gt_zip_add(&a->zip, path, size, &unused, err);
}

/* All sizes are known: where each record is to be. */
static int lay_out(struct archive *a, struct gt_err *err)
{
	char name[48], *digests = NULL;
	size_t size = 0;
	int rc = add(a, "data.pkl", a->pickle_bytes, err);

	if (!rc)
		rc = add(a, ".storage_alignment", strlen("64"), err);
	if (!rc)
		rc = add(a, "byteorder", strlen("little"), err);
	for (size_t i = 0; !rc && i < a->tree.count; i++) {
		snprintf(name, sizeof(name), "data/%zu", i);
		rc = add(a, name, gt_torch_source_bytes(a->tree.sources[i]), err);
	}
	if (!rc)
		rc = add(a, "version", strlen("3\n"), err);
	if (!rc)
		rc = add(a, ".data/serialization_id", 40, err);
	if (!rc)
		rc = gt_digests_print(&a->digests, &digests, &size, err);
	free(digests);
	return rc ? rc : add(a, GT_DIGEST_RECORD, size, err);
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
		    a->tree.sources[i], a->zip.records[FIRST_STORAGE + i].data);
	for (size_t i = 0; i < a->digests.count; i++) {
		const struct gt_tree_tensor *t = a->digests.entries[i].tensor;
		const struct gt_torch_source *s = gt_torch_writer_source(&a->tree, t);

		place_of[i] = is_all(s, t) ? s->key : count++;
		if (place_of[i] >= a->tree.count)
			a->places[place_of[i]] = gt_copy_sum(t, s->as);
	}
	return count;
}

static int fill(struct archive *a, struct gt_err *err)
{
	size_t *place_of = gt_calloc(a->digests.count, sizeof(*place_of), err);
	int rc;

	a->places = gt_calloc(a->tree.count + a->digests.count, sizeof(*a->places), err);
	rc = place_of && a->places ? 0 : GT_ENOMEM;
	if (!rc)
		rc = gt_copy_tensors(a->fd, a->places, plan_places(a, place_of), err);
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

static int put_small(struct archive *a, struct gt_err *err)
{
	size_t last = FIRST_STORAGE + a->tree.count;
	char id[41], *digests = NULL;
	size_t size;
	int rc = gt_zip_put(&a->zip, DATA_PKL, a->fd, a->pickle, err);

	if (!rc)
		rc = gt_zip_put(&a->zip, STORAGE_ALIGNMENT, a->fd, "64", err);
	if (!rc)
		rc = gt_zip_put(&a->zip, BYTEORDER, a->fd, "little", err);
	if (!rc)
		rc = gt_zip_put(&a->zip, last, a->fd, "3\n", err);
	serialization_id(a, last + 1, id);
	if (!rc)
		rc = gt_zip_put(&a->zip, last + 1, a->fd, id, err);
	if (!rc)
		rc = gt_digests_print(&a->digests, &digests, &size, err);
	if (!rc)
		rc = gt_zip_put(&a->zip, last + 2, a->fd, digests, err);
	free(digests);
	return rc;
}

static int write_archive(struct archive *a, struct gt_tree *root, struct gt_err *err)
{
	int rc = gt_torch_writer_collect(&a->tree, root, err);

	if (!rc)
		rc = gt_digests_collect(&a->digests, root, NULL, NULL, err);
	if (!rc)
		rc = gt_torch_writer_pickle(&a->tree, root, &a->pickle, &a->pickle_bytes, err);
	if (!rc)
		rc = lay_out(a, err);
	if (!rc)
		rc = fill(a, err);
	if (!rc)
		rc = put_small(a, err);
	return rc ? rc : gt_zip_finish(&a->zip, a->fd, err);
}

static void release(struct archive *a)
{
	gt_torch_writer_release(&a->tree);
	gt_zip_release(&a->zip);
	gt_digests_release(&a->digests);
	free(a->places);
	free(a->pickle);
}

static int save(struct gt_file_name name, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct archive a = { .tree.options = options };
	struct gt_atomic_file file;
	int rc = gt_torch_write_open(&file, name, root, options, err);

	if (rc)
		return rc;
	a.fd = fileno(file.stream);
	/* The walks do not change it: gt_tree_check() could cut cycles, and gets no arena to. */
	rc = write_archive(&a, (struct gt_tree *)root, err);
	release(&a);
	return gt_torch_write_close(&file, rc, err);
}

int gt_torch_write_zip(const char *path, const struct gt_tree *root,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	return save((struct gt_file_name){ .path = path }, root, options, err);
}

int gt_torch_save(struct gt_file_name file, const struct gt_tree *root, struct gt_err *err)
{
	static const struct gt_ckpt_write_options none = { 0 };

	return save(file, root, &none, err);
}
