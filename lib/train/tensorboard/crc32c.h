/* crc32c.h - private: the CRC-32C of a record in TensorBoard's files. */
#ifndef GT_TRAIN_TENSORBOARD_CRC32C_H
#define GT_TRAIN_TENSORBOARD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Return the CRC-32C (Castagnoli; RFC 3720) of bytes[size]. */
uint32_t gt_crc32c(const void *bytes, size_t size);

/* The same without ISA-L, for builds that lack it. */
uint32_t gt_crc32c_plain(const void *bytes, size_t size);

#endif
