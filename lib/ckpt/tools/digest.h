/* digest.h - digests: checksums of tensors, which gtrain adds to zip files for its own use. */
#ifndef GT_CKPT_TOOLS_DIGEST_H
#define GT_CKPT_TOOLS_DIGEST_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"

/*
 * A checkpoint that gtrain writes as a zip archive contains the record ROOT/.gtrain/digests,
 * where ROOT is the top folder in the archive. The record is JSON in UTF-8:
 *
 *	{"version": 1, "crc32": {"/model/conv1.weight": "0a1b2c3d", ...}}
 *
 * For each tensor of the checkpoint's tree (struct gt_tree), the record has the path and the
 * digest: the CRC-32 of the elements, contiguous, row-major, little-endian. So a digest does not
 * depend on the way the values are stored. Digests also reveal that the bytes of two tensors were
 * exchanged.
 *
 * A path consists of steps from the root to the tensor, with a '/' before each step, as in JSON
 * Pointer (RFC 6901). The steps are:
 *
 *   a string key of a dict      the key itself, with the replacements below
 *   an integer key, an index    the number in brackets, "[0]"
 *   another key of a dict       "(i)", where i is the index of the item in the dict
 *   attributes (dict, tensor)   "(attributes)"
 *   parts of an opaque object   "(args)", "(items)", "(state)"
 *
 * An opaque object is an object of a class that gtrain does not interpret.
 *
 * Replacements in a string key: '~' becomes "~0", '/' becomes "~1", and a zero byte becomes "~2". A
 * '[' or '(' at the start of the key becomes "~3" or "~4". A surrogate becomes "~5" and its code,
 * such as "~5d800".
 *
 * The version is the first member. A reader that does not know the version skips the digests.
 * gtrain knows version 1.
 */
#define GT_DIGEST_RECORD ".gtrain/digests"

/*
 * Compare every tensor of a checkpoint with its digest. A file without digests is not an error. But
 * if the file has digests, a tensor without a digest, or a digest without a tensor, is an error. If
 * the checkpoint consists of an index and several files, called shards, compare the tensors of each
 * shard with the digests in this shard.
 *
 * If a contiguous tensor fills its storage, and the file has a checksum of the storage, the tensor
 * is not read: its digest is compared with this checksum. gt_storage_check() compares the bytes
 * with the checksum later. All other tensors, for example views of a larger storage, are read and
 * compared only if `read` is true; their bytes are counted on `progress`, which may be NULL.
 *
 * Errors: GT_EFORMAT, with the path of the first tensor that differs.
 */
int gt_digest_check(
    const struct gt_ckpt *ckpt, bool read, struct gt_progress *progress, struct gt_err *err);

/* ---- inside ckpt: computing digests ---- */

struct gt_digest {
	const char *path; /* path of the tensor in the current tree */
	/* path in the tree after an edit; equal to `path` if there is no edit */
	const char *renamed;
	const struct gt_tree_tensor *tensor;
	uint32_t crc; /* the digest */
	bool known;   /* the file has a digest for this tensor, and `crc` was read from the file */
};

struct gt_digests {
	struct gt_digest *entries; /* in the order of the tree */
	size_t count, capacity;
	struct gt_arena arena;
};

/*
 * A function with which an edit renames string keys. It returns the new text of the key of `item`,
 * an item of `dict`, or the present text if the edit does not change it. NULL: out of memory.
 * `self` is the argument `self` of gt_digests_collect() or gt_digest_renamed().
 */
typedef const char *gt_digest_rename(
    void *self, const struct gt_tree *dict, const struct gt_tree_item *item);

/*
 * List the tensors of a tree that has passed gt_tree_check(); set their `crc` to 0. `rename` may be
 * NULL. Call gt_digests_release() in every case.
 *
 * Errors: GT_ENOTSUP for more than 2^18 tensors, for a path of more than 128 KiB, and for paths of
 * more than 64 MiB together, because readers would refuse such a record.
 */
int gt_digests_collect(struct gt_digests *out, const struct gt_tree *root, gt_digest_rename *rename,
    void *self, struct gt_err *err);
void gt_digests_release(struct gt_digests *digests);

/*
 * Set *json to the text of the record, and *size to its length in bytes. The record contains the
 * paths `renamed` of the entries. The caller frees *json with free(). The size of the record does
 * not depend on the values of `crc`.
 */
int gt_digests_print(
    const struct gt_digests *digests, char **json, size_t *size, struct gt_err *err);

/*
 * For edits: build the new text of the record of an open file. This text has the paths that the
 * tree will have after the edit. Set *json to this text, and *size to the length of the text. The
 * caller frees *json with free(). If the file has no digests, or digests of an unknown version,
 * return 0 and set *json to NULL.
 */
int gt_digest_renamed(char **json, size_t *size, const struct gt_ckpt *ckpt,
    gt_digest_rename *rename, void *self, struct gt_err *err);

#endif
