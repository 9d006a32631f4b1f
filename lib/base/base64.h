/* base64.h - bytes as base64, and back. */
#ifndef GT_BASE_BASE64_H
#define GT_BASE_BASE64_H

#include "lib/base/buf.h"

/* Append the base64 of `bytes` to a buffer, with padding and without line feeds. */
void gt_base64_add(struct gt_buf *out, const void *bytes, size_t size);

/* Append the bytes of a text of base64, in which white space is ignored. Errors: GT_EFORMAT, also
 * if the text is cut; GT_ENOMEM. */
int gt_base64_decode(struct gt_buf *out, const char *text, size_t size, struct gt_err *err);

#endif
