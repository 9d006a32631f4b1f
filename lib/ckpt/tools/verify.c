/* verify.c - whether a checkpoint is sound. */
#include "lib/ckpt/tools/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/dcp/dcp.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/tools/stats.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/torch/torch.h"
#include "lib/ckpt/tree/copy_tensors.h"
#include "lib/ckpt/tree/tree.h"

enum { MOST_PICKLES = 1000 };

/* ---- findings ---- */

int gt_verify_find(struct gt_verify *v, enum gt_finding_kind kind, const char *hint,
    struct gt_err *err, const char *format, ...)
{
	struct gt_verify_finding *f;
	char text[1024];
	size_t at = 0;
	va_list ap;

	if (v->shard)
		at = (size_t)snprintf(text, sizeof(text), "'%.200s': ", v->shard);
	if (gt_grow(&v->findings, v->finding_count, &v->finding_capacity, sizeof(*f), err))
		return GT_ENOMEM;
	va_start(ap, format);
	vsnprintf(text + at, sizeof(text) - at, format, ap);
	va_end(ap);
	f = &v->findings[v->finding_count];
	*f = (struct gt_verify_finding){ kind, gt_arena_strdup(&v->arena, text, err),
		gt_arena_strdup(&v->arena, hint, err) };
	if (!f->text || !f->hint)
		return GT_ENOMEM;
	v->finding_count++;
	v->kinds[kind]++;
	return 0;
}

int gt_verify_add_unread(struct gt_verify *v, const struct gt_err *found, struct gt_err *err)
{
	return gt_verify_find(v, GT_FINDING_UNREAD, found->hint, err, "%s", found->text);
}

int gt_verify_absorb(struct gt_verify *v, const struct gt_err *found,
    enum gt_finding_kind unsupported, struct gt_err *err)
{
	if (found->code == GT_EFORMAT || found->code == GT_EINVAL)
		return gt_verify_find(v, GT_FINDING_DAMAGE, found->hint, err, "%s", found->text);
	if (found->code == GT_ENOTSUP)
		return gt_verify_find(v, found->over_limit ? GT_FINDING_NOTE : unsupported,
		    found->hint, err, "%s", found->text);
	*err = *found;
	return found->code;
}

/* ---- tensors ---- */

/* All tensors, looked at once. */
struct tensors {
	struct gt_inventory inventory;
	const struct gt_tree_tensor **tensors;
	struct gt_stats *scans;
	bool scanned; /* false: a finding says why not */
	struct gt_known_sum *sums;
	struct gt_index known; /* the elements of `sums` that are for whole storages */
};

/*
 * The bytes of tensors are nearly all of a file, and reading them takes most of the time. So they
 * are read once for all checks: the sums of their records, and NaN and Inf.
 */

static int keep_sums(struct tensors *t, struct gt_err *err)
{
	int rc = 0;

	t->known.compare = gt_compare_numbers;
	t->sums = gt_calloc(t->inventory.tensor_count, sizeof(*t->sums), err);
	if (!t->sums)
		return GT_ENOMEM;
	for (size_t i = 0; i < t->inventory.tensor_count && !rc; i++) {
		const struct gt_storage *s = t->tensors[i]->storage;

		t->sums[i] = (struct gt_known_sum){ s->bytes, s->size_bytes, t->scans[i].crc };
		if (t->scans[i].summed)
			rc = gt_index_add(&t->known, &t->sums[i], err) ? 0 : GT_ENOMEM;
	}
	return rc;
}

/* Read the tensors; release_tensors() is due in every case. */
static int scan(struct gt_verify *v, struct tensors *t, const struct gt_ckpt *ckpt, size_t threads,
    struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	size_t count;

	*t = (struct tensors){ 0 };
	if (gt_inventory_make_tensors(&t->inventory, gt_ckpt_root(ckpt), &found))
		return gt_verify_find(v, GT_FINDING_UNREAD, found.hint, err,
		    "the tensors could not be looked at: %s", found.text);
	count = t->inventory.tensor_count;
	v->tensors = count;
	t->tensors = gt_calloc(count, sizeof(*t->tensors), err);
	t->scans = gt_calloc(count, sizeof(*t->scans), err);
	if (!t->tensors || !t->scans)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		t->tensors[i] = &t->inventory.tensors[i].value->tensor;
	if (gt_stats_scan(t->scans, t->tensors, count, threads, v->progress, &found))
		return gt_verify_absorb(v, &found, GT_FINDING_NOTE, err);
	t->scanned = true;
	return keep_sums(t, err);
}

static void release_tensors(struct tensors *t)
{
	gt_inventory_release(&t->inventory);
	free(t->tensors);
	free(t->scans);
	free(t->sums);
	gt_index_release(&t->known);
}

/* ---- findings of tensors ---- */

/*
 * A storage whose sum has been compared, with a finding if it differs: its elements may still be
 * read.
 */
