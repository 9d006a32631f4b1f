/* bytes.h - private: little-endian numbers at unaligned addresses, and small checks. */
#ifndef GT_CKPT_BYTES_H
#define GT_CKPT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"

/*
 * Return the unsigned number that is stored in `size` bytes (at most 8), least significant byte
 * first.
 */
static inline uint64_t gt_get_le(const unsigned char *p, size_t size)
{
	uint64_t value = 0;

	while (size--)
		value = value << 8 | p[size];
	return value;
}

/* Store `value` in `size` bytes at p, least significant byte first. Return p + size. */
static inline unsigned char *gt_put_le(unsigned char *p, uint64_t value, size_t size)
{
	for (; size; size--, value >>= 8)
		*p++ = (unsigned char)value;
	return p;
}

/* Append `value` to a buffer as `size` bytes (at most 8), least significant byte first. */
static inline void gt_buf_add_le(struct gt_buf *b, uint64_t value, size_t size)
{
	unsigned char bytes[8];

	gt_put_le(bytes, value, size);
	gt_buf_add(b, bytes, size);
}

/* Compare two structs by their first member, a uint64_t or a size_t, for qsort() and bsearch(). */
static inline int gt_compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Return whether [offset, offset + length), which may overflow, lies within [0, size). */
static inline bool gt_inside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

/* Return whether the host is big-endian. */
static inline bool gt_host_is_big(void)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}

#endif
