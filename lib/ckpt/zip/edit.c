/* edit.c - records of a zip archive replaced, in place or in a copy. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/file.h"
#include "lib/base/meter.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/zip/crc.h"
#include "lib/ckpt/zip/zip.h"

/*
 * ---- replacing the bytes of records ----
 *
 * Example: an edit in place replaces the 100 bytes of data.pkl by 120 bytes. Headers are left out
 * of the table. "dir" is the directory, with the offset of each record; "end" is the end record,
 * with the offset of the directory.
 *
 *   offset  before            after
 *   0       data.pkl (100)    dead
 *   100     weights (4000)    weights (4000)
 *   4100    dir: 0, 100       dead
 *   4200    end: 4100         dead
 *   4300                      data.pkl (120)
 *   4420                      dir: 4300, 100
 *   4520                      end: 4420
 *
 * Readers begin at the end of the file, so they find the new directory. If the system stops during
 * the write, the file does not end with a complete end record. Then readers reject the file, until
 * gt_repair() (lib/ckpt/tools/verify.h) cuts it after the old end record. An edit can also write a
 * copy of the archive (gt_zip_replace_copy()) instead of changing the file. The copy has the new
 * data.pkl and the weights, and no dead bytes.
 */

enum { DESCRIPTOR_BYTES = 24 }; /* may stand behind a record: sum and sizes */

/* A record, where it is and where it goes: header, name, bytes, descriptor. */
struct extent {
	const struct gt_zip_record *record;
	uint64_t start, end, to;
};

struct rewrite {
	const struct gt_zip *zip;
	struct gt_zip_replacement *x;
	struct extent *extents;   /* the records, in the order of the directory */
	struct extent **by_place; /* sorted by offset, without replaced records */
	size_t count, moving;
	uint64_t live; /* bytes of the records in `by_place` */
	struct gt_zip_written new[GT_ZIP_REPLACE_MAX];
};

/* ---- the archive as it is ---- */

static int compare_places(const void *a, const void *b)
{
	const struct extent *x = *(struct extent *const *)a, *y = *(struct extent *const *)b;

	return (x->start > y->start) - (x->start < y->start);
}

/* The index of the new record that replaces this one, or -1. */
static int replaced(const struct rewrite *r, const struct extent *e)
{
	for (size_t i = 0; i < r->x->count; i++)
		if (!strcmp(e->record->name, r->x->records[i].name))
			return (int)i;
	return -1;
}

/*
 * A record with flag bit 3 has a descriptor behind its bytes (APPNOTE 4.3.9): CRC-32 and two
 * sizes, with or without a signature, of 12 to 24 bytes. Its form is not looked at here. Up to
 * the next record, 24 bytes are taken along: those that belong to no descriptor are dead bytes,
 * which readers skip.
 */
static void add_descriptors(struct rewrite *r)
{
	for (size_t i = 0; i < r->moving; i++) {
		struct extent *e = r->by_place[i];
		uint64_t next = r->zip->directory, gap;

		if (i + 1 < r->moving && r->by_place[i + 1]->start < next)
			next = r->by_place[i + 1]->start;
		gap = next > e->end ? next - e->end : 0;
		if (e->record->flags & GT_ZIP_FLAG_DESCRIPTOR)
			e->end += gap < DESCRIPTOR_BYTES ? gap : DESCRIPTOR_BYTES;
		r->live += e->end - e->start;
	}
}

/* The archive's records are sorted by name. The new directory keeps the order of the old one. */
static int compare_entries(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return (x->record->entry_at > y->record->entry_at) -
	       (x->record->entry_at < y->record->entry_at);
}

static int read_extents(struct rewrite *r, struct gt_err *err)
{
	r->count = r->zip->count;
	for (size_t i = 0; i < r->x->count; i++) {
		const struct gt_zip_new *n = &r->x->records[i];

		r->new[i] = (struct gt_zip_written){ .name = (char *)n->name,
			.size = n->size,
			.crc = gt_crc32(0, n->bytes, n->size) };
	}
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
		if (replaced(r, &r->extents[i]) < 0)
			r->by_place[r->moving++] = &r->extents[i];
	qsort(r->by_place, r->moving, sizeof(*r->by_place), compare_places);
	add_descriptors(r);
	return 0;
}

static void release_zip_rewrite(struct rewrite *r)
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
		struct gt_zip_written *n = &r->new[i];

		/*
		 * The local header ends with an extra field that pads it, so the bytes begin
		 * aligned. A shift makes that field longer, so it must stay below 64 KiB (a
		 * length of 16 bits).
		 */
		n->header = at;
		n->data =
		    align(at + GT_ZIP_LOCAL_BYTES + strlen(n->name) + GT_ZIP_FIELD_BYTES) + shift;
		at = n->data + n->size;
	}
	for (size_t i = 0; i < r->count; i++) {
		int n = replaced(r, &r->extents[i]);

		r->extents[i].to = n < 0 ? r->extents[i].start : r->new[n].header;
	}
	return at;
}

