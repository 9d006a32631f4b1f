/* zip_mutate.c - libFuzzer's mutations of zip archives: of the bytes, or of a record's content. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/ckpt/zip/zip.h"

/*
 * Flipping bytes of an archive reaches the checks of its directory, but hardly ever the content
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

/* The bytes that record i is to have. */
static int content(struct gt_zip *zip, size_t i, const struct change *c, struct gt_arena *arena,
    const unsigned char **bytes, uint64_t *size)
{
	*bytes = c->bytes;
	*size = i == c->index ? c->size : zip->records[i].size;
	if (i == c->index)
		return 0;
	return gt_zip_open_record(zip, &zip->records[i], arena, bytes, GT_ERR_IGNORED);
}

static int pack_into(int fd, struct gt_zip *zip, const struct change *c, struct gt_arena *arena)
{
	struct gt_zip_writer w = { 0 };
	const unsigned char *bytes;
	uint64_t size, at;
	int rc = 0;

	for (size_t i = 0; !rc && i < zip->count; i++) {
		rc = content(zip, i, c, arena, &bytes, &size);
		if (!rc)
			rc = gt_zip_add(&w, zip->records[i].name, size, &at, GT_ERR_IGNORED);
		if (!rc)
			rc = gt_zip_put(&w, i, fd, bytes, GT_ERR_IGNORED);
	}
	if (!rc)
		rc = gt_zip_finish(&w, fd, GT_ERR_IGNORED);
	gt_zip_release(&w);
	return rc;
}

/* The archive anew, with one record changed; NULL when it can't be. */
static char *pack(struct gt_zip *zip, const struct change *c, struct gt_arena *arena, size_t *size)
{
	int fd = memfd_create("archive", MFD_CLOEXEC);
	char *out = NULL;
	off_t end;

	if (fd < 0)
		return NULL;
	end = pack_into(fd, zip, c, arena) ? 0 : lseek(fd, 0, SEEK_END);
	*size = end > 0 ? (size_t)end : 0;
	if (*size)
		out = malloc(*size);
	if (out && pread(fd, out, *size, 0) != (ssize_t)*size) {
		free(out);
		out = NULL;
	}
	close(fd);
	return out;
}

/* Replace `data` by the archive with record `index` mutated; returns 0 when it can't be. */
static size_t mutate_record(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct gt_mapping map = { data, size, -1, 0 };
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
