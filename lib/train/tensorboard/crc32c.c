/* crc32c.c - CRC-32C by ISA-L, and without it. */
#include "lib/train/tensorboard/crc32c.h"

#ifdef GT_WITH_ISAL
#include <isa-l/crc.h>
#endif

/* The remainders of the 16 values of half a byte, for the polynomial 0x1edc6f41, bits reversed. */
static const uint32_t remainders[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc,
	0x5125dad3, 0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
	0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };

uint32_t gt_crc32c_plain(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;
	uint32_t crc = ~0U;

	for (size_t i = 0; i < size; i++) {
		crc ^= p[i];
		crc = crc >> 4 ^ remainders[crc & 15];
		crc = crc >> 4 ^ remainders[crc & 15];
	}
	return ~crc;
}

uint32_t gt_crc32c(const void *bytes, size_t size)
{
#ifdef GT_WITH_ISAL
	enum { MOST = 1 << 30 }; /* the library counts bytes in an int */

	if (size <= MOST)
		return ~crc32_iscsi((unsigned char *)bytes, (int)size, ~0U);
#endif
	return gt_crc32c_plain(bytes, size);
}
