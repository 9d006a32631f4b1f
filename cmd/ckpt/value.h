/* value.h - print the values of a checkpoint as text and as JSON. */
#ifndef GT_CMD_CKPT_VALUE_H
#define GT_CMD_CKPT_VALUE_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/ckpt/ckpt.h"

enum { GT_CKPT_DIMS_SIZE = 32 * 22 }; /* bytes: 22 for each of 32 dimensions */

/* Write the n numbers of `dims` (a shape or strides) to `out` as text, such as "[3, 4]". */
void gt_ckpt_print_dims(char out[GT_CKPT_DIMS_SIZE], const int64_t *dims, int n);

/* Write the value `node` to `out` as text, in a form close to Python's. `size` is the size of `out`
 * in bytes. Long values are cut and marked with "...". A Python object is written as the name of
 * its class, with a note if it has arguments; a long name is cut without a mark. `node` must not be
 * a tensor, a dict, or a list that contains a tensor or a dict: the caller prints the values inside
 * them one by one (struct gt_inventory). Return the length of the text in bytes. */
size_t gt_ckpt_print_value(char *out, size_t size, const struct gt_tree *node);

/* Print a value as JSON. A dict becomes an object, without its tensors and without dicts that
 * contain only tensors (gt_ckpt_has_values()). A list or tuple becomes an array; its tensors become
 * null. A Python object becomes a JSON object with the key "class". The keys "args", "items" and
 * "state" are added if the Python object has these parts. A Python object of the class `bytes`
 * becomes a JSON object with the keys "class" and "bytes", where "bytes" is the number of bytes. */
void gt_ckpt_json_value(FILE *out, const struct gt_tree *node);

/* Return false for a tensor. For a dict that is not empty, return whether this function returns
 * true for at least one of the dict's values. Return true for everything else, also for an empty
 * dict. */
bool gt_ckpt_has_values(const struct gt_tree *node);

#endif
