/* read.c - the directory of a zip archive, copied out of the file. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/zip/zip.h"

enum {
	ID_UNICODE_PATH = 0x7075,
	WINDOW_BYTES = 256 << 10, /* bytes of the directory in memory: any entry fits */
};

struct directory {
	uint64_t offset, bytes, count;
	uint64_t end; /* offset of the first end record, which is the end of the content */
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
	return gt_err_hint(err, "compare its size with that of the original; after an interrupted "
	                        "edit in place, run `gtrain ckpt verify --repair FILE`");
}

/* The bytes at the end of a file in which an end record may start. */
struct tail {
	unsigned char *bytes; /* a copy */
	size_t at, size;      /* offset and size in the file */
};

static int copy_tail(
    struct tail *tail, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err)
{
	tail->size = GT_ZIP_END_BYTES + GT_ZIP_COMMENT_MAX;
	if (tail->size > map->size)
		tail->size = map->size;
	tail->at = map->size - tail->size;
	return gt_map_copy(map, tail->at, tail->size, arena, &tail->bytes, err);
}

/*
 * The end record stands last, but for a comment that says its own length (APPNOTE 4.3.16). Where
 * a comment holds an end record too, readers disagree which of them counts. *end is its place in
 * the tail. Example, a file of 1062 bytes:
 *
 *   byte 1000   end record, which announces a comment of 40 bytes: 1000 + 22 + 40 = 1062
 *   byte 1030   inside that comment, a second signature: its length does not lead to 1062
 *
 * A reader that takes the last signature uses the one at 1030, a reader that checks the length
 * the one at 1000. The search goes backward, meets 1030 first, and fails at 1000.
 */
static int find_end(
    const struct gt_mapping *map, const struct tail *tail, size_t *end, struct gt_err *err)
{
	size_t size = tail->size, seen = size;

	for (size_t at = size < GT_ZIP_END_BYTES ? 0 : size - GT_ZIP_END_BYTES + 1; at-- > 0;) {
		if (!has_signature(tail->bytes + at, "\5\6"))
			continue;
		if (gt_get_le(tail->bytes + at + 20, 2) != size - at - GT_ZIP_END_BYTES) {
			seen = seen == size ? at : seen;
			continue;
		}
		if (seen != size)
			return gt_err_set(err, GT_EFORMAT,
			    "zip: two end records, at bytes %zu and %zu: readers would disagree",
			    tail->at + at, tail->at + seen);
		*end = at;
		return 0;
	}
	return no_end(map, tail->at + seen, err);
}

/* A figure too large for the end record is all ones there, and only the zip64 end record has it. */
static bool zip64_agrees(uint64_t small, uint64_t ones, uint64_t large)
{
	return small == ones || small == large;
}

/*
 * A locator before the end record of a zip64 file says where the larger end record is: before it
 * (APPNOTE 4.3.14, 4.3.15). The larger record must end where the locator starts. The
 * length that it states does not count its first 12 bytes (4.3.14.1).
 */
static int read_end64(
    const struct gt_zip *zip, size_t end_at, struct directory *dir, struct gt_err *err)
{
	unsigned char locator[GT_ZIP_LOCATOR_BYTES], end64[GT_ZIP_END64_BYTES] = { 0 };
	struct directory large;
	int rc;

	if (end_at < GT_ZIP_LOCATOR_BYTES)
		return 0;
	rc = gt_map_peek(
	    zip->map, end_at - GT_ZIP_LOCATOR_BYTES, locator, GT_ZIP_LOCATOR_BYTES, err);
	if (rc || !has_signature(locator, "\6\7"))
		return rc;
	large.end = gt_get_le(locator + 8, 8);
	if (gt_inside(large.end, GT_ZIP_END64_BYTES, end_at - GT_ZIP_LOCATOR_BYTES))
		rc = gt_map_peek(zip->map, large.end, end64, GT_ZIP_END64_BYTES, err);
	if (rc)
		return rc;
	if (!has_signature(end64, "\6\6"))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: no zip64 end record at byte %llu where its locator points",
		    (unsigned long long)large.end);
	large.count = gt_get_le(end64 + 32, 8);
	large.bytes = gt_get_le(end64 + 40, 8);
	large.offset = gt_get_le(end64 + 48, 8);
	if (gt_get_le(end64 + 4, 8) != end_at - GT_ZIP_LOCATOR_BYTES - large.end - 12 ||
	    gt_get_le(end64 + 24, 8) != large.count ||
	    !zip64_agrees(dir->count, 0xffff, large.count) ||
	    !zip64_agrees(dir->bytes, UINT32_MAX, large.bytes) ||
	    !zip64_agrees(dir->offset, UINT32_MAX, large.offset))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the end records at bytes %llu and %zu contradict each other",
		    (unsigned long long)large.end, end_at);
	*dir = large;
	return 0;
}

