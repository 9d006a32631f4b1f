/* json_string.h - write strings as JSON. */
#ifndef GT_BASE_JSON_STRING_H
#define GT_BASE_JSON_STRING_H

#include <stddef.h>
#include <stdio.h>

#include "lib/base/buf.h"

/*
 * Write `length` bytes as a JSON string in quotes, to a stream or to the end of a buffer. The
 * quote, the backslash and control characters are escaped. DEL is escaped, too, because terminals
 * interpret it. Other valid UTF-8 is not changed. Each byte that is not valid UTF-8 becomes
 * "\ufffd", so the result is always valid JSON. Source: RFC 8259, section 7.
 */
void gt_json_string(FILE *out, const char *text, size_t length);
void gt_buf_json(struct gt_buf *out, const char *text, size_t length);

/* Write a zero-terminated string to a stream as JSON. */
void gt_json_text(FILE *out, const char *text);

#endif
