/* json_out.h - JSON written as it comes: numbers that may not be finite, and strings. */
#ifndef GT_CMD_JSON_OUT_H
#define GT_CMD_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/base/json_string.h"

/* The shortest of 15 to 17 digits that reads back as the same double; null where it is not finite,
 * which JSON cannot say. */
void gt_json_real(FILE *out, double value);

/* The same as a value, yours, for documents that are built; NULL: out of memory. */
json_t *gt_json_number(double value);

#endif
