/* value.h - print the values of a checkpoint as text and as JSON. */
#ifndef GT_CMD_CKPT_VALUE_H
#define GT_CMD_CKPT_VALUE_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/ckpt/ckpt.h"

enum { GT_CKPT_DIMS_SIZE = 32 * 22 }; /* bytes: 22 for each of 32 dimensions */

/* Write the n numbers of `dims` (a shape or strides) to `out` as text, such as "[3, 4]". */
void gt_ckpt_print_dims(char out[GT_CKPT_DIMS_SIZE], const int64_t *dims, int n);

/* Write a value in a form close to Python's, cut with "...", and return its length. `node` must not
 * be a tensor, a dict, or a list that contains one. */
size_t gt_ckpt_print_value(char *out, size_t size, const struct gt_tree *node);

/* Print a value as JSON, without tensors. A Python object becomes an object with the key "class",
 * and "args", "items", "state" or (number of) "bytes". */
void gt_ckpt_json_value(FILE *out, const struct gt_tree *node);

/* Return false for a tensor, and for a dict with nothing but tensors inside. */
bool gt_ckpt_has_values(const struct gt_tree *node);

#endif
