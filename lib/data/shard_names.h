/* shard_names.h - inside data: expand a pattern of file names to the list of files. */
#ifndef GT_DATA_SHARD_NAMES_H
#define GT_DATA_SHARD_NAMES_H

#include "lib/base/err.h"
#include "lib/base/mem.h"

enum { GT_MAX_SHARDS = 1 << 16 }; /* limit of files */

struct gt_shard_names {
	struct gt_arena arena;
	const char **names; /* [count] */
	size_t count, capacity;
};

/*
 * Expand a pattern as a shell does. Release the result with gt_shard_names_release().
 *
 *   {0..12}    Each number of the range. If one of the two ends has a leading zero, as in
 *              {000..009}, all numbers get as many digits as the longer end.
 *   {a,b}      Each word of the list. Braces do not nest.
 *   * ? [      All files that match, in the order of their names. This is done after braces are
 *              expanded. If a file has exactly this name, only this file is used.
 *
 * Other names are used unchanged; such a file may be missing.
 *
 *   example    x-{0..1}-{a,b}.tar gives x-0-a.tar x-0-b.tar x-1-a.tar x-1-b.tar
 *
 * Errors: GT_EINVAL, GT_EIO if no file matches, GT_ENOMEM.
 */
int gt_shard_names(struct gt_shard_names *out, const char *pattern, struct gt_err *err);
void gt_shard_names_release(struct gt_shard_names *s);

#endif
