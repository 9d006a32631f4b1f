/* write.c - a zip archive of stored, aligned records: laid out first, described last. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/copy.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

/* The fields that local header and directory share: from "version needed" to the name's length. */
static void put_common(struct gt_buf *out, const struct gt_zip_written *r, bool zip64)
{
	gt_buf_add_le(out, zip64 ? GT_ZIP_VERSION_ZIP64 : GT_ZIP_VERSION_STORED, 2);
	gt_buf_add_le(out, GT_ZIP_FLAG_UTF8, 2);
	gt_buf_add_le(out, 0, 2); /* stored */
	gt_buf_add_le(out, 0, 2); /* midnight */
	gt_buf_add_le(out, GT_ZIP_DATE_ZERO, 2);
	gt_buf_add_le(out, r->crc, 4);
	gt_buf_add_le(out, gt_zip_or_ones(r->size), 4);
	gt_buf_add_le(out, gt_zip_or_ones(r->size), 4);
	gt_buf_add_le(out, strlen(r->name), 2);
}

/*
 * Extra fields: sizes when they are large, then padding that lets the data start aligned. The
 * padding is a field with the unknown id "FB", filled with "Z", as PyTorch writes it
 * (caffe2/serialize/inline_container.cc).
 */
void gt_zip_put_local(struct gt_buf *out, const struct gt_zip_written *r)
{
	size_t name = strlen(r->name), extra = r->data - r->header - GT_ZIP_LOCAL_BYTES - name;
	bool zip64 = r->size >= UINT32_MAX;

	gt_buf_add(out, "PK\3\4", 4);
	put_common(out, r, zip64);
	gt_buf_add_le(out, extra, 2);
	gt_buf_add(out, r->name, name);
	if (zip64)
		gt_zip_put_zip64(out, (uint64_t[]){ r->size, r->size, 0 });
	extra -= zip64 ? GT_ZIP_FIELD_BYTES + 2 * 8 : 0;
	gt_buf_add_le(out, 'F' | 'B' << 8, 2);
	gt_buf_add_le(out, extra - GT_ZIP_FIELD_BYTES, 2);
	for (; extra > GT_ZIP_FIELD_BYTES; extra--)
		gt_buf_add(out, "Z", 1);
}

/*
 * A value is in the field if and only if the 32-bit field of the header is all ones
 * (gt_zip_or_ones()): readers go by that (APPNOTE 4.5.3).
 */
size_t gt_zip_put_zip64(struct gt_buf *out, const uint64_t fields[3])
{
	size_t n = 0;

	for (int i = 0; i < 3; i++)
		n += fields[i] >= UINT32_MAX;
	if (!n)
		return 0;
	gt_buf_add_le(out, GT_ZIP_ID_ZIP64, 2);
	gt_buf_add_le(out, 8 * n, 2);
	for (int i = 0; i < 3; i++)
		if (fields[i] >= UINT32_MAX)
			gt_buf_add_le(out, fields[i], 8);
	return GT_ZIP_FIELD_BYTES + 8 * n;
}

int gt_zip_add(
    struct gt_zip_writer *zip, const char *name, uint64_t size, uint64_t *data, struct gt_err *err)
{
	uint64_t start = zip->end + GT_ZIP_LOCAL_BYTES + strlen(name) + GT_ZIP_FIELD_BYTES;
	struct gt_zip_written *r;

	if (size >= UINT32_MAX)
		start += GT_ZIP_FIELD_BYTES + 2 * 8; /* the field of zip64 */
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
	r->data = (start + GT_ZIP_ALIGN - 1) / GT_ZIP_ALIGN * GT_ZIP_ALIGN;
	zip->end = r->data + size;
	*data = r->data;
	return 0;
}

int gt_zip_put(
    struct gt_zip_writer *zip, size_t record, int fd, const void *bytes, struct gt_err *err)
{
	struct gt_zip_written *r = &zip->records[record];

	r->crc = gt_crc32(0, bytes, r->size);
	return gt_write_at(fd, zip->base + r->data, bytes, r->size, err);
}

/* ---- headers and directory ---- */

