/* shards_write.c - safetensors in several files and an index, as Hugging Face writes them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/ckpt/safetensors_write.h"

struct shards {
	char *stem;    /* the path without ".safetensors" */
	size_t *first; /* of the tensors in each shard; [count] is the end */
	size_t count;
	json_t *weight_map;
	uint64_t total_bytes;
};

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n > k && !strcmp(text + n - k, end);
}

char *gt_st_stem(const char *path, struct gt_err *err)
{
	static const char *const ends[] = { ".index.json", ".safetensors" };
	char *stem = gt_strdup(path, err);

	for (size_t i = 0; stem && i < sizeof(ends) / sizeof(*ends); i++)
		if (ends_with(stem, ends[i]))
			stem[strlen(stem) - strlen(ends[i])] = '\0';
	return stem;
}

char *gt_st_shard_path(const char *stem, size_t i, size_t count, struct gt_err *err)
{
	return gt_asprintf(err, "%s-%05zu-of-%05zu.safetensors", stem, i + 1, count);
}

/* A shard ends before the tensor that would make it too large; one that is too large by itself has
 * a shard of its own. */
static int split(struct shards *s, const struct gt_st_output *o, uint64_t most, struct gt_err *err)
{
	uint64_t bytes = 0;

	s->first = gt_calloc(o->count + 1, sizeof(*s->first), err);
	if (!s->first)
		return GT_ENOMEM;
	s->count = 1;
	for (size_t i = 0; i < o->count; i++) {
		uint64_t size = o->tensors[i]->size_bytes;

		if (i > s->first[s->count - 1] && (size > most || bytes > most - size)) {
			s->first[s->count++] = i;
			bytes = 0;
		}
		o->tensors[i]->shard = s->count - 1;
		bytes += size;
		s->total_bytes += size;
	}
	s->first[s->count] = o->count;
	return 0;
}

static int write_shard(
    struct shards *s, const struct gt_st_output *all, size_t i, struct gt_err *err)
{
	struct gt_st_output shard = { .metadata = all->metadata,
		.no_sync = all->no_sync,
		.tensors = all->tensors + s->first[i],
		.count = s->first[i + 1] - s->first[i],
		.tied = gt_calloc(all->tied_count, sizeof(*all->tied), err) };
	char *path = gt_st_shard_path(s->stem, i, s->count, err);
	const char *name;
	int rc = path && shard.tied ? 0 : GT_ENOMEM;

	if (!rc) {
		name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
		for (size_t k = 0; k < all->tied_count; k++)
			if (all->tied[k]->kept->shard == i)
				shard.tied[shard.tied_count++] = all->tied[k];
		for (size_t k = 0; k < shard.count && !rc; k++)
			if (json_object_set_new(
			        s->weight_map, shard.tensors[k]->name, json_string(name)))
				rc = gt_err_set(err, GT_ENOMEM, "out of memory: the index");
	}
	if (!rc)
		rc = gt_st_write_file(path, &shard, err);
	free(shard.tied);
	free(path);
	return rc;
}

int gt_st_write_index(
    const char *path, json_t *weight_map, uint64_t total_bytes, struct gt_err *err)
{
	json_t *index = json_pack("{s:{s:I},s:O}", "metadata", "total_size",
	    (json_int_t)total_bytes, "weight_map", weight_map);
	struct gt_atomic_file file;
	int rc;

	if (!index)
		return gt_err_set(err, GT_ENOMEM, "out of memory: the index");
	rc = gt_atomic_open(&file, path, err);
	if (!rc) {
		if (json_dumpf(index, file.stream, JSON_INDENT(2) | JSON_SORT_KEYS) ||
		    fputc('\n', file.stream) < 0)
			rc = gt_err_sys(err, "cannot write '%s'", path);
		if (rc)
			gt_atomic_abandon(&file);
		else
			rc = gt_atomic_commit(&file, err);
	}
	json_decref(index);
	return rc;
}

static int write_all(struct shards *s, const struct gt_st_output *output, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s.safetensors.index.json", s->stem);
	int rc = path ? 0 : GT_ENOMEM;

	for (size_t i = 0; i < s->count && !rc; i++)
		rc = write_shard(s, output, i, err);
	if (!rc)
		rc = gt_st_write_index(path, s->weight_map, s->total_bytes, err);
	free(path);
	return rc;
}

int gt_st_write_shards(
    const char *path, const struct gt_st_output *output, uint64_t shard_bytes, struct gt_err *err)
{
	struct shards s = { .stem = gt_st_stem(path, err), .weight_map = json_object() };
	int rc = s.stem && s.weight_map ? split(&s, output, shard_bytes, err) : GT_ENOMEM;

	if (!rc)
		rc = s.count > 1 ? write_all(&s, output, err) : gt_st_write_file(path, output, err);
	json_decref(s.weight_map);
	free(s.first);
	free(s.stem);
	return rc;
}
