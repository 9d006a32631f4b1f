/* shards_write.c - safetensors in several files and an index, as Hugging Face writes them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors/write.h"

/* The common beginning of the shards' names; yours to free(). */
static char *stem_of(const char *path, struct gt_err *err)
{
	static const char *const ends[] = { ".index.json", ".safetensors" };
	char *stem = gt_strdup(path, err);

	for (size_t i = 0; stem && i < sizeof(ends) / sizeof(*ends); i++)
		if (gt_text_ends_with(stem, ends[i]))
			stem[strlen(stem) - strlen(ends[i])] = '\0';
	return stem;
}

char *gt_st_shard_path(const char *stem, size_t i, size_t count, struct gt_err *err)
{
	return gt_asprintf(err, "%s-%05zu-of-%05zu.safetensors", stem, i + 1, count);
}

/* ---- files that belong together ---- */

int gt_st_files_init(
    struct gt_st_files *s, const char *path, size_t shard_count, struct gt_err *err)
{
	*s = (struct gt_st_files){ .shard_count = shard_count };
	s->stem = stem_of(path, err);
	s->files = s->stem ? gt_calloc(shard_count + 1, sizeof(*s->files), err) : NULL;
	if (!s->files)
		return GT_ENOMEM;
	s->weight_map = json_object();
	return s->weight_map ? 0 : gt_err_set(err, GT_ENOMEM, "out of memory: the index");
}

int gt_st_files_list(
    struct gt_st_files *s, const char *name, uint64_t size, const char *path, struct gt_err *err)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	s->total_bytes += size;
	if (json_object_set_new(s->weight_map, name, json_string(file)))
		return gt_err_set(err, GT_ENOMEM, "out of memory: the index");
	return 0;
}

static int write_index(struct gt_st_files *s, json_t *index, struct gt_err *err)
{
	struct gt_atomic_file *file = &s->files[s->shard_count];
	char *path = gt_asprintf(err, "%s.safetensors.index.json", s->stem);
	int rc = path ? gt_atomic_open(file, path, err) : GT_ENOMEM;

	if (!rc) {
		file->no_sync = s->no_sync;
		if (json_dumpf(index, file->stream, JSON_INDENT(2) | JSON_SORT_KEYS) ||
		    fputc('\n', file->stream) < 0)
			rc = gt_err_sys(err, "cannot write '%s'", path);
	}
	free(path);
	return rc;
}

int gt_st_files_commit(struct gt_st_files *s, struct gt_err *err)
{
	json_t *index = json_pack("{s:{s:I},s:O}", "metadata", "total_size",
	    (json_int_t)s->total_bytes, "weight_map", s->weight_map);
	int rc = index ? write_index(s, index, err)
	               : gt_err_set(err, GT_ENOMEM, "out of memory: the index");

	json_decref(index);
	return rc ? rc : gt_atomic_commit_all(s->files, s->shard_count + 1, err);
}

void gt_st_files_release(struct gt_st_files *s)
{
	for (size_t i = 0; s->files && i <= s->shard_count; i++)
		gt_atomic_abandon(&s->files[i]);
	json_decref(s->weight_map);
	free(s->files);
	free(s->stem);
	*s = (struct gt_st_files){ 0 };
}

/* ---- a checkpoint cut into shards ---- */

/* A shard ends before the tensor that would make it too large; one that is too large by itself has
 * a shard of its own. No tensors are one shard, which is empty. *first gets the first tensor of
 * each, and the end; free() it. */
static int split(
    size_t **first, size_t *count, const struct gt_st_output *o, uint64_t most, struct gt_err *err)
{
	size_t shards_max = o->count ? o->count : 1;
	size_t *at = gt_calloc(shards_max + 1, sizeof(*at), err);
	uint64_t bytes = 0;

	*first = at;
	if (!at)
		return GT_ENOMEM;
	*count = 1;
	for (size_t i = 0; i < o->count; i++) {
		uint64_t size = o->tensors[i]->size_bytes;

		if (i > at[*count - 1] && (size > most || bytes > most - size)) {
			at[(*count)++] = i;
			bytes = 0;
		}
		o->tensors[i]->shard = *count - 1;
		bytes += size;
	}
	at[*count] = o->count;
	return 0;
}

/* The tensors from `first` to `end` as the i-th shard. */
static int write_shard(struct gt_st_files *s, const struct gt_st_output *all, size_t i,
    size_t first, size_t end, struct gt_err *err)
{
	struct gt_st_output shard = { .metadata = all->metadata,
		.no_sync = all->no_sync,
		.losses = all->losses,
		.tensors = all->tensors + first,
		.count = end - first,
		.tied = gt_calloc(all->tied_count, sizeof(*all->tied), err) };
	char *path = gt_st_shard_path(s->stem, i, s->shard_count, err);
	int rc = path && shard.tied ? 0 : GT_ENOMEM;

	for (size_t k = 0; k < all->tied_count && !rc; k++)
		if (all->tied[k]->kept->shard == i)
			shard.tied[shard.tied_count++] = all->tied[k];
	for (size_t k = 0; k < shard.count && !rc; k++)
		rc = gt_st_files_list(
		    s, shard.tensors[k]->name, shard.tensors[k]->size_bytes, path, err);
	if (!rc)
		rc = gt_st_write_begin(&s->files[i], path, &shard, err);
	free(shard.tied);
	free(path);
	return rc;
}

static int name_index(char **out, const char *path, struct gt_err *err)
{
	char *stem = stem_of(path, err);

	*out = stem ? gt_asprintf(err, "%s.safetensors.index.json", stem) : NULL;
	free(stem);
	return *out ? 0 : GT_ENOMEM;
}

/* Before the first is written: else shards of the input would be of both states. */
static int check_outputs(
    const struct gt_st_files *s, const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i <= s->shard_count && !rc; i++) {
		char *path = i < s->shard_count
		                 ? gt_st_shard_path(s->stem, i, s->shard_count, err)
		                 : gt_asprintf(err, "%s.safetensors.index.json", s->stem);

		rc = path ? gt_ckpt_check_output(path, options, err) : GT_ENOMEM;
		free(path);
	}
	return rc;
}

int gt_st_write_shards(const char *path, const struct gt_st_output *output,
    const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	struct gt_st_files s = { 0 };
	size_t *first, count;
	bool one = !gt_text_ends_with(path, ".index.json");
	int rc = split(&first, &count, output, options->shard_bytes, err);

	if (!rc && !one && !output->count) {
		gt_err_set(
		    err, GT_ENOTSUP, "'%s': cannot write an index that lists no tensors", path);
		rc = gt_err_hint(err, "write to a name that ends in .safetensors instead");
	} else if (!rc && count == 1 && one) {
		rc = gt_st_write_file(path, output, err);
	} else if (!rc) {
		rc = gt_st_files_init(&s, path, count, err);
		s.no_sync = output->no_sync;
		if (!rc)
			rc = check_outputs(&s, options, err);
		for (size_t i = 0; i < count && !rc; i++)
			rc = write_shard(&s, output, i, first[i], first[i + 1], err);
		if (!rc)
			rc = gt_st_files_commit(&s, err);
		if (!rc && output->index)
			rc = name_index(output->index, path, err);
	}
	gt_st_files_release(&s);
	free(first);
	return rc;
}
