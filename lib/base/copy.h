/* copy.h - bytes from file to file without passing through this process. */
#ifndef GT_BASE_COPY_H
#define GT_BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/*
 * Copy [in_at, in_at + size) of the file `in` to out_at of the file `out`; neither file's position
 * moves. If the file system can share blocks between files (XFS, btrfs), and both offsets are equal
 * modulo GT_COPY_BLOCK, whole blocks are shared, which takes neither time nor space. Otherwise the
 * kernel copies within its cache; if it cannot, a loop of reads and writes copies. With
 * `write_back` the disk starts writing during the copy; set it if the caller calls fsync() next.
 * Errors: GT_EIO, also when `in` ends too early.
 */
int gt_copy_range(int out, uint64_t out_at, int in, uint64_t in_at, uint64_t size, bool write_back,
    struct gt_err *err);

/* Write all of [bytes, bytes + size) at `at`. GT_EIO. */
int gt_write_at(int out, uint64_t at, const void *bytes, size_t size, struct gt_err *err);

enum { GT_COPY_BLOCK = 4096 };

#endif
