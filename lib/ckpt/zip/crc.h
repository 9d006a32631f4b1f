/* crc.h - private: compute CRC-32 as fast as memory can be read. */
#ifndef GT_CKPT_ZIP_CRC_H
#define GT_CKPT_ZIP_CRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * Return the CRC-32 (of zip, gzip and PNG) of the data before, whose CRC-32 is `crc` (0: none),
 * and bytes[size].
 */
uint32_t gt_crc32(uint32_t crc, const void *bytes, size_t size);

/* Return the CRC-32 of two blocks one after the other, from the CRC-32s of both. */
uint32_t gt_crc32_join(uint32_t first, uint32_t second, uint64_t second_size);

#endif
