/* shard_names.h - inside data: the files that a pattern names. */
#ifndef GT_DATA_SHARD_NAMES_H
#define GT_DATA_SHARD_NAMES_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

enum { GT_MAX_SHARDS = 1 << 16 };

struct gt_shard_names {
	struct gt_arena arena;
	const char **names; /* [count] */
	size_t count, capacity;
};

/*
 * Expand a pattern as a shell does: "{000..009}" stands for the numbers, with as many digits as the
 * longer end where one of them begins with 0, "{a,b}" for the words; braces do not nest. Names with
 * `*?[` then stand for the files that match, in the order of their names. Other names, and names of
 * existing files, are used unchanged. Release the result.
 *
 *   x-{0..1}-{a,b}.tar   x-0-a.tar x-0-b.tar x-1-a.tar x-1-b.tar
 *
 * Errors: GT_EINVAL, GT_EIO where nothing matches, GT_ENOMEM.
 */
int gt_shard_names(struct gt_shard_names *out, const char *pattern, struct gt_err *err);
void gt_shard_names_release(struct gt_shard_names *s);

#endif
