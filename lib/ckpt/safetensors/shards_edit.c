/* shards_edit.c - names changed in all shards of a checkpoint, into new files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/ckpt/edit/private.h"
#include "lib/ckpt/safetensors/edit.h"
#include "lib/ckpt/safetensors/write.h"
#include "lib/ckpt/tree/tree.h"

/* The names of a shard as they are in its copy, which lies under `temporary` for now. */
static int list_names(
    struct gt_st_files *s, const char *temporary, const char *path, struct gt_err *err)
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

		rc = gt_st_files_list(s, t->name, t->end - t->begin, path, err);
	}
	gt_arena_release(&arena);
	gt_unmap(&map);
	return rc;
}

static int copy_shard(struct gt_st_files *s, const struct gt_ckpt *ckpt, size_t i,
    const struct gt_edit *edit, struct gt_edit_result *result, struct gt_err *err)
{
	const struct gt_ckpt *shard = ckpt->shards[i].ckpt;
	struct gt_atomic_file *file = &s->files[i];
	struct gt_edit_result one = { 0 };
	struct gt_ckpt *const input = (struct gt_ckpt *)ckpt;
	const struct gt_ckpt_write_options options = { .inputs = &input, .input_count = 1 };
	char *path = gt_st_shard_path(s->stem, i, s->shard_count, err);
	int rc = path ? gt_ckpt_check_output(path, &options, err) : GT_ENOMEM;

	if (!rc)
		rc = gt_edit_unchanged(shard, shard->path, err);
	if (!rc)
		rc = gt_atomic_open(file, path, err);
	if (!rc) {
		file->no_sync = s->no_sync;
		rc = gt_st_edit_copy(file, shard, edit, &one, err);
	}
	if (!rc)
		rc = gt_atomic_finish(file, err);
	if (!rc)
		rc = list_names(s, file->temporary, path, err);
	result->written_bytes += one.written_bytes;
	result->moved_bytes += one.moved_bytes;
	free(path);
	return rc;
}

static int fail(const struct gt_ckpt *ckpt, const struct gt_edit_target *target, struct gt_err *err)
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
	struct gt_st_files s = { 0 };
	int rc = fail(ckpt, target, err);

	if (!rc)
		rc = gt_st_files_init(&s, target->output, ckpt->shard_count, err);
	s.no_sync = target->no_sync;
	for (size_t i = 0; i < ckpt->shard_count && !rc; i++)
		rc = copy_shard(&s, ckpt, i, edit, result, err);
	if (!rc)
		rc = gt_st_files_commit(&s, err);
	gt_st_files_release(&s);
	return rc;
}