static void trust(const struct tensors *t)
{
	for (size_t i = 0; i < t->inventory.tensor_count; i++)
		atomic_store(&t->tensors[i]->storage->checked, true);
}

/* Sums in formats without records. */
static int compare_sums(
    struct gt_verify *v, const struct tensors *t, size_t threads, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	int rc = 0;

	for (size_t i = 0; i < t->inventory.tensor_count && !rc; i++) {
		struct gt_storage *s = t->tensors[i]->storage;

		if (t->inventory.tensors[i].first == i && s->has_crc)
			v->checked_bytes += s->size_bytes;
		if (!t->scanned || !t->scans[i].summed || atomic_load(&s->checked))
			continue;
		if (gt_storage_compare(s, t->scans[i].crc, &found))
			rc = gt_verify_absorb(v, &found, GT_FINDING_UNREAD, err);
		atomic_store(&s->checked, true);
	}
	if (!rc && gt_storages_check(
	               t->tensors, NULL, t->inventory.tensor_count, threads, v->progress, &found))
		rc = gt_verify_absorb(v, &found, GT_FINDING_UNREAD, err);
	return rc;
}

/* Digests belong to elements, CRCs of records to storages: where a tensor is a storage, one is as
 * good as the other, and records have been compared. */
static int check_digests(struct gt_verify *v, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;

	return gt_digest_check(ckpt, true, v->progress, &found)
	           ? gt_verify_absorb(v, &found, GT_FINDING_UNREAD, err)
	           : 0;
}

static int report_numbers(struct gt_verify *v, const struct tensors *t, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < t->inventory.tensor_count && !rc; i++) {
		const struct gt_stats *s = &t->scans[i];

		if (s->nan || s->inf)
			rc = gt_verify_find(v, GT_FINDING_NUMBER, "", err,
			    "tensor '%.200s' holds %llu NaN and %llu Inf among %llu elements",
			    t->inventory.tensors[i].key, (unsigned long long)s->nan,
			    (unsigned long long)s->inf, (unsigned long long)s->count);
	}
	return rc;
}

/* Sums (unless those of records were compared), digests, NaN and Inf. */
static int report_tensors(struct gt_verify *v, struct tensors *t, const struct gt_ckpt *ckpt,
    size_t threads, struct gt_err *err)
{
	int rc = 0;

	if (!t->tensors) /* too much to be listed, and told of */
		return 0;
	if (v->records)
		trust(t);
	else
		rc = compare_sums(v, t, threads, err);
	if (!rc)
		rc = check_digests(v, ckpt, err);
	return rc || !t->scanned ? rc : report_numbers(v, t, err);
}

/* ---- the whole ---- */

/* Pickles in a row, as far as they can be read: of a torch file before its storages, or of any
 * other file that is none we know. */
static int read_pickles(struct gt_verify *v, const struct gt_mapping *map, struct gt_err *err)
{
	static const char *const words[] = { "first", "second", "third", "fourth", "fifth" };
	bool legacy = !strcmp(v->format, "torch-legacy");
	char where[64];
	struct gt_verify_source source = { .map = map, .where = where, .used = 1 };
	int rc = 0;

	source.trust = legacy                        ? GT_VERIFY_TORCH
	               : gt_dcp_is_metadata(map)     ? GT_VERIFY_DCP
	               : gt_torch_begins_pickle(map) ? GT_VERIFY_PICKLE
	                                             : GT_VERIFY_MAYBE;
	for (int i = 0; i < (legacy ? 5 : MOST_PICKLES) && !rc && source.used; i++) {
		if (source.at >= map->size)
			break;
		if (i < 5)
			snprintf(where, sizeof(where), "the %s pickle", words[i]);
		else
			snprintf(where, sizeof(where), "the pickle at byte %llu of the file",
			    (unsigned long long)source.at);
		rc = gt_verify_pickle(v, &source, err);
		source.at += source.used;
	}
	return rc;
}

static int look_through_file(struct gt_verify *v, const struct gt_mapping *map,
    const struct gt_index *known, size_t threads, struct gt_err *err)
{
	bool has_pickles = !*v->format || !strcmp(v->format, "torch-legacy") ||
	                   !strcmp(v->format, "pickle") || gt_dcp_is_metadata(map);
	int rc;

	if (map->size >= 4 && !memcmp(map->data, "PK\3\4", 4))
		return gt_verify_zip(v, map, known, threads, err);
	rc = has_pickles ? read_pickles(v, map, err) : 0;
	return rc ? rc : gt_verify_appended(v, map, err);
}

/*
 * Bytes after the last storage of a legacy file, which PyTorch ignores and another reader might
 * take for content.
 */
