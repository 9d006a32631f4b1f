/* json_out.h - JSON numbers, also for values that are not finite. */
#ifndef GT_CMD_JSON_OUT_H
#define GT_CMD_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/base/json_string.h"

/* Print the fewest digits, 15 to 17, that are read back as the same double. A value that is not
 * finite is printed as null, because JSON has no such numbers. */
void gt_json_real(FILE *out, double value);

/* Return the same as a JSON value, which the caller frees, or NULL if memory runs out. */
json_t *gt_json_number(double value);

#endif
