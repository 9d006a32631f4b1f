/* zip_read.c - the directory and the records of a zip archive in memory. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/zip_check.h"

enum {
	ID_UNICODE_PATH = 0x7075,
	STORED = 0,
	DEFLATED = 8,
};

/* Bombs: a record cannot be larger than deflate's largest ratio makes it (zlib's technical details,
 * zlib.net/zlib_tech.html); what is unpacked of one file at all is limited, more generously where
 * the file itself is large. */
enum { INFLATE_MAX = 1032, UNPACKED_MAX = 128 << 20, UNPACKED_RATIO = 20 };

struct directory {
	uint64_t offset, bytes, count;
	uint64_t end; /* of the file's content: where the first end record stands */
};

static bool has_signature(const unsigned char *p, const char *two)
{
	return p[0] == 'P' && p[1] == 'K' && p[2] == two[0] && p[3] == two[1];
}

static int no_end(const struct gt_mapping *map, uint64_t seen, struct gt_err *err)
{
	if (seen == map->size) {
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: a zip archive of %zu bytes without its end record",
		    map->size);
		return gt_err_hint(err, "copy or download it again, and compare sizes");
	}
	gt_err_set(err, GT_EFORMAT,
	    "the file is cut, or something was appended: the zip archive's end record at byte %llu "
	    "does not stand at the end of %zu bytes",
	    (unsigned long long)seen, map->size);
	return gt_err_hint(err, "compare sizes with where the file came from; what an edit in "
	                        "place left when it was cut off, `ckpt verify --repair` mends");
}

/* The end record stands last, but for a comment that says its own length. Where a comment holds
 * an end record too, readers disagree which of them counts. */
static int find_end(const struct gt_mapping *map, size_t *end, struct gt_err *err)
{
	size_t size = map->size, seen = size;
	size_t first = size > GT_ZIP_END_BYTES + GT_ZIP_COMMENT_MAX
	                   ? size - GT_ZIP_END_BYTES - GT_ZIP_COMMENT_MAX
	                   : 0;

	for (size_t at = size < GT_ZIP_END_BYTES ? 0 : size - GT_ZIP_END_BYTES + 1; at-- > first;) {
		if (!has_signature(map->data + at, "\5\6"))
			continue;
		if (gt_get_le(map->data + at + 20, 2) != size - at - GT_ZIP_END_BYTES) {
			seen = seen == size ? at : seen;
			continue;
		}
		if (seen != size)
			return gt_err_set(err, GT_EFORMAT,
			    "zip: two end records, at bytes %zu and %zu: readers would disagree",
			    at, seen);
		*end = at;
		return 0;
	}
	return no_end(map, seen, err);
}

/* What the end record has no room for is all ones there, and only the zip64 end record tells. */
static bool agree(uint64_t small, uint64_t ones, uint64_t large)
{
	return small == ones || small == large;
}

/* In zip64 a locator before the end record says where the larger end record is: before it. */
static int read_end64(
    const struct gt_zip *zip, size_t end_at, struct directory *dir, struct gt_err *err)
{
	const unsigned char *locator, *end64;
	struct directory large;

	if (end_at < GT_ZIP_LOCATOR_BYTES)
		return 0;
	locator = zip->map->data + end_at - GT_ZIP_LOCATOR_BYTES;
	if (!has_signature(locator, "\6\7"))
		return 0;
	large.end = gt_get_le(locator + 8, 8);
	if (!gt_inside(large.end, GT_ZIP_END64_BYTES, end_at - GT_ZIP_LOCATOR_BYTES) ||
	    !has_signature(zip->map->data + large.end, "\6\6"))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: no zip64 end record at byte %llu where its locator points",
		    (unsigned long long)large.end);
	end64 = zip->map->data + large.end;
	large.count = gt_get_le(end64 + 32, 8);
	large.bytes = gt_get_le(end64 + 40, 8);
	large.offset = gt_get_le(end64 + 48, 8);
	if (gt_get_le(end64 + 4, 8) != end_at - GT_ZIP_LOCATOR_BYTES - large.end - 12 ||
	    gt_get_le(end64 + 24, 8) != large.count || !agree(dir->count, 0xffff, large.count) ||
	    !agree(dir->bytes, UINT32_MAX, large.bytes) ||
	    !agree(dir->offset, UINT32_MAX, large.offset))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the end records at bytes %llu and %zu contradict each other",
		    (unsigned long long)large.end, end_at);
	*dir = large;
	return 0;
}

