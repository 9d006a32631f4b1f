/* format.h - private: checkpoint formats, and the table of those that gtrain recognizes. */
#ifndef GT_CKPT_FORMAT_H
#define GT_CKPT_FORMAT_H

#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/edit/edit.h"
#include "lib/ckpt/write.h"

/* One file of a checkpoint that consists of several files and an index. */
struct gt_ckpt_shard {
	struct gt_ckpt *ckpt;
	const char *file; /* name of the file, without its folder */
};

/* An open checkpoint. */
struct gt_ckpt {
	struct gt_mapping map;
	/* holds the tree, and copies of records of a zip: the pickles, and inflated tensors */
	struct gt_arena arena;
	struct gt_tree *root;
	const struct gt_ckpt_format *format;
	const char *path; /* NULL: the checkpoint is in memory */
	/* the folder in which the file and its shards must lie; set only while opening */
	const struct gt_folder *folder;
	/* chooses the arrays of an npz file to read; set only while opening. NULL: read all */
	const struct gt_ckpt_choice *choice;
	struct stat opened; /* size, times and identity of the file when it was opened */
	bool locked;        /* `lock` is a file descriptor that holds a lock against other edits */
	int lock;

	/* Only for a checkpoint of several files, such as an index of shards: the open files.
	 * `root` borrows from their trees. */
	struct gt_ckpt_shard *shards;
	size_t shard_count;
	/* only for a rank's file of a distributed checkpoint (dcp/read.c): the archives in it, as
	 * parts of `map` */
	struct gt_mapping *parts;
	size_t part_count;

	/* only for safetensors: the header from which the tree was read */
	const struct gt_st_header *st_header;

	/* only for torch formats: a copy of the pickle, and the device names in it */
	const unsigned char *pickle;
	size_t pickle_bytes;
	uint64_t pickle_at;        /* torch-legacy: offset of the pickle in the file, in bytes */
	const char *pickle_record; /* torch-zip: name of the record that contains the pickle */
	const struct gt_torch_location *locations;

	uint64_t tail_bytes; /* torch-legacy: number of unused bytes after the last storage */

	const struct gt_exported *exported; /* only for torch-export and onnx (torch/export.h) */
	const struct gt_tree *metadata;     /* only for gguf: a dict of strings */

	/* the record with the digests, which are checksums of the tensors (tools/digest.h); NULL if
	 * the file has none */
	struct gt_storage *digests;
};

/*
 * A format.
 *   sniff   Return whether the first bytes of the file look like this format.
 *   open    Set ckpt->root. This may fail for a file that `sniff` accepted.
 *   apply   Apply an edit; NULL if gtrain cannot edit the format. The caller has checked that
 *           target->output is not the input, and that an edit in place has at least one change.
 *           The caller has zeroed `result`. An edit in place opens the input with gt_edit_begin()
 *           (edit/private.h).
 *   write   Write a tree to a file (gt_ckpt_write()); NULL if gtrain can only read the format.
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

/* Write to `fd`, the input for an edit in place, otherwise an empty file. */
typedef int gt_ckpt_writer(void *self, int fd, struct gt_err *err);

/* Write a file by calling `write`. It appears whole or not at all. */
int gt_ckpt_write_file(
    struct gt_file_name name, bool no_sync, gt_ckpt_writer *write, void *self, struct gt_err *err);

/* Return the row with this name, or NULL. */
const struct gt_ckpt_format *gt_ckpt_format_find(const char *name);

extern const struct gt_ckpt_format gt_format_torch_zip, gt_format_torch_legacy,
    gt_format_safetensors, gt_format_safetensors_shards, gt_format_torch_shards, gt_format_npz,
    gt_format_npy, gt_format_gguf, gt_format_onnx, gt_format_dcp, gt_format_dcp_file,
    gt_format_deepspeed;

/* The format of files by pickle.dump(); it has no row: gt_format_torch_legacy sets it. */
extern const struct gt_ckpt_format gt_format_pickle;

/* Open one shard like gt_ckpt_open_at(). A shard that is an index is an error. */
int gt_ckpt_open_shard(struct gt_ckpt **out, struct gt_file_name file, struct gt_err *err);

/*
 * Find the main file of the checkpoint in a folder. The caller frees *path. *format is the format
 * of the folder, or NULL: that of the file. GT_EIO: there is none.
 */
int gt_ckpt_in_folder(
    char **path, const struct gt_ckpt_format **format, const char *folder, struct gt_err *err);

/* The hint for a folder whose files are cut short, or contradict each other. */
#define GT_CKPT_COPY_AGAIN "copy the folder again, and compare the sizes of its files"

/* Open the mapped file of `ckpt` by its first bytes, for a format that is a file with others beside
 * it. */
int gt_ckpt_open_content(struct gt_ckpt *ckpt, struct gt_err *err);

/* Open the file `name`, which lies beside the main file of `ckpt`, as a file of this format; NULL:
 * by its first bytes. `missing` is the hint if there is no such file. */
int gt_ckpt_open_beside(struct gt_ckpt **out, const struct gt_ckpt *ckpt, const char *name,
    const struct gt_ckpt_format *format, const char *missing, struct gt_err *err);

/* Open a checkpoint that is in memory; for tests. The bytes are borrowed until gt_ckpt_close(). */
int gt_ckpt_open_memory(struct gt_ckpt **out, const void *bytes, size_t size, struct gt_err *err);

/*
 * Describe a file that no format accepts, where `expected` ("npz", "npy", or NULL: any) was
 * wanted. Return GT_EFORMAT.
 */
int gt_ckpt_fail_foreign(const struct gt_mapping *map, const char *expected, struct gt_err *err);

#endif
