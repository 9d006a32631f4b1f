/* crc.h - inside ckpt: compute CRC-32 as fast as memory can be read. */
#ifndef GT_CKPT_ZIP_CRC_H
#define GT_CKPT_ZIP_CRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * Return the CRC-32 that zip, gzip and PNG use (ISO 3309, polynomial 0x04c11db7 reflected). `crc`
 * is the CRC-32 of the bytes before, or 0 at the start; the result is that of these bytes followed
 * by the `size` bytes at `bytes`. ISA-L computes it if gtrain was built with ISA-L, otherwise zlib.
 */
uint32_t gt_crc32(uint32_t crc, const void *bytes, size_t size);

/*
 * Return the CRC-32 of two blocks of bytes, one after the other. `first` and `second` are their
 * CRC-32s; second_size is the length of the second block in bytes.
 */
uint32_t gt_crc32_join(uint32_t first, uint32_t second, uint64_t second_size);

#endif
