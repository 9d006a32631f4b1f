/* crc.h - private: compute CRC-32 as fast as memory can be read. */
#ifndef GT_CKPT_ZIP_CRC_H
#define GT_CKPT_ZIP_CRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * Add bytes[size] to the data of a CRC-32, and return the CRC-32 of all data so far. `crc` is the
 * CRC-32 of the data before these bytes, or 0 if these bytes are the first. This is the CRC-32 that
 * zip, gzip and PNG use (ISO 3309, polynomial 0x04c11db7 reflected). ISA-L computes it if gtrain
 * was built with ISA-L, otherwise zlib.
 */
uint32_t gt_crc32(uint32_t crc, const void *bytes, size_t size);

/*
 * Return the CRC-32 of a first block of bytes followed by a second block. `first` and `second` are
 * the CRC-32s of the two blocks. second_size is the length of the second block in bytes.
 */
uint32_t gt_crc32_join(uint32_t first, uint32_t second, uint64_t second_size);

#endif
