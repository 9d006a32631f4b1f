/* json_out.h - JSON written as it comes, and numbers that may not be finite. */
#ifndef GT_CMD_JSON_OUT_H
#define GT_CMD_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* A string of `length` bytes in quotes; bytes that are not UTF-8 become U+FFFD. */
void gt_json_string(FILE *out, const char *text, size_t length);
void gt_json_text(FILE *out, const char *text);

/* The shortest of 15 to 17 digits that reads back as the same double; null where it is not finite,
 * which JSON cannot say. */
void gt_json_real(FILE *out, double value);

/* The same as a value, yours, for documents that are built; NULL: out of memory. */
json_t *gt_json_number(double value);

#endif