static void put_central(struct gt_buf *out, const struct gt_zip_written *r)
{
	const uint64_t fields[] = { r->size, r->size, r->header };
	bool zip64 = r->size >= UINT32_MAX || r->header >= UINT32_MAX;
	struct gt_buf extra = { 0 };
	size_t bytes = gt_zip_put_zip64(&extra, fields);

	gt_buf_add(out, "PK\1\2", 4);
	gt_buf_add_le(out, GT_ZIP_VERSION_ZIP64, 2);
	put_common(out, r, zip64);
	gt_buf_add_le(out, bytes, 2);
	gt_buf_add_le(out, 0, 2 + 2 + 2 + 2); /* comment, disk, attributes */
	gt_buf_add_le(out, 0, 2);
	gt_buf_add_le(out, gt_zip_or_ones(r->header), 4);
	gt_buf_puts(out, r->name);
	gt_buf_add(out, gt_buf_text(&extra), bytes);
	out->failed |= extra.failed;
	gt_buf_release(&extra);
}

/*
 * The zip64 end record (APPNOTE 4.3.14) directly before its locator (4.3.15), directly before the
 * end record: gt_zip_read() accepts no other order.
 */
static void put_end64(struct gt_buf *out, uint64_t count, uint64_t start, uint64_t bytes)
{
	gt_buf_add(out, "PK\6\6", 4);
	gt_buf_add_le(out, 44, 8); /* bytes that follow in this record */
	gt_buf_add_le(out, GT_ZIP_VERSION_ZIP64, 2);
	gt_buf_add_le(out, GT_ZIP_VERSION_ZIP64, 2);
	gt_buf_add_le(out, 0, 8); /* disks */
	gt_buf_add_le(out, count, 8);
	gt_buf_add_le(out, count, 8);
	gt_buf_add_le(out, bytes, 8);
	gt_buf_add_le(out, start, 8);
	gt_buf_add(out, "PK\6\7", 4);
	gt_buf_add_le(out, 0, 4);
	gt_buf_add_le(out, start + bytes, 8); /* where the record above stands */
	gt_buf_add_le(out, 1, 4);
}

void gt_zip_put_end(struct gt_buf *out, uint64_t count, uint64_t start, uint64_t bytes,
    const void *comment, size_t comment_bytes)
{
	uint64_t count16 = count < 0xffff ? count : 0xffff;

	if (count >= 0xffff || start + bytes >= UINT32_MAX)
		put_end64(out, count, start, bytes);
	gt_buf_add(out, "PK\5\6", 4);
	gt_buf_add_le(out, 0, 4); /* disks */
	gt_buf_add_le(out, count16, 2);
	gt_buf_add_le(out, count16, 2);
	gt_buf_add_le(out, gt_zip_or_ones(bytes), 4);
	gt_buf_add_le(out, gt_zip_or_ones(start), 4);
	gt_buf_add_le(out, comment_bytes, 2);
	gt_buf_add(out, comment, comment_bytes);
}

/* Write what the buffer holds, and empty it. */
static int flush(struct gt_buf *out, int fd, uint64_t at, struct gt_err *err)
{
	int rc = gt_buf_check(out, err);

	if (!rc)
		rc = gt_write_at(fd, at, gt_buf_text(out), out->length, err);
	gt_buf_cut(out, 0);
	return rc;
}

/*
 * Headers and directory hold the CRC-32 of records, which are known only when all bytes are
 * written. Until then the file has neither directory nor end record.
 */
int gt_zip_finish(struct gt_zip_writer *zip, int fd, struct gt_err *err)
{
	struct gt_buf out = { 0 };
	uint64_t end;
	int rc = 0;

	for (size_t i = 0; !rc && i < zip->count; i++) {
		gt_zip_put_local(&out, &zip->records[i]);
		rc = flush(&out, fd, zip->base + zip->records[i].header, err);
	}
	for (size_t i = 0; !rc && i < zip->count; i++)
		put_central(&out, &zip->records[i]);
	gt_zip_put_end(&out, zip->count, zip->end, out.length, "", 0);
	end = zip->end + out.length;
	if (!rc)
		rc = flush(&out, fd, zip->base + zip->end, err);
	zip->end = end;
	gt_buf_release(&out);
	return rc;
}

void gt_zip_release(struct gt_zip_writer *zip)
{
	for (size_t i = 0; i < zip->count; i++)
		free(zip->records[i].name);
	free(zip->records);
	*zip = (struct gt_zip_writer){ 0 };
}