static int find_directory(const struct gt_zip *zip, struct directory *dir, struct gt_err *err)
{
	const unsigned char *end;
	size_t end_at = 0;
	int rc = find_end(zip->map, &end_at, err);

	if (rc)
		return rc;
	end = zip->map->data + end_at;
	dir->end = end_at;
	dir->count = gt_get_le(end + 10, 2);
	dir->bytes = gt_get_le(end + 12, 4);
	dir->offset = gt_get_le(end + 16, 4);
	if (gt_get_le(end + 4, 4) || gt_get_le(end + 8, 2) != dir->count)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the end record at byte %zu speaks of other disks", end_at);
	rc = read_end64(zip, end_at, dir, err);
	if (rc)
		return rc;
	if (!gt_inside(dir->offset, dir->bytes, dir->end) || dir->offset + dir->bytes != dir->end ||
	    dir->count > dir->bytes / GT_ZIP_CENTRAL_BYTES)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: a directory of %llu records in %llu bytes at byte %llu does not end at "
		    "byte %llu, where the end record stands",
		    (unsigned long long)dir->count, (unsigned long long)dir->bytes,
		    (unsigned long long)dir->offset, (unsigned long long)dir->end);
	return 0;
}

/* The extra field `id`: its bytes and their length; NULL where there is none. GT_EFORMAT where it
 * is there twice, or a field goes past the end. */
static int find_extra(const unsigned char *extra, size_t size, unsigned id,
    const unsigned char **field, size_t *length)
{
	size_t n;

	*field = NULL;
	for (size_t at = 0; at + 4 <= size; at += 4 + n) {
		n = gt_get_le(extra + at + 2, 2);
		if (n > size - at - 4)
			return GT_EFORMAT;
		if (gt_get_le(extra + at, 2) != id)
			continue;
		if (*field)
			return GT_EFORMAT;
		*field = extra + at + 4;
		*length = n;
	}
	return 0;
}

/* Replace the fields that are all ones by those of the zip64 extra field, in its fixed order. */
static int read_zip64(struct gt_zip_record *r, const unsigned char *extra, size_t size)
{
	uint64_t *fields[] = { &r->size, &r->packed, &r->header };
	const unsigned char *p;
	size_t length = 0;

	if (find_extra(extra, size, GT_ZIP_ID_ZIP64, &p, &length))
		return GT_EFORMAT;
	for (size_t i = 0; i < 3; i++) {
		if (*fields[i] != UINT32_MAX)
			continue;
		if (!p || length < 8)
			return GT_EFORMAT;
		*fields[i] = gt_get_le(p, 8);
		p += 8;
		length -= 8;
	}
	return 0;
}

/* Some readers take the name from an extra field (version, CRC-32, name): it has to be the same. */
static int check_second_name(const struct gt_zip_record *r, const unsigned char *extra, size_t size)
{
	const unsigned char *p;
	size_t length = 0, n = strlen(r->name);

	if (find_extra(extra, size, ID_UNICODE_PATH, &p, &length))
		return GT_EFORMAT;
	return p && (length != 5 + n || memcmp(p + 5, r->name, n)) ? GT_EFORMAT : 0;
}

/* What stands in a directory entry beside its name. */
static int read_fields(struct gt_zip_record *r, const unsigned char *p, struct gt_err *err)
{
	const unsigned char *extra = p + GT_ZIP_CENTRAL_BYTES + gt_get_le(p + 28, 2);
	size_t extra_length = gt_get_le(p + 30, 2);

	r->flags = (uint16_t)gt_get_le(p + 8, 2);
	r->method = (uint16_t)gt_get_le(p + 10, 2);
	r->crc = (uint32_t)gt_get_le(p + 16, 4);
	r->packed = gt_get_le(p + 20, 4);
	r->size = gt_get_le(p + 24, 4);
	r->header = gt_get_le(p + 42, 4);
	if (gt_get_le(p + 34, 2))
		return gt_err_set(
		    err, GT_EFORMAT, "zip: record '%s' is said to be on another disk", r->name);
	if (read_zip64(r, extra, extra_length))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the zip64 sizes of record '%s' are missing or there twice", r->name);
	if (check_second_name(r, extra, extra_length))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: record '%s' has another name in an extra field", r->name);
	return 0;
}

/* One directory entry at byte `at`, with `room` bytes left; its length goes to *used. */
static int read_entry(const struct gt_zip *zip, struct gt_zip_record *r, size_t at, size_t room,
    size_t *used, struct gt_arena *arena, struct gt_err *err)
{
	const unsigned char *p = zip->map->data + at;
	size_t name_length;
	char *name;
	int rc;

	if (room < GT_ZIP_CENTRAL_BYTES || !has_signature(p, "\1\2"))
		return gt_err_set(
		    err, GT_EFORMAT, "zip: the directory entry at byte %zu is damaged", at);
	name_length = gt_get_le(p + 28, 2);
	*used = GT_ZIP_CENTRAL_BYTES + name_length + gt_get_le(p + 30, 2) + gt_get_le(p + 32, 2);
	if (*used > room)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the directory entry at byte %zu is longer than the rest", at);
	name = gt_arena_alloc(arena, name_length + 1, err);
	if (!name)
		return GT_ENOMEM;
	memcpy(name, p + GT_ZIP_CENTRAL_BYTES, name_length);
	rc = gt_zip_check_name(name, name_length, at, err);
	*r = (struct gt_zip_record){ .name = name };
	return rc ? rc : read_fields(r, p, err);
}

