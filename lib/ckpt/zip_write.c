/* zip_write.c - a zip archive of stored, aligned records, written as a stream. */
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/crc.h"
#include "lib/ckpt/zip.h"

enum {
	LOCAL_BYTES = 30,
	CENTRAL_BYTES = 46,
	CRC_AT = 14, /* in the local header */
	ZIP64_BYTES = 4 + 3 * 8,
	FLAG_UTF8 = 0x800,
	VERSION_STORED = 10,
	VERSION_ZIP64 = 45,
	DATE_1980 =
	    1 << 5 | 1, /* the format's zero: 1 January 1980; files do not depend on the clock */
};

struct gt_zip_written {
	char *name;
	uint64_t size, header;
	uint32_t crc;
};

static int put(struct gt_zip_writer *zip, const void *bytes, size_t size, struct gt_err *err)
{
	if (fwrite(bytes, 1, size, zip->stream) != size)
		return gt_err_sys(err, "cannot write %zu bytes at byte %llu", size,
		    (unsigned long long)zip->position);
	zip->position += size;
	return 0;
}

static uint64_t or_ones(uint64_t value)
{
	return value < UINT32_MAX ? value : UINT32_MAX;
}

/* The fields that local header and directory share: from "version needed" to the sizes. */
static unsigned char *put_common(unsigned char *p, const struct gt_zip_written *r, bool zip64)
{
	p = gt_put_le(p, zip64 ? VERSION_ZIP64 : VERSION_STORED, 2);
	p = gt_put_le(p, FLAG_UTF8, 2);
	p = gt_put_le(p, 0, 2); /* stored */
	p = gt_put_le(p, 0, 2); /* midnight */
	p = gt_put_le(p, DATE_1980, 2);
	p = gt_put_le(p, r->crc, 4);
	p = gt_put_le(p, or_ones(r->size), 4);
	p = gt_put_le(p, or_ones(r->size), 4);
	return gt_put_le(p, strlen(r->name), 2);
}

/* The extra fields of the local header at r->header: sizes when they are large, then padding that
 * lets the data start aligned (an unknown field, as PyTorch does it). Returns their bytes. */
static size_t put_local_extra(unsigned char *extra, const struct gt_zip_written *r)
{
	uint64_t start = r->header + LOCAL_BYTES + strlen(r->name);
	unsigned char *p = extra;
	size_t pad;

	if (r->size >= UINT32_MAX) {
		p = gt_put_le(p, 1, 2);
		p = gt_put_le(p, 16, 2);
		p = gt_put_le(p, r->size, 8);
		p = gt_put_le(p, r->size, 8);
	}
	start += (size_t)(p - extra) + 4;
	pad = (GT_ZIP_ALIGN - start % GT_ZIP_ALIGN) % GT_ZIP_ALIGN;
	p = gt_put_le(p, 'F' | 'B' << 8, 2);
	p = gt_put_le(p, pad, 2);
	memset(p, 'Z', pad);
	return (size_t)(p - extra) + pad;
}

int gt_zip_begin(struct gt_zip_writer *zip, const char *name, uint64_t size, struct gt_err *err)
{
	unsigned char header[LOCAL_BYTES] = "PK\3\4", extra[20 + 4 + GT_ZIP_ALIGN], *p;
	struct gt_zip_written *r;
	size_t extra_bytes;
	int rc = gt_grow(&zip->records, zip->count, &zip->capacity, sizeof(*zip->records), err);

	if (rc)
		return rc;
	r = &zip->records[zip->count];
	*r = (struct gt_zip_written){ .size = size, .header = zip->position };
	r->name = gt_strdup(name, err);
	if (!r->name)
		return GT_ENOMEM;
	zip->count++;
	zip->left = size;
	extra_bytes = put_local_extra(extra, r);
	p = put_common(header + 4, r, size >= UINT32_MAX);
	gt_put_le(p, extra_bytes, 2);
	rc = put(zip, header, sizeof(header), err);
	if (!rc)
		rc = put(zip, name, strlen(name), err);
	if (!rc)
		rc = put(zip, extra, extra_bytes, err);
	r->crc = 0;
	return rc;
}

