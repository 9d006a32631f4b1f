/* format.c - open a checkpoint, and find its format by its first bytes. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/ckpt/edit/lock.h"
#include "lib/ckpt/format.h"
#include "lib/ckpt/pickle/pickle.h"
#include "lib/ckpt/safetensors/safetensors.h"
#include "lib/ckpt/tree/tree.h"

static const struct gt_ckpt_format *const formats[] = {
	&gt_format_npz,
	&gt_format_torch_zip,
	&gt_format_dcp, /* a pickle, too */
	&gt_format_torch_legacy,
	&gt_format_safetensors,
	&gt_format_safetensors_shards,
	&gt_format_npy,
	&gt_format_gguf,
	&gt_format_onnx,
};

/* How a file is opened. */
struct open_options {
	const struct gt_ckpt_format *format; /* NULL: the row whose sniff accepts the first bytes */
	const char *expected;                /* for gt_ckpt_fail_foreign() */
	const struct gt_ckpt_choice *choice;
	bool is_shard, to_edit;
	double wait_s; /* for a lock, to edit */
};

/* Open a mapped file by its first bytes. `expected` is for gt_ckpt_fail_foreign(). */
static int open_by_content(struct gt_ckpt *ckpt, const char *expected, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		if (!formats[i]->sniff(&ckpt->map))
			continue;
		ckpt->format = formats[i];
		return formats[i]->open(ckpt, err);
	}
	return gt_ckpt_fail_foreign(&ckpt->map, expected, err);
}

int gt_ckpt_open_content(struct gt_ckpt *ckpt, struct gt_err *err)
{
	return open_by_content(ckpt, NULL, err);
}

static int open_mapped(struct gt_ckpt *ckpt, const struct open_options *options, struct gt_err *err)
{
	ckpt->format = options->format;
	ckpt->choice = options->choice;
	return options->format ? options->format->open(ckpt, err)
	                       : open_by_content(ckpt, options->expected, err);
}

const struct gt_ckpt_format *gt_ckpt_format_find(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}

static int map_file(struct gt_ckpt *ckpt, struct gt_file_name file,
    const struct open_options *options, struct gt_err *err)
{
	struct stat locked;
	int rc = 0;

	if (options->to_edit) {
		rc = gt_lock_if_writable(&ckpt->lock, file.path, options->wait_s, err);
		ckpt->locked = ckpt->lock >= 0;
	}
	if (!rc)
		rc = gt_map_at(&ckpt->map, file, err);
	if (rc || !ckpt->map.data)
		return rc;
	if (fstat(ckpt->map.fd, &ckpt->opened) || (ckpt->locked && fstat(ckpt->lock, &locked)))
		return gt_err_sys(err, "cannot examine '%s'", file.path);
	ckpt->opened.st_size =
	    (off_t)ckpt->map.size; /* the size that is read, even if the file grew */
	if (ckpt->locked &&
	    (locked.st_dev != ckpt->opened.st_dev || locked.st_ino != ckpt->opened.st_ino))
		return gt_err_set(err, GT_EIO, "'%s' was replaced while it was opened", file.path);
	return 0;
}

static int open_ckpt_file(struct gt_ckpt **out, struct gt_file_name file,
    const struct open_options *options, struct gt_err *err)
{
	struct gt_ckpt *ckpt = gt_calloc(1, sizeof(*ckpt), err);
	int rc;

	*out = NULL;
	if (!ckpt)
		return GT_ENOMEM;
	ckpt->path = gt_arena_strdup(&ckpt->arena, file.path, err);
	ckpt->folder = file.folder;
	rc = ckpt->path ? map_file(ckpt, file, options, err) : GT_ENOMEM;
	if (!rc) {
		if (options->is_shard && gt_format_safetensors_shards.sniff(&ckpt->map))
			rc = gt_err_set(err, GT_EFORMAT, "an index among the shards of an index");
		else
			rc = open_mapped(ckpt, options, err);
		if (rc)
			gt_err_prefix(err, "'%s'", file.path);
	}
	if (rc) {
		gt_ckpt_close(ckpt);
		return rc;
	}
	ckpt->folder = NULL;
	ckpt->choice = NULL;
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
	ckpt->map = (struct gt_mapping){ bytes, size, -1, 0 };
	rc = open_mapped(ckpt, &(struct open_options){ 0 }, err);
	if (rc) {
		gt_ckpt_close(ckpt);
		return rc;
	}
	*out = ckpt;
	return 0;
}

int gt_ckpt_open_shard(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err)
{
	return open_ckpt_file(out, file, &(struct open_options){ .is_shard = true }, err);
}