/* As strcmp(), but A to Z are a to z. */
static int compare_folded(const char *a, const char *b)
{
	unsigned char x, y;

	do {
		x = (unsigned char)*a++;
		y = (unsigned char)*b++;
		x = (unsigned char)(x >= 'A' && x <= 'Z' ? x + 32 : x);
		y = (unsigned char)(y >= 'A' && y <= 'Z' ? y + 32 : y);
	} while (x && x == y);
	return x - y;
}

static int compare_names(const void *a, const void *b)
{
	const char *x = ((const struct gt_zip_record *)a)->name;
	const char *y = ((const struct gt_zip_record *)b)->name;
	int order = compare_folded(x, y);

	return order ? order : strcmp(x, y);
}

static bool is_array(const char *name)
{
	size_t length = strlen(name);

	return length >= 4 && !strcmp(name + length - 4, ".npy");
}

/* Of two records with one name, different readers take different ones. */
static bool is_one_name(const char *a, const char *b)
{
	return !strcmp(a, b) || (!compare_folded(a, b) && !(is_array(a) && is_array(b)));
}

static int sort_records(struct gt_zip *zip, struct gt_err *err)
{
	const struct gt_zip_record *r = zip->records;

	qsort(zip->records, zip->count, sizeof(*zip->records), compare_names);
	for (size_t i = 1; i < zip->count; i++)
		if (is_one_name(r[i - 1].name, r[i].name))
			return gt_err_set(err, GT_EFORMAT,
			    "zip: there are two records '%s', at bytes %llu and %llu%s", r[i].name,
			    (unsigned long long)r[i - 1].header, (unsigned long long)r[i].header,
			    strcmp(r[i - 1].name, r[i].name) ? ", when case is ignored" : "");
	return 0;
}

static int read_entries(
    struct gt_zip *zip, uint64_t count, struct gt_arena *arena, struct gt_err *err)
{
	uint64_t at = zip->directory, end = at + zip->directory_bytes;
	size_t used = 0;
	int rc = 0;

	for (; !rc && zip->count < count; zip->count++, at += used)
		rc = read_entry(zip, &zip->records[zip->count], at, end - at, &used, arena, err);
	if (!rc && at != end)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the directory goes on at byte %llu behind the %llu records that it has",
		    (unsigned long long)at, (unsigned long long)count);
	return rc;
}

int gt_zip_read(
    struct gt_zip *out, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err)
{
	struct directory dir = { 0 };
	int rc;

	*out = (struct gt_zip){ .map = map };
	rc = find_directory(out, &dir, err);
	if (rc)
		return rc;
	out->records = gt_arena_alloc(arena, dir.count * sizeof(*out->records), err);
	if (!out->records)
		return GT_ENOMEM;
	out->directory = dir.offset;
	out->directory_bytes = dir.bytes;
	out->end = dir.end;
	rc = read_entries(out, dir.count, arena, err);
	if (!rc)
		rc = gt_zip_check_places(out, err);
	return rc ? rc : sort_records(out, err);
}

const struct gt_zip_record *gt_zip_find(const struct gt_zip *zip, const char *name)
{
	struct gt_zip_record wanted = { .name = name };

	return bsearch(&wanted, zip->records, zip->count, sizeof(wanted), compare_names);
}

/* ---- a record's bytes ---- */

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
	return rc == Z_STREAM_END && !room && !in ? 0 : GT_EFORMAT;
}

static int unpack(struct gt_zip *zip, const struct gt_zip_record *r, struct gt_arena *arena,
    const unsigned char **bytes, struct gt_err *err)
{
	const unsigned char *packed = *bytes;
	unsigned char *out;

	if (r->size / INFLATE_MAX > r->packed)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: record '%s' cannot unpack to %llu bytes from %llu", r->name,
		    (unsigned long long)r->size, (unsigned long long)r->packed);
	zip->unpacked += r->size;
	if (zip->unpacked > UNPACKED_MAX && zip->unpacked / UNPACKED_RATIO > zip->map->size) {
		gt_err_set(err, GT_EFORMAT,
		    "zip: with record '%s', %llu bytes would be unpacked from a file of %zu",
		    r->name, (unsigned long long)zip->unpacked, zip->map->size);
		return gt_err_hint(
		    err, "if that is what you want, unpack it and pack it with `zip -0`");
	}
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
	const unsigned char *bytes = zip->map->data + r->data;
	int rc = 0;

	if (r->method == DEFLATED)
		rc = unpack(zip, r, arena, &bytes, err);
	else if (r->method != STORED || r->packed != r->size)
		rc = gt_err_set(err, r->method ? GT_ENOTSUP : GT_EFORMAT,
		    "zip: record '%s' is packed by method %u, to %llu of %llu bytes", r->name,
		    r->method, (unsigned long long)r->packed, (unsigned long long)r->size);
	storage->bytes = bytes;
	storage->size_bytes = r->size;
	storage->map = r->method == STORED ? zip->map : NULL;
	storage->file_offset = r->data;
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
