/* format.c - opening a checkpoint: which format it is, or by which accident it is none. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/shards.h"

static const struct gt_ckpt_format *const formats[] = {
	&gt_format_torch_zip,
	&gt_format_torch_legacy,
	&gt_format_safetensors,
	&gt_format_safetensors_shards,
};

/* What people find in a .pth that is none: the first bytes (letters of any case, leading blanks
 * skipped where `text`), what it is, what to do. */
static const struct {
	const char *start;
	size_t length;
	bool text;
	const char *what, *hint;
} accidents[] = {
#define TEXT(s)  s, sizeof(s) - 1, true
#define BYTES(s) s, sizeof(s) - 1, false
	{ TEXT("version https://git-lfs"), "a Git LFS pointer, not the file it stands for",
	    "run `git lfs pull` in the repository it came from" },
	{ TEXT("<!doctype html"), "a web page, not a checkpoint",
	    "the download went to a page that asks for something; open the address in a browser" },
	{ TEXT("<html"), "a web page, not a checkpoint",
	    "the download went to a page that asks for something; open the address in a browser" },
	{ TEXT("<?xml"), "an XML document, perhaps a server's error, not a checkpoint",
	    "read it, then download again" },
	{ BYTES("\x1f\x8b"), "compressed by gzip", "unpack it with gunzip" },
	{ BYTES("\xfd"
	        "7zXZ"),
	    "compressed by xz", "unpack it with unxz" },
	{ BYTES("\x28\xb5\x2f\xfd"), "compressed by zstd", "unpack it with unzstd" },
	{ BYTES("\x89HDF\r\n"), "an HDF5 file (Keras?), not a torch checkpoint",
	    "export it as .pth" },
	{ BYTES("\x93NUMPY"), "a numpy array, not a torch checkpoint", "save it with torch.save" },
	{ BYTES("\x7f"
	        "ELF"),
	    "a program, not a checkpoint", "look at the file's name again" },
};

static size_t leading_blanks(const struct gt_mapping *map)
{
	static const char bom[] = "\xef\xbb\xbf";
	size_t i = map->size >= 3 && !memcmp(map->data, bom, 3) ? 3 : 0;

	while (i < map->size && strchr(" \t\r\n", map->data[i]) && map->data[i])
		i++;
	return i;
}

static bool starts(const struct gt_mapping *map, const char *start, size_t length, bool text)
{
	size_t skip = text ? leading_blanks(map) : 0;
	const char *p = (const char *)map->data + skip;

	if (map->size - skip < length)
		return false;
	return text ? !strncasecmp(p, start, length) : !memcmp(p, start, length);
}

static bool all_zero(const struct gt_mapping *map)
{
	return !map->data[0] && !memcmp(map->data, map->data + 1, map->size - 1);
}

static int refuse(const struct gt_mapping *map, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(accidents) / sizeof(*accidents); i++) {
		if (!starts(map, accidents[i].start, accidents[i].length, accidents[i].text))
			continue;
		gt_err_set(err, GT_EFORMAT, "%s", accidents[i].what);
		return gt_err_hint(err, "%s", accidents[i].hint);
	}
	if (all_zero(map)) {
		gt_err_set(err, GT_EFORMAT,
		    "the file is all zeros: its writer died before the data "
		    "reached the disk");
		return gt_err_hint(err, "use an earlier checkpoint");
	}
	gt_err_set(
	    err, GT_EFORMAT, "not a checkpoint: the first bytes are those of no known format");
	return gt_err_hint(err, "torch files (.pth, .pt, .th) can be read");
}

static int open_mapped(struct gt_ckpt *ckpt, struct gt_err *err)
{
	if (!ckpt->map.size) {
		gt_err_set(err, GT_EFORMAT, "the file is empty");
		return gt_err_hint(
		    err, "its writer was stopped or the disk was full; use an earlier one");
	}
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		if (!formats[i]->sniff(&ckpt->map))
			continue;
		ckpt->format = formats[i];
		return formats[i]->open(ckpt, err);
	}
	return refuse(&ckpt->map, err);
}

const struct gt_ckpt_format *gt_ckpt_format_find(const char *name)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}

static int open_file(struct gt_ckpt **out, const char *path, bool is_shard, struct gt_err *err)
{
	struct gt_ckpt *ckpt = gt_calloc(1, sizeof(*ckpt), err);
	int rc;

	*out = NULL;
	if (!ckpt)
		return GT_ENOMEM;
	ckpt->path = gt_arena_strdup(&ckpt->arena, path, err);
	rc = ckpt->path ? gt_map(&ckpt->map, path, err) : GT_ENOMEM;
	if (!rc) {
		if (is_shard && gt_format_safetensors_shards.sniff(&ckpt->map))
			rc = gt_err_set(err, GT_EFORMAT, "an index among the shards of an index");
		else
			rc = open_mapped(ckpt, err);
		if (rc)
			gt_err_prefix(err, "'%s'", path);
	}
	if (rc) {
		gt_ckpt_close(ckpt);
		return rc;
	}
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

int gt_ckpt_open_shard(struct gt_ckpt **out, const char *path, struct gt_err *err)
{
	return open_file(out, path, true, err);
}

int gt_ckpt_open(struct gt_ckpt **out, const char *path, struct gt_err *err)
{
	struct stat st;
	char *inside;
	int rc;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return open_file(out, path, false, err);
	*out = NULL;
	rc = gt_shards_in_folder(&inside, path, err);
	if (!rc)
		rc = open_file(out, inside, false, err);
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
