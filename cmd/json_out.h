/* json_out.h - numbers and strings as JSON. */
#ifndef GT_CMD_JSON_OUT_H
#define GT_CMD_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/base/json_string.h"

/* Print a number with 15 digits. If these 15 digits do not parse to the same double, print 16
 * digits; if those do not either, print 17. NaN and infinity are printed as null, because JSON has
 * no such numbers. */
void gt_json_real(FILE *out, double value);

/* Return a number as a JSON value, which the caller frees. NaN and infinity become null. NULL if
 * memory runs out. */
json_t *gt_json_number(double value);

/* Return a JSON value with the string that gt_json_string() would write for this text. The caller
 * frees it. NULL if memory runs out. */
json_t *gt_json_string_value(const char *text, size_t length);

#endif