static int find_tail(struct gt_verify *v, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	enum { END_RECORD = 22 + 65535 }; /* bytes of a zip's end record with the longest comment */
	const struct gt_mapping *map = &ckpt->map;
	size_t tail = (size_t)ckpt->tail_bytes, seen = tail < END_RECORD ? tail : END_RECORD;
	bool zip;

	if (!tail)
		return 0;
	zip = memmem(map->data + map->size - seen, seen, "PK\5\6", 4);
	return gt_verify_find(v, GT_FINDING_DAMAGE,
	    zip ? "do not trust it: it is two files, and which one is seen depends on the reader"
	        : "`gtrain ckpt convert` writes the file without them",
	    err, "%zu bytes after the last storage belong to nothing%s", tail,
	    zip ? ", and are a zip archive that other programs would open instead" : "");
}

/* Checksums of a safetensors file that are those of another header. */
static int find_stale(struct gt_verify *v, const struct gt_st_header *header, struct gt_err *err)
{
	if (!header || !header->stale)
		return 0;
	return gt_verify_find(v, GT_FINDING_NOTE, "`gtrain ckpt convert` writes new ones", err,
	    "the checksums in " GT_ST_METADATA " are stale: another program has rewritten the "
	    "header and kept them, so nothing is compared");
}

static int look_at_file(struct gt_verify *v, const struct gt_ckpt *ckpt,
    const struct gt_index *known, size_t threads, struct gt_err *err)
{
	int rc = 0;

	v->file_bytes += ckpt->map.size;
	for (size_t i = 0; i < ckpt->part_count && !rc; i++)
		rc = look_through_file(v, &ckpt->parts[i], known, threads, err);
	if (!rc && !ckpt->part_count)
		rc = look_through_file(v, &ckpt->map, known, threads, err);
	if (!rc)
		rc = find_stale(v, ckpt->st_header, err);
	return rc ? rc : find_tail(v, ckpt, err);
}

static int name_shards(struct gt_verify *v, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	v->shards = gt_arena_alloc(&v->arena, ckpt->shard_count * sizeof(*v->shards), err);
	if (!v->shards)
		return GT_ENOMEM;
	for (; v->shard_count < ckpt->shard_count; v->shard_count++) {
		const char **name = &v->shards[v->shard_count];

		*name = gt_arena_strdup(&v->arena, ckpt->shards[v->shard_count].file, err);
		if (!*name)
			return GT_ENOMEM;
	}
	return 0;
}

static int look_at_all(
    struct gt_verify *v, struct gt_ckpt *ckpt, size_t threads, struct gt_err *err)
{
	struct tensors tensors;
	int rc = name_shards(v, ckpt, err);

	if (rc)
		return rc;
	v->format = gt_ckpt_format(ckpt);
	rc = scan(v, &tensors, ckpt, threads, err);
	if (!rc)
		rc = look_at_file(v, ckpt, &tensors.known, threads, err);
	for (size_t i = 0; i < ckpt->shard_count && !rc; i++) {
		v->shard = ckpt->shards[i].file;
		rc = look_at_file(v, ckpt->shards[i].ckpt, &tensors.known, threads, err);
	}
	v->shard = NULL;
	if (!rc)
		rc = gt_verify_globals(v, err);
	if (!rc)
		rc = report_tensors(v, &tensors, ckpt, threads, err);
	release_tensors(&tensors);
	return rc;
}

/* A file that does not open, which is the first finding: its records and pickles are looked at. */
static int look_at_unopened(struct gt_verify *v, const char *path, size_t threads,
    const struct gt_err *found, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_verify_absorb(v, found, GT_FINDING_UNREAD, err);

	v->over_limit = found->over_limit;
	if (rc)
		return rc;
	rc = gt_map(&map, path, err);
	if (rc)
		return rc;
	v->file_bytes += map.size;
	rc = look_through_file(v, &map, NULL, threads, err);
	if (!rc)
		rc = gt_verify_globals(v, err);
	gt_unmap(&map);
	return rc;
}

int gt_verify(struct gt_verify *out, const char *path, size_t threads, struct gt_progress *progress,
    struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	const struct gt_ckpt_format *format;
	struct gt_ckpt *ckpt = NULL;
	const char *file = path;
	char *inside = NULL;
	struct stat st;
	int rc = 0;

	*out = (struct gt_verify){ .format = "", .progress = progress };
	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		rc = gt_ckpt_in_folder(&inside, &format, path, err);
		file = inside;
	}
	if (!rc && gt_dcp_is_rank_file(path))
		rc = gt_dcp_fail_rank_file(err);
	if (!rc && gt_ckpt_open(&ckpt, path, &found))
		rc = look_at_unopened(out, file, threads, &found, err);
	else if (!rc)
		rc = look_at_all(out, ckpt, threads, err);
	gt_ckpt_close(ckpt);
	free(inside);
	if (rc)
		gt_verify_release(out);
	return rc;
}

void gt_verify_release(struct gt_verify *v)
{
	free(v->findings);
	free(v->globals);
	gt_arena_release(&v->arena);
	*v = (struct gt_verify){ .format = "" };
}
