/* record.c - the bytes of a zip archive's records: where they lie, copied, or unpacked. */
#include <zlib.h>

#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/zip.h"

enum {
	STORED = 0,
	DEFLATED = 8,
	INPUT_BYTES = 64 << 10, /* of a deflated record that are unpacked at a time */
};

/* Bombs: a record cannot be larger than deflate's largest ratio makes it (zlib's technical details,
 * zlib.net/zlib_tech.html); the sum of unpacked bytes of one file is limited too, and a larger file
 * may unpack more. */
enum { INFLATE_MAX = 1032, UNPACKED_MAX = 128 << 20, UNPACKED_RATIO = 20 };

/* Inflate, from copies of the packed bytes. */
static int inflate_record(
    const struct gt_zip *zip, const struct gt_zip_record *r, unsigned char *out, struct gt_err *err)
{
	unsigned char input[INPUT_BYTES];
	z_stream z = { .next_out = out };
	uint64_t at = r->data, in = r->packed, room = r->size;
	int state = Z_OK, rc = 0;

	if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
		return gt_err_set(err, GT_ENOMEM, "out of memory: record '%s'", r->name);
	while (!rc && state == Z_OK && (in || z.avail_in || room)) {
		uInt part =
		    room < UINT32_MAX ? (uInt)room : UINT32_MAX; /* zlib counts in 32 bits */

		if (!z.avail_in && in) {
			z.next_in = input;
			z.avail_in = in < INPUT_BYTES ? (uInt)in : INPUT_BYTES;
			rc = gt_map_peek(zip->map, at, input, z.avail_in, err);
			at += z.avail_in;
			in -= z.avail_in;
		}
		z.avail_out = part;
		if (!rc)
			state = inflate(&z, Z_NO_FLUSH);
		room -= part - z.avail_out;
	}
	inflateEnd(&z);
	if (!rc && (state != Z_STREAM_END || room || in || z.avail_in))
		rc = gt_err_set(err, GT_EFORMAT, "zip: record '%s' does not inflate", r->name);
	return rc;
}

static int unpack(struct gt_zip *zip, const struct gt_zip_record *r, struct gt_arena *arena,
    const unsigned char **bytes, struct gt_err *err)
{
	unsigned char *out;
	int rc;

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
		    err, "if it is meant to be so large, unpack it and pack it with `zip -0`");
	}
	out = gt_arena_alloc(arena, r->size, err);
	if (!out)
		return GT_ENOMEM;
	rc = inflate_record(zip, r, out, err);
	if (!rc)
		*bytes = out;
	return rc;
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
