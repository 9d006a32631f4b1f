/* byte_stream.c - the bytes of a file in order, inflated where it is compressed. */
#include "lib/data/core/byte_stream.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/base/file.h"
#include "lib/base/mem.h"

enum { CHUNK_BYTES = 1 << 30, WINDOW_BYTES = 1 << 16, INFLATE_MAX = 1032, MAX_ZEROS = 64 << 20 };

struct gt_byte_stream {
	struct gt_mapping file;
	uint64_t at; /* bytes handed out */
	bool packed;
	/* A gzip file: */
	z_stream z;
	bool ended;
	size_t from, to; /* inflated and not yet handed out: window [from, to) */
	unsigned char window[WINDOW_BYTES];
};

static bool is_gzip(const unsigned char *p, size_t size)
{
	return size >= 2 && p[0] == 0x1f && p[1] == 0x8b;
}

int gt_byte_stream_open(struct gt_byte_stream **out, const char *path, struct gt_err *err)
{
	struct gt_byte_stream *s = gt_calloc(1, sizeof(*s), err);
	int rc;

	*out = NULL;
	if (!s)
		return GT_ENOMEM;
	rc = gt_map(&s->file, path, err);
	if (rc) {
		free(s);
		return rc;
	}
	if (is_gzip(s->file.data, s->file.size)) {
		s->z.next_in = (Bytef *)s->file.data;
		s->packed = inflateInit2(&s->z, 15 + 16) == Z_OK; /* 16: gzip framing */
		if (!s->packed) {
			gt_byte_stream_close(s);
			return gt_err_set(err, GT_ENOMEM, "out of memory: inflating '%s'", path);
		}
	}
	*out = s;
	return 0;
}

void gt_byte_stream_close(struct gt_byte_stream *s)
{
	if (!s)
		return;
	if (s->packed)
		inflateEnd(&s->z);
	gt_unmap(&s->file);
	free(s);
}

bool gt_byte_stream_is_gzip(const struct gt_byte_stream *s)
{
	return s->packed;
}

const unsigned char *gt_byte_stream_bytes(const struct gt_byte_stream *s, size_t *size)
{
	*size = s->packed ? 0 : s->file.size;
	return s->packed ? NULL : s->file.data;
}

int gt_byte_stream_stat(const struct gt_byte_stream *s, struct stat *out)
{
	return fstat(s->file.fd, out);
}

uint64_t gt_byte_stream_at(const struct gt_byte_stream *s)
{
	return s->at;
}

static size_t packed_left(const struct gt_byte_stream *s)
{
	return s->file.size - (size_t)(s->z.next_in - s->file.data);
}

uint64_t gt_byte_stream_max_left(const struct gt_byte_stream *s)
{
	if (!s->packed)
		return s->file.size - s->at;
	/* One byte more: a byte that zlib has taken may have bits left in it. */
	return s->to - s->from + (s->ended ? 0 : ((uint64_t)packed_left(s) + 1) * INFLATE_MAX);
}

/* After a member's end: another member, or nothing but zeros, or bytes that do not belong here. */
static int next_member(struct gt_byte_stream *s, struct gt_err *err)
{
	const unsigned char *p = s->z.next_in, *end = s->file.data + s->file.size;
	size_t left = (size_t)(end - p);

	if (is_gzip(p, left) && inflateReset(&s->z) == Z_OK)
		return 0;
	while (left <= MAX_ZEROS && p < end && !*p)
		p++;
	s->ended = p == end;
	if (s->ended)
		return 0;
	return gt_err_set(
	    err, GT_EFORMAT, "%zu extra bytes after the end of the gzip data", packed_left(s));
}

static int truncated(uint64_t inflated, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "truncated gzip data: it ends after %llu inflated bytes",
	    (unsigned long long)inflated);
	return gt_err_hint(err, "the file was cut short; copy or download it again");
}

static int corrupt(const struct gt_byte_stream *s, uint64_t inflated, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "corrupt gzip data after %llu inflated bytes: %s",
	    (unsigned long long)inflated, s->z.msg ? s->z.msg : "unknown error");
	return gt_err_hint(err, "the file is damaged; copy or download it again");
}

/* Inflate up to `size` bytes into out; *got may be 0 before the end, too. */
static int inflate_some(
    struct gt_byte_stream *s, unsigned char *out, uint64_t size, size_t *got, struct gt_err *err)
{
	size_t left = packed_left(s);
	uint64_t inflated = s->at + (s->to - s->from);
	int rc;

	s->z.avail_in = left < CHUNK_BYTES ? (uInt)left : CHUNK_BYTES;
	s->z.next_out = out;
	s->z.avail_out = size < CHUNK_BYTES ? (uInt)size : CHUNK_BYTES;
	rc = inflate(&s->z, Z_NO_FLUSH);
	*got = (size_t)(s->z.next_out - out);
	inflated += *got;
	if (rc == Z_STREAM_END)
		return next_member(s, err);
	if (rc == Z_MEM_ERROR)
		return gt_err_set(err, GT_ENOMEM, "out of memory: inflating");
	if (rc == Z_BUF_ERROR || (rc == Z_OK && !packed_left(s) && s->z.avail_out))
		return truncated(inflated, err);
	return rc == Z_OK ? 0 : corrupt(s, inflated, err);
}

/* Hand out inflated bytes from the window. */
static uint64_t drain(struct gt_byte_stream *s, unsigned char *out, uint64_t size)
{
	size_t n = s->to - s->from;

	n = n < size ? n : (size_t)size;
	if (out)
		memcpy(out, s->window + s->from, n);
	s->from += n;
	s->at += n;
	return n;
}

/* Large reads go to the caller's memory at once, others by way of the window. */
static int read_packed(
    struct gt_byte_stream *s, unsigned char *out, uint64_t size, uint64_t *got, struct gt_err *err)
{
	int rc = 0;

	*got = drain(s, out, size);
	while (!rc && *got < size && !s->ended) {
		size_t n;

		if (out && size - *got >= WINDOW_BYTES) {
			rc = inflate_some(s, out + *got, size - *got, &n, err);
			s->at += n;
			*got += n;
			continue;
		}
		s->from = s->to = 0;
		rc = inflate_some(s, s->window, WINDOW_BYTES, &n, err);
		s->to = n;
		*got += drain(s, out ? out + *got : NULL, size - *got);
	}
	return rc;
}

int gt_byte_stream_read(
    struct gt_byte_stream *s, void *out, uint64_t size, uint64_t *got, struct gt_err *err)
{
	if (s->packed)
		return read_packed(s, out, size, got, err);
	*got = s->file.size - s->at < size ? s->file.size - s->at : size;
	if (out && *got)
		memcpy(out, s->file.data + s->at, *got);
	s->at += *got;
	return 0;
}

const unsigned char *gt_byte_stream_borrow(struct gt_byte_stream *s, uint64_t size)
{
	if (s->packed || !s->file.data || s->file.size - s->at < size)
		return NULL;
	s->at += size;
	return s->file.data + (s->at - size);
}
