/* value.h - values of a checkpoint as the ckpt commands print them. */
#ifndef GT_CMD_CKPT_VALUE_H
#define GT_CMD_CKPT_VALUE_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/ckpt/ckpt.h"

enum { GT_CKPT_DIMS_SIZE = 32 * 22 };

/* "[3, 4]". */
void gt_ckpt_print_dims(char out[GT_CKPT_DIMS_SIZE], const int64_t *dims, int n);

/* About as Python would show it, in at most `room` bytes (80 or more), long ones with an ellipsis;
 * an object by its class. Returns how many bytes were written. */
size_t gt_ckpt_print_value(char *out, size_t room, const struct gt_tree *node);

/* As JSON: dicts are objects without the tensors in them, lists have null in their places, an
 * object is {"class", "args", "items", "state"}. */
void gt_ckpt_json_value(FILE *out, const struct gt_tree *node);

/* Whether anything is left of a node without its tensors. */
bool gt_ckpt_has_values(const struct gt_tree *node);

#endif
