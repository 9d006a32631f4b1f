/* layout.c - bytes of a zip archive that nothing needs, and its earlier states. */

#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/zip/zip.h"

enum {
	SCAN_BYTES = 1 << 20,
	TAIL_BYTES = 16 << 20 /* an edit appends a pickle and a directory: some MiB at most */
};

/* ---- dead bytes ---- */

/*
 * The size of the descriptor behind a record: with or without signature, 32 or 64 bits; those of
 * PyTorch have it. 0 where none is recognised. Nothing in the archive says which of the four
 * forms it has (APPNOTE 4.3.9 leaves the signature open), so the form is the one whose values
 * match the directory.
 */
static int descriptor(
    size_t *size, const struct gt_zip *zip, const struct gt_zip_record *r, struct gt_err *err)
{
	uint64_t at = r->data + r->packed;
	unsigned char p[24] = { 0 };
	size_t left = zip->map->size - at < sizeof(p) ? zip->map->size - at : sizeof(p), skip;
	int rc = gt_map_peek(zip->map, at, p, left, err);

	*size = 0;
	if (rc)
		return rc;
	skip = !memcmp(p, "PK\7\10", 4) ? 4 : 0;
	if (gt_get_le(p + skip, 4) != r->crc)
		return 0;
	if (left >= skip + 20 && gt_get_le(p + skip + 4, 8) == r->packed &&
	    gt_get_le(p + skip + 12, 8) == r->size)
		*size = skip + 20;
	else if (left >= skip + 12 && gt_get_le(p + skip + 4, 4) == (uint32_t)r->packed &&
	         gt_get_le(p + skip + 8, 4) == (uint32_t)r->size)
		*size = skip + 12;
	return 0;
}

struct span {
	uint64_t start, end;
};

/*
 * Example: records in [0, 100) and [150, 400), and the directory at 460.
 *
 *   [0, 100)     nothing is between byte 0 and its start    reached 100
 *   [150, 400)   50 dead bytes before it                    reached 400
 *   directory    60 dead bytes before it                    sum 110
 */
int gt_zip_dead_bytes(const struct gt_zip *zip, uint64_t *out, struct gt_err *err)
{
	struct span *spans = gt_calloc(zip->count, sizeof(*spans), err);
	uint64_t reached = 0;
	int rc = 0;

	*out = 0;
	if (!spans)
		return GT_ENOMEM;
	for (size_t i = 0; i < zip->count && !rc; i++) {
		const struct gt_zip_record *r = &zip->records[i];
		size_t behind = 0;

		if (r->flags & GT_ZIP_FLAG_DESCRIPTOR)
			rc = descriptor(&behind, zip, r, err);
		spans[i] = (struct span){ r->header, r->data + r->packed + behind };
	}
	if (rc) {
		free(spans);
		return rc;
	}
	if (zip->count)
		qsort(spans, zip->count, sizeof(*spans), gt_compare_numbers);
	for (size_t i = 0; i < zip->count; i++) {
		if (spans[i].start > reached)
			*out += spans[i].start - reached;
		reached = spans[i].end > reached ? spans[i].end : reached;
	}
	*out += zip->directory > reached ? zip->directory - reached : 0;
	free(spans);
	return 0;
}

/* ---- an earlier state ---- */

/*
 * Whether the file cut to `size` bytes would be an archive. It is read into an arena of
 * its own, since only the answer is kept.
 */
static bool is_archive(const struct gt_mapping *map, uint64_t size)
{
	struct gt_mapping cut = gt_map_part(map, 0, size);
	struct gt_arena arena = { 0 };
	struct gt_zip zip;
	int rc = gt_zip_read(&zip, &cut, &arena, GT_ERR_IGNORED);

	gt_arena_release(&arena);
	return !rc && zip.count > 0;
}

/*
 * Find an earlier state of the archive: the size to which the file must be cut to undo an append.
 * Search backward from offset *below, over at most `reach` bytes, for an end record with a
 * directory that can be read. If such an end record is found, return true, set *out_size to the
 * size, and set *below to the offset of this end record; the next call continues the search from
 * there. Otherwise return false. The bytes of records are not checked.
 *
 * *tries is the number of end records that the function may still examine; for each one it may read
 * a whole directory. The function subtracts the number of end records that it has examined.
 */
