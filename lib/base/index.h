/* index.h - a search tree that finds the caller's objects by their keys. */
#ifndef GT_BASE_INDEX_H
#define GT_BASE_INDEX_H

#include <stddef.h>

#include "lib/base/err.h"

/*
 * An index. It stores pointers to objects of the caller. The key of an object must not change while
 * the object is in the index. To add or to find an object takes logarithmic time, whatever the keys
 * are. (A hash table would be slow for some sets of keys, and a hostile file could contain such
 * keys.)
 */
struct gt_index {
	/* Compares the keys of two objects, and returns a negative number, 0 or a positive number,
	 * like the comparison function of qsort(). NULL: the key of an object is its address. */
	int (*compare)(const void *a, const void *b);
	void *tree; /* the tree of tsearch(); NULL: the index is empty */
};

/* Add an object, unless the index already contains an object with the same key. Return the object
 * with this key that is in the index now: `object`, or the older one. NULL with err set if memory
 * runs out. */
void *gt_index_add(struct gt_index *x, const void *object, struct gt_err *err);

/* Return the object with the same key as `like`, or NULL if there is none. */
void *gt_index_find(const struct gt_index *x, const void *like);

/* Empty the index. The objects are not freed. */
void gt_index_release(struct gt_index *x);

/* A value for `compare`: compare structs by their names. The first member of the struct must be the
 * name, a `const char *`. To find a struct by its name, store the name in a `const char *`
 * variable, and pass the address of this variable to gt_index_find() as `like`. */
int gt_index_by_name(const void *a, const void *b);

#endif
