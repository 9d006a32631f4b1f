/* shards_write.c - safetensors in several files and an index, as Hugging Face has them. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/safetensors/write.h"

/* The common beginning of the shards' names, "a/model" for "a/model.safetensors" and for
 * "a/model.safetensors.index.json"; yours to free(). */
static char *stem_of(const char *path, struct gt_err *err)
{
	static const char *const ends[] = { ".index.json", ".safetensors" };
	char *stem = gt_strdup(path, err);

	for (size_t i = 0; stem && i < sizeof(ends) / sizeof(*ends); i++)
		if (gt_text_ends_with(stem, ends[i]))
			stem[strlen(stem) - strlen(ends[i])] = '\0';
	return stem;
}

/* Return the path of shard i of `count` shards. The caller frees it with free(). */
static char *shard_path(const char *stem, size_t i, size_t count, struct gt_err *err)
{
	return gt_asprintf(err, "%s-%05zu-of-%05zu.safetensors", stem, i + 1, count);
}

/* ---- files that belong together ---- */

/* Files that belong together: shards, then their index. */
struct files {
	char *stem; /* the common start of their paths */
	struct gt_atomic_file *files;
	size_t shard_count;
	json_t *weight_map; /* names of tensors to names of files */
	json_t *others;     /* the other members of the index, or NULL */
	uint64_t total_bytes;
	bool no_sync;
	struct gt_progress *progress; /* the line of an edit, or NULL */
};

/* Programs that read the folder, or this name, would read an older single file and not the new
 * shards. */
static int check_single_file(const char *stem, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s.safetensors", stem);
	int rc = path ? 0 : GT_ENOMEM;

	if (path && !access(path, F_OK)) {
		gt_err_set(err, GT_EINVAL,
		    "'%.200s' exists, and would be read instead of the shards and their index",
		    path);
		rc = gt_err_hint(err, "write the shards to another name or folder");
	}
	free(path);
	return rc;
}

/* Always release: that removes files that are not in place. */
static int init_files(struct files *s, const char *path, size_t shard_count, struct gt_err *err)
{
	int rc;

	*s = (struct files){ .shard_count = shard_count };
	s->stem = stem_of(path, err);
	s->files = s->stem ? gt_calloc(shard_count + 1, sizeof(*s->files), err) : NULL;
	if (!s->files)
		return GT_ENOMEM;
	rc = check_single_file(s->stem, err);
	if (rc)
		return rc;
	s->weight_map = json_object();
	return s->weight_map ? 0 : gt_err_set(err, GT_ENOMEM, "out of memory: the index");
}

/* Count a tensor of the file `path` into the index. */
static int list_tensor(
    struct files *s, const char *name, uint64_t size, const char *path, struct gt_err *err)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	s->total_bytes += size;
	if (json_object_set_new(s->weight_map, name, json_string(file)))
		return gt_err_set(err, GT_ENOMEM, "out of memory: the index");
	return 0;
}

static int write_index(struct files *s, json_t *index, struct gt_err *err)
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

/* The index as JSON, or NULL without memory. */
static json_t *make_index(const struct files *s)
{
	json_t *index = s->others ? json_copy(s->others) : json_object();
	json_t *old = json_object_get(index, "metadata");
	json_t *metadata = json_is_object(old) ? json_copy(old) : json_object();

	if (!json_object_set_new(
	        metadata, "total_size", json_integer((json_int_t)s->total_bytes)) &&
	    !json_object_set(index, "metadata", metadata) &&
	    !json_object_set(index, "weight_map", s->weight_map)) {
		json_decref(metadata);
		return index;
	}
	json_decref(metadata);
	json_decref(index);
	return NULL;
}

/* Write the index, and rename all files into place. */
static int commit_files(struct files *s, struct gt_err *err)
{
	json_t *index = make_index(s);
	int rc = index ? write_index(s, index, err)
	               : gt_err_set(err, GT_ENOMEM, "out of memory: the index");

	json_decref(index);
	return rc ? rc : gt_atomic_commit_all(s->files, s->shard_count + 1, err);
}

static void release_files(struct files *s)
{
	for (size_t i = 0; s->files && i <= s->shard_count; i++)
		gt_atomic_abandon(&s->files[i]);
	json_decref(s->weight_map);
	json_decref(s->others);
	free(s->files);
	free(s->stem);
	*s = (struct files){ 0 };
}

/* ---- a checkpoint cut into shards ---- */

/* A shard ends before the tensor that would make it too large; one that is too large by itself has
 * a shard of its own. No tensors are one shard, which is empty. *first gets the first tensor of
 * each, and the end; free() it. */
static int split(
    size_t **first, size_t *count, const struct gt_st_output *o, uint64_t max, struct gt_err *err)
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

		if (i > at[*count - 1] && (size > max || bytes > max - size)) {
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
static int write_shard(struct files *s, const struct gt_st_output *all, size_t i, size_t first,
    size_t end, struct gt_err *err)
{
	struct gt_st_output shard = { .metadata = all->metadata,
		.options = all->options,
		.tensors = all->tensors + first,
		.count = end - first,
		.tied = gt_calloc(all->tied_count, sizeof(*all->tied), err) };
	char *path = shard_path(s->stem, i, s->shard_count, err);
	int rc = path && shard.tied ? 0 : GT_ENOMEM;

	for (size_t k = 0; k < all->tied_count && !rc; k++)
		if (all->tied[k]->kept->shard == i)
			shard.tied[shard.tied_count++] = all->tied[k];
	for (size_t k = 0; k < shard.count && !rc; k++)
		rc =
		    list_tensor(s, shard.tensors[k]->name, shard.tensors[k]->size_bytes, path, err);
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
    const struct files *s, const struct gt_ckpt_write_options *options, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; i <= s->shard_count && !rc; i++) {
		char *path = i < s->shard_count
		                 ? shard_path(s->stem, i, s->shard_count, err)
		                 : gt_asprintf(err, "%s.safetensors.index.json", s->stem);

		rc = path ? gt_ckpt_check_output(path, options, err) : GT_ENOMEM;
		free(path);
	}
	return rc;
}

