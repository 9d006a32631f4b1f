/* gzip.h - write a stream of bytes as a gzip file. */
#ifndef GT_BASE_GZIP_H
#define GT_BASE_GZIP_H

#include <stdio.h>

#include "lib/base/err.h"

/* A writer that compresses bytes and writes them to a stream of the caller. */
struct gt_gzip;

int gt_gzip_new(struct gt_gzip **out, FILE *stream, struct gt_err *err);

/* Compress bytes. Return 0, or -1 if the stream cannot be written; the next gt_gzip_end() returns
 * that error. */
int gt_gzip_write(struct gt_gzip *z, const void *bytes, size_t size);

/* Write the rest and the checksum. Errors: GT_EIO; the text names `path`. */
int gt_gzip_end(struct gt_gzip *z, const char *path, struct gt_err *err);

void gt_gzip_free(struct gt_gzip *z); /* NULL is fine; does not close the stream */

#endif
