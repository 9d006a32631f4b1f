/* zip_layout.c - what every byte of a zip archive is for. */
#include "lib/ckpt/zip_layout.h"

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"

enum {
	LOCAL_BYTES = 30,
	END_BYTES = 22,
	NAME_MAX_BYTES = 65535,
	FLAG_DESCRIPTOR = 8, /* CRC and sizes follow the bytes */
	ID_ZIP64 = 1,
	SCAN_BYTES = 1 << 20,
	TAIL_BYTES = 16 << 20 /* an edit appends a pickle and a directory: some MiB at most */
};

/* What a local header says. */
struct local {
	unsigned flags, method;
	uint32_t crc;
	uint64_t packed, size;
	size_t name_length, extra_length;
};

/* The zip64 field of a local header: both sizes, or those that are all ones. */
static void read_zip64(struct local *l, const unsigned char *extra)
{
	for (size_t at = 0, length; at + 4 <= l->extra_length; at += 4 + length) {
		length = gt_get_le(extra + at + 2, 2);
		if (length > l->extra_length - at - 4)
			return;
		if (gt_get_le(extra + at, 2) != ID_ZIP64)
			continue;
		if (l->size == UINT32_MAX && length >= 8)
			l->size = gt_get_le(extra + at + 4, 8);
		if (l->packed == UINT32_MAX && length >= 16)
			l->packed = gt_get_le(extra + at + 12, 8);
	}
}

/* The bytes of the descriptor behind a record: with or without signature, 32 or 64 bits; those of
 * PyTorch have it. 0 where none is recognised. */
static size_t descriptor(const struct gt_zip *zip, uint64_t at, const struct gt_zip_record *r)
{
	unsigned char p[24] = { 0 };
	size_t room = zip->map->size - at < sizeof(p) ? zip->map->size - at : sizeof(p), skip;

	if (gt_map_peek(zip->map, at, p, room, GT_ERR_IGNORED))
		return 0;
	skip = !memcmp(p, "PK\7\10", 4) ? 4 : 0;
	if (gt_get_le(p + skip, 4) != r->crc)
		return 0;
	if (room >= skip + 20 && gt_get_le(p + skip + 4, 8) == r->packed &&
	    gt_get_le(p + skip + 12, 8) == r->size)
		return skip + 20;
	if (room >= skip + 12 && gt_get_le(p + skip + 4, 4) == (uint32_t)r->packed &&
	    gt_get_le(p + skip + 8, 4) == (uint32_t)r->size)
		return skip + 12;
	return 0;
}

static void compare(struct gt_zip_place *p, const struct local *l, const unsigned char *name,
    size_t descriptor_bytes)
{
	const struct gt_zip_record *r = p->record;

	/* With a descriptor the header may leave its fields empty. */
	bool told = !(l->flags & FLAG_DESCRIPTOR) || l->crc || l->size || l->packed;

	if (l->name_length != strlen(r->name) || memcmp(name, r->name, l->name_length))
		snprintf(p->wrong, sizeof(p->wrong), "its name is '%.*s'",
		    (int)(l->name_length < 100 ? l->name_length : 100), (const char *)name);
	else if (l->method != r->method)
		snprintf(p->wrong, sizeof(p->wrong), "it is packed by method %u, not %u", l->method,
		    r->method);
	else if (told && (l->size != r->size || l->packed != r->packed))
		snprintf(p->wrong, sizeof(p->wrong), "it is %llu bytes long, not %llu",
		    (unsigned long long)l->size, (unsigned long long)r->size);
	else if (told && l->crc != r->crc)
		snprintf(
		    p->wrong, sizeof(p->wrong), "its CRC-32 is %08x, not %08x", l->crc, r->crc);
	else if (!told && !descriptor_bytes)
		snprintf(p->wrong, sizeof(p->wrong),
		    "sizes and CRC-32 are announced behind the bytes and do not stand there");
}

static int read_local(const struct gt_zip *zip, const struct gt_zip_record *r, struct local *l,
    unsigned char *text, struct gt_err *err)
{
	unsigned char h[LOCAL_BYTES] = { 0 };
	int rc = 0;

	if (gt_inside(r->header, LOCAL_BYTES, zip->map->size))
		rc = gt_map_peek(zip->map, r->header, h, sizeof(h), err);
	if (rc)
		return rc;
	if (memcmp(h, "PK\3\4", 4))
		return gt_err_set(err, GT_EFORMAT, "zip: record '%s' has no header at byte %llu",
		    r->name, (unsigned long long)r->header);
	*l = (struct local){
		.flags = (unsigned)gt_get_le(h + 6, 2),
		.method = (unsigned)gt_get_le(h + 8, 2),
		.crc = (uint32_t)gt_get_le(h + 14, 4),
		.packed = gt_get_le(h + 18, 4),
		.size = gt_get_le(h + 22, 4),
		.name_length = gt_get_le(h + 26, 2),
		.extra_length = gt_get_le(h + 28, 2),
	};
	if (!gt_inside(r->header + LOCAL_BYTES, l->name_length + l->extra_length, zip->map->size))
		return gt_err_set(
		    err, GT_EFORMAT, "zip: the header of record '%s' is cut", r->name);
	return gt_map_peek(
	    zip->map, r->header + LOCAL_BYTES, text, l->name_length + l->extra_length, err);
}

