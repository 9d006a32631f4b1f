/* index.h - a search tree that finds the caller's objects by their keys. */
#ifndef GT_BASE_INDEX_H
#define GT_BASE_INDEX_H

#include <stddef.h>

#include "lib/base/err.h"

/* Pointers to objects of the caller, whose keys must not change. Operations take logarithmic time
 * for all keys: hostile files could make a hash table slow. */
struct gt_index {
	/* as for qsort(); NULL: the key is the address */
	int (*compare)(const void *a, const void *b);
	void *tree; /* tree of tsearch(); NULL: empty */
};

/* Add an object, or find the one with its key, which is returned. NULL with err set if memory runs
 * out. */
void *gt_index_add(struct gt_index *x, const void *object, struct gt_err *err);

/* Return the object with the key of `like`, or NULL. */
void *gt_index_find(const struct gt_index *x, const void *like);

/* Empty the index. The objects are not freed. */
void gt_index_release(struct gt_index *x);

/* A `compare` for structs whose first member is their name, a `const char *`. To find one, pass the
 * address of such a pointer as `like`. */
int gt_index_by_name(const void *a, const void *b);

#endif
