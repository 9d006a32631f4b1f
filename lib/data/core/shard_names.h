/* shard_names.h - private: expand a pattern such as x-{0..9}.tar to a list of file names. */
#ifndef GT_DATA_CORE_SHARD_NAMES_H
#define GT_DATA_CORE_SHARD_NAMES_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

/* The largest number of files that a pattern may give. The files are shards of one data set. */
enum { GT_MAX_SHARDS = 1 << 16 };

/* The largest size of a pattern in bytes, and its largest number of pairs of braces. */
enum { GT_SHARD_PATTERN_MAX = 1 << 13, GT_SHARD_BRACES_MAX = 8 };

struct gt_shard_names {
	struct gt_arena arena;
	const char **names; /* [count] */
	size_t count, capacity;
};

/*
 * Expand a pattern as a shell does. Release the result with gt_shard_names_release().
 *
 *   {0..12}    Each number of the range. If the first or last number has a leading zero, as in
 *              {000..009}, all numbers get as many digits as the longer of these two.
 *   {a,b}      Each word of the list. Braces do not nest.
 *   * ? [      All files that match, in the order of their names. This is done after braces are
 *              expanded.
 *
 * If a file has the pattern itself as its name, only this file is used. A name without the
 * characters {, *, ? and [ is used unchanged, even if there is no such file.
 *
 *   example    x-{0..1}-{a,b}.tar gives x-0-a.tar x-0-b.tar x-1-a.tar x-1-b.tar
 *
 * Errors: GT_EINVAL, also for more than the limits above; GT_EIO if no file matches, GT_ENOMEM.
 */
int gt_shard_names(struct gt_shard_names *out, const char *pattern, struct gt_err *err);

/* List the files in `folder` that end in `ending`, in the order of their names, without hidden
 * files. The folder's name is taken literally. Release the result with gt_shard_names_release().
 * Errors: GT_EIO if there is no such file, GT_ENOMEM. */
int gt_shard_names_in(
    struct gt_shard_names *out, const char *folder, const char *ending, struct gt_err *err);

void gt_shard_names_release(struct gt_shard_names *s);

#endif
