/* zip_read.c - the directory and the records of a zip archive in memory. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/zip.h"

enum {
	LOCAL_BYTES = 30,
	CENTRAL_BYTES = 46,
	END_BYTES = 22,
	LOCATOR_BYTES = 20,
	END64_BYTES = 56,
	COMMENT_MAX = 65535, /* may follow the end record */
	ID_ZIP64 = 1,
	STORED = 0,
	DEFLATED = 8,
	INFLATE_MAX =
	    1032, /* deflate's largest ratio: zlib's technical details, zlib.net/zlib_tech.html */
};

struct directory {
	uint64_t offset, bytes, count;
};

static bool has_signature(const unsigned char *p, const char *two)
{
	return p[0] == 'P' && p[1] == 'K' && p[2] == two[0] && p[3] == two[1];
}

/* The end record stands last, but for a comment that says its own length. */
static const unsigned char *find_end(const unsigned char *data, size_t size)
{
	size_t first = size > END_BYTES + COMMENT_MAX ? size - END_BYTES - COMMENT_MAX : 0;

	if (size < END_BYTES)
		return NULL;
	for (size_t at = size - END_BYTES + 1; at-- > first;)
		if (has_signature(data + at, "\5\6") &&
		    gt_get_le(data + at + 20, 2) == size - at - END_BYTES)
			return data + at;
	return NULL;
}

/* In zip64 a locator before the end record says where the larger end record is. */
static int read_end64(
    const struct gt_zip *zip, size_t end_at, struct directory *dir, struct gt_err *err)
{
	const unsigned char *locator, *end64;
	uint64_t at;

	if (end_at < LOCATOR_BYTES)
		return 0;
	locator = zip->map->data + end_at - LOCATOR_BYTES;
	if (!has_signature(locator, "\6\7"))
		return 0;
	at = gt_get_le(locator + 8, 8);
	if (!gt_inside(at, END64_BYTES, zip->map->size) ||
	    !has_signature(zip->map->data + at, "\6\6"))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: no zip64 end record at byte %llu where its locator points",
		    (unsigned long long)at);
	end64 = zip->map->data + at;
	dir->count = gt_get_le(end64 + 32, 8);
	dir->bytes = gt_get_le(end64 + 40, 8);
	dir->offset = gt_get_le(end64 + 48, 8);
	return 0;
}

static int find_directory(const struct gt_zip *zip, struct directory *dir, struct gt_err *err)
{
	const unsigned char *end = find_end(zip->map->data, zip->map->size);
	int rc;

	if (!end) {
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: a zip archive of %zu bytes without its end record",
		    zip->map->size);
		return gt_err_hint(err, "copy or download it again, and compare sizes");
	}
	dir->count = gt_get_le(end + 10, 2);
	dir->bytes = gt_get_le(end + 12, 4);
	dir->offset = gt_get_le(end + 16, 4);
	rc = read_end64(zip, (size_t)(end - zip->map->data), dir, err);
	if (rc)
		return rc;
	if (!gt_inside(dir->offset, dir->bytes, zip->map->size) ||
	    dir->count > dir->bytes / CENTRAL_BYTES)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: a directory of %llu records in %llu bytes at byte %llu is not inside "
		    "the file",
		    (unsigned long long)dir->count, (unsigned long long)dir->bytes,
		    (unsigned long long)dir->offset);
	return 0;
}

/* Replace the fields that are all ones by those of the zip64 extra field, in its fixed order. */
static int read_zip64(struct gt_zip_record *r, const unsigned char *extra, size_t size)
{
	uint64_t *fields[] = { &r->size, &r->packed, &r->header };
	size_t at = 0, length;

	if (r->size != UINT32_MAX && r->packed != UINT32_MAX && r->header != UINT32_MAX)
		return 0;
	for (; at + 4 <= size; at += 4 + length) {
		length = gt_get_le(extra + at + 2, 2);
		if (length > size - at - 4)
			return GT_EFORMAT;
		if (gt_get_le(extra + at, 2) == ID_ZIP64)
			break;
	}
	if (at + 4 > size)
		return GT_EFORMAT;
	length = gt_get_le(extra + at + 2, 2);
	at += 4;
	for (size_t i = 0; i < 3; i++) {
		if (*fields[i] != UINT32_MAX)
			continue;
		if (length < 8)
			return GT_EFORMAT;
		*fields[i] = gt_get_le(extra + at, 8);
		at += 8;
		length -= 8;
	}
	return 0;
}