/*
 * Write a checkpoint as shards: files with at most options->shard_bytes bytes of tensors each, or
 * with one larger tensor. The shards are split and named as Hugging Face does: for the PATH
 * "model.safetensors", the files are model-00001-of-00003.safetensors, ..., and the index
 * model.safetensors.index.json. When all files are complete, gt_atomic_commit_all() gives them
 * their final names, the index last. If all tensors fit into one shard and PATH does not end with
 * ".index.json", they are written to PATH, without an index. If one of the output files belongs to
 * a checkpoint in options->inputs, nothing is written, and the error is GT_EINVAL. Tensors are
 * assigned to shards in the order of the tree. Source: huggingface_hub,
 * src/huggingface_hub/serialization/_base.py, _torch.py, 0.25.
 */
int gt_st_write_shards(const char *path, const struct gt_st_output *output, struct gt_err *err)
{
	const struct gt_ckpt_write_options *options = output->options;
	struct files s = { 0 };
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
		rc = init_files(&s, path, count, err);
		s.no_sync = options->no_sync;
		if (!rc)
			rc = check_outputs(&s, options, err);
		for (size_t i = 0; i < count && !rc; i++)
			rc = write_shard(&s, output, i, first[i], first[i + 1], err);
		if (!rc)
			rc = commit_files(&s, err);
		if (!rc && options->index)
			rc = name_index(options->index, path, err);
	}
	release_files(&s);
	free(first);
	return rc;
}

/* ---- names changed in all shards of a checkpoint, into new files ---- */

/* The names of a shard as they are in its copy, which lies under `temporary` for now. */
static int list_names(struct files *s, const char *temporary, const char *path, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct gt_st_header header;
	struct gt_mapping map;
	int rc = gt_map(&map, temporary, err);

	if (rc)
		return rc;
	rc = gt_st_open(&map, &header, &arena, err);
	for (size_t i = 0; !rc && i < header.count; i++) {
		const struct gt_st_tensor *t = &header.tensors[i];

		rc = list_tensor(s, t->name, t->end - t->begin, path, err);
	}
	gt_arena_release(&arena);
	gt_unmap(&map);
	return rc;
}

static int copy_shard(struct files *s, const struct gt_ckpt *ckpt, size_t i,
    const struct gt_edit *edit, struct gt_edit_result *result, struct gt_err *err)
{
	const struct gt_ckpt *shard = ckpt->shards[i].ckpt;
	struct gt_atomic_file *file = &s->files[i];
	struct gt_edit_result one = { 0 };
	struct gt_ckpt *const input = (struct gt_ckpt *)ckpt;
	const struct gt_ckpt_write_options options = { .inputs = &input, .input_count = 1 };
	char *path = shard_path(s->stem, i, s->shard_count, err);
	int rc = path ? gt_ckpt_check_output(path, &options, err) : GT_ENOMEM;

	if (!rc)
		rc = gt_edit_unchanged(shard, shard->path, err);
	if (!rc)
		rc = gt_atomic_open(file, path, err);
	if (!rc) {
		file->no_sync = s->no_sync;
		rc = gt_st_edit_copy(file, shard, edit, s->progress, &one, err);
	}
	if (!rc)
		rc = gt_atomic_finish(file, err);
	if (!rc)
		rc = list_names(s, file->temporary, path, err);
	result->written_bytes += one.written_bytes;
	result->copied_bytes += one.copied_bytes;
	free(path);
	return rc;
}

static int fail_to_edit_shards(
    const struct gt_ckpt *ckpt, const struct gt_edit_target *target, struct gt_err *err)
{
	for (size_t i = 0; i < ckpt->shard_count; i++)
		if (ckpt->shards[i].ckpt->format != &gt_format_safetensors) {
			gt_err_set(err, GT_ENOTSUP,
			    "'%s': only shards of safetensors can be edited", target->input);
			return gt_err_hint(err, "`gtrain ckpt convert` first");
		}
	if (target->output)
		return 0;
	gt_err_set(err, GT_ENOTSUP,
	    "'%s': shards cannot be edited in place: a kill would leave "
	    "some with old names and some with new",
	    target->input);
	return gt_err_hint(err, GT_EDIT_SHARDS_HINT);
}

int gt_st_shards_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	struct files s = { 0 };
	int rc = fail_to_edit_shards(ckpt, target, err);

	if (!rc)
		rc = init_files(&s, target->output, ckpt->shard_count, err);
	if (!rc)
		rc = gt_shards_other_members(&s.others, ckpt, err);
	s.no_sync = target->no_sync;
	s.progress = target->progress;
	for (size_t i = 0; i < ckpt->shard_count && !rc; i++)
		rc = copy_shard(&s, ckpt, i, edit, result, err);
	if (!rc)
		rc = commit_files(&s, err);
	release_files(&s);
	return rc;
}
