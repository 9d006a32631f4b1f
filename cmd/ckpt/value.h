/* value.h - values of a checkpoint as the ckpt commands print them. */
#ifndef GT_CMD_CKPT_VALUE_H
#define GT_CMD_CKPT_VALUE_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/ckpt/ckpt.h"

enum { GT_CKPT_DIMS_SIZE = 32 * 22 };

/* "[3, 4]". */
void gt_ckpt_print_dims(char out[GT_CKPT_DIMS_SIZE], const int64_t *dims, int n);

/* Print a value about as Python does, in at most `room` bytes (80 or more). Long values end in an
 * ellipsis; an object is printed as the name of its class. Returns the number of bytes written. */
size_t gt_ckpt_print_value(char *out, size_t room, const struct gt_tree *node);

/* Print a value as JSON. Dicts become objects without their tensors; in lists null replaces each
 * tensor; an object becomes {"class", "args", "items", "state"}. */
void gt_ckpt_json_value(FILE *out, const struct gt_tree *node);

/* Whether a node contains anything besides tensors. */
bool gt_ckpt_has_values(const struct gt_tree *node);

#endif