/* One directory entry at p, with `room` bytes left; its length goes to *used. */
static int read_entry(struct gt_zip_record *r, const unsigned char *p, size_t room, size_t *used,
    struct gt_arena *arena, struct gt_err *err)
{
	size_t name_length, extra_length;
	char *name;

	if (room < CENTRAL_BYTES || !has_signature(p, "\1\2"))
		return gt_err_set(err, GT_EFORMAT, "zip: a directory entry is damaged");
	name_length = gt_get_le(p + 28, 2);
	extra_length = gt_get_le(p + 30, 2);
	*used = CENTRAL_BYTES + name_length + extra_length + gt_get_le(p + 32, 2);
	if (*used > room)
		return gt_err_set(
		    err, GT_EFORMAT, "zip: a directory entry is longer than the rest");
	name = gt_arena_alloc(arena, name_length + 1, err);
	if (!name)
		return GT_ENOMEM;
	memcpy(name, p + CENTRAL_BYTES, name_length);
	*r = (struct gt_zip_record){
		.name = name,
		.method = (uint16_t)gt_get_le(p + 10, 2),
		.crc = (uint32_t)gt_get_le(p + 16, 4),
		.packed = gt_get_le(p + 20, 4),
		.size = gt_get_le(p + 24, 4),
		.header = gt_get_le(p + 42, 4),
	};
	if (gt_get_le(p + 8, 2) & 1)
		return gt_err_set(err, GT_ENOTSUP, "zip: record '%s' is encrypted", name);
	if (read_zip64(r, p + CENTRAL_BYTES + name_length, extra_length))
		return gt_err_set(
		    err, GT_EFORMAT, "zip: the zip64 sizes of record '%s' are missing", name);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(
	    ((const struct gt_zip_record *)a)->name, ((const struct gt_zip_record *)b)->name);
}

/* Of two records with one name, different readers take different ones. */
static int sort_records(struct gt_zip *zip, struct gt_err *err)
{
	qsort(zip->records, zip->count, sizeof(*zip->records), compare_names);
	for (size_t i = 1; i < zip->count; i++)
		if (!compare_names(&zip->records[i - 1], &zip->records[i]))
			return gt_err_set(err, GT_EFORMAT, "zip: there are two records '%s'",
			    zip->records[i].name);
	return 0;
}

int gt_zip_read(
    struct gt_zip *out, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err)
{
	struct directory dir = { 0 };
	size_t at, used = 0;
	int rc;

	*out = (struct gt_zip){ .map = map };
	rc = find_directory(out, &dir, err);
	if (rc)
		return rc;
	out->records = gt_arena_alloc(arena, dir.count * sizeof(*out->records), err);
	if (!out->records)
		return GT_ENOMEM;
	at = dir.offset;
	for (; !rc && out->count < dir.count; out->count++, at += used)
		rc = read_entry(&out->records[out->count], map->data + at,
		    dir.offset + dir.bytes - at, &used, arena, err);
	return rc ? rc : sort_records(out, err);
}

const struct gt_zip_record *gt_zip_find(const struct gt_zip *zip, const char *name)
{
	struct gt_zip_record wanted = { .name = name };

	return bsearch(&wanted, zip->records, zip->count, sizeof(wanted), compare_names);
}

/* ---- a record's bytes ---- */

