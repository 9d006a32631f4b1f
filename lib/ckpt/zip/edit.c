/* edit.c - records of a zip archive exchanged, in place or in a copy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/file.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

enum {
	FIELD_BYTES = 4, /* of an extra field's header */
	ZIP64_BYTES = FIELD_BYTES + 3 * 8,
	DESCRIPTOR_BYTES = 24, /* may stand behind a record: sum and sizes */
};

/* A record, where it is and where it goes: header, name, bytes, descriptor. */
struct extent {
	const struct gt_zip_record *record;
	uint64_t start, end, to;
};

/* A new record: where its header and its bytes go. */
struct place {
	uint64_t header, data;
	uint32_t crc;
};

struct rewrite {
	const struct gt_zip *zip;
	struct gt_zip_exchange *x;
	struct extent *extents;   /* in the directory's order */
	struct extent **by_place; /* without those that are exchanged */
	size_t count, moving;
	uint64_t live; /* bytes of those */
	struct place places[GT_ZIP_EXCHANGE_MAX];
};

/* ---- the archive as it is ---- */

static int compare_places(const void *a, const void *b)
{
	const struct extent *x = *(struct extent *const *)a, *y = *(struct extent *const *)b;

	return (x->start > y->start) - (x->start < y->start);
}

/* The index of the new record that replaces this one, or -1. */
static int exchanged(const struct rewrite *r, const struct extent *e)
{
	for (size_t i = 0; i < r->x->count; i++)
		if (!strcmp(e->record->name, r->x->records[i].name))
			return (int)i;
	return -1;
}

/* A descriptor may follow, if nothing else does. */
static void add_descriptors(struct rewrite *r)
{
	for (size_t i = 0; i < r->moving; i++) {
		struct extent *e = r->by_place[i];
		uint64_t next = r->zip->directory, room;

		if (i + 1 < r->moving && r->by_place[i + 1]->start < next)
			next = r->by_place[i + 1]->start;
		room = next > e->end ? next - e->end : 0;
		if (e->record->flags & GT_ZIP_FLAG_DESCRIPTOR)
			e->end += room < DESCRIPTOR_BYTES ? room : DESCRIPTOR_BYTES;
		r->live += e->end - e->start;
	}
}

static int compare_entries(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return (x->record->entry_at > y->record->entry_at) -
	       (x->record->entry_at < y->record->entry_at);
}

static int read_extents(struct rewrite *r, struct gt_err *err)
{
	r->count = r->zip->count;
	for (size_t i = 0; i < r->x->count; i++)
		r->places[i].crc = gt_crc32(0, r->x->records[i].bytes, r->x->records[i].size);
	r->extents = gt_calloc(r->count, sizeof(*r->extents), err);
	r->by_place = gt_calloc(r->count, sizeof(*r->by_place), err);
	if (!r->extents || !r->by_place)
		return GT_ENOMEM;
	for (size_t i = 0; i < r->count; i++) {
		const struct gt_zip_record *record = &r->zip->records[i];

		r->extents[i] = (struct extent){ .record = record,
			.start = record->header,
			.end = record->data + record->packed };
	}
	qsort(r->extents, r->count, sizeof(*r->extents), compare_entries);
	for (size_t i = 0; i < r->count; i++)
		if (exchanged(r, &r->extents[i]) < 0)
			r->by_place[r->moving++] = &r->extents[i];
	qsort(r->by_place, r->moving, sizeof(*r->by_place), compare_places);
	add_descriptors(r);
	return 0;
}

static void release(struct rewrite *r)
{
	free(r->extents);
	free(r->by_place);
}

/* ---- the bytes written ---- */

static uint64_t align(uint64_t at)
{
	return (at + GT_ZIP_ALIGN - 1) / GT_ZIP_ALIGN * GT_ZIP_ALIGN;
}

/* Give the new records their places from `at` on, the bytes of the first `shift` later than they
 * could be; returns where the last one ends. */
