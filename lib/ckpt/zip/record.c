/* record.c - the records of a zip archive: checked, so that all readers agree; unpacked. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/zip.h"

enum {
	NAME_MAX_BYTES = 1024,
	EXTRA_BYTES =
	    64, /* bytes to read of a local header's extra fields; the zip64 sizes come first */
	FLAGS_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13 /* also: strongly, its header masked */
};

/* ---- names ---- */

static bool has_control(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return true;
	return false;
}

/* Empty, `.` or `..`; a folder's name may end with a slash. */
static bool has_odd_step(const char *name)
{
	for (;;) {
		size_t n = strcspn(name, "/");

		if (!n || (n <= 2 && !strncmp(name, "..", n)))
			return true;
		if (!name[n] || !name[n + 1])
			return false;
		name += n + 1;
	}
}

/*
 * Programs that unpack an archive change such names, each in its own way: Python's zipfile drops
 * `..` and, on Windows, drives. A name that all take alike is one record for all. A zero byte is
 * a control character, so a name that passes has strlen(name) == length.
 */
int gt_zip_check_name(const char *name, size_t length, size_t at, struct gt_err *err)
{
	const char *what = NULL;

	if (length > NAME_MAX_BYTES)
		what = "is too long";
	else if (has_control(name, length))
		what = "holds a control character";
	else if (strchr(name, '\\'))
		what = "holds a backslash";
	else if (length > 1 && name[1] == ':')
		what = "begins with a drive";
	else if (has_odd_step(name))
		what = "has an empty, '.' or '..' step";
	if (!what)
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "zip: the name '%.200s' of the directory entry at byte %zu %s", name, at, what);
}

/* ---- local headers ---- */

struct local {
	unsigned char bytes[GT_ZIP_LOCAL_BYTES + NAME_MAX_BYTES + EXTRA_BYTES];
	size_t size; /* number of these bytes that the file contains */
};

static bool is_either(uint64_t value, uint64_t a, uint64_t b)
{
	return value == a || value == b;
}

/*
 * The sizes of the zip64 field, unpacked and packed; false where there is none. In a local header
 * the field has both sizes, even if one of them would fit in 32 bits (APPNOTE 4.5.3).
 */
static bool read_zip64(const struct local *l, size_t at, uint64_t *size, uint64_t *packed)
{
	const unsigned char *p = l->bytes + at;
	size_t left = l->size > at ? l->size - at : 0, length;

	for (; left >= 4; p += 4 + length, left -= 4 + length) {
		length = gt_get_le(p + 2, 2);
		if (length > left - 4)
			return false;
		if (gt_get_le(p, 2) != GT_ZIP_ID_ZIP64)
			continue;
		if (length < 16)
			return false;
		*size = gt_get_le(p + 4, 8);
		*packed = gt_get_le(p + 12, 8);
		return true;
	}
	return false;
}

/*
 * The first field in which the header differs from the directory, or NULL. A descriptor's fields
 * may be 0.
 */
static const char *difference(const struct local *l, const struct gt_zip_record *r)
{
	const unsigned char *h = l->bytes;
	size_t name_length = gt_get_le(h + 26, 2);
	uint64_t packed = gt_get_le(h + 18, 4), size = gt_get_le(h + 22, 4);
	bool open = r->flags & GT_ZIP_FLAG_DESCRIPTOR;

	if (name_length != strlen(r->name) || GT_ZIP_LOCAL_BYTES + name_length > l->size ||
	    memcmp(h + GT_ZIP_LOCAL_BYTES, r->name, name_length))
		return "name";
	if (gt_get_le(h + 6, 2) != r->flags)
		return "flags";
	if (gt_get_le(h + 8, 2) != r->method)
		return "method";
	if (!is_either(gt_get_le(h + 14, 4), r->crc, open ? 0 : r->crc))
		return "CRC-32";
	if ((size == UINT32_MAX || packed == UINT32_MAX) &&
	    !read_zip64(l, GT_ZIP_LOCAL_BYTES + name_length, &size, &packed))
		return "size";
	if (!is_either(size, r->size, open ? 0 : r->size) ||
	    !is_either(packed, r->packed, open ? 0 : r->packed))
		return "size";
	return NULL;
}

