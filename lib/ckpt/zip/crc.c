/* crc.c - CRC-32 at the speed of memory. */
#include "lib/ckpt/zip/crc.h"

#include <zlib.h>

#ifdef GT_WITH_ISAL
#include <isa-l/crc.h>

uint32_t gt_crc32(uint32_t crc, const void *bytes, size_t size)
{
	return crc32_gzip_refl(crc, bytes, size);
}
#else
uint32_t gt_crc32(uint32_t crc, const void *bytes, size_t size)
{
	return (uint32_t)crc32_z(crc, bytes, size);
}
#endif

uint32_t gt_crc32_join(uint32_t first, uint32_t second, uint64_t second_size)
{
	return (uint32_t)crc32_combine64(first, second, (z_off64_t)second_size);
}
