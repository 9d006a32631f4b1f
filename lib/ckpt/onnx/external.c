/* external.c - elements of ONNX's tensors that lie in a file beside the model. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/ckpt/bytes.h"
#include "lib/ckpt/onnx/proto.h"
#include "lib/ckpt/onnx/read.h"

enum { FILES_MAX = 1024 };

/*
 * A tensor says where its elements are by pairs of texts: "location", the name of a file, "offset"
 * and "length" in bytes. A file from elsewhere must not lead out of its folder: the location is a
 * plain name, and no link.
 */
struct place {
	const char *location, *offset, *length; /* NULL: missing */
};

/* The file of elements is opened as a checkpoint without tensors. */
static int open_data(struct gt_ckpt *ckpt, struct gt_err *err)
{
	ckpt->root = gt_tree_dict(&ckpt->arena, err);
	return ckpt->root ? 0 : GT_ENOMEM;
}

static const struct gt_ckpt_format format_onnx_data = { .name = "onnx-data", .open = open_data };

static int read_entry(struct place *p, const struct gt_protobuf_field *message, struct gt_arena *a,
    struct gt_err *err)
{
	const char *pair[2];

	if (gt_onnx_read_pair(a, message, pair, err))
		return err->code;
	if (!strcmp(pair[0], "location"))
		p->location = pair[1];
	else if (!strcmp(pair[0], "offset"))
		p->offset = pair[1];
	else if (!strcmp(pair[0], "length"))
		p->length = pair[1];
	return 0;
}

static bool read_count(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9' || strlen(text) > 18)
		return false;
	*out = strtoull(text, &end, 10);
	return !*end;
}

static int check_location(const struct gt_ckpt *ckpt, const char *name, struct gt_err *err)
{
	if (!ckpt->path)
		return gt_err_set(
		    err, GT_EFORMAT, "its elements are in a file, where no file can be one");
	if (name && *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, ".."))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "its elements are in '%.120s', which is no name of a file in this folder",
	    name ? name : "");
}

/* A symbolic link could lead out of the folder. */
static int check_no_link(const struct gt_ckpt *ckpt, const char *name, struct gt_err *err)
{
	const char *slash = strrchr(ckpt->path, '/');
	int folder = slash ? (int)(slash - ckpt->path) + 1 : 0;
	char *path = gt_asprintf(err, "%.*s%s", folder, ckpt->path, name);
	struct stat st;
	int rc = path ? 0 : GT_ENOMEM;

	if (path && !lstat(path, &st) && S_ISLNK(st.st_mode)) {
		rc = gt_err_set(err, GT_EIO, "its elements are in '%.120s', a symbolic link", name);
		gt_err_hint(err, "copy the file that it leads to into the folder of the model");
	}
	free(path);
	return rc;
}

/* Return the open file of this name; NULL with an error. */
static struct gt_ckpt *open_location(struct gt_ckpt *ckpt, const char *name, struct gt_err *err)
{
	struct gt_ckpt_shard *grown;
	struct gt_ckpt *file;

	for (size_t i = 0; i < ckpt->shard_count; i++)
		if (!strcmp(ckpt->shards[i].file, name))
			return ckpt->shards[i].ckpt;
	if (check_location(ckpt, name, err) || check_no_link(ckpt, name, err))
		return NULL;
	if (ckpt->shard_count == FILES_MAX) {
		gt_err_set(err, GT_ENOTSUP, "elements in more than %d files", FILES_MAX);
		return NULL;
	}
	grown = realloc(ckpt->shards, (ckpt->shard_count + 1) * sizeof(*grown));
	if (!grown) {
		gt_err_set(err, GT_ENOMEM, "no memory for a list of files");
		return NULL;
	}
	ckpt->shards = grown;
	if (gt_ckpt_open_beside(&file, ckpt, name, &format_onnx_data,
	        "the file has elements of the model: bring it into the same folder", err))
		return NULL;
	ckpt->shards[ckpt->shard_count++] = (struct gt_ckpt_shard){ file, name };
	return file;
}

static int take_bytes(
    struct gt_ckpt *file, const struct place *p, struct gt_storage *storage, struct gt_err *err)
{
	uint64_t offset = 0, length = storage->size_bytes;

	if ((p->offset && !read_count(p->offset, &offset)) ||
	    (p->length && !read_count(p->length, &length)))
		return gt_err_set(err, GT_EFORMAT,
		    "its offset '%.40s' or length '%.40s' is no number", p->offset ? p->offset : "",
		    p->length ? p->length : "");
	if (length != storage->size_bytes)
		return gt_err_set(err, GT_EFORMAT, "its elements have %llu bytes, not %zu",
		    (unsigned long long)length, storage->size_bytes);
	if (!gt_inside(offset, length, file->map.size)) {
		gt_err_set(err, GT_EFORMAT,
		    "its elements end at byte %llu of '%.120s', which has %zu",
		    (unsigned long long)(offset + length), p->location, file->map.size);
		return gt_err_hint(err, GT_CKPT_COPY_AGAIN);
	}
	storage->bytes = length ? file->map.data + offset : (const void *)"";
	storage->map = length ? &file->map : NULL;
	storage->file_offset = offset;
	return 0;
}

int gt_onnx_read_external(struct gt_onnx_reader *r, const struct gt_protobuf_field *message,
    struct gt_storage *storage, struct gt_err *err)
{
	struct gt_protobuf_reader fields = { message->bytes, message->size };
	struct gt_protobuf_field field;
	struct gt_ckpt *file;
	struct place p = { 0 };
	int rc;

	while ((rc = gt_protobuf_next(&fields, &field, err)) > 0)
		if (field.number == GT_ONNX_EXTERNAL_DATA && read_entry(&p, &field, r->arena, err))
			return err->code;
	if (rc)
		return rc;
	if (r->only_here)
		return gt_err_set(
		    err, GT_ENOTSUP, "an attribute whose elements are in another file");
	if (check_location(r->ckpt, p.location, err))
		return err->code;
	file = open_location(r->ckpt, p.location, err);
	return file ? take_bytes(file, &p, storage, err) : err->code;
}