static int check_local(const struct gt_zip *zip, struct gt_zip_record *r, struct gt_err *err)
{
	uint64_t left = r->header < zip->directory ? zip->directory - r->header : 0;
	const char *what;
	struct local l;
	int rc;

	l.size = GT_ZIP_LOCAL_BYTES + strlen(r->name) + EXTRA_BYTES;
	if (l.size > left)
		l.size = left;
	if (l.size < GT_ZIP_LOCAL_BYTES)
		return gt_err_set(err, GT_EFORMAT, "zip: record '%s' has no header at byte %llu",
		    r->name, (unsigned long long)r->header);
	rc = gt_map_peek(zip->map, r->header, l.bytes, l.size, err);
	if (rc)
		return rc;
	if (memcmp(l.bytes, "PK\3\4", 4))
		return gt_err_set(err, GT_EFORMAT, "zip: record '%s' has no header at byte %llu",
		    r->name, (unsigned long long)r->header);
	what = difference(&l, r);
	if (what)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the header of record '%s' at byte %llu has another %s than the directory",
		    r->name, (unsigned long long)r->header, what);
	r->data = r->header + GT_ZIP_LOCAL_BYTES + gt_get_le(l.bytes + 26, 2) +
	          gt_get_le(l.bytes + 28, 2);
	if (!gt_inside(r->data, r->packed, zip->directory))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: record '%s' of %llu bytes at byte %llu goes past byte %llu, where the "
		    "directory begins",
		    r->name, (unsigned long long)r->packed, (unsigned long long)r->data,
		    (unsigned long long)zip->directory);
	return 0;
}

/* ---- overlaps ---- */

static int compare_headers(const void *a, const void *b)
{
	const struct gt_zip_record *x = a, *y = b;

	return (x->header > y->header) - (x->header < y->header);
}

int gt_zip_check_places(struct gt_zip *zip, struct gt_err *err)
{
	struct gt_zip_record *r = zip->records;
	int rc = 0;

	for (size_t i = 0; !rc && i < zip->count; i++) {
		if (r[i].flags & FLAGS_ENCRYPTED)
			return gt_err_set(
			    err, GT_ENOTSUP, "zip: record '%s' is encrypted", r[i].name);
		rc = check_local(zip, &r[i], err);
	}
	if (rc)
		return rc;
	qsort(r, zip->count, sizeof(*r), compare_headers);
	for (size_t i = 1; i < zip->count; i++)
		if (r[i].header < r[i - 1].data + r[i - 1].packed)
			return gt_err_set(err, GT_EFORMAT,
			    "zip: record '%s' at byte %llu overlaps record '%s' at byte %llu",
			    r[i].name, (unsigned long long)r[i].header, r[i - 1].name,
			    (unsigned long long)r[i - 1].header);
	return 0;
}

/* ---- their bytes: where they lie, copied, or unpacked ---- */

enum {
	STORED = 0,
	DEFLATED = 8,
	INPUT_BYTES = 64 << 10, /* bytes of a deflated record that one call inflates, */
	OUTPUT_BYTES = 64 << 10 /* and the bytes that it writes at most */
};

/* Bombs: a record cannot be larger than deflate's largest ratio makes it (zlib's technical details,
 * zlib.net/zlib_tech.html); the sum of unpacked bytes of one file is limited too, and a larger file
 * may unpack more. */
enum { INFLATE_MAX = 1032, UNPACKED_MAX = 128 << 20, UNPACKED_RATIO = 20 };

uint64_t gt_zip_unpack_limit(const struct gt_zip *zip)
{
	uint64_t ratio = (uint64_t)UNPACKED_RATIO * zip->map->size;

	return ratio > UNPACKED_MAX ? ratio : UNPACKED_MAX;
}

/*
 * Inflate from copies of the packed bytes. Negative window bits stand for raw deflate data without
 * zlib's header, which is how zip holds them (zlib.h, inflateInit2()).
 */
