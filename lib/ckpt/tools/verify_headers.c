/* verify_headers.c - find records of a zip that readers may interpret in different ways. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

/*
 * Where the parts of an archive contradict each other, a reader may follow its directory, another
 * directory, or the local headers. But every reader comes to its bytes by a local header. So every
 * place that looks like one is a record here, its bytes are looked through as they are and
 * inflated, and its sizes and flags do not count.
 */

enum {
	WINDOW_BYTES = 256 << 10,
	SIGNATURE_BYTES = 4,
	MAX_HEADERS = 1 << 16,
	NAME_SHOWN = 200,
	FLAGS_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13,
	DEFLATED = 8
};

#define INFLATE_MAX ((uint64_t)1 << 30) /* maximum bytes to inflate for all records */

struct search {
	struct gt_verify *v;
	const struct gt_mapping *map;
	uint64_t budget; /* bytes that may still be inflated */
	size_t count;    /* headers found */
	uint64_t first;  /* offset of the first one */
};

struct header {
	uint64_t at, data; /* offsets of the header and of the bytes */
	uint64_t packed;   /* number of packed bytes according to the header */
	unsigned flags, method;
	uint32_t crc;
	char name[NAME_SHOWN + 1];
};

static int read_local_header(
    struct header *h, const struct gt_mapping *map, uint64_t at, struct gt_err *err)
{
	unsigned char p[GT_ZIP_LOCAL_BYTES];
	size_t length;
	int rc = gt_map_peek(map, at, p, sizeof(p), err);

	*h = (struct header){ .at = at,
		.flags = (unsigned)gt_get_le(p + 6, 2),
		.method = (unsigned)gt_get_le(p + 8, 2),
		.crc = (uint32_t)gt_get_le(p + 14, 4),
		.packed = gt_get_le(p + 18, 4) };
	length = gt_get_le(p + 26, 2);
	h->data = at + GT_ZIP_LOCAL_BYTES + length + gt_get_le(p + 28, 2);
	if (length > NAME_SHOWN)
		length = NAME_SHOWN;
	if (!rc && gt_inside(at + GT_ZIP_LOCAL_BYTES, length, map->size))
		rc = gt_map_peek(map, at + GT_ZIP_LOCAL_BYTES, h->name, length, err);
	return rc;
}

/* ---- marked as encrypted ---- */

static int add_to_sum(void *self, const unsigned char *bytes, size_t size, struct gt_err *err)
{
	uint32_t *crc = self;

	(void)err;
	*crc = gt_crc32(*crc, bytes, size);
	return 0;
}

/* The CRC-32 of the bytes as they are. */
static int sum_stored(
    uint32_t *crc, const struct gt_mapping *map, const struct header *h, struct gt_err *err)
{
	unsigned char part[16 << 10];
	uint64_t at = h->data, end = h->data + h->packed;
	int rc = 0;

	*crc = 0;
	while (!rc && at < end) {
		size_t n = end - at < sizeof(part) ? (size_t)(end - at) : sizeof(part);

		rc = gt_map_peek(map, at, part, n, err);
		if (!rc)
			*crc = gt_crc32(*crc, part, n);
		at += n;
	}
	return rc;
}

/* Bytes that agree with their sum are not encrypted, whatever the flags say. */
static int check_encrypted(struct search *s, const struct header *h, struct gt_err *err)
{
	struct gt_zip_inflated got = { 0 };
	uint32_t crc = 0;
	int rc;

	if (!(h->flags & FLAGS_ENCRYPTED) || !h->crc ||
	    !gt_inside(h->data, h->packed, s->map->size))
		return 0;
	if (h->method == DEFLATED)
		rc = h->packed > s->budget / 1024
		         ? 0
		         : gt_zip_inflate(&got, s->map, h->data, h->packed, add_to_sum, &crc, err);
	else
		rc = sum_stored(&crc, s->map, h, err);
	s->budget -= got.size < s->budget ? got.size : s->budget;
	if (rc || crc != h->crc)
		return rc;
	return gt_verify_find(s->v, GT_FINDING_DAMAGE,
	    "do not trust it: readers that ignore the mark load it, and others pass it over", err,
	    "record '%s' at byte %llu is marked as encrypted, but its bytes are plain", h->name,
	    (unsigned long long)h->at);
}

/* ---- pickles ---- */

