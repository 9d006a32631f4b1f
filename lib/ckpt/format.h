/* format.h - inside ckpt: the formats of checkpoints; each is a row in a file of its own. */
#ifndef GT_CKPT_FORMAT_H
#define GT_CKPT_FORMAT_H

#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/write.h"

struct gt_ckpt_shard {
	struct gt_ckpt *ckpt;
	const char *file; /* its name, without a folder */
};

struct gt_ckpt {
	struct gt_mapping map;
	struct gt_arena arena; /* the tree, and records that had to be inflated */
	struct gt_tree *root;
	const struct gt_ckpt_format *format;
	const char *path; /* path of the file; NULL: the checkpoint is in memory */
	/* used while the checkpoint is opened: the folder of the file and its shards */
	const struct gt_folder *folder;
	struct stat opened; /* state of the file when it was opened */
	bool locked;        /* the open file `lock` holds a lock against other edits */
	int lock;

	/* For an index of shards: the open files. The tree borrows from their trees. */
	struct gt_ckpt_shard *shards;
	size_t shard_count;

	/* for safetensors: the header that the tree was read from */
	const struct gt_st_header *st_header;

	/* For torch formats: a copy of the pickle that the tree was read from, and the places of
	 * device names in it. */
	const unsigned char *pickle;
	size_t pickle_bytes;
	uint64_t pickle_at;        /* place of the pickle in a legacy file */
	const char *pickle_record; /* name of its record in a zip */
	const struct gt_torch_location *locations;

	uint64_t tail_bytes; /* legacy files: unused bytes after the last storage */

	struct gt_storage *digests; /* the record of digest.h; NULL where there is none */
};

/*
 * A row: `sniff` looks at the first bytes only; `open` fills ckpt->root, and may still fail for a
 * file that `sniff` accepted. `apply` may be NULL. Its target is another file than the input,
 * except for an edit in place, which has at least one change. `result` is zeroed. To write the file
 * itself, open it by gt_edit_begin() (edit/private.h). `write` is gt_ckpt_write(); NULL where a
 * format is only read.
 */
struct gt_ckpt_format {
	const char *name;
	bool (*sniff)(const struct gt_mapping *map);
	int (*open)(struct gt_ckpt *ckpt, struct gt_err *err);
	int (*apply)(const struct gt_ckpt *ckpt, const struct gt_edit *edit,
	    const struct gt_edit_target *target, struct gt_edit_result *result, struct gt_err *err);
	int (*write)(const char *path, const struct gt_tree *root,
	    const struct gt_ckpt_write_options *options, struct gt_err *err);
};

/* Check that `path` is not a file of the options' inputs; GT_EINVAL. For writers whose files have
 * other names than the given one. */
int gt_ckpt_check_output(
    const char *path, const struct gt_ckpt_write_options *options, struct gt_err *err);

/* Write a file from its start. */
typedef int gt_ckpt_writer(void *self, int fd, struct gt_err *err);

/* Call the writer to write a file, which appears whole or not at all. Errors are the writer's, or
 * name the file. */
int gt_ckpt_write_file(
    struct gt_file_name name, bool no_sync, gt_ckpt_writer *write, void *self, struct gt_err *err);

/* The row of this name, or NULL. */
const struct gt_ckpt_format *gt_ckpt_format_find(const char *name);

extern const struct gt_ckpt_format gt_format_torch_zip, gt_format_torch_legacy,
    gt_format_safetensors, gt_format_safetensors_shards, gt_format_torch_shards, gt_format_npz,
    gt_format_npy;

/* Like gt_ckpt_open_at(), for one file that is not an index of shards. */
int gt_ckpt_open_shard(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err);

/* gt_ckpt_open() on bytes that are in memory, borrowed until gt_ckpt_close(): for tests. */
int gt_ckpt_open_memory(struct gt_ckpt **out, const void *bytes, size_t size, struct gt_err *err);

/*
 * Describe a file that no format accepts (a Git LFS pointer, a web page, ...) in `err`. Returns
 * err->code, GT_EFORMAT.
 */
int gt_ckpt_fail_foreign(const struct gt_mapping *map, struct gt_err *err);

#endif
