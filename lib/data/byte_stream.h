/* byte_stream.h - inside data: the bytes of a file in order, inflated where it is compressed. */
#ifndef GT_DATA_BYTE_STREAM_H
#define GT_DATA_BYTE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/*
 * A file, plain or compressed with gzip, read from its first byte to its last. A stream uses a
 * small, constant amount of memory for any gzip file, because its caller decides how many bytes to
 * read next and whether to keep them. Errors do not name the file; callers add its name.
 */
struct gt_byte_stream;

/* Errors: GT_EIO and those of gt_map(), which name the file; GT_ENOMEM. */
int gt_byte_stream_open(struct gt_byte_stream **out, const char *path, struct gt_err *err);
void gt_byte_stream_close(struct gt_byte_stream *s);

bool gt_stream_is_packed(const struct gt_byte_stream *s);

/* All bytes of a plain file, borrowed until it is closed; NULL: it is empty, or a gzip file. */
const unsigned char *gt_byte_stream_bytes(const struct gt_byte_stream *s, size_t *size);

/* fstat() of the file: 0, or -1 with errno. */
int gt_byte_stream_stat(const struct gt_byte_stream *s, struct stat *out);

/* How many bytes have been read or skipped. */
uint64_t gt_byte_stream_at(const struct gt_byte_stream *s);

/* The most bytes that may still come: exact for a plain file; for a gzip file 1032 for each
 * remaining byte, the most that deflate can produce. Compare a size in the file with this before
 * allocating memory for it. Source: zlib's "Technical Details", maximum compression factor. */
uint64_t gt_byte_stream_most(const struct gt_byte_stream *s);

/*
 * Read `size` bytes into out, or skip them where out is NULL; *got is smaller only at the end. At
 * the end of a gzip file its checksum has been compared; more gzip members and zeros may follow it.
 * Errors: GT_EFORMAT (truncated, corrupt, followed by other bytes), GT_ENOMEM.
 */
int gt_byte_stream_read(
    struct gt_byte_stream *s, void *out, uint64_t size, uint64_t *got, struct gt_err *err);

/* Return the next `size` bytes of a plain file, borrowed until it is closed, and skip them. NULL if
 * fewer bytes are left, or if it is a gzip file. */
const unsigned char *gt_byte_stream_borrow(struct gt_byte_stream *s, uint64_t size);

#endif
