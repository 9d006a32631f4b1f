/* write.c - a zip archive of stored, aligned records: laid out first, described last. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

enum {
	ZIP64_BYTES = 4 + 3 * 8,
};

/* The fields that local header and directory share: from "version needed" to the sizes. */
static unsigned char *put_common(unsigned char *p, const struct gt_zip_written *r, bool zip64)
{
	p = gt_put_le(p, zip64 ? GT_ZIP_VERSION_ZIP64 : GT_ZIP_VERSION_STORED, 2);
	p = gt_put_le(p, GT_ZIP_FLAG_UTF8, 2);
	p = gt_put_le(p, 0, 2); /* stored */
	p = gt_put_le(p, 0, 2); /* midnight */
	p = gt_put_le(p, GT_ZIP_DATE_ZERO, 2);
	p = gt_put_le(p, r->crc, 4);
	p = gt_put_le(p, gt_zip_or_ones(r->size), 4);
	p = gt_put_le(p, gt_zip_or_ones(r->size), 4);
	return gt_put_le(p, strlen(r->name), 2);
}

/* Bytes of the extra fields of a local header: sizes when they are large, then padding that lets
 * the data start aligned (an unknown field, as PyTorch does it). */
static size_t local_extra_bytes(const struct gt_zip_written *r)
{
	size_t fixed = (r->size >= UINT32_MAX ? 20 : 0) + 4;
	uint64_t start = r->header + GT_ZIP_LOCAL_BYTES + strlen(r->name) + fixed;

	return fixed + (size_t)((GT_ZIP_ALIGN - start % GT_ZIP_ALIGN) % GT_ZIP_ALIGN);
}

static void put_local_extra(unsigned char *p, const struct gt_zip_written *r, size_t bytes)
{
	unsigned char *end = p + bytes;

	if (r->size >= UINT32_MAX) {
		p = gt_put_le(p, 1, 2);
		p = gt_put_le(p, 16, 2);
		p = gt_put_le(p, r->size, 8);
		p = gt_put_le(p, r->size, 8);
	}
	p = gt_put_le(p, 'F' | 'B' << 8, 2);
	p = gt_put_le(p, (size_t)(end - p) - 2, 2);
	memset(p, 'Z', (size_t)(end - p));
}

int gt_zip_add(
    struct gt_zip_writer *zip, const char *name, uint64_t size, uint64_t *data, struct gt_err *err)
{
	struct gt_zip_written *r;

	if (strlen(name) > UINT16_MAX)
		return gt_err_set(err, GT_ENOTSUP, "a record's name of %zu bytes", strlen(name));
	if (gt_grow(&zip->records, zip->count, &zip->capacity, sizeof(*zip->records), err))
		return GT_ENOMEM;
	r = &zip->records[zip->count];
	*r = (struct gt_zip_written){ .size = size, .header = zip->end };
	r->name = gt_strdup(name, err);
	if (!r->name)
		return GT_ENOMEM;
	zip->count++;
	r->data = r->header + GT_ZIP_LOCAL_BYTES + strlen(name) + local_extra_bytes(r);
	zip->end = r->data + size;
	*data = r->data;
	return 0;
}

int gt_zip_put(
    struct gt_zip_writer *zip, size_t record, int fd, const void *bytes, struct gt_err *err)
{
	struct gt_zip_written *r = &zip->records[record];

	r->crc = gt_crc32(0, bytes, r->size);
	return gt_write_at(fd, r->data, bytes, r->size, err);
}

/* ---- headers and directory ---- */

/* Headers and directory go through a buffer: they are many and small. */
struct sink {
	int fd;
	uint64_t at; /* of the buffer's first byte in the file */
	size_t used;
	unsigned char bytes[16384];
};

static int flush(struct sink *s, struct gt_err *err)
{
	int rc = gt_write_at(s->fd, s->at, s->bytes, s->used, err);

	s->at += s->used;
	s->used = 0;
	return rc;
}

static int put(struct sink *s, const void *bytes, size_t size, struct gt_err *err)
{
	const unsigned char *p = bytes;
	int rc = 0;

	while (!rc && size) {
		size_t room = sizeof(s->bytes) - s->used, n = size < room ? size : room;

		memcpy(s->bytes + s->used, p, n);
		s->used += n;
		p += n;
		size -= n;
		if (s->used == sizeof(s->bytes))
			rc = flush(s, err);
	}
	return rc;
}