int gt_ckpt_open_beside(struct gt_ckpt **out, const struct gt_ckpt *ckpt, const char *name,
    const struct gt_ckpt_format *format, const char *missing, struct gt_err *err)
{
	const char *slash = strrchr(ckpt->path, '/');
	int folder = slash ? (int)(slash - ckpt->path) + 1 : 0;
	char *path = gt_asprintf(err, "%.*s%s", folder, ckpt->path, name);
	const struct gt_file_name file = { ckpt->folder, path };
	int rc = path ? open_ckpt_file(out, file, &(struct open_options){ .format = format }, err)
	              : GT_ENOMEM;

	if (rc == GT_EIO && !gt_file_exists(file))
		gt_err_hint(err, "%s", missing);
	free(path);
	return rc;
}

/* Open a file, or the main file of a checkpoint in a folder. */
static int open_path(
    struct gt_ckpt **out, const char *path, const struct open_options *options, struct gt_err *err)
{
	struct open_options own = *options;
	struct stat st;
	char *inside;
	int rc;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return open_ckpt_file(out, (struct gt_file_name){ .path = path }, options, err);
	*out = NULL;
	rc = gt_ckpt_in_folder(&inside, &own.format, path, err);
	if (!rc)
		rc = open_ckpt_file(out, (struct gt_file_name){ .path = inside }, &own, err);
	free(inside);
	return rc;
}

int gt_ckpt_open_at(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err)
{
	const struct open_options options = { 0 };

	return file.folder ? open_ckpt_file(out, file, &options, err)
	                   : open_path(out, file.path, &options, err);
}

bool gt_ckpt_is_in(const char *folder)
{
	char *inside;
	const struct gt_ckpt_format *format;
	bool found = !gt_ckpt_in_folder(&inside, &format, folder, GT_ERR_IGNORED);

	free(inside);
	return found;
}

int gt_ckpt_open(struct gt_ckpt **out, const char *path, struct gt_err *err)
{
	return open_path(out, path, &(struct open_options){ 0 }, err);
}

int gt_ckpt_open_arrays(struct gt_ckpt **out, const char *path, const char *format,
    const struct gt_ckpt_choice *choice, struct gt_err *err)
{
	return open_path(
	    out, path, &(struct open_options){ .expected = format, .choice = choice }, err);
}

int gt_edit_open(struct gt_ckpt **out, const char *path, double wait_s, struct gt_err *err)
{
	return open_path(
	    out, path, &(struct open_options){ .to_edit = true, .wait_s = wait_s }, err);
}

/* ---- a pickle ---- */

/* b"data" as "data"; another node as it is. */
static const struct gt_tree *plain(const struct gt_tree *node)
{
	const struct gt_tree *bytes = gt_tree_is_object_of(node, "builtins.bytes")
	                                  ? gt_tree_value(node->opaque.args, 0)
	                                  : NULL;

	return gt_tree_is(bytes, GT_TREE_STRING) ? bytes : node;
}

static int read_value(struct gt_tree **value, struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_tree *tensor;
	int rc = gt_pickle_numpy(&tensor, *value, &ckpt->arena, err);

	if (rc)
		return rc;
	if (tensor)
		*value = tensor;
	if ((*value)->kind == GT_TREE_LIST)
		for (size_t i = 0; i < (*value)->seq.count; i++)
			(*value)->seq.items[i].value =
			    (struct gt_tree *)plain((*value)->seq.items[i].value);
	return 0;
}

static int read_pickle(struct gt_ckpt *ckpt, struct gt_err *err)
{
	size_t used;
	int rc =
	    gt_pickle_read_file(&ckpt->root, &ckpt->arena, &ckpt->map, 0, NULL, &used, NULL, err);

	if (rc || ckpt->root->kind != GT_TREE_DICT)
		return rc;
	for (size_t i = 0; i < ckpt->root->seq.count; i++) {
		struct gt_tree_item *item = &ckpt->root->seq.items[i];

		item->key = plain(item->key);
		rc = read_value(&item->value, ckpt, err);
		if (rc)
			return rc;
	}
	/* A key may now be there twice. */
	return gt_tree_check(ckpt->root, NULL, err);
}

const struct gt_ckpt_format gt_format_pickle = { .name = "pickle", .open = read_pickle };

int gt_ckpt_open_pickle(struct gt_ckpt **out, const char *path, struct gt_err *err)
{
	return open_ckpt_file(out, (struct gt_file_name){ .path = path },
	    &(struct open_options){ .format = &gt_format_pickle }, err);
}

/* ---- an open checkpoint ---- */

struct gt_tree *gt_ckpt_root(const struct gt_ckpt *ckpt)
{
	return ckpt->root;
}

const char *gt_ckpt_format(const struct gt_ckpt *ckpt)
{
	return ckpt->format->name;
}

const struct gt_tree *gt_ckpt_metadata(const struct gt_ckpt *ckpt)
{
	return ckpt->metadata;
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
	if (ckpt->locked)
		close(ckpt->lock);
	free(ckpt);
}