int gt_zip_inflate(struct gt_zip_inflated *out, const struct gt_mapping *map, uint64_t at,
    uint64_t packed, gt_zip_take *take, void *self, struct gt_err *err)
{
	unsigned char input[INPUT_BYTES], output[OUTPUT_BYTES];
	z_stream z = { 0 };
	int state = Z_OK, rc = 0;

	*out = (struct gt_zip_inflated){ 0 };
	if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
		return gt_err_set(err, GT_ENOMEM, "out of memory: a deflated record");
	while (!rc && state == Z_OK) {
		if (!z.avail_in && packed) {
			z.next_in = input;
			z.avail_in = packed < INPUT_BYTES ? (uInt)packed : INPUT_BYTES;
			rc = gt_map_peek(map, at, input, z.avail_in, err);
			at += z.avail_in;
			packed -= z.avail_in;
		}
		z.next_out = output;
		z.avail_out = OUTPUT_BYTES;
		if (!rc)
			state = inflate(&z, Z_NO_FLUSH);
		if (!rc && z.avail_out < OUTPUT_BYTES) {
			out->size += OUTPUT_BYTES - z.avail_out;
			rc = take(self, output, OUTPUT_BYTES - z.avail_out, err);
		}
	}
	inflateEnd(&z);
	out->left = packed + z.avail_in;
	out->ended = state == Z_STREAM_END;
	return rc < 0 ? rc : 0;
}

/* Where the bytes of a record are unpacked to. */
struct unpacked {
	unsigned char *bytes;
	uint64_t left;
};

static int keep_bytes(void *self, const unsigned char *bytes, size_t size, struct gt_err *err)
{
	struct unpacked *to = self;

	(void)err;
	if (size > to->left)
		return 1;
	memcpy(to->bytes, bytes, size);
	to->bytes += size;
	to->left -= size;
	return 0;
}

/*
 * Return whether the data used up all packed bytes of the record and gave all bytes that it
 * announces: a reader that trusts the other number would see another content.
 */
bool gt_zip_inflated_whole(const struct gt_zip_inflated *got, const struct gt_zip_record *r)
{
	return got->ended && !got->left && got->size == r->size;
}

static int unpack(struct gt_zip *zip, const struct gt_zip_record *r, struct gt_arena *arena,
    const unsigned char **bytes, struct gt_err *err)
{
	struct unpacked to = { .left = r->size };
	struct gt_zip_inflated got;
	unsigned char *out;
	int rc;

	if (r->size / INFLATE_MAX > r->packed)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: record '%s' cannot unpack to %llu bytes from %llu", r->name,
		    (unsigned long long)r->size, (unsigned long long)r->packed);
	zip->unpacked += r->size;
	if (zip->unpacked > gt_zip_unpack_limit(zip)) {
		gt_err_set(err, GT_ENOTSUP,
		    "zip: with record '%s', %llu bytes would be unpacked from a file of %zu, which "
		    "is over the limit",
		    r->name, (unsigned long long)zip->unpacked, zip->map->size);
		err->over_limit = true;
		return gt_err_hint(
		    err, "if it is meant to be so large, unpack it and pack it with `zip -0`");
	}
	to.bytes = out = gt_arena_alloc(arena, r->size, err);
	if (!out)
		return GT_ENOMEM;
	rc = gt_zip_inflate(&got, zip->map, r->data, r->packed, keep_bytes, &to, err);
	if (!rc && !gt_zip_inflated_whole(&got, r))
		rc = gt_err_set(err, GT_EFORMAT, "zip: record '%s' does not inflate", r->name);
	if (!rc)
		*bytes = out;
	return rc;
}

bool gt_zip_can_unpack(const struct gt_zip_record *r)
{
	return r->method == STORED || r->method == DEFLATED;
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

	if (!rc)
		rc = gt_storage_copy(&storage, arena, err);
	*bytes = storage.bytes;
	return rc ? rc : gt_storage_check(&storage, err);
}
