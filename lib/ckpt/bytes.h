/* bytes.h - inside ckpt: little-endian numbers at any address. */
#ifndef GT_CKPT_BYTES_H
#define GT_CKPT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The unsigned number in `size` bytes (at most 8), least significant first. */
static inline uint64_t gt_get_le(const unsigned char *p, size_t size)
{
	uint64_t value = 0;

	while (size--)
		value = value << 8 | p[size];
	return value;
}

/* Store a number in `size` bytes, least significant first; returns where the next one goes. */
static inline unsigned char *gt_put_le(unsigned char *p, uint64_t value, size_t size)
{
	for (; size; size--, value >>= 8)
		*p++ = (unsigned char)value;
	return p;
}

/* Whether [offset, offset + length) lies in `size` bytes. */
static inline bool gt_inside(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

static inline bool gt_host_is_big(void)
{
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
}

#endif
