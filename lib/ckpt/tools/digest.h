/* digest.h - a checksum per tensor, in a place of the file that other readers ignore. */
#ifndef GT_CKPT_TOOLS_DIGEST_H
#define GT_CKPT_TOOLS_DIGEST_H

#include "lib/ckpt/ckpt.h"

/*
 * A zip archive written by gtrain has the record ROOT/.gtrain/digests, JSON in UTF-8:
 *
 *	{"version": 1, "crc32": {"/model/conv1.weight": "0a1b2c3d", ...}}
 *
 * For each tensor of the tree it holds the path, and the CRC-32 of the elements, contiguous,
 * row-major, little-endian. So a digest does not depend on how the values are stored. It also finds
 * damage that exchanges the bytes of two tensors.
 *
 * A path is written as in JSON Pointer (RFC 6901: '~' becomes "~0", '/' becomes "~1"), with a step
 * after each '/'. A string key of a dict is a step as it is, except that a zero byte becomes "~2",
 * a '[' or '(' at its start "~3" or "~4", and a surrogate "~5" and its number, "~5d800". An integer
 * key or an index is in brackets, "[0]". The i-th item of a dict is "(i)" if its key is something
 * else. The attributes of a dict or tensor are "(attributes)". The parts of an opaque object are
 * "(args)", "(items)" and "(state)".
 *
 * The version comes first. Readers take version 1 and leave others unchecked.
 */
#define GT_DIGEST_RECORD ".gtrain/digests"

/*
 * Compare every tensor with its digest. A tensor without digest, or a digest without tensor, is an
 * error. A tensor that fills its storage is not read: its digest is compared with the checksum of
 * the storage in the file, and gt_storage_check() later compares the bytes with this checksum. For
 * other tensors, mostly views, it depends on `read`:
 *   read false   are left out: nothing is read
 *   read true    are read
 * The same holds for each shard of an index. Returns 0 for a file without digests. Errors:
 * GT_EFORMAT with the path of the first that differs.
 */
int gt_digest_check(const struct gt_ckpt *ckpt, bool read, struct gt_err *err);

/* ---- inside ckpt: making them ---- */

struct gt_digest {
	const char *path;    /* in the tree as it is */
	const char *renamed; /* in the tree as it will be: the same, unless edited */
	const struct gt_tree_tensor *tensor;
	uint32_t crc;
	bool known; /* the record has a sum for this tensor */
};

struct gt_digests {
	struct gt_digest *entries; /* in the order of the tree */
	size_t count, capacity;
	struct gt_arena arena;
};

/* The text that a string key of `dict` will have after an edit, or has now; NULL: out of memory. */
typedef const char *gt_digest_rename(
    void *self, const struct gt_tree *dict, const struct gt_tree_item *item);

/* List the tensors of a tree that has passed gt_tree_check(); sums are 0. `rename` may be NULL.
 * Call gt_digests_release() in every case. GT_ENOTSUP for more than 2^18, and for paths of more
 * than 128 KiB each or 64 MiB together: readers would refuse the record. */
int gt_digests_collect(struct gt_digests *out, const struct gt_tree *root, gt_digest_rename *rename,
    void *self, struct gt_err *err);
void gt_digests_release(struct gt_digests *digests);

/* The record, under the new names; yours to free(). Its size does not depend on the sums. */
int gt_digests_print(
    const struct gt_digests *digests, char **json, size_t *size, struct gt_err *err);

/* For edits: the record of an open file, under the names that its tree will have. *json is yours
 * to free(), and NULL with 0 returned when the file has no digests that we know. */
int gt_digest_renamed(char **json, size_t *size, const struct gt_ckpt *ckpt,
    gt_digest_rename *rename, void *self, struct gt_err *err);

#endif
