/* json_out.h - numbers and strings as JSON. */
#ifndef GT_CMD_JSON_OUT_H
#define GT_CMD_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/base/json_string.h"

/* Print a number with at most 15 significant digits. If a reader would parse these digits to
 * another double, print 16 or 17 digits. If the text has neither "." nor an exponent, add ".0".
 * Print NaN and infinity as null, because JSON has no such numbers. */
void gt_json_real(FILE *out, double value);

/* Return a number as a JSON value, which the caller frees. NaN and infinity become null. NULL if
 * memory runs out. */
json_t *gt_json_number(double value);

/* Return the text as a JSON string, which the caller frees. Bytes that are not valid UTF-8 become
 * U+FFFD, as in gt_json_string(). NULL if memory runs out. */
json_t *gt_json_string_value(const char *text, size_t length);

/* Print an array of objects with the same members as comma-separated values: a line with the names,
 * and one for each object. null is an empty field. Releases `rows`. */
void gt_json_print_csv(FILE *out, json_t *rows);

#endif