int gt_zip_look(const struct gt_zip *zip, const struct gt_zip_record *r, struct gt_zip_place *place,
    struct gt_err *err)
{
	unsigned char text[2 * NAME_MAX_BYTES];
	struct local l = { 0 };
	size_t tail = 0;
	int rc = read_local(zip, r, &l, text, err);

	*place = (struct gt_zip_place){ .record = r, .start = r->header };
	if (rc)
		return rc;
	read_zip64(&l, text + l.name_length);
	place->data = r->header + LOCAL_BYTES + l.name_length + l.extra_length;
	if (!gt_inside(place->data, r->packed, zip->map->size))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: record '%s' of %llu bytes at byte %llu goes past the end of the file",
		    r->name, (unsigned long long)r->packed, (unsigned long long)place->data);
	place->end = place->data + r->packed;
	if (l.flags & FLAG_DESCRIPTOR)
		tail = descriptor(zip, place->end, r);
	place->end += tail;
	compare(place, &l, text, tail);
	return 0;
}

/* ---- dead bytes ---- */

struct span {
	uint64_t start, end;
};

static int compare_spans(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

int gt_zip_dead_bytes(const struct gt_zip *zip, uint64_t *out, struct gt_err *err)
{
	size_t count = zip->count + 2;
	struct span *spans = gt_calloc(count, sizeof(*spans), err);
	struct gt_zip_place place;
	uint64_t reached = 0;
	int rc = 0;

	*out = 0;
	if (!spans)
		return GT_ENOMEM;
	for (size_t i = 0; i < zip->count && !rc; i++) {
		rc = gt_zip_look(zip, &zip->records[i], &place, err);
		spans[i] = (struct span){ place.start, place.end };
	}
	spans[zip->count] = (struct span){ zip->directory, zip->directory + zip->directory_bytes };
	spans[zip->count + 1] = (struct span){ zip->end, zip->map->size };
	qsort(spans, count, sizeof(*spans), compare_spans);
	for (size_t i = 0; i < count && !rc; i++) {
		if (spans[i].start > reached)
			*out += spans[i].start - reached;
		reached = spans[i].end > reached ? spans[i].end : reached;
	}
	free(spans);
	return rc;
}

/* ---- an earlier state ---- */

/* Whether the file cut to `size` bytes would be an archive. */
static bool is_archive(const struct gt_mapping *map, uint64_t size)
{
	struct gt_mapping cut = { map->data, size, map->fd };
	struct gt_arena arena = { 0 };
	struct gt_zip zip;
	int rc = gt_zip_read(&zip, &cut, &arena, GT_ERR_IGNORED);

	gt_arena_release(&arena);
	return !rc && zip.count > 0;
}

bool gt_zip_earlier(
    const struct gt_mapping *map, uint64_t *below, uint64_t reach, uint64_t *out_size)
{
	uint64_t lowest = *below > reach ? *below - reach : 0, start = *below, held;

	if (map->size < END_BYTES)
		return false;
	if (start > map->size - END_BYTES + 1)
		start = map->size - END_BYTES + 1;
	held = start;
	for (uint64_t at = start; at-- > lowest;) {
		const unsigned char *p = map->data + at;
		uint64_t size;

		if (held - at >= SCAN_BYTES) {
			gt_map_forget(map, at + 1, held - at);
			held = at;
		}
		if (p[0] != 'P' || memcmp(p, "PK\5\6", 4))
			continue;
		size = at + END_BYTES + gt_get_le(p + 20, 2);
		if (size > map->size || !is_archive(map, size))
			continue;
		*out_size = size;
		*below = at;
		return true;
	}
	return false;
}

int gt_zip_hint_repair(const struct gt_mapping *map, struct gt_err *err)
{
	uint64_t below = map->size, size = map->size;

	while (size == map->size)
		if (!gt_zip_earlier(map, &below, TAIL_BYTES, &size))
			return err->code;
	return gt_err_hint(err,
	    "an edit of it was interrupted: `gtrain ckpt verify --repair` puts back what was before");
}
