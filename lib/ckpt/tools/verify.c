/* verify.c - whether a checkpoint is sound. */
#include "lib/ckpt/tools/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/shards.h"
#include "lib/ckpt/tools/verify_steps.h"
#include "lib/ckpt/torch/torch.h"

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
	if (gt_grow(&v->findings, v->finding_count, &v->finding_room, sizeof(*f), err))
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

int gt_verify_absorb(struct gt_verify *v, const struct gt_err *found,
    enum gt_finding_kind unsupported, struct gt_err *err)
{
	if (found->code == GT_EFORMAT || found->code == GT_EINVAL)
		return gt_verify_find(v, GT_FINDING_DAMAGE, found->hint, err, "%s", found->text);
	if (found->code == GT_ENOTSUP)
		return gt_verify_find(v, unsupported, found->hint, err, "%s", found->text);
	*err = *found;
	return found->code;
}

/* ---- the whole ---- */

/* Pickles in a row, as far as they can be read: of a torch file before its storages, or of any
 * other file that is none we know. */
static int read_pickles(struct gt_verify *v, const struct gt_mapping *map, struct gt_err *err)
{
	static const char *const words[] = { "first", "second", "third", "fourth", "fifth" };
	bool legacy = !strcmp(v->format, "torch-legacy");
	size_t at = 0, used = 1;
	char where[64];
	int rc = 0;

	for (int i = 0; i < (legacy ? 5 : MOST_PICKLES) && !rc && used && at < map->size; i++) {
		if (i < 5)
			snprintf(where, sizeof(where), "the %s pickle", words[i]);
		else
			snprintf(where, sizeof(where), "the pickle at byte %zu of the file", at);
		rc = gt_verify_pickle(v, map, at, where, gt_torch_begins_pickle(map), &used, err);
		at += used;
	}
	return rc;
}

static int look(struct gt_verify *v, const struct gt_mapping *map,
    const struct gt_known_sums *known, size_t threads, struct gt_err *err)
{
	v->file_bytes += map->size;
	if (map->size >= 4 && !memcmp(map->data, "PK\3\4", 4))
		return gt_verify_zip(v, map, known, threads, err);
	return *v->format && strcmp(v->format, "torch-legacy") ? 0 : read_pickles(v, map, err);
}

/*
 * Bytes after the last storage of a legacy file, which PyTorch ignores and another reader might
 * take for content.
 */
static int find_tail(struct gt_verify *v, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	enum { END_RECORD = 22 + 65535 }; /* of a zip, with the longest comment */
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

static int look_at_file(struct gt_verify *v, const struct gt_ckpt *ckpt,
    const struct gt_known_sums *known, size_t threads, struct gt_err *err)
{
	int rc = look(v, &ckpt->map, known, threads, err);

	return rc ? rc : find_tail(v, ckpt, err);
}

static int look_at_all(
    struct gt_verify *v, struct gt_ckpt *ckpt, size_t threads, struct gt_err *err)
{
	struct gt_verify_tensors tensors;
	int rc;

	v->format = gt_ckpt_format(ckpt);
	rc = gt_verify_scan(v, &tensors, ckpt, threads, err);
	if (!rc)
		rc = look_at_file(v, ckpt, &tensors.sums, threads, err);
	for (size_t i = 0; i < ckpt->shard_count && !rc; i++) {
		v->shard = ckpt->shards[i].file;
		rc = look_at_file(v, ckpt->shards[i].ckpt, &tensors.sums, threads, err);
	}
	v->shard = NULL;
	if (!rc)
		rc = gt_verify_globals(v, err);
	if (!rc)
		rc = gt_verify_report_tensors(v, &tensors, ckpt, threads, err);
	gt_verify_tensors_release(&tensors);
	return rc;
}

/* A file that does not open, which is the first finding: its records and pickles are looked at. */
static int look_at_unopened(struct gt_verify *v, const char *path, size_t threads,
    const struct gt_err *found, struct gt_err *err)
{
	struct gt_mapping map;
	int rc = gt_verify_absorb(v, found, GT_FINDING_UNREAD, err);

	if (rc)
		return rc;
	rc = gt_map(&map, path, err);
	if (rc)
		return rc;
	rc = look(v, &map, NULL, threads, err);
	if (!rc)
		rc = gt_verify_globals(v, err);
	gt_unmap(&map);
	return rc;
}

int gt_verify(struct gt_verify *out, const char *path, size_t threads, struct gt_err *err)
{
	struct gt_err found = GT_ERR_INIT;
	struct gt_ckpt *ckpt = NULL;
	char *inside = NULL;
	struct stat st;
	int rc = 0;

	*out = (struct gt_verify){ .format = "" };
	if (!stat(path, &st) && S_ISDIR(st.st_mode)) {
		rc = gt_shards_in_folder(&inside, path, err);
		path = inside;
	}
	if (!rc && gt_ckpt_open(&ckpt, path, &found))
		rc = look_at_unopened(out, path, threads, &found, err);
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