static int look_at_record(struct search *s, const struct header *h, struct gt_err *err)
{
	enum gt_verify_trust sure =
	    gt_text_ends_with(h->name, ".pkl") ? GT_VERIFY_PICKLE : GT_VERIFY_MAYBE;
	bool deflated = h->method == DEFLATED;
	char where[NAME_SHOWN + 64];
	struct gt_verify_source source = { .map = s->map,
		.at = h->data,
		.where = where,
		.trust = deflated ? GT_VERIFY_MAYBE : sure };
	int rc;

	snprintf(where, sizeof(where), "record '%s' (header at byte %llu)", h->name,
	    (unsigned long long)h->at);
	rc = gt_verify_pickle(s->v, &source, err);
	if (rc)
		return rc;
	source =
	    (struct gt_verify_source){ .where = where, .trust = deflated ? sure : GT_VERIFY_MAYBE };
	return gt_verify_deflated(
	    s->v, s->map, h->data, s->map->size - h->data, &s->budget, &source, err);
}

static int take_header(struct search *s, uint64_t at, struct gt_err *err)
{
	struct header h;
	int rc;

	if (!gt_inside(at, GT_ZIP_LOCAL_BYTES, s->map->size))
		return 0;
	rc = read_local_header(&h, s->map, at, err);
	if (rc || h.data >= s->map->size)
		return rc;
	s->first = s->count++ ? s->first : at;
	rc = check_encrypted(s, &h, err);
	return rc ? rc : look_at_record(s, &h, err);
}

/* ---- the file ---- */

/* All signatures among the bytes of a window. */
static int search_window(
    struct search *s, const unsigned char *bytes, size_t size, uint64_t at, struct gt_err *err)
{
	const unsigned char *p = bytes, *end = bytes + size;
	int rc = 0;

	while (!rc && s->count < MAX_HEADERS) {
		p = memmem(p, (size_t)(end - p), "PK\3\4", SIGNATURE_BYTES);
		if (!p)
			return 0;
		rc = take_header(s, at + (uint64_t)(p - bytes), err);
		p += SIGNATURE_BYTES;
	}
	return rc;
}

/*
 * Look through the records of a zip that gt_zip_read() refuses, so that readers may see different
 * contents: all bytes behind something that looks like a local header. A record whose bytes are
 * plain, although it is marked as encrypted, is a finding. Set *count to the number of headers, and
 * *first to the offset of the first one.
 */
int gt_verify_headers(struct gt_verify *v, const struct gt_mapping *map, uint64_t *first,
    size_t *count, struct gt_err *err)
{
	struct search s = { .v = v, .map = map, .budget = INFLATE_MAX };
	unsigned char *window = gt_calloc(1, WINDOW_BYTES, err);
	int rc = window ? 0 : GT_ENOMEM;

	for (uint64_t at = gt_map_data(map, 0); !rc && map->size - at >= SIGNATURE_BYTES;) {
		size_t n = map->size - at < WINDOW_BYTES ? (size_t)(map->size - at) : WINDOW_BYTES;

		rc = gt_map_peek(map, at, window, n, err);
		if (!rc)
			rc = search_window(&s, window, n, at, err);
		/* A signature may begin in the last bytes. */
		at = gt_map_data(map, at + n - (SIGNATURE_BYTES - 1));
		if (n < WINDOW_BYTES)
			break;
	}
	free(window);
	*first = s.first;
	*count = s.count;
	if (!rc && s.count == MAX_HEADERS)
		rc = gt_verify_find(v, GT_FINDING_UNREAD, "", err,
		    "only the first %d records of the zip were looked through", MAX_HEADERS);
	return rc;
}

/* Whether a reader that begins at the end of the file finds the end record of a zip. */
static int find_end_record(bool *found, const struct gt_mapping *map, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	size_t size = GT_ZIP_END_BYTES + GT_ZIP_COMMENT_MAX;
	unsigned char *tail;
	int rc;

	*found = false;
	size = size < map->size ? size : map->size;
	rc = gt_map_copy(map, map->size - size, size, &arena, &tail, err);
	if (!rc)
		*found = memmem(tail, size, "PK\5\6", SIGNATURE_BYTES);
	gt_arena_release(&arena);
	return rc;
}

int gt_verify_appended(struct gt_verify *v, const struct gt_mapping *map, struct gt_err *err)
{
	uint64_t first;
	size_t count;
	bool found;
	int rc = find_end_record(&found, map, err);

	if (rc || !found)
		return rc;
	rc = gt_verify_headers(v, map, &first, &count, err);
	if (rc || !count || !strcmp(v->format, "torch-legacy")) /* whose tail is reported */
		return rc;
	return gt_verify_find(v, GT_FINDING_DAMAGE,
	    "do not trust it: it is two files, and which one is seen depends on the reader", err,
	    "a zip archive of %zu record%s begins at byte %llu, behind other contents", count,
	    count == 1 ? "" : "s", (unsigned long long)first);
}