bool gt_zip_earlier(
    const struct gt_mapping *map, uint64_t *below, uint64_t reach, int *tries, uint64_t *out_size)
{
	uint64_t lowest = *below > reach ? *below - reach : 0, start = *below, held;

	if (map->size < GT_ZIP_END_BYTES)
		return false;
	if (start > map->size - GT_ZIP_END_BYTES + 1)
		start = map->size - GT_ZIP_END_BYTES + 1;
	held = start;
	for (uint64_t at = start; *tries > 0 && at-- > lowest;) {
		const unsigned char *p = map->data + at;
		uint64_t size;

		/*
		 * The search goes down through the mapping. Pages it has passed are given back
		 * every MiB, so a large file does not fill memory, and holes of the file are
		 * skipped.
		 */
		if (held - at >= SCAN_BYTES) {
			gt_map_forget(map, at + 1, held - at);
			at = gt_map_data_end(map, at + 1);
			if (at-- <= lowest)
				break;
			p = map->data + at;
			held = at;
		}
		if (p[0] != 'P' || memcmp(p, "PK\5\6", 4))
			continue;
		size = at + GT_ZIP_END_BYTES + gt_get_le(p + 20, 2);
		if (size > map->size)
			continue;
		(*tries)--;
		if (!is_archive(map, size))
			continue;
		*out_size = size;
		*below = at;
		return true;
	}
	return false;
}

/*
 * An edit appends local headers as gt_zip_put_local() writes them: the first 14 bytes are always
 * the same (the record is stored and has less than 4 GiB, its name is UTF-8, its date is the
 * earliest), and padding aligns the record's bytes in the file. An archive that another program
 * appended to this one has the alignment of its own start, or other flags.
 */
bool gt_zip_edit_follows(const struct gt_mapping *map, uint64_t size)
{
	static const unsigned char first[] = { 'P', 'K', 3, 4, GT_ZIP_VERSION_STORED, 0, 0,
		GT_ZIP_FLAG_UTF8 >> 8, 0, 0, 0, 0, GT_ZIP_DATE_ZERO, 0 };
	unsigned char start[GT_ZIP_LOCAL_BYTES];
	uint64_t more = map->size - size, extra;
	size_t count = more < sizeof(start) ? (size_t)more : sizeof(start), same = 0, zeros;

	if (gt_map_peek(map, size, start, count, GT_ERR_IGNORED))
		return false;
	while (same < count && same < sizeof(first) && start[same] == first[same])
		same++;
	for (zeros = same; zeros < count && !start[zeros];)
		zeros++;
	if (zeros == count || same < sizeof(first))
		return zeros == count;
	extra = gt_get_le(start + 28, 2);
	return count < sizeof(start) || !extra ||
	       (size + count + gt_get_le(start + 26, 2) + extra) % GT_ZIP_ALIGN == 0;
}

int gt_zip_hint_repair(const struct gt_mapping *map, struct gt_err *err)
{
	uint64_t below = map->size, size = map->size;
	int tries = GT_ZIP_TRIES;

	/* The state that ends with the file is the one that failed to open, so look below it. */
	while (size == map->size)
		if (!gt_zip_earlier(map, &below, TAIL_BYTES, &tries, &size))
			return err->code;
	if (!gt_zip_edit_follows(map, size))
		return gt_zip_hint_foreign(map, size, err);
	return gt_err_hint(err,
	    "an edit of it was interrupted: `gtrain ckpt verify --repair` restores the state before it");
}

int gt_zip_hint_foreign(const struct gt_mapping *map, uint64_t size, struct gt_err *err)
{
	if (map->size - size >= 4 && !memcmp(map->data + size, "PK\3\4", 4))
		return gt_err_hint(err,
		    "another archive follows the first one. A rank's file of a distributed "
		    "checkpoint (.distcp) has one for each tensor: name the folder, which has the "
		    "names of its tensors in .metadata");
	return gt_err_hint(err,
	    "the last %llu bytes are not part of the archive: `head -c %llu FILE > NEW` copies the "
	    "archive without them",
	    (unsigned long long)(map->size - size), (unsigned long long)size);
}
