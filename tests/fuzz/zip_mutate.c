/* zip_mutate.c - libFuzzer's mutations of zip archives: of the bytes, or of what a record holds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/zip.h"

/*
 * Flipping bytes of an archive reaches the checks of its directory, but hardly ever what lies
 * behind the checksums. So every second mutation unpacks the archive, mutates one record and packs
 * it again. Source: LLVM, "libFuzzer", custom mutators.
 */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

enum { RECORD_MAX = 1 << 16 };

struct change {
	size_t index; /* of the record that changes */
	uint8_t *bytes;
	size_t size;
};

static int put(struct gt_zip_writer *w, const char *name, const void *bytes, size_t size)
{
	return gt_zip_begin(w, name, size, GT_ERR_IGNORED) ||
	       gt_zip_write(w, bytes, size, GT_ERR_IGNORED) || gt_zip_end(w, GT_ERR_IGNORED);
}

static int put_record(struct gt_zip_writer *w, struct gt_zip *zip, size_t i, const struct change *c,
    struct gt_arena *arena)
{
	const struct gt_zip_record *r = &zip->records[i];
	const unsigned char *bytes;

	if (i == c->index)
		return put(w, r->name, c->bytes, c->size);
	if (gt_zip_open_record(zip, r, arena, &bytes, GT_ERR_IGNORED))
		return -1;
	return put(w, r->name, bytes, r->size);
}

/* The archive anew, with one record changed; NULL when it can't be. */
static char *pack(struct gt_zip *zip, const struct change *c, struct gt_arena *arena, size_t *size)
{
	struct gt_zip_writer w = { 0 };
	char *out = NULL;
	int rc = 0;

	w.stream = open_memstream(&out, size);
	if (!w.stream)
		return NULL;
	for (size_t i = 0; !rc && i < zip->count; i++)
		rc = put_record(&w, zip, i, c, arena);
	if (!rc)
		rc = gt_zip_finish(&w, GT_ERR_IGNORED);
	gt_zip_release(&w);
	fclose(w.stream);
	if (!rc)
		return out;
	free(out);
	return NULL;
}

/* Replace `data` by the archive with record `index` mutated; returns 0 when it can't be. */
static size_t mutate_record(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct gt_mapping map = { data, size, -1 };
	struct gt_arena arena = { 0 };
	struct change c = { 0 };
	const unsigned char *bytes;
	struct gt_zip zip;
	char *packed = NULL;
	size_t length = 0;

	if (gt_zip_read(&zip, &map, &arena, GT_ERR_IGNORED) || !zip.count)
		goto out;
	c.index = seed % zip.count;
	c.size = zip.records[c.index].size;
	if (c.size > RECORD_MAX ||
	    gt_zip_open_record(&zip, &zip.records[c.index], &arena, &bytes, GT_ERR_IGNORED))
		goto out;
	c.bytes = malloc(RECORD_MAX);
	if (!c.bytes)
		goto out;
	if (c.size)
		memcpy(c.bytes, bytes, c.size);
	c.size = LLVMFuzzerMutate(c.bytes, c.size, RECORD_MAX);
	packed = pack(&zip, &c, &arena, &length);
	if (!packed || length > max_size)
		length = 0;
	else
		memcpy(data, packed, length);
out:
	free(packed);
	free(c.bytes);
	gt_arena_release(&arena);
	return length;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	size_t length = seed & 1 ? mutate_record(data, size, max_size, seed >> 1) : 0;

	return length ? length : LLVMFuzzerMutate(data, size, max_size);
}
