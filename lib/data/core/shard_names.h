/* shard_names.h - private: expand a pattern such as x-{0..9}.tar to a list of file names. */
#ifndef GT_DATA_CORE_SHARD_NAMES_H
#define GT_DATA_CORE_SHARD_NAMES_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

/* Limits: files, bytes of a pattern, pairs of braces. */
enum { GT_MAX_SHARDS = 1 << 16 };

enum { GT_SHARD_PATTERN_MAX = 1 << 13, GT_SHARD_BRACES_MAX = 8 };

struct gt_shard_names {
	struct gt_arena arena;
	const char **names; /* [count] */
	size_t count, capacity;
};

/* Expand a pattern such as x-{0..9}-{a,b}-*.tar as a shell does. A file with the pattern as its
 * name, and a name without a pattern, are taken as they are. Errors: GT_EINVAL, also for too many;
 * GT_EIO if no file matches. */
int gt_shard_names(struct gt_shard_names *out, const char *pattern, struct gt_err *err);

/* List the files in `folder` that end in `ending`, sorted, without hidden ones. Errors: GT_EIO if
 * there is none. */
int gt_shard_names_in(
    struct gt_shard_names *out, const char *folder, const char *ending, struct gt_err *err);

void gt_shard_names_release(struct gt_shard_names *s);

#endif