static int put_local(struct sink *s, const struct gt_zip_written *r, struct gt_err *err)
{
	unsigned char header[GT_ZIP_LOCAL_BYTES] = "PK\3\4", extra[20 + 4 + GT_ZIP_ALIGN], *p;
	size_t bytes = local_extra_bytes(r);
	int rc;

	s->at = r->header;
	p = put_common(header + 4, r, r->size >= UINT32_MAX);
	gt_put_le(p, bytes, 2);
	put_local_extra(extra, r, bytes);
	rc = put(s, header, sizeof(header), err);
	if (!rc)
		rc = put(s, r->name, strlen(r->name), err);
	if (!rc)
		rc = put(s, extra, bytes, err);
	return rc ? rc : flush(s, err);
}

static int put_central(struct sink *s, const struct gt_zip_written *r, struct gt_err *err)
{
	bool zip64 = r->size >= UINT32_MAX || r->header >= UINT32_MAX;
	unsigned char entry[GT_ZIP_CENTRAL_BYTES] = "PK\1\2", extra[ZIP64_BYTES], *p,
	              *x = extra + 4;
	int rc;

	if (r->size >= UINT32_MAX) {
		x = gt_put_le(x, r->size, 8);
		x = gt_put_le(x, r->size, 8);
	}
	if (r->header >= UINT32_MAX)
		x = gt_put_le(x, r->header, 8);
	gt_put_le(extra, 1, 2);
	gt_put_le(extra + 2, (size_t)(x - extra) - 4, 2);
	p = gt_put_le(entry + 4, GT_ZIP_VERSION_ZIP64, 2);
	p = put_common(p, r, zip64);
	p = gt_put_le(p, zip64 ? (size_t)(x - extra) : 0, 2);
	p = gt_put_le(p, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
	gt_put_le(p, gt_zip_or_ones(r->header), 4);
	rc = put(s, entry, sizeof(entry), err);
	if (!rc)
		rc = put(s, r->name, strlen(r->name), err);
	if (!rc && zip64)
		rc = put(s, extra, (size_t)(x - extra), err);
	return rc;
}

static unsigned char *put_end64(unsigned char *p, uint64_t count, uint64_t start, uint64_t bytes)
{
	memcpy(p, "PK\6\6", 4);
	p = gt_put_le(p + 4, 44, 8); /* bytes that follow in this record */
	p = gt_put_le(p, GT_ZIP_VERSION_ZIP64, 2);
	p = gt_put_le(p, GT_ZIP_VERSION_ZIP64, 2);
	p = gt_put_le(p, 0, 8); /* disks */
	p = gt_put_le(p, count, 8);
	p = gt_put_le(p, count, 8);
	p = gt_put_le(p, bytes, 8);
	p = gt_put_le(p, start, 8);
	memcpy(p, "PK\6\7", 4);
	p = gt_put_le(p + 4, 0, 4);
	p = gt_put_le(p, start + bytes, 8); /* where the record above stands */
	return gt_put_le(p, 1, 4);
}

size_t gt_zip_put_end(
    unsigned char out[GT_ZIP_END_MAX], uint64_t count, uint64_t start, uint64_t bytes)
{
	uint64_t count16 = count < 0xffff ? count : 0xffff;
	unsigned char *p = out;

	if (count >= 0xffff || start + bytes >= UINT32_MAX)
		p = put_end64(p, count, start, bytes);
	memcpy(p, "PK\5\6", 4);
	p = gt_put_le(p + 4, 0, 4); /* disks */
	p = gt_put_le(p, count16, 2);
	p = gt_put_le(p, count16, 2);
	p = gt_put_le(p, gt_zip_or_ones(bytes), 4);
	p = gt_put_le(p, gt_zip_or_ones(start), 4);
	p = gt_put_le(p, 0, 2); /* comment */
	return (size_t)(p - out);
}

int gt_zip_finish(struct gt_zip_writer *zip, int fd, struct gt_err *err)
{
	struct sink s = { .fd = fd };
	unsigned char end[GT_ZIP_END_MAX];
	uint64_t bytes;
	int rc = 0;

	for (size_t i = 0; !rc && i < zip->count; i++)
		rc = put_local(&s, &zip->records[i], err);
	s.at = zip->end;
	for (size_t i = 0; !rc && i < zip->count; i++)
		rc = put_central(&s, &zip->records[i], err);
	bytes = s.at + s.used - zip->end;
	if (!rc)
		rc = put(&s, end, gt_zip_put_end(end, zip->count, zip->end, bytes), err);
	return rc ? rc : flush(&s, err);
}

void gt_zip_release(struct gt_zip_writer *zip)
{
	for (size_t i = 0; i < zip->count; i++)
		free(zip->records[i].name);
	free(zip->records);
	*zip = (struct gt_zip_writer){ 0 };
}