/* The new records follow each other. */
static void put_new(const struct rewrite *r, struct gt_buf *out)
{
	for (size_t i = 0; i < r->x->count; i++) {
		gt_zip_put_local(out, &r->new[i]);
		gt_buf_add(out, r->x->records[i].bytes, r->new[i].size);
	}
}

/* Extra fields of an entry, but for that of zip64. */
static void put_other_extra(struct gt_buf *out, const unsigned char *extra, size_t size)
{
	size_t at = 0, length;

	for (; at + GT_ZIP_FIELD_BYTES <= size; at += length) {
		length = GT_ZIP_FIELD_BYTES + gt_get_le(extra + at + 2, 2);
		if (length > size - at)
			break;
		if (gt_get_le(extra + at, 2) != GT_ZIP_ID_ZIP64)
			gt_buf_add(out, extra + at, length);
	}
}

/*
 * An entry of the directory as it was, with a new offset, and new sizes and CRC for a replaced
 * record. Offsets of fields are those of APPNOTE 4.3.12; the zip64 field has its values in the
 * order unpacked size, packed size, offset (4.5.3). That field is made anew, because the new
 * offset may need it where the old one did not, and the other way round.
 */
static void put_entry(const struct rewrite *r, struct gt_buf *out, const struct extent *e)
{
	const unsigned char *entry = e->record->entry, *texts = entry + GT_ZIP_CENTRAL_BYTES;
	size_t name = gt_get_le(entry + 28, 2), extra = gt_get_le(entry + 30, 2);
	uint64_t fields[3] = { e->record->size, e->record->packed, e->to };
	unsigned char head[GT_ZIP_CENTRAL_BYTES];
	struct gt_buf fresh = { 0 };
	int n = replaced(r, e);

	memcpy(head, entry, sizeof(head));
	if (n >= 0) {
		fields[0] = fields[1] = r->new[n].size;
		gt_put_le(head + 8, GT_ZIP_FLAG_UTF8, 2);
		gt_put_le(head + 10, 0, 2 + 2); /* stored, midnight */
		gt_put_le(head + 14, GT_ZIP_DATE_ZERO, 2);
		gt_put_le(head + 16, r->new[n].crc, 4);
	}
	if (gt_zip_put_zip64(&fresh, fields) && gt_get_le(head + 6, 2) < GT_ZIP_VERSION_ZIP64)
		gt_put_le(head + 6, GT_ZIP_VERSION_ZIP64, 2);
	put_other_extra(&fresh, texts + name, extra);
	gt_put_le(head + 20, gt_zip_or_ones(fields[1]), 4);
	gt_put_le(head + 24, gt_zip_or_ones(fields[0]), 4);
	gt_put_le(head + 30, fresh.length, 2);
	gt_put_le(head + 42, gt_zip_or_ones(fields[2]), 4);
	gt_buf_add(out, head, sizeof(head));
	gt_buf_add(out, texts, name);
	gt_buf_add(out, gt_buf_text(&fresh), fresh.length);
	gt_buf_add(out, texts + name + extra, gt_get_le(entry + 32, 2)); /* its comment */
	out->failed |= fresh.failed;
	gt_buf_release(&fresh);
}

/* The directory that stands at `at`, and the end record with its comment. */
static void put_directory(const struct rewrite *r, struct gt_buf *out, uint64_t at)
{
	size_t before = out->length;

	for (size_t i = 0; i < r->count; i++)
		put_entry(r, out, &r->extents[i]);
	gt_zip_put_end(
	    out, r->count, at, out->length - before, r->zip->comment, r->zip->comment_bytes);
}

/*
 * Sizes must fit in 32 bits, because place_new() leaves no space for a zip64 field in the local
 * header.
 */
static int check_record_sizes(const struct rewrite *r, struct gt_err *err)
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

/* A write that was cut short has no reason; the next one fails with the reason. It has one byte, so
 * that the bytes at the end are never complete. */
static int fail_short(
    int fd, uint64_t at, const char *bytes, size_t size, size_t n, struct gt_err *err)
{
	static const char text[] = "cannot write %zu bytes at the end: there was room for %zu";

	if (size - n > 1 && pwrite(fd, bytes + n, 1, (off_t)(at + n)) < 0)
		return gt_err_sys(err, text, size, n);
	return gt_err_set(err, GT_EIO, text, size, n);
}

