/* index.c - objects found by their keys: a balanced tree of the C library. */
#include "lib/base/index.h"

#include <search.h>
#include <stdint.h>
#include <string.h>

static int compare_addresses(const void *a, const void *b)
{
	return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

int gt_index_by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void *gt_index_add(struct gt_index *x, const void *object, struct gt_err *err)
{
	void **found = tsearch(object, &x->tree, x->compare ? x->compare : compare_addresses);

	if (found)
		return *found;
	gt_err_set(err, GT_ENOMEM, "out of memory: an index");
	return NULL;
}

void *gt_index_find(const struct gt_index *x, const void *like)
{
	void **found = tfind(like, &x->tree, x->compare ? x->compare : compare_addresses);

	return found ? *found : NULL;
}

static void keep(void *object)
{
	(void)object; /* the caller's */
}

void gt_index_release(struct gt_index *x)
{
	tdestroy(x->tree, keep);
	x->tree = NULL;
}
