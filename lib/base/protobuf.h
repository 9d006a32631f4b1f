/* protobuf.h - write the fields of a message of protocol buffers. */
#ifndef GT_BASE_PROTOBUF_H
#define GT_BASE_PROTOBUF_H

#include <stdint.h>

#include "lib/base/buf.h"

/*
 * A message is a list of fields in any order. A field has a number, which the message's definition
 * gives it, and a value. These functions add a field to a message in a buffer, which reports at its
 * end if memory has run out (buf.h). Example, a message whose field 1 is another message:
 *
 *   struct gt_buf inner = { 0 }, outer = { 0 };
 *   gt_protobuf_int(&inner, 2, 640);
 *   gt_protobuf_message(&outer, 1, &inner);
 *
 * Source: protobuf.dev, "Encoding".
 */

/* Add an integer, a bool or an enum. */
void gt_protobuf_int(struct gt_buf *message, int field, int64_t value);

/* Add each of several integers as a field. */
void gt_protobuf_ints(struct gt_buf *message, int field, int count, const int64_t *values);

void gt_protobuf_float(struct gt_buf *message, int field, float value);
void gt_protobuf_double(struct gt_buf *message, int field, double value);

/* Add several numbers as one field: packed, 8 bytes each. */
void gt_protobuf_doubles(struct gt_buf *message, int field, size_t count, const double *values);

void gt_protobuf_text(struct gt_buf *message, int field, const char *text);
void gt_protobuf_bytes(struct gt_buf *message, int field, const void *bytes, size_t size);

/* Add a message, and release its buffer. */
void gt_protobuf_message(struct gt_buf *message, int field, struct gt_buf *value);

/* Begin a message within the message, add its fields to the same buffer, and end it with the value
 * that gt_protobuf_begin() has returned. A buffer that is used again needs no memory for it. */
size_t gt_protobuf_begin(struct gt_buf *message, int field);
void gt_protobuf_end(struct gt_buf *message, size_t begin);

/* Add the start of bytes or of a message. Its `size` bytes are to follow. */
void gt_protobuf_start(struct gt_buf *message, int field, uint64_t size);

#endif