static uint64_t place_new(struct rewrite *r, uint64_t at, uint64_t shift)
{
	for (size_t i = 0; i < r->x->count; i++, shift = 0) {
		const struct gt_zip_new *n = &r->x->records[i];

		r->places[i].header = at;
		r->places[i].data =
		    align(at + GT_ZIP_LOCAL_BYTES + strlen(n->name) + FIELD_BYTES) + shift;
		at = r->places[i].data + n->size;
	}
	for (size_t i = 0; i < r->count; i++) {
		int n = exchanged(r, &r->extents[i]);

		r->extents[i].to = n < 0 ? r->extents[i].start : r->places[n].header;
	}
	return at;
}

/* A local header, padded up to where the bytes start, and they. */
static void put_record(unsigned char *out, const struct gt_zip_new *n, const struct place *place)
{
	size_t name = strlen(n->name);
	size_t extra = place->data - place->header - GT_ZIP_LOCAL_BYTES - name;
	unsigned char *p = out;

	memcpy(p, "PK\3\4", 4);
	p = gt_put_le(p + 4, GT_ZIP_VERSION_STORED, 2);
	p = gt_put_le(p, GT_ZIP_FLAG_UTF8, 2);
	p = gt_put_le(p, 0, 2 + 2); /* stored, midnight */
	p = gt_put_le(p, GT_ZIP_DATE_ZERO, 2);
	p = gt_put_le(p, place->crc, 4);
	p = gt_put_le(p, n->size, 4);
	p = gt_put_le(p, n->size, 4);
	p = gt_put_le(p, name, 2);
	p = gt_put_le(p, extra, 2);
	memcpy(p, n->name, name);
	p = gt_put_le(p + name, 'F' | 'B' << 8, 2); /* padding, as PyTorch does it */
	p = gt_put_le(p, extra - FIELD_BYTES, 2);
	memset(p, 'Z', extra - FIELD_BYTES);
	if (n->size)
		memcpy(out + (place->data - place->header), n->bytes, n->size);
}

static void put_new(const struct rewrite *r, unsigned char *out)
{
	for (size_t i = 0; i < r->x->count; i++)
		put_record(out + (r->places[i].header - r->places[0].header), &r->x->records[i],
		    &r->places[i]);
}

/* Extra fields of an entry, but for that of zip64. */
static unsigned char *put_other_extra(unsigned char *p, const unsigned char *extra, size_t size)
{
	size_t at = 0, length;

	for (; at + FIELD_BYTES <= size; at += length) {
		length = FIELD_BYTES + gt_get_le(extra + at + 2, 2);
		if (length > size - at)
			break;
		if (gt_get_le(extra + at, 2) == GT_ZIP_ID_ZIP64)
			continue;
		memcpy(p, extra + at, length);
		p += length;
	}
	return p;
}

static unsigned char *put_zip64(unsigned char *p, const uint64_t fields[3])
{
	unsigned char *start = p;

	p += FIELD_BYTES;
	for (int i = 0; i < 3; i++)
		if (fields[i] >= UINT32_MAX)
			p = gt_put_le(p, fields[i], 8);
	if (p == start + FIELD_BYTES)
		return start;
	gt_put_le(start, GT_ZIP_ID_ZIP64, 2);
	gt_put_le(start + 2, (uint64_t)(p - start - FIELD_BYTES), 2);
	return p;
}

/*
 * An entry of the directory as it was, with a new offset, and new sizes and CRC for an exchanged
 * record.
 */
