/* copy.c - bytes from file to file. */
#include "lib/base/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"

enum {
	PIECE = 128 << 20,     /* most bytes that one call copies */
	BUFFER_BYTES = 1 << 20 /* bytes of the buffer of the loop of reads and writes */
};

/* Set the error for a mapped file that lacks the page at `address`. Callers add the name of the
 * file that is written, so the name of this file comes first. */
static int source_shrank(const void *address, struct gt_err *err)
{
	const char *path = gt_map_path_at(address);

	gt_map_shrank(err);
	return path ? gt_err_prefix(err, "'%s'", path) : err->code;
}

int gt_write_at(int out, uint64_t at, const void *bytes, size_t size, struct gt_err *err)
{
	const char *p = bytes;

	while (size) {
		ssize_t n = pwrite(out, p, size, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EFAULT)
			return source_shrank(p, err);
		if (n <= 0)
			return gt_err_sys(err, "cannot write %zu bytes at byte %llu", size,
			    (unsigned long long)at);
		p += n;
		at += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

static int copy_plain(
    int out, uint64_t out_at, int in, uint64_t in_at, uint64_t size, struct gt_err *err)
{
	char *buffer = gt_calloc(1, BUFFER_BYTES, err);
	int rc = buffer ? 0 : GT_ENOMEM;

	while (!rc && size) {
		ssize_t n =
		    pread(in, buffer, size < BUFFER_BYTES ? size : BUFFER_BYTES, (off_t)in_at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = gt_err_sys(err, "cannot read at byte %llu", (unsigned long long)in_at);
		else if (!n)
			rc = gt_map_shrank(err);
		else
			rc = gt_write_at(out, out_at, buffer, (size_t)n, err);
		if (rc)
			break;
		in_at += (uint64_t)n;
		out_at += (uint64_t)n;
		size -= (uint64_t)n;
	}
	free(buffer);
	return rc;
}

/* Return whether the errno means that the kernel cannot copy in this way, and nothing is wrong with
 * the file. */
static bool kernel_cannot(int error)
{
	return error == EXDEV || error == EINVAL || error == ENOSYS || error == EOPNOTSUPP ||
	       error == EPERM;
}

static uint64_t up_to(uint64_t at, uint64_t multiple)
{
	return multiple - at % multiple;
}

/* Return the size of the next piece: up to the next block, so that blocks after it can be shared;
 * then up to the next whole piece, because a kernel that copies works in larger units than a
 * block. */
static uint64_t next_piece(uint64_t out_at, uint64_t in_at, uint64_t size)
{
	bool shareable = out_at % GT_COPY_BLOCK == in_at % GT_COPY_BLOCK;
	uint64_t n = up_to(out_at, shareable && in_at % GT_COPY_BLOCK ? GT_COPY_BLOCK : PIECE);

	return n < size ? n : size;
}

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
    struct gt_err *err)
{
	while (size) {
		off_t from = (off_t)in_at, to = (off_t)out_at;
		ssize_t n =
		    copy_file_range(in, &from, out, &to, next_piece(out_at, in_at, size), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && kernel_cannot(errno))
			return copy_plain(out, out_at, in, in_at, size, err);
		if (n < 0)
			return gt_err_sys(err, "cannot copy %llu bytes from byte %llu",
			    (unsigned long long)size, (unsigned long long)in_at);
		if (!n)
			return gt_map_shrank(err);
		if (write_back)
			sync_file_range(out, (off_t)out_at, n, SYNC_FILE_RANGE_WRITE);
		in_at += (uint64_t)n;
		out_at += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}