/* One write, so that nothing can come between its parts; one cut short is taken back. */
static int append_zip_tail(int fd, uint64_t at, const void *bytes, size_t size, struct gt_err *err)
{
	ssize_t n = pwrite(fd, bytes, size, (off_t)at);
	int rc = 0;

	if (n < 0)
		rc = gt_err_sys(err, "cannot write %zu bytes at the end", size);
	else if ((size_t)n < size)
		rc = fail_short(fd, at, bytes, size, (size_t)n, err);
	if (n > 0 && rc && ftruncate(fd, (off_t)at)) {
		gt_err_prefix(err, "the file could not be cut back to its %llu bytes",
		    (unsigned long long)at);
		gt_err_hint(err, "run `gtrain ckpt verify --repair` on it");
	}
	return rc;
}

int gt_zip_replace_in_place(
    int fd, const struct gt_zip *zip, struct gt_zip_replacement *x, struct gt_err *err)
{
	struct rewrite r = { .zip = zip, .x = x };
	/* The old end record stays complete, so gt_repair() can cut the file after it. */
	uint64_t at = zip->map->size;
	struct gt_buf out = { 0 };
	int rc = check_record_sizes(&r, err);

	if (!rc)
		rc = read_extents(&r, err);
	if (!rc) {
		uint64_t directory = place_new(&r, at, 0);

		put_new(&r, &out);
		put_directory(&r, &out, directory);
		x->written = out.length;
		x->dead = at - r.live;
		rc = gt_buf_check(&out, err);
	}
	if (!rc)
		rc = append_zip_tail(fd, at, out.text, out.length, err);
	gt_buf_release(&out);
	release_zip_rewrite(&r);
	return rc;
}

/* ---- in a copy ---- */

/*
 * The next place from `at` on that is where `start` is in its block. gt_copy_range() can share
 * blocks only if both offsets are equal modulo the block, and GT_ZIP_ALIGN divides the block, so
 * alignment stays too.
 */
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

/*
 * Give every record its place, from `at` on; *end is where the last one ends. Records of a run
 * keep their distances, so one copy moves them all.
 */
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
	struct gt_meter meter;
	uint64_t end;
	size_t n;
	int rc = 0;

	for (size_t i = 0; i < r->moving; i += n) {
		n = next_run(r, i, &end);
		r->x->copied += end - r->by_place[i]->start;
	}
	gt_meter_begin(&meter, r->x->progress, "copying, MiB", r->x->copied);
	for (size_t i = 0; !rc && i < r->moving; i += n) {
		const struct extent *first = r->by_place[i];

		n = next_run(r, i, &end);
		rc = gt_meter_copy(&meter, fd, first->to, r->zip->map->fd, first->start,
		    end - first->start, write_back, err);
	}
	gt_meter_end(&meter);
	return rc;
}

/*
 * Example: the new records end at byte 1000, and the first record to move starts at 5000, which
 * is byte 904 of its block. Its place in the copy is 5000 as well, the next one at byte 904 of a
 * block.
 *
 *   place_new(.., 0, 0)     new records in [0, 1000)
 *   place_runs()            first run at 5000, so 4000 bytes would lie unused before it
 *   gap                     4000, of which 3968 are a multiple of 64
 *   place_new(.., 0, 3968)  the first new record's padding grows: new records end at 4968
 *   place_runs()            first run at 5000, as before: less than 64 bytes are unused
 *
 * The shift is a multiple of the alignment, so all new records move by the same distance. It is
 * less than a block, which the 16-bit length of the padding holds.
 */
int gt_zip_replace_copy(int fd, const struct gt_zip *zip, struct gt_zip_replacement *x,
    bool write_back, struct gt_err *err)
{
	struct rewrite r = { .zip = zip, .x = x };
	struct gt_buf head = { 0 }, tail = { 0 };
	uint64_t head_bytes, end = 0, gap;
	int rc = check_record_sizes(&r, err);

	if (!rc)
		rc = read_extents(&r, err);
	if (rc)
		goto out;
	head_bytes = place_new(&r, 0, 0);
	place_runs(&r, head_bytes, &end);
	gap = r.moving ? r.by_place[0]->to - head_bytes : 0; /* up to the first run */
	head_bytes = place_new(&r, 0, gap / GT_ZIP_ALIGN * GT_ZIP_ALIGN);
	place_runs(&r, head_bytes, &end);
	put_new(&r, &head);
	put_directory(&r, &tail, end);
	x->written = head.length + tail.length;
	rc = gt_buf_check(&head, err);
	if (!rc)
		rc = gt_buf_check(&tail, err);
	if (!rc)
		rc = gt_write_at(fd, 0, head.text, head.length, err);
	if (!rc)
		rc = copy_runs(&r, fd, write_back, err);
	if (!rc)
		rc = gt_write_at(fd, end, tail.text, tail.length, err);
out:
	gt_buf_release(&head);
	gt_buf_release(&tail);
	release_zip_rewrite(&r);
	return rc;
}