static int keep_comment(struct gt_zip *zip, const struct tail *tail, size_t end,
    struct gt_arena *arena, struct gt_err *err)
{
	size_t size = tail->size - end - GT_ZIP_END_BYTES;
	unsigned char *comment = gt_arena_alloc(arena, size, err);

	if (!comment)
		return GT_ENOMEM;
	memcpy(comment, tail->bytes + end + GT_ZIP_END_BYTES, size);
	zip->comment = comment;
	zip->comment_bytes = size;
	return 0;
}

static int read_end(struct gt_zip *zip, const struct tail *tail, struct directory *dir,
    struct gt_arena *arena, struct gt_err *err)
{
	const unsigned char *end;
	size_t at = 0, end_at;
	int rc = find_end(zip->map, tail, &at, err);

	if (rc)
		return rc;
	end = tail->bytes + at;
	end_at = tail->at + at;
	dir->end = end_at;
	dir->count = gt_get_le(end + 10, 2);
	dir->bytes = gt_get_le(end + 12, 4);
	dir->offset = gt_get_le(end + 16, 4);
	if (gt_get_le(end + 4, 4) || gt_get_le(end + 8, 2) != dir->count)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the end record at byte %zu speaks of other disks", end_at);
	rc = read_end64(zip, end_at, dir, err);
	return rc ? rc : keep_comment(zip, tail, at, arena, err);
}

static int find_directory(
    struct gt_zip *zip, struct directory *dir, struct gt_arena *arena, struct gt_err *err)
{
	struct gt_arena scratch = { 0 };
	struct tail tail;
	int rc = copy_tail(&tail, zip->map, &scratch, err);

	if (!rc)
		rc = read_end(zip, &tail, dir, arena, err);
	gt_arena_release(&scratch);
	if (rc)
		return rc;
	/*
	 * The last condition bounds the memory for records by the bytes that the directory has in
	 * the file: an entry has at least 46.
	 */
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

/* The fields of a directory entry other than its name. */
static int read_fields(struct gt_zip_record *r, struct gt_err *err)
{
	const unsigned char *p = r->entry;
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

/*
 * The directory is copied through a window that moves over it, and each entry into the arena when
 * it is known to be one: a file cannot ask for memory by stating the size of its directory.
 */
struct window {
	const struct gt_mapping *map;
	unsigned char *bytes;   /* a copy of [at, at + size) of the file */
	uint64_t at, size, end; /* end: of the directory */
};

/* Have the window show `size` bytes at `at`, or as many as the directory has. *bytes, *shown. */
static int show_directory(struct window *w, uint64_t at, size_t size, const unsigned char **bytes,
    size_t *shown, struct gt_err *err)
{
	int rc = 0;

	if (size > w->end - at)
		size = w->end - at;
	if (at < w->at || at + size > w->at + w->size) {
		w->at = at;
		w->size = w->end - at < WINDOW_BYTES ? w->end - at : WINDOW_BYTES;
		rc = gt_map_peek(w->map, at, w->bytes, w->size, err);
	}
	*bytes = w->bytes + (at - w->at);
	*shown = size;
	return rc;
}

/* Copy the directory entry at byte `at`. */
static int copy_entry(struct gt_zip_record *r, struct window *w, uint64_t at,
    struct gt_arena *arena, struct gt_err *err)
{
	const unsigned char *p;
	unsigned char *entry;
	size_t shown;
	int rc = show_directory(w, at, GT_ZIP_CENTRAL_BYTES, &p, &shown, err);

	if (rc)
		return rc;
	if (shown < GT_ZIP_CENTRAL_BYTES || !has_signature(p, "\1\2"))
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the directory entry at byte %llu is damaged", (unsigned long long)at);
	*r = (struct gt_zip_record){ .entry_at = at };
	r->entry_bytes = GT_ZIP_CENTRAL_BYTES + gt_get_le(p + 28, 2) + gt_get_le(p + 30, 2) +
	                 gt_get_le(p + 32, 2);
	if (r->entry_bytes > w->end - at)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the directory entry at byte %llu is longer than the rest",
		    (unsigned long long)at);
	entry = gt_arena_alloc(arena, r->entry_bytes, err);
	if (!entry)
		return GT_ENOMEM;
	memcpy(entry, p, GT_ZIP_CENTRAL_BYTES); /* r->entry_bytes was computed from these lengths */
	r->entry = entry;
	rc = show_directory(
	    w, at + GT_ZIP_CENTRAL_BYTES, r->entry_bytes - GT_ZIP_CENTRAL_BYTES, &p, &shown, err);
	if (!rc)
		memcpy(entry + GT_ZIP_CENTRAL_BYTES, p, shown);
	return rc;
}

/* The directory entry at byte `at`. */
static int read_directory_entry(struct gt_zip_record *r, struct window *w, uint64_t at,
    struct gt_arena *arena, struct gt_err *err)
{
	size_t name_length;
	char *name;
	int rc = copy_entry(r, w, at, arena, err);

