/* edit.c - names changed in a safetensors header; the data stay where they are. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/copy.h"
#include "lib/base/index.h"
#include "lib/base/json_string.h"
#include "lib/base/meter.h"
#include "lib/base/text.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/safetensors/write.h"
#include "lib/ckpt/tree/flat.h"

/* A string of the header's text and its new text. */
struct patch {
	size_t at, length;
	const char *to;
};

struct rewrite {
	const struct gt_st_header *header;
	struct gt_index by_name; /* changes of names, by `from` */
	struct patch *patches;   /* by place */
	size_t patch_count;
	char *text; /* the new header, without spaces at its end, */
	size_t size;
	size_t digits_at; /* and its own CRC-32 in it; 0: none */
};

/* ---- the changes ---- */

static int index_changes(struct rewrite *w, const struct gt_edit *edit, struct gt_err *err)
{
	w->by_name.compare = gt_index_by_name;
	for (size_t i = 0; i < edit->count; i++) {
		const struct gt_edit_change *c = &edit->changes[i];

		if (c->use != GT_EDIT_NAME)
			continue;
		if (!gt_text_is_utf8(c->to) || !strcmp(c->to, GT_ST_METADATA))
			return gt_err_set(err, GT_EINVAL,
			    "'%.200s' would become '%.200s', which is no name for a tensor",
			    c->from, c->to);
		if (!gt_index_add(&w->by_name, c, err))
			return GT_ENOMEM;
	}
	return 0;
}

/* Note that the name in the text at `at` becomes another, if it does. */
static void patch_name(struct rewrite *w, const char *name, size_t at, size_t length)
{
	const struct gt_edit_change *found = gt_index_find(&w->by_name, &name);

	if (found)
		w->patches[w->patch_count++] = (struct patch){ at, length, found->to };
}

/* Names of tensors, and those of tied tensors, which gtrain keeps at the end of __metadata__. */
static int find_patches(struct rewrite *w, struct gt_err *err)
{
	const struct gt_st_header *h = w->header;
	size_t ties = gt_st_ties(h);

	w->patches = gt_calloc(h->count + 2 * ties, sizeof(*w->patches), err);
	if (!w->patches)
		return GT_ENOMEM;
	for (size_t i = 0; i < h->count; i++)
		patch_name(w, h->tensors[i].name, h->tensors[i].name_at, h->tensors[i].name_length);
	for (size_t i = h->metadata_count - ties; i < h->metadata_count; i++) {
		const struct gt_st_string *s = &h->metadata[i];

		patch_name(w, s->key, s->key_at, s->key_length);
		patch_name(w, s->value, s->value_at, s->value_length);
	}
	qsort(w->patches, w->patch_count, sizeof(*w->patches), gt_compare_numbers);
	return 0;
}

/* ---- the new text ---- */

static void put_patched(struct rewrite *w, struct gt_buf *out, size_t size)
{
	const struct gt_st_string *own = gt_st_metadata(w->header, GT_ST_HEADER);
	bool sealed = own && gt_st_metadata(w->header, GT_ST_TENSORS) && !w->header->stale;
	size_t digits = sealed ? own->value_at + 1 : 0;
	size_t at = 0;

	for (size_t i = 0; i <= w->patch_count; i++) {
		const struct patch *p = i < w->patch_count ? &w->patches[i] : NULL;
		size_t end = p ? p->at : size;

		if (digits >= at && digits < end && digits)
			w->digits_at = out->length + (digits - at);
		gt_buf_add(out, w->header->text + at, end - at);
		if (!p)
			break;
		gt_buf_json(out, p->to, strlen(p->to));
		at = p->at + p->length;
	}
}

static int build_text(struct rewrite *w, struct gt_err *err)
{
	size_t size = w->header->size;
	struct gt_buf out = { 0 };
	int rc;

	while (w->header->text[size - 1] == ' ')
		size--;
	put_patched(w, &out, size);
	rc = gt_buf_take(&out, &w->text, &w->size, err);
	if (rc)
		return rc;
	if (w->size > GT_ST_HEADER_MAX - GT_COPY_BLOCK)
		return gt_err_set(err, GT_ENOTSUP, "a header of %zu bytes: the most is %d", w->size,
		    GT_ST_HEADER_MAX);
	return 0;
}

/* The old length where it is enough. Else one that leaves the data at the same place in their
 * blocks, so that a file system can share them. */
static size_t new_length(const struct rewrite *w)
{
	size_t length = w->header->size;

	while (length < w->size)
		length += GT_COPY_BLOCK;
	return length;
}

/* The length and the header, filled up with spaces and sealed. */
static int seal(struct rewrite *w, size_t length, struct gt_err *err)
{
	char *all = gt_calloc(1, GT_ST_LENGTH_BYTES + length, err);

	if (!all)
		return GT_ENOMEM;
	gt_put_le((unsigned char *)all, length, GT_ST_LENGTH_BYTES);
	memset(all + GT_ST_LENGTH_BYTES, ' ', length);
	memcpy(all + GT_ST_LENGTH_BYTES, w->text, w->size);
	if (w->digits_at)
		gt_st_write_crc(all + GT_ST_LENGTH_BYTES, length, w->digits_at);
	free(w->text);
	w->text = all;
	w->size = GT_ST_LENGTH_BYTES + length;
	return 0;
}

static int prepare_header_rewrite(
    struct rewrite *w, const struct gt_ckpt *ckpt, const struct gt_edit *edit, struct gt_err *err)
{
	int rc;

