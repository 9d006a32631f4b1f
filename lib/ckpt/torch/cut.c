/* cut.c - a zip archive whose end is missing: where it was cut, and how much is gone. */
#include <string.h>

#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/torch/zip.h"

/*
 * The directory of a zip stands at its end, but each record has a header before it. PyTorch leaves
 * the sizes out of those; data.pkl, the first record, tells them: it is as long as its pickle, and
 * names every storage with its size.
 */

enum {
	DESCRIPTOR_BYTES = 16, /* behind a record: signature, CRC, two sizes; 24 in zip64 */
	DESCRIPTOR64_BYTES = 24,
	END_MAX = GT_ZIP_END_BYTES + GT_ZIP_COMMENT_MAX, /* of the end record with its comment */
	FAR = 4096, /* how far to look for the end of a record of unknown size */
};

struct walk {
	const struct gt_mapping *map;
	struct gt_torch_objects objects;
	bool has_pickle;
	char root[256], name[512]; /* of the record */
	uint64_t at;               /* of the next header */
	uint64_t end;              /* of the record's data, perhaps beyond the file */
	uint64_t whole;            /* bytes of storages that are there */
};

static bool has(const struct walk *w, uint64_t at, const char *two)
{
	return gt_inside(at, 4, w->map->size) && !memcmp(w->map->data + at, "PK", 2) &&
	       !memcmp(w->map->data + at + 2, two, 2);
}

/* ---- one record ---- */

/* Read the pickle that names the storages. GT_EFORMAT: the file ends before it does. */
static int read_pickle(struct walk *w, uint64_t start)
{
	struct gt_tree *unused;
	size_t slash = strlen(w->name) - strlen("/data.pkl"), used = 0;
	int rc = gt_pickle_read_file(&unused, w->objects.arena, w->map, start, NULL, &used,
	    &w->objects.hooks, GT_ERR_IGNORED);

	if (rc)
		return rc;
	if (slash >= sizeof(w->root))
		return GT_EFORMAT;
	memcpy(w->root, w->name, slash);
	w->root[slash] = '\0';
	w->has_pickle = true;
	w->end = start + used;
	return 0;
}

/* The storage whose bytes the record holds, or NULL. */
static const struct gt_torch_storage *storage_of(const struct walk *w)
{
	size_t n = strlen(w->root);

	if (!w->has_pickle || strncmp(w->name, w->root, n) || strncmp(w->name + n, "/data/", 6))
		return NULL;
	return gt_torch_storage_get(&w->objects, w->name + n + 6);
}

/* Where the data of a small record of unknown size ends; 0 if that cannot be told. */
static uint64_t find_descriptor(const struct walk *w, uint64_t start)
{
	for (uint64_t at = start; at < start + FAR; at++)
		if (has(w, at, "\7\10"))
			return at;
	return 0;
}

/* The sizes of 32 bits in the header, if it has them; not of zip64. */
static uint64_t stated_size(const unsigned char *header)
{
	uint64_t packed = gt_get_le(header + 18, 4);

	return packed == UINT32_MAX ? 0 : packed;
}

/* The header at w->at: sets name and end. False when that cannot be told. */
static bool read_record(struct walk *w)
{
	unsigned char header[GT_ZIP_LOCAL_BYTES];
	uint64_t name_length, start;

	if (!gt_inside(w->at, GT_ZIP_LOCAL_BYTES, w->map->size) ||
	    gt_map_peek(w->map, w->at, header, sizeof(header), GT_ERR_IGNORED))
		return false;
	name_length = gt_get_le(header + 26, 2);
	start = w->at + GT_ZIP_LOCAL_BYTES + name_length + gt_get_le(header + 28, 2);
	if (start >= w->map->size || name_length >= sizeof(w->name))
		return false;
	if (gt_map_peek(w->map, w->at + GT_ZIP_LOCAL_BYTES, w->name, name_length, GT_ERR_IGNORED))
		return false;
	w->name[name_length] = '\0';
	if (!w->has_pickle && gt_text_ends_with(w->name, "/data.pkl"))
		return !read_pickle(w, start);
	if (storage_of(w))
		w->end = start + storage_of(w)->bytes;
	else if (stated_size(header))
		w->end = start + stated_size(header);
	else
		w->end = find_descriptor(w, start);
	return w->end >= start;
}

/* Step over the descriptor behind a record, if there is one. */
static void next_record(struct walk *w)
{
	w->at = w->end;
	if (!has(w, w->at, "\7\10"))
		return;
	if (has(w, w->at + DESCRIPTOR64_BYTES, "\3\4") ||
	    has(w, w->at + DESCRIPTOR64_BYTES, "\1\2"))
		w->at += DESCRIPTOR64_BYTES;
	else
		w->at += DESCRIPTOR_BYTES;
}

/* ---- the whole ---- */

static uint64_t all_storages(const struct walk *w)
{
	uint64_t sum = 0;

	for (const struct gt_torch_storage *s = w->objects.storages; s; s = s->next)
		if (__builtin_add_overflow(sum, s->bytes, &sum))
			return UINT64_MAX;
	return sum;
}

static int say(const struct walk *w, struct gt_err *err)
{
	uint64_t all = all_storages(w);

	if (all > w->whole)
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: it ends at byte %zu, with %llu of the %llu bytes of its tensors: "
		    "at least %llu bytes are missing",
		    w->map->size, (unsigned long long)w->whole, (unsigned long long)all,
		    (unsigned long long)(all - w->whole));
	else
		gt_err_set(err, GT_EFORMAT,
		    "the file is cut: it ends at byte %zu, with all its tensors, but without the "
		    "directory of the zip archive",
		    w->map->size);
	return gt_err_hint(err, "copy or download it again, and compare sizes");
}

/* Walk the records from the start; true when the file ends before the directory begins. */
static bool runs_out(struct walk *w)
{
	while (has(w, w->at, "\3\4") && read_record(w)) {
		const struct gt_torch_storage *s = storage_of(w);
		uint64_t beyond = w->end > w->map->size ? w->end - w->map->size : 0;

		if (s)
			w->whole += s->bytes - (beyond < s->bytes ? beyond : s->bytes);
		if (beyond)
			return true;
		next_record(w);
	}
	return w->has_pickle && (w->at + GT_ZIP_LOCAL_BYTES > w->map->size ||
	                            has(w, w->at, "\1\2") || has(w, w->at, "\3\4"));
}

static bool has_end_record(const struct gt_mapping *map)
{
	size_t far = map->size < END_MAX ? map->size : END_MAX;

	return memmem(map->data + map->size - far, far, "PK\5\6", 4) != NULL;
}

int gt_torch_cut(const struct gt_mapping *map, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct walk w = { .map = map };

	gt_torch_objects_init(&w.objects, &arena);
	if (!has_end_record(map) && runs_out(&w))
		say(&w, err);
	gt_torch_objects_release(&w.objects);
	gt_arena_release(&arena);
	return err->code;
}