	if (rc)
		return rc;
	name_length = gt_get_le(r->entry + 28, 2);
	name = gt_arena_alloc(arena, name_length + 1, err);
	if (!name)
		return GT_ENOMEM;
	memcpy(name, r->entry + GT_ZIP_CENTRAL_BYTES, name_length);
	r->name = name;
	rc = gt_zip_check_name(name, name_length, at, err);
	return rc ? rc : read_fields(r, err);
}

/* Compare like strcmp(), but treat A to Z like a to z. The locale does not matter. */
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

/*
 * Names that are equal but for case become neighbours, which sort_records() compares. The second
 * order lets gt_zip_find() find exact names only.
 */
static int compare_names(const void *a, const void *b)
{
	const char *x = ((const struct gt_zip_record *)a)->name;
	const char *y = ((const struct gt_zip_record *)b)->name;
	int order = compare_folded(x, y);

	return order ? order : strcmp(x, y);
}

/* Return whether readers may take two names for the same; they would read different records. */
static bool is_one_name(const char *a, const char *b)
{
	return !strcmp(a, b) || (!compare_folded(a, b) && !(gt_text_ends_with(a, ".npy") &&
	                                                      gt_text_ends_with(b, ".npy")));
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
	struct window w = { .map = zip->map, .end = end };
	int rc = 0;

	/*
	 * The window holds the longest entry: 46 bytes and three texts of at most 65535 are less
	 * than 256 KiB.
	 */
	w.bytes = gt_calloc(1, end - at < WINDOW_BYTES ? end - at : WINDOW_BYTES, err);
	if (!w.bytes)
		return GT_ENOMEM;
	for (; !rc && zip->count < count; zip->count++) {
		struct gt_zip_record *r = &zip->records[zip->count];

		rc = read_directory_entry(r, &w, at, arena, err);
		at += rc ? 0 : r->entry_bytes;
	}
	free(w.bytes);
	if (!rc && at != end)
		return gt_err_set(err, GT_EFORMAT,
		    "zip: the directory goes on at byte %llu behind the %llu records that it has",
		    (unsigned long long)at, (unsigned long long)count);
	return rc;
}

/*
 * Read the directory of a mapped file. The directory is copied into the arena and checked there, so
 * another process that writes to the file meanwhile cannot change the checked bytes.
 *
 * If parts of an archive contradict each other, different programs use different parts. Then an
 * attacker can show one content to a scanner and another content to the program that uses the file.
 * An archive that this function accepts can be read in only one way:
 *   - The file ends with the directory and the end records, with nothing between them. Only the
 *     comment of the end record may follow, and it must not contain another end record.
 *   - Each record has a local header that agrees with the directory: name, method, flags, sizes,
 *     CRC-32. Sizes and CRC-32 may be 0 in the header if a data descriptor follows the bytes.
 *   - No two records overlap, and none overlaps the directory. Bytes before the directory that
 *     belong to no record are called dead bytes; an edit in place leaves dead bytes.
 *   - No two records have the same name. This comparison ignores case, because PyTorch ignores case
 *     when it looks up a name (miniz, mz_zip_reader_locate_file() with flags 0). Exception:
 *     two names that end with ".npy", such as "W.npy" and "w.npy", may differ by case alone,
 *     because NumPy distinguishes them.
 *
 * Cost: a read of about 100 bytes for each record. Errors: GT_EFORMAT for contradictions, and if
 * there is no end record (a truncated file); the text names the byte or the record. GT_ENOTSUP for
 * an encrypted record.
 */
int gt_zip_read(
    struct gt_zip *out, const struct gt_mapping *map, struct gt_arena *arena, struct gt_err *err)
{
	struct directory dir = { 0 };
	int rc;

	*out = (struct gt_zip){ .map = map };
	rc = find_directory(out, &dir, arena, err);
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
		/* This sorts by place. The order by name that gt_zip_find() needs comes last. */
		rc = gt_zip_check_places(out, err);
	return rc ? rc : sort_records(out, err);
}

const struct gt_zip_record *gt_zip_find(const struct gt_zip *zip, const char *name)
{
	struct gt_zip_record wanted = { .name = name };

	return bsearch(&wanted, zip->records, zip->count, sizeof(wanted), compare_names);
}