static unsigned char *put_entry(const struct rewrite *r, unsigned char *out, const struct extent *e)
{
	const unsigned char *entry = e->record->entry, *texts = entry + GT_ZIP_CENTRAL_BYTES;
	size_t name = gt_get_le(entry + 28, 2), extra = gt_get_le(entry + 30, 2);
	size_t comment = gt_get_le(entry + 32, 2);
	uint64_t fields[3] = { e->record->size, e->record->packed, e->to };
	int n = exchanged(r, e);
	unsigned char *p;

	memcpy(out, entry, GT_ZIP_CENTRAL_BYTES + name);
	if (n >= 0) {
		fields[0] = fields[1] = r->x->records[n].size;
		gt_put_le(out + 8, GT_ZIP_FLAG_UTF8, 2);
		gt_put_le(out + 10, 0, 2 + 2); /* stored, midnight */
		gt_put_le(out + 14, GT_ZIP_DATE_ZERO, 2);
		gt_put_le(out + 16, r->places[n].crc, 4);
	}
	p = put_zip64(out + GT_ZIP_CENTRAL_BYTES + name, fields);
	if (p > out + GT_ZIP_CENTRAL_BYTES + name && gt_get_le(out + 6, 2) < GT_ZIP_VERSION_ZIP64)
		gt_put_le(out + 6, GT_ZIP_VERSION_ZIP64, 2);
	p = put_other_extra(p, texts + name, extra);
	gt_put_le(out + 20, gt_zip_or_ones(fields[1]), 4);
	gt_put_le(out + 24, gt_zip_or_ones(fields[0]), 4);
	gt_put_le(out + 30, (uint64_t)(p - out) - GT_ZIP_CENTRAL_BYTES - name, 2);
	gt_put_le(out + 42, gt_zip_or_ones(fields[2]), 4);
	memcpy(p, texts + name + extra, comment);
	return p + comment;
}

/* The largest size of a directory and its end records. */
static size_t directory_room(const struct rewrite *r)
{
	size_t room = GT_ZIP_END_MAX + r->zip->comment_bytes;

	for (size_t i = 0; i < r->count; i++)
		room += r->extents[i].record->entry_bytes + ZIP64_BYTES;
	return room;
}

/* The directory that stands at `at`, and the end record with its comment. Returns their bytes. */
static size_t put_directory(const struct rewrite *r, unsigned char *out, uint64_t at)
{
	size_t comment = r->zip->comment_bytes;
	unsigned char *p = out;

	for (size_t i = 0; i < r->count; i++)
		p = put_entry(r, p, &r->extents[i]);
	p += gt_zip_put_end(p, r->count, at, (uint64_t)(p - out));
	gt_put_le(p - 2, comment, 2);
	memcpy(p, r->zip->comment, comment);
	return (size_t)(p - out) + comment;
}

static int check(const struct rewrite *r, struct gt_err *err)
{
	for (size_t i = 0; i < r->x->count; i++) {
		const struct gt_zip_new *n = &r->x->records[i];

		if (!gt_zip_find(r->zip, n->name))
			return gt_err_set(err, GT_EINVAL, "zip: there is no record '%s'", n->name);
		if (n->size >= UINT32_MAX)
			return gt_err_set(err, GT_ENOTSUP, "zip: record '%s' would have %zu bytes",
			    n->name, n->size);
	}
	return 0;
}

/* ---- in place ---- */

/* One write, so that nothing can come between its parts; one cut short is taken back. */
static int append(int fd, uint64_t at, const void *bytes, size_t size, struct gt_err *err)
{
	ssize_t n = pwrite(fd, bytes, size, (off_t)at);
	int rc = 0;

	if (n < 0)
		rc = gt_err_sys(err, "cannot write %zu bytes at the end", size);
	else if ((size_t)n < size)
		rc = gt_err_set(err, GT_EIO,
		    "cannot write %zu bytes at the end: there was room for %zd", size, n);
	if (n > 0 && rc && ftruncate(fd, (off_t)at)) {
		gt_err_prefix(err, "the file could not be cut back to its %llu bytes",
		    (unsigned long long)at);
		gt_err_hint(err, "run `gtrain ckpt verify --repair` on it");
	}
	return rc;
}

