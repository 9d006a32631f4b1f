/* copy.h - copy bytes from one file to another inside the operating system's kernel. */
#ifndef GT_BASE_COPY_H
#define GT_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/*
 * Copy `size` bytes from offset in_at of the file `in` to offset out_at of the file `out`. Both are
 * file descriptors, and their file positions do not change.
 *
 * Some file systems (XFS, btrfs) can share blocks between files. On these, whole blocks are shared
 * if both offsets are equal modulo GT_COPY_BLOCK; this takes neither time nor space. Otherwise the
 * kernel copies the bytes within its cache. If the kernel cannot do this, a loop of reads and
 * writes copies the bytes.
 *
 * If write_back is true, the kernel starts to write to the disk during its copy. Set it if the
 * caller calls fsync() next. The flag has no effect on the loop of reads and writes.
 *
 * Errors: GT_EIO, also if `in` has too few bytes; GT_ENOMEM.
 */
int gt_copy_range(int out, uint64_t out_at, int in, uint64_t in_at, uint64_t size, bool write_back,
    struct gt_err *err);

/* Write `size` bytes to the file descriptor `out`, at the offset `at`. Errors: GT_EIO. If `bytes`
 * points into a mapped file that has become shorter, the text of the error is GT_MAP_SHRANK
 * (lib/base/file.h), with the name of that file. */
int gt_write_at(int out, uint64_t at, const void *bytes, size_t size, struct gt_err *err);

/* Bytes of a block that two files can share. */
enum { GT_COPY_BLOCK = 4096 };

#endif
