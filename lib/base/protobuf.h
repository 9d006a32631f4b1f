/* protobuf.h - write and read the fields of a message of protocol buffers. */
#ifndef GT_BASE_PROTOBUF_H
#define GT_BASE_PROTOBUF_H

#include <stdbool.h>
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

/* ---- reading ---- */

/* A field of a message. */
struct gt_protobuf_field {
	int number;
	uint64_t value;             /* an integer, or the bits of a float or a double */
	const unsigned char *bytes; /* [size], borrowed: text, bytes or a message; else NULL */
	size_t size;
};

/* The part of a message that was not read yet. */
struct gt_protobuf_reader {
	const unsigned char *p; /* [left] */
	size_t left;
};

/* Read the next field. Return 1, or 0 at the end of the message. Errors: GT_EFORMAT (a field that
 * is cut short or has an unknown encoding). */
int gt_protobuf_next(
    struct gt_protobuf_reader *r, struct gt_protobuf_field *field, struct gt_err *err);

/* Read the next of several numbers that are one field, packed. A number has `size` bytes; 0: it is
 * an integer of variable length. Return false at the end, or if the rest is damaged. */
bool gt_protobuf_next_packed(struct gt_protobuf_reader *r, size_t size, uint64_t *out);

/* Return the number of a field that is a float. */
float gt_protobuf_float_of(const struct gt_protobuf_field *field);

#endif
