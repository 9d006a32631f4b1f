/* crc.h - inside ckpt: CRC-32 at the speed of memory. */
#ifndef GT_CKPT_ZIP_CRC_H
#define GT_CKPT_ZIP_CRC_H

#include <stddef.h>
#include <stdint.h>

/*
 * The CRC-32 of zip, gzip and PNG (ISO 3309, polynomial 0x04c11db7 reflected) of `size` more bytes
 * after those whose CRC is `crc`; 0 to begin. By ISA-L where gtrain was built with it, else zlib.
 */
uint32_t gt_crc32(uint32_t crc, const void *bytes, size_t size);

/* The CRC-32 of two pieces, one after the other, computed from their CRC-32s and the length of the
 * second. */
uint32_t gt_crc32_join(uint32_t first, uint32_t second, uint64_t second_size);

#endif
