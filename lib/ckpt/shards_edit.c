/* shards_edit.c - names changed in all shards of a checkpoint, into new files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/safetensors_edit.h"
#include "lib/ckpt/safetensors_write.h"
#include "lib/ckpt/tree.h"

struct output {
	const struct gt_ckpt *ckpt;
	const struct gt_edit *edit;
	const struct gt_edit_target *target;
	char *stem;
	json_t *weight_map;
	uint64_t total_bytes;
};

/* No shard may be written over one that is read: others would then be of both states. */
static int check_overwrite(const struct gt_ckpt *ckpt, const char *path, struct gt_err *err)
{
	struct stat st;

	if (stat(path, &st))
		return 0;
	for (size_t i = 0; i < ckpt->shard_count; i++) {
		const struct stat *s = &ckpt->shards[i].ckpt->opened;

		if (s->st_dev == st.st_dev && s->st_ino == st.st_ino)
			return gt_err_set(err, GT_EINVAL,
			    "'%s' would be written over a shard of the input", path);
	}
	return 0;
}

/* The names of a shard as they are in the copy at `path`, which has just been written. */
static int list_names(struct output *o, const char *path, struct gt_err *err)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	struct gt_arena arena = { 0 };
	struct gt_st_header header;
	struct gt_mapping map;
	int rc = gt_map(&map, path, err);

	if (rc)
		return rc;
	rc = gt_st_open(&map, &header, &arena, err);
	for (size_t i = 0; !rc && i < header.count; i++) {
		o->total_bytes += header.tensors[i].end - header.tensors[i].begin;
		if (json_object_set_new(o->weight_map, header.tensors[i].name, json_string(file)))
			rc = gt_err_set(err, GT_ENOMEM, "out of memory: the index");
	}
	gt_arena_release(&arena);
	gt_unmap(&map);
	return rc;
}

static int copy_shard(struct output *o, size_t i, struct gt_edit_result *result, struct gt_err *err)
{
	const struct gt_ckpt *shard = o->ckpt->shards[i].ckpt;
	struct gt_edit_target target = { .input = shard->path, .no_sync = o->target->no_sync };
	struct gt_edit_result one = { 0 };
	char *path = gt_st_shard_path(o->stem, i, o->ckpt->shard_count, err);
	int rc = path ? check_overwrite(o->ckpt, path, err) : GT_ENOMEM;

	target.output = path;
	if (!rc)
		rc = gt_st_apply(shard, o->edit, &target, &one, err);
	if (!rc)
		rc = list_names(o, path, err);
	result->written_bytes += one.written_bytes;
	result->moved_bytes += one.moved_bytes;
	free(path);
	return rc;
}

static int refuse(
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
	return gt_err_hint(err, "write other files, -o DIR/model.safetensors.index.json");
}

int gt_st_shards_apply(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err)
{
	struct output o = { .ckpt = ckpt, .edit = edit, .target = target };
	char *path = NULL;
	int rc = refuse(ckpt, target, err);

	if (rc)
		return rc;
	o.stem = gt_st_stem(target->output, err);
	o.weight_map = json_object();
	path = o.stem ? gt_asprintf(err, "%s.safetensors.index.json", o.stem) : NULL;
	rc = path && o.weight_map ? 0 : GT_ENOMEM;
	for (size_t i = 0; i < ckpt->shard_count && !rc; i++)
		rc = copy_shard(&o, i, result, err);
	if (!rc)
		rc = gt_st_write_index(path, o.weight_map, o.total_bytes, err);
	json_decref(o.weight_map);
	free(o.stem);
	free(path);
	return rc;
}