int gt_zip_exchange_in_place(
    int fd, const struct gt_zip *zip, struct gt_zip_exchange *x, struct gt_err *err)
{
	struct rewrite r = { .zip = zip, .x = x };
	uint64_t at = zip->map->size, directory;
	unsigned char *out = NULL;
	int rc = check(&r, err);

	if (!rc)
		rc = read_extents(&r, err);
	if (rc)
		goto out;
	directory = place_new(&r, at, 0);
	out = gt_calloc(directory - at + directory_room(&r), 1, err);
	if (!out) {
		rc = GT_ENOMEM;
		goto out;
	}
	put_new(&r, out);
	x->written = directory - at + put_directory(&r, out + (directory - at), directory);
	x->dead = at - r.live;
	gt_atomic_enter();
	rc = append(fd, at, out, x->written, err);
	gt_atomic_leave();
out:
	free(out);
	release(&r);
	return rc;
}

/* ---- in a copy ---- */

/* The next place from `at` on that is where `start` is in its block. */
static uint64_t same_in_block(uint64_t at, uint64_t start)
{
	uint64_t block = GT_COPY_BLOCK;

	return at + (start % block + block - at % block) % block;
}

/* Records from `first` on that lie together are moved together; returns the number. Gaps of less
 * than a block are not worth a new place. */
static size_t next_run(const struct rewrite *r, size_t first, uint64_t *end)
{
	size_t i = first + 1;

	*end = r->by_place[first]->end;
	for (; i < r->moving && r->by_place[i]->start < *end + GT_COPY_BLOCK; i++)
		if (*end < r->by_place[i]->end)
			*end = r->by_place[i]->end;
	return i - first;
}

/* Give every record its place, from `at` on; *end is where the last one ends. */
static void place_runs(struct rewrite *r, uint64_t at, uint64_t *end)
{
	size_t n;

	for (size_t i = 0; i < r->moving; i += n) {
		uint64_t start = r->by_place[i]->start, run_end;

		n = next_run(r, i, &run_end);
		at = same_in_block(at, start);
		for (size_t k = i; k < i + n; k++)
			r->by_place[k]->to = at + (r->by_place[k]->start - start);
		at += run_end - start;
	}
	*end = at;
}

static int copy_runs(const struct rewrite *r, int fd, bool write_back, struct gt_err *err)
{
	size_t n;
	int rc = 0;

	for (size_t i = 0; !rc && i < r->moving; i += n) {
		const struct extent *first = r->by_place[i];
		uint64_t end;

		n = next_run(r, i, &end);
		rc = gt_copy_range(fd, first->to, r->zip->map->fd, first->start, end - first->start,
		    write_back, err);
		r->x->moved += end - first->start;
	}
	return rc;
}

int gt_zip_exchange_copy(int fd, const struct gt_zip *zip, struct gt_zip_exchange *x,
    bool write_back, struct gt_err *err)
{
	struct rewrite r = { .zip = zip, .x = x };
	unsigned char *head = NULL, *tail = NULL;
	uint64_t head_bytes, end = 0, room;
	size_t tail_bytes;
	int rc = check(&r, err);

	if (!rc)
		rc = read_extents(&r, err);
	if (rc)
		goto out;
	head_bytes = place_new(&r, 0, 0);
	place_runs(&r, head_bytes, &end);
	room = r.moving ? r.by_place[0]->to - head_bytes : 0; /* up to the first run */
	head_bytes = place_new(&r, 0, room / GT_ZIP_ALIGN * GT_ZIP_ALIGN);
	place_runs(&r, head_bytes, &end);
	head = gt_calloc(head_bytes, 1, err);
	tail = gt_calloc(directory_room(&r), 1, err);
	if (!head || !tail) {
		rc = GT_ENOMEM;
		goto out;
	}
	put_new(&r, head);
	tail_bytes = put_directory(&r, tail, end);
	x->written = head_bytes + tail_bytes;
	rc = gt_write_at(fd, 0, head, head_bytes, err);
	if (!rc)
		rc = copy_runs(&r, fd, write_back, err);
	if (!rc)
		rc = gt_write_at(fd, end, tail, tail_bytes, err);
out:
	free(head);
	free(tail);
	release(&r);
	return rc;
}
