/* byte_stream.h - private: read the bytes of a file in order, and decompress gzip. */
#ifndef GT_DATA_CORE_BYTE_STREAM_H
#define GT_DATA_CORE_BYTE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/*
 * A file that is read from its first byte to its last. It may be plain, or compressed with gzip.
 * For a gzip file, the functions below return and count decompressed bytes. A stream uses a small,
 * constant amount of memory, because its caller decides how many bytes to read next and whether to
 * keep them. Error texts of the read functions do not name the file; callers add its name.
 */
struct gt_byte_stream;

/* Open a file. Errors: GT_EIO and the other errors of gt_map() (lib/base/file.h), which name the
 * file; GT_ENOMEM. */
int gt_byte_stream_open(struct gt_byte_stream **out, const char *path, struct gt_err *err);
void gt_byte_stream_close(struct gt_byte_stream *s);

/* Return whether the file is compressed with gzip. */
bool gt_byte_stream_is_gzip(const struct gt_byte_stream *s);

/* Return all bytes of a plain file, borrowed until the stream is closed. Return NULL for an empty
 * file or a gzip file. */
const unsigned char *gt_byte_stream_bytes(const struct gt_byte_stream *s, size_t *size);

/* Call fstat() on the file. Return 0, or -1 and set errno. */
int gt_byte_stream_stat(const struct gt_byte_stream *s, struct stat *out);

/* Return how many bytes have been read or skipped. */
uint64_t gt_byte_stream_at(const struct gt_byte_stream *s);

/* Return an upper limit of the bytes that are still unread. It is exact for a plain file. For a
 * gzip file it counts 1032 bytes for each remaining compressed byte, the most that deflate can
 * produce. Compare a size that is stored in the file with this limit before allocating memory for
 * it. Source: zlib's "Technical Details", maximum compression factor. */
uint64_t gt_byte_stream_max_left(const struct gt_byte_stream *s);

/*
 * Read `size` bytes into `out`, or skip them if `out` is NULL. *got is the number of bytes read; it
 * is smaller than `size` only at the end of the file. A gzip file consists of one or more members,
 * each with a checksum, which is compared at the end of the member. After the last member, only
 * zero bytes may follow.
 * Errors: GT_EFORMAT (truncated, corrupt, followed by other bytes), GT_ENOMEM.
 */
int gt_byte_stream_read(
    struct gt_byte_stream *s, void *out, uint64_t size, uint64_t *got, struct gt_err *err);

/* Return the next `size` bytes of a plain file, borrowed until the stream is closed, and skip them.
 * Return NULL if fewer bytes are left, or if the file is compressed. */
const unsigned char *gt_byte_stream_borrow(struct gt_byte_stream *s, uint64_t size);

#endif
