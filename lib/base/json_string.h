/* json_string.h - strings written as JSON. */
#ifndef GT_BASE_JSON_STRING_H
#define GT_BASE_JSON_STRING_H

#include <stddef.h>
#include <stdio.h>

#include "lib/base/buf.h"

/*
 * Write `length` bytes as a JSON string, in quotes. UTF-8 stays as it is; the quote, the backslash
 * and control characters are escaped, and so is DEL, because terminals interpret it. Each byte that
 * is not UTF-8 becomes "\ufffd", so the result is valid JSON for any bytes. Source: RFC 8259,
 * section 7.
 */
void gt_json_string(FILE *out, const char *text, size_t length);
void gt_buf_json(struct gt_buf *out, const char *text, size_t length);

/* The same for text that ends with a zero. */
void gt_json_text(FILE *out, const char *text);

#endif
