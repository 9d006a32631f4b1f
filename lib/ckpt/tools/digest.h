/* digest.h - digests: checksums of tensors, which gtrain adds to zip files for its own use. */
#ifndef GT_CKPT_TOOLS_DIGEST_H
#define GT_CKPT_TOOLS_DIGEST_H

#include "lib/base/progress.h"
#include "lib/ckpt/ckpt.h"

/*
 * A digest is the CRC-32 of the elements of a tensor, contiguous, row-major, little-endian. This
 * record of a zip has the digests by the paths of the tensors (tools/digest.c).
 */
#define GT_DIGEST_RECORD ".gtrain/digests"

/*
 * Compare every tensor, of all shards, with its digest; views are read only if `read` is true. A
 * file without digests is no error. `progress` may be NULL.
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

/* Return the new text of the key of `item`, or the present text; NULL: out of memory. */
typedef const char *gt_digest_rename(
    void *self, const struct gt_tree *dict, const struct gt_tree_item *item);

/*
 * List the tensors of a checked tree. `rename` may be NULL. Call gt_digests_release() in every
 * case. GT_ENOTSUP: the record would be too large for readers.
 */
int gt_digests_collect(struct gt_digests *out, const struct gt_tree *root, gt_digest_rename *rename,
    void *self, struct gt_err *err);
void gt_digests_release(struct gt_digests *digests);

/*
 * Set *json to the record with the paths `renamed`; its size does not depend on `crc`. The caller
 * frees it.
 */
int gt_digests_print(
    const struct gt_digests *digests, char **json, size_t *size, struct gt_err *err);

/*
 * Set *json to the record after an edit of an open file; NULL if it has no known digests. The
 * caller frees it.
 */
int gt_digest_renamed(char **json, size_t *size, const struct gt_ckpt *ckpt,
    gt_digest_rename *rename, void *self, struct gt_err *err);

#endif