	w->header = ckpt->st_header;
	rc = index_changes(w, edit, err);
	if (!rc)
		rc = find_patches(w, err);
	if (!rc)
		rc = build_text(w, err);
	return rc ? rc : seal(w, new_length(w), err);
}

/* ---- the file ---- */

/* Put the first `size` bytes of the old header back after an error; say if that fails, too. */
static int undo(int fd, const void *old, size_t size, struct gt_err *err)
{
	if (!gt_write_at(fd, 0, old, size, GT_ERR_IGNORED))
		return err->code;
	gt_err_prefix(err, "the header is neither old nor new now, and the file is damaged");
	return gt_err_hint(err, "take the file from where it came");
}

/* An edit that writes a copy of the file. */
struct copy {
	const struct rewrite *rewrite;
	const struct gt_ckpt *ckpt;
	bool sync;
	struct gt_progress *progress;
};

/* The new header over the old one, which is as long: one write, so that a kill finds either. */
static int overwrite(void *self, int fd, struct gt_err *err)
{
	const struct copy *c = self;
	const struct rewrite *w = c->rewrite;
	const struct gt_mapping *map = &c->ckpt->map;
	char *old = gt_calloc(1, w->size, err); /* the mapping will show the new one */
	ssize_t n = 0;
	int rc = old ? gt_map_peek(map, 0, old, w->size, err) : GT_ENOMEM;

	if (!rc) {
		n = pwrite(fd, w->text, w->size, 0);
		if (n < 0)
			rc = gt_err_sys(err, "cannot write the header");
		else if ((size_t)n < w->size)
			rc = gt_err_set(err, GT_EIO,
			    "only %zd of the header's %zu bytes could be written", n, w->size);
	}
	if (rc && n > 0)
		rc = undo(fd, old, (size_t)n, err);
	free(old);
	return rc;
}

static int write_copy(void *self, int fd, struct gt_err *err)
{
	const struct copy *c = self;
	const struct rewrite *w = c->rewrite;
	const struct gt_mapping *map = &c->ckpt->map;
	uint64_t start = GT_ST_LENGTH_BYTES + w->header->size;
	struct gt_meter meter;
	int rc;

	gt_meter_begin(&meter, c->progress, "copying, MiB", map->size - start);
	rc = gt_meter_copy(&meter, fd, w->size, map->fd, start, map->size - start, c->sync, err);
	gt_meter_end(&meter);
	return rc ? rc : gt_write_at(fd, 0, w->text, w->size, err);
}

static void note_copy(
    struct gt_edit_result *result, const struct rewrite *w, const struct gt_ckpt *ckpt)
{
	result->written_bytes = w->size;
	result->copied_bytes = ckpt->map.size - GT_ST_LENGTH_BYTES - w->header->size;
}

static int write_result(const struct rewrite *w, const struct gt_ckpt *ckpt,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	struct copy copy = { w, ckpt, !target->no_sync, target->progress };

	if (!target->output && w->size == GT_ST_LENGTH_BYTES + w->header->size) {
		result->written_bytes = w->size;
		return gt_edit_in_place(ckpt, target, overwrite, &copy, err);
	}
	note_copy(result, w, ckpt);
	result->replaced = !target->output;
	result->why = "the header has no room for longer names";
	return gt_edit_replace(ckpt, target, write_copy, &copy, err);
}

static void release_header_rewrite(struct rewrite *w)
{
	gt_index_release(&w->by_name);
	free(w->patches);
	free(w->text);
}

int gt_st_edit_copy(struct gt_atomic_file *file, const struct gt_ckpt *ckpt,
    const struct gt_edit *edit, struct gt_progress *progress, struct gt_edit_result *result,
    struct gt_err *err)
{
	struct rewrite w = { 0 };
	struct copy copy = { &w, ckpt, !file->no_sync, progress };
	int rc = prepare_header_rewrite(&w, ckpt, edit, err);

	if (!rc)
		rc = write_copy(&copy, fileno(file->stream), err);
	note_copy(result, &w, ckpt);
	release_header_rewrite(&w);
	return rc ? gt_err_prefix(err, "'%s'", ckpt->path) : 0;
}

/*
 * Implement `apply` of the format table (lib/ckpt/format.h) for one safetensors file. GT_EDIT_REMAP
 * changes nothing, because these files contain no device names.
 *
 * The edit writes a new header. An edit in place overwrites the old header with one write; spaces
 * pad the new header to the length of the old one. If the new header is longer than the old one,
 * the edit writes a copy of the file and renames it over the file. In a copy, spaces pad the
 * header so that the data move by a multiple of the block size of file systems. So a file system
 * can share the blocks of the data with the old file. A later edit can replace these spaces.
 *
 * If a write in place fails, it is undone. If the power fails during the write, the header may be a
 * mixture of old and new bytes, which cannot be repaired. A file that gtrain wrote has a CRC-32 of
 * its header. A mixed header does not agree with this CRC-32, so the file cannot be opened. In
 * other files, a mixed header may be invalid JSON. If old and new names have the same lengths, the
 * header may also be valid, and have both old and new names.
 */
int gt_st_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	struct rewrite w = { 0 };
	int rc = prepare_header_rewrite(&w, ckpt, edit, err);

	if (rc)
		gt_err_prefix(err, "'%s'", target->input);
	else
		rc = write_result(&w, ckpt, target, result, err);
	release_header_rewrite(&w);
	return rc;
}