/* The local header repeats the name and has its own extra fields; the directory's sizes count. */
static int locate(
    const struct gt_zip *zip, const struct gt_zip_record *r, uint64_t *start, struct gt_err *err)
{
	unsigned char header[LOCAL_BYTES] = { 0 };
	int rc = 0;

	if (gt_inside(r->header, LOCAL_BYTES, zip->map->size))
		rc = gt_map_peek(zip->map, r->header, header, sizeof(header), err);
	if (rc)
		return rc;
	if (!has_signature(header, "\3\4"))
		return gt_err_set(err, GT_EFORMAT, "zip: record '%s' has no header at byte %llu",
		    r->name, (unsigned long long)r->header);
	*start = r->header + LOCAL_BYTES + gt_get_le(header + 26, 2) + gt_get_le(header + 28, 2);
	if (!gt_inside(*start, r->packed, zip->map->size))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: record '%s' of %llu bytes at byte %llu goes past the end of the file",
		    r->name, (unsigned long long)r->packed, (unsigned long long)*start);
	return 0;
}

static int inflate_record(
    const struct gt_zip_record *r, const unsigned char *packed, unsigned char *out)
{
	z_stream z = { .next_in = (unsigned char *)packed, .next_out = out };
	uint64_t in = r->packed, room = r->size;
	int rc;

	if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
		return GT_ENOMEM;
	do { /* zlib counts in 32 bits */
		uInt in_part = in < UINT32_MAX ? (uInt)in : UINT32_MAX;
		uInt out_part = room < UINT32_MAX ? (uInt)room : UINT32_MAX;

		z.avail_in = in_part;
		z.avail_out = out_part;
		rc = inflate(&z, Z_NO_FLUSH);
		in -= in_part - z.avail_in;
		room -= out_part - z.avail_out;
	} while (rc == Z_OK && (in || room));
	inflateEnd(&z);
	return rc == Z_STREAM_END && !room ? 0 : GT_EFORMAT;
}

/* Several records may lie on the same packed bytes: the sum is limited, as one record is. */
static int unpack(struct gt_zip *zip, const struct gt_zip_record *r, struct gt_arena *arena,
    const unsigned char **bytes, struct gt_err *err)
{
	const unsigned char *packed = *bytes;
	unsigned char *out;

	if (r->size / INFLATE_MAX > r->packed ||
	    (zip->unpacked += r->size) / INFLATE_MAX > zip->map->size)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: record '%s' cannot unpack to %llu bytes from %llu", r->name,
		    (unsigned long long)r->size, (unsigned long long)r->packed);
	out = gt_arena_alloc(arena, r->size, err);
	if (!out)
		return GT_ENOMEM;
	if (inflate_record(r, packed, out))
		return gt_err_set(err, GT_EFORMAT, "zip: record '%s' does not inflate", r->name);
	*bytes = out;
	return 0;
}

int gt_zip_storage(struct gt_zip *zip, const struct gt_zip_record *r, struct gt_arena *arena,
    struct gt_storage *storage, struct gt_err *err)
{
	const unsigned char *bytes;
	uint64_t start = 0;
	int rc = locate(zip, r, &start, err);

	if (rc)
		return rc;
	bytes = zip->map->data + start;
	if (r->method == DEFLATED)
		rc = unpack(zip, r, arena, &bytes, err);
	else if (r->method != STORED || r->packed != r->size)
		rc = gt_err_set(err, r->method ? GT_ENOTSUP : GT_EFORMAT,
		    "zip: record '%s' is packed by method %u, to %llu of %llu bytes", r->name,
		    r->method, (unsigned long long)r->packed, (unsigned long long)r->size);
	storage->bytes = bytes;
	storage->size_bytes = r->size;
	storage->map = r->method == STORED ? zip->map : NULL;
	storage->file_offset = start;
	storage->has_crc = r->crc != 0;
	storage->crc = r->crc;
	storage->name = r->name;
	return rc;
}

int gt_zip_open_record(struct gt_zip *zip, const struct gt_zip_record *r, struct gt_arena *arena,
    const unsigned char **bytes, struct gt_err *err)
{
	struct gt_storage storage = { 0 };
	int rc = gt_zip_storage(zip, r, arena, &storage, err);

	*bytes = storage.bytes;
	return rc ? rc : gt_storage_check(&storage, err);
}
