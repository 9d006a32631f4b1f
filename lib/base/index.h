/* index.h - find things by their keys: a search tree over the caller's memory. */
#ifndef GT_BASE_INDEX_H
#define GT_BASE_INDEX_H

#include <stddef.h>

#include "lib/base/err.h"

/*
 * The index stores pointers to things. Their keys must not change while they are indexed. Adding
 * and finding take logarithmic time for all keys; a hash table could be made slow by keys chosen in
 * a hostile file.
 */
struct gt_index {
	/* As for qsort(). NULL: the address of a thing is its key, and the thing is never read. */
	int (*compare)(const void *a, const void *b);
	void *tree; /* of tsearch(); NULL: empty */
};

/* Add a thing, unless one with its key is there already. Returns the thing that is in the index
 * afterwards: `thing` or the earlier one. NULL with err set if memory runs out. */
void *gt_index_add(struct gt_index *x, const void *thing, struct gt_err *err);

/* The thing with the key of `like`, or NULL. */
void *gt_index_find(const struct gt_index *x, const void *like);

void gt_index_release(struct gt_index *x);

/* Compares things whose first member is a `const char *`, their name. To find a thing by its name,
 * pass as `like` the address of a variable that holds the name. */
int gt_index_by_name(const void *a, const void *b);

#endif
