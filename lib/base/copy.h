/* copy.h - copy bytes from one file to another inside the operating system's kernel. */
#ifndef GT_BASE_COPY_H
#define GT_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Copy bytes between two files: shared blocks if offsets are equal modulo GT_COPY_BLOCK and the
 * file system can, else within the kernel, else by reads and writes. With `write_back`, for a
 * caller that syncs next, the kernel starts to write. Errors: GT_EIO, also if `in` is too short;
 * GT_ENOMEM. */
int gt_copy_range(int out, uint64_t out_at, int in, uint64_t in_at, uint64_t size, bool write_back,
    struct gt_err *err);

/* Write bytes at an offset. Errors: GT_EIO, with GT_MAP_SHRANK (file.h) if they are of a mapped
 * file that became shorter. */
int gt_write_at(int out, uint64_t at, const void *bytes, size_t size, struct gt_err *err);

/* Bytes of a block that files can share. */
enum { GT_COPY_BLOCK = 4096 };

#endif
