/* gzip.c - write a stream of bytes as a gzip file. */
#include "lib/base/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/base/mem.h"

/* zlib: a window of 2^15 bytes, with the header of gzip. */
enum { WINDOW = 15 + 16, MEMORY_LEVEL = 8, CHUNK = 1 << 16 };

struct gt_gzip {
	z_stream z;
	FILE *stream;
	int failed; /* errno of the first failed write */
	unsigned char in[CHUNK], out[CHUNK];
	size_t count; /* bytes in `in` */
};

int gt_gzip_new(struct gt_gzip **out, FILE *stream, struct gt_err *err)
{
	struct gt_gzip *z = gt_calloc(1, sizeof(*z), err);

	*out = NULL;
	if (!z)
		return GT_ENOMEM;
	z->stream = stream;
	if (deflateInit2(&z->z, Z_BEST_SPEED, Z_DEFLATED, WINDOW, MEMORY_LEVEL,
	        Z_DEFAULT_STRATEGY) != Z_OK) {
		free(z);
		return gt_err_set(err, GT_ENOMEM, "out of memory");
	}
	*out = z;
	return 0;
}

void gt_gzip_free(struct gt_gzip *z)
{
	if (!z)
		return;
	deflateEnd(&z->z);
	free(z);
}

/* Compress `in`, with `flush` Z_NO_FLUSH, or Z_FINISH at the end. */
static int compress_input(struct gt_gzip *z, int flush)
{
	size_t made;

	z->z.next_in = z->in;
	z->z.avail_in = (uInt)z->count;
	z->count = 0;
	do {
		z->z.next_out = z->out;
		z->z.avail_out = sizeof(z->out);
		deflate(&z->z, flush);
		made = sizeof(z->out) - z->z.avail_out;
		if (!z->failed && fwrite(z->out, 1, made, z->stream) != made)
			z->failed = errno ? errno : EIO;
	} while (!z->z.avail_out);
	return z->failed ? -1 : 0;
}

int gt_gzip_write(struct gt_gzip *z, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;
	int rc = 0;

	while (!rc && size) {
		size_t space = sizeof(z->in) - z->count, part = size < space ? size : space;

		memcpy(z->in + z->count, from, part);
		z->count += part;
		from += part;
		size -= part;
		if (z->count == sizeof(z->in))
			rc = compress_input(z, Z_NO_FLUSH);
	}
	return rc;
}

int gt_gzip_end(struct gt_gzip *z, const char *path, struct gt_err *err)
{
	compress_input(z, Z_FINISH);
	if (!z->failed)
		return 0;
	errno = z->failed;
	return gt_err_sys(err, "cannot write '%s'", path);
}