int gt_zip_write(struct gt_zip_writer *zip, const void *bytes, size_t size, struct gt_err *err)
{
	struct gt_zip_written *r = &zip->records[zip->count - 1];
	const unsigned char *p = bytes;
	int rc = 0;

	if (size > zip->left)
		return gt_err_set(err, GT_EINVAL, "record '%s' gets more than its %llu bytes",
		    r->name, (unsigned long long)r->size);
	while (size && !rc) { /* in parts, so that the sum reads from the cache */
		size_t part = size < 256 * 1024 ? size : 256 * 1024;

		r->crc = gt_crc32(r->crc, p, part);
		rc = put(zip, p, part, err);
		zip->left -= part;
		size -= part;
		p += part;
	}
	return rc;
}

int gt_zip_end(struct gt_zip_writer *zip, struct gt_err *err)
{
	struct gt_zip_written *r = &zip->records[zip->count - 1];
	unsigned char crc[4];

	if (zip->left)
		return gt_err_set(err, GT_EINVAL, "record '%s' lacks %llu of its %llu bytes",
		    r->name, (unsigned long long)zip->left, (unsigned long long)r->size);
	gt_put_le(crc, r->crc, 4);
	if (fseeko(zip->stream, (off_t)(r->header + CRC_AT), SEEK_SET) ||
	    fwrite(crc, 1, sizeof(crc), zip->stream) != sizeof(crc) ||
	    fseeko(zip->stream, (off_t)zip->position, SEEK_SET))
		return gt_err_sys(err, "cannot write the header of record '%s'", r->name);
	return 0;
}

static int put_central(
    struct gt_zip_writer *zip, const struct gt_zip_written *r, struct gt_err *err)
{
	bool zip64 = r->size >= UINT32_MAX || r->header >= UINT32_MAX;
	unsigned char entry[CENTRAL_BYTES] = "PK\1\2", extra[ZIP64_BYTES], *p, *x = extra + 4;
	int rc;

	if (r->size >= UINT32_MAX) {
		x = gt_put_le(x, r->size, 8);
		x = gt_put_le(x, r->size, 8);
	}
	if (r->header >= UINT32_MAX)
		x = gt_put_le(x, r->header, 8);
	gt_put_le(extra, 1, 2);
	gt_put_le(extra + 2, (size_t)(x - extra) - 4, 2);
	p = gt_put_le(entry + 4, VERSION_ZIP64, 2);
	p = put_common(p, r, zip64);
	p = gt_put_le(p, zip64 ? (size_t)(x - extra) : 0, 2);
	p = gt_put_le(p, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
	gt_put_le(p, or_ones(r->header), 4);
	rc = put(zip, entry, sizeof(entry), err);
	if (!rc)
		rc = put(zip, r->name, strlen(r->name), err);
	if (!rc && zip64)
		rc = put(zip, extra, (size_t)(x - extra), err);
	return rc;
}

static unsigned char *put_end64(unsigned char *p, uint64_t count, uint64_t start, uint64_t bytes)
{
	memcpy(p, "PK\6\6", 4);
	p = gt_put_le(p + 4, 44, 8); /* bytes that follow in this record */
	p = gt_put_le(p, VERSION_ZIP64, 2);
	p = gt_put_le(p, VERSION_ZIP64, 2);
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
	p = gt_put_le(p, or_ones(bytes), 4);
	p = gt_put_le(p, or_ones(start), 4);
	p = gt_put_le(p, 0, 2); /* comment */
	return (size_t)(p - out);
}

int gt_zip_finish(struct gt_zip_writer *zip, struct gt_err *err)
{
	unsigned char end[GT_ZIP_END_MAX];
	uint64_t start = zip->position;
	int rc = 0;

	for (size_t i = 0; !rc && i < zip->count; i++)
		rc = put_central(zip, &zip->records[i], err);
	if (rc)
		return rc;
	return put(zip, end, gt_zip_put_end(end, zip->count, start, zip->position - start), err);
}

void gt_zip_release(struct gt_zip_writer *zip)
{
	for (size_t i = 0; i < zip->count; i++)
		free(zip->records[i].name);
	free(zip->records);
	zip->records = NULL;
	zip->count = zip->capacity = 0;
}
