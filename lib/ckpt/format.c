/* format.c - opening a checkpoint: which format it is, or by which accident it is none. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/shards.h"

static const struct gt_ckpt_format *const formats[] = {
	&gt_format_npz,
	&gt_format_torch_zip,
	&gt_format_torch_legacy,
	&gt_format_safetensors,
	&gt_format_safetensors_shards,
	&gt_format_npy,
};

static int open_mapped(struct gt_ckpt *ckpt, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		if (!formats[i]->sniff(&ckpt->map))
			continue;
		ckpt->format = formats[i];
		return formats[i]->open(ckpt, err);
	}
	return gt_ckpt_refuse(&ckpt->map, err);
}

const struct gt_ckpt_format *gt_ckpt_format_find(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}

static int open_file(
    struct gt_ckpt **out, struct gt_file_name file, bool is_shard, struct gt_err *err)
{
	struct gt_ckpt *ckpt = gt_calloc(1, sizeof(*ckpt), err);
	int rc;

	*out = NULL;
	if (!ckpt)
		return GT_ENOMEM;
	ckpt->path = gt_arena_strdup(&ckpt->arena, file.path, err);
	ckpt->folder = file.folder;
	rc = ckpt->path ? gt_map_at(&ckpt->map, file, err) : GT_ENOMEM;
	if (!rc && ckpt->map.data && fstat(ckpt->map.fd, &ckpt->opened))
		rc = gt_err_sys(err, "cannot examine '%s'", file.path);
	if (!rc) {
		if (is_shard && gt_format_safetensors_shards.sniff(&ckpt->map))
			rc = gt_err_set(err, GT_EFORMAT, "an index among the shards of an index");
		else
			rc = open_mapped(ckpt, err);
		if (rc)
			gt_err_prefix(err, "'%s'", file.path);
	}
	if (rc) {
		gt_ckpt_close(ckpt);
		return rc;
	}
	ckpt->folder = NULL;
	*out = ckpt;
	return 0;
}

int gt_ckpt_open_memory(struct gt_ckpt **out, const void *bytes, size_t size, struct gt_err *err)
{
	struct gt_ckpt *ckpt = gt_calloc(1, sizeof(*ckpt), err);
	int rc;

	*out = NULL;
	if (!ckpt)
		return GT_ENOMEM;
	ckpt->map = (struct gt_mapping){ bytes, size, -1 };
	rc = open_mapped(ckpt, err);
	if (rc) {
		gt_ckpt_close(ckpt);
		return rc;
	}
	*out = ckpt;
	return 0;
}

int gt_ckpt_open_shard(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err)
{
	return open_file(out, file, true, err);
}

int gt_ckpt_open_at(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err)
{
	return open_file(out, file, false, err);
}

int gt_ckpt_open(struct gt_ckpt **out, const char *path, struct gt_err *err)
{
	struct stat st;
	char *inside;
	int rc;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return gt_ckpt_open_at(out, (struct gt_file_name){ .path = path }, err);
	*out = NULL;
	rc = gt_shards_in_folder(&inside, path, err);
	if (!rc)
		rc = gt_ckpt_open_at(out, (struct gt_file_name){ .path = inside }, err);
	free(inside);
	return rc;
}

struct gt_tree *gt_ckpt_root(const struct gt_ckpt *ckpt)
{
	return ckpt->root;
}

const char *gt_ckpt_format(const struct gt_ckpt *ckpt)
{
	return ckpt->format->name;
}

void gt_ckpt_close(struct gt_ckpt *ckpt)
{
	if (!ckpt)
		return;
	for (size_t i = 0; i < ckpt->shard_count; i++)
		gt_ckpt_close(ckpt->shards[i].ckpt);
	free(ckpt->shards);
	gt_arena_release(&ckpt->arena);
	gt_unmap(&ckpt->map);
	free(ckpt);
}
