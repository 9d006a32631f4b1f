/* tar.c - read the files of a tar archive in order. */
#include "lib/data/core/tar.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/base/text.h"

/* Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar
 * manual, "Basic Tar Format" (types L, K, S and base-256 numbers). */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
	char link_name[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], rest[12];
};

_Static_assert(sizeof(struct header) == 512, "a tar block");

/* Headers that describe the next one: GNU tar writes up to 3 (K, L, x) before a file. */
enum { BLOCK = 512, MAX_META = 1 << 20, MAX_METAS = 16, MAX_TAIL = 64 << 20 };

void gt_tar_init(struct gt_tar *t, struct gt_byte_stream *in)
{
	*t = (struct gt_tar){ .in = in, .pax_size = -1 };
}

/* Long names and pax records belong to one entry only. */
static void forget_metas(struct gt_tar *t)
{
	free(t->path);
	t->path = NULL;
	t->pax_size = -1;
	t->metas = 0;
}

void gt_tar_release(struct gt_tar *t)
{
	forget_metas(t);
}

static unsigned long long position(const struct gt_tar *t)
{
	return gt_byte_stream_at(t->in);
}

/* Parse an octal number, or base 256 if the top bit is set. Return -1 if it is neither. */
static int64_t parse_number(const char *field, size_t length)
{
	const unsigned char *p = (const unsigned char *)field;
	int64_t n = 0;
	size_t i = 0;

	if (p[0] & 0x80) {
		for (i = 0; i < length; i++) {
			if (n >> 54)
				return -1;
			n = n << 8 | (i ? p[i] : p[i] & 0x7F);
		}
		return n;
	}
	while (i < length && p[i] == ' ')
		i++;
	for (; i < length && p[i] >= '0' && p[i] <= '7'; i++)
		n = n << 3 | (p[i] - '0'); /* at most 12 digits */
	return i == length || p[i] == ' ' || p[i] == '\0' ? n : -1;
}

static bool checksum_matches(const struct header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	int64_t sum = 0;

	for (size_t i = 0; i < BLOCK; i++) {
		bool own = i >= offsetof(struct header, checksum) &&
		           i < offsetof(struct header, checksum) + sizeof(h->checksum);

		sum += own ? ' ' : p[i];
	}
	return parse_number(h->checksum, sizeof(h->checksum)) == sum;
}

static bool is_zero_block(const unsigned char *p)
{
	for (int i = 0; i < BLOCK; i++)
		if (p[i])
			return false;
	return true;
}

#define INSIDE "in the middle of a file"

static int cut_short(const struct gt_tar *t, const char *where, struct gt_err *err)
{
	gt_err_set(
	    err, GT_EFORMAT, "the archive is cut short at byte %llu, %s", position(t), where);
	return gt_err_hint(err, "copy or download it again");
}

static int set_path(struct gt_tar *t, const char *path, size_t length, struct gt_err *err)
{
	if (length > PATH_MAX)
		return gt_err_set(err, GT_EFORMAT,
		    "a name of %zu bytes before byte %llu, at most %d", length, position(t),
		    PATH_MAX);
	free(t->path);
	t->path = gt_asprintf(err, "%.*s", (int)length, path);
	return t->path ? 0 : GT_ENOMEM;
}

static int malformed_pax(const struct gt_tar *t, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "malformed pax header before byte %llu", position(t));
}

/* Records "LENGTH KEY=VALUE\n"; LENGTH counts all of itself. */
static int read_pax(struct gt_tar *t, const char *p, size_t size, struct gt_err *err)
{
	const char *end = p + size;

	while (p < end && *p) {
		const char *digits = p, *equals;
		size_t length = 0, left = (size_t)(end - p);
		int rc = 0;

		for (; p < end && *p >= '0' && *p <= '9' && length < MAX_META; p++)
			length = length * 10 + (size_t)(*p - '0');
		if (length > left || length < (size_t)(p - digits) + 2 || *p != ' ' ||
		    digits[length - 1] != '\n')
			return malformed_pax(t, err);
		p++;
		left = length - (size_t)(p - digits) - 1; /* without the line's end */
		equals = memchr(p, '=', left);
		if (!equals)
			return malformed_pax(t, err);
		left -= (size_t)(equals + 1 - p);
		if (equals - p == 4 && !memcmp(p, "path", 4))
			rc = set_path(t, equals + 1, left, err);
		else if (equals - p == 4 && !memcmp(p, "size", 4))
			t->pax_size = strtoll(equals + 1, NULL, 10); /* ends at the newline */
		if (rc)
			return rc;
		p = digits + length;
	}
	return 0;
}

/* Set t->path to the path of the entry of this header. */
static int find_path(struct gt_tar *t, const struct header *h, struct gt_err *err)
{
	bool has_prefix = !memcmp(h->magic, "ustar", 6) && h->prefix[0];

	if (!t->path)
		t->path = has_prefix ? gt_asprintf(err, "%.155s/%.100s", h->prefix, h->name)
		                     : gt_asprintf(err, "%.100s", h->name);
	return t->path ? 0 : GT_ENOMEM;
}

/* Read `size` bytes, or skip them if `out` is NULL. The archive is cut short if it has fewer. */
static int read_exactly(struct gt_tar *t, void *out, uint64_t size, struct gt_err *err)
{
	uint64_t got;
	int rc = gt_byte_stream_read(t->in, out, size, &got, err);

	return !rc && got < size ? cut_short(t, INSIDE, err) : rc;
}

int gt_tar_read(struct gt_tar *t, void *out, uint64_t size, struct gt_err *err)
{
	assert(size <= t->unread);
	t->unread -= size;
	return read_exactly(t, out, size, err);
}

const unsigned char *gt_tar_borrow(struct gt_tar *t)
{
	t->unread = 0;
	return gt_byte_stream_borrow(t->in, t->size);
}

/* Skip the rest of the entry. The last block may lack its padding only where the end marker is
 * missing too. */
static int skip_rest(struct gt_tar *t, struct gt_err *err)
{
	uint64_t got, padding = t->padding;
	int rc = gt_tar_read(t, NULL, t->unread, err);

	t->padding = 0;
	return rc ? rc : gt_byte_stream_read(t->in, NULL, padding, &got, err);
}

/* Read a header that describes the next one. */
static int read_meta(struct gt_tar *t, const struct header *h, struct gt_err *err)
{
	uint64_t size = t->size;
	char *text;
	int rc;

	if (++t->metas > MAX_METAS)
		return gt_err_set(err, GT_EFORMAT,
		    "more than %d headers for one file before byte %llu", MAX_METAS, position(t));
	if (h->type != 'L' && h->type != 'x')
		return 0;
	if (size > MAX_META)
		return gt_err_set(err, GT_EFORMAT, "a header of %llu bytes at byte %llu",
		    (unsigned long long)size, position(t));
	text = gt_calloc(size + 1, 1, err);
	if (!text)
		return GT_ENOMEM;
	rc = gt_tar_read(t, text, size, err);
	if (!rc)
		rc = h->type == 'x' ? read_pax(t, text, size, err) : set_path(t, text, size, err);
	free(text);
	return rc;
}

/* Set *there if the header is that of a file, a folder or a link. */
static int read_tar_entry(struct gt_tar *t, const struct header *h, bool *there, struct gt_err *err)
{
	switch (h->type) {
	case '0':
	case '7':
	case '\0':
		t->kind = GT_TAR_FILE;
		break;
	case '1':
		t->kind = GT_TAR_HARD_LINK;
		break;
	case '2':
		t->kind = GT_TAR_SYMLINK;
		break;
	case '5':
		t->kind = GT_TAR_FOLDER;
		break;
	case 'S':
		return gt_err_set(err, GT_ENOTSUP, "a sparse file at byte %llu", position(t));
	default:
		forget_metas(t);
		return 0;
	}
	*there = true;
	return find_path(t, h, err);
}

/* Set the sizes of the content and of its padding. */
static int read_size(struct gt_tar *t, const struct header *h, struct gt_err *err)
{
	bool is_file = h->type == '0' || h->type == '\0' || h->type == '7';
	bool has_data = !h->type || !strchr("123456", h->type);
	int64_t size =
	    is_file && t->pax_size >= 0 ? t->pax_size : parse_number(h->size, sizeof(h->size));

	if (size < 0)
		return gt_err_set(err, GT_EFORMAT, "malformed size in the header at byte %llu",
		    position(t) - BLOCK);
	if (!has_data)
		size = 0;
	if ((uint64_t)size > gt_byte_stream_max_left(t->in))
		return cut_short(t, INSIDE, err);
	t->size = t->unread = (uint64_t)size;
	t->padding = (uint64_t)(BLOCK - size % BLOCK) % BLOCK;
	return 0;
}

/* Read the rest of a compressed archive, so that its checksum is compared. tar itself appends up to
 * 10 KiB. */
static int read_tail(struct gt_tar *t, struct gt_err *err)
{
	uint64_t got = 0;
	int rc = 0;

	if (gt_byte_stream_is_gzip(t->in))
		rc = gt_byte_stream_read(t->in, NULL, (uint64_t)MAX_TAIL + 1, &got, err);
	if (rc || got <= MAX_TAIL)
		return rc;
	return gt_err_set(
	    err, GT_EFORMAT, "more than %d bytes follow the end marker of the archive", MAX_TAIL);
}

static int fail_not_tar(struct gt_tar *t, struct gt_err *err)
{
	t->not_tar = true;
	return gt_err_set(err, GT_EFORMAT, "not a tar archive");
}

/* Read a header, whatever it describes. *end is true after the end marker. */
static int read_tar_header(struct gt_tar *t, struct header *h, bool *end, struct gt_err *err)
{
	unsigned long long start = position(t);
	uint64_t got;
	int rc = gt_byte_stream_read(t->in, h, BLOCK, &got, err);

	*end = false;
	if (rc)
		return rc;
	if (got < BLOCK)
		return start ? cut_short(t, "before its end marker", err) : fail_not_tar(t, err);
	if (is_zero_block((const unsigned char *)h)) {
		*end = true;
		return read_tail(t, err);
	}
	if (checksum_matches(h))
		return 0;
	if (!start)
		return fail_not_tar(t, err);
	gt_err_set(err, GT_EFORMAT, "wrong checksum in the tar header at byte %llu", start);
	return gt_err_hint(err, "the archive is damaged; copy or download it again");
}

int gt_tar_next(struct gt_tar *t, bool *there, struct gt_err *err)
{
	struct header h;
	bool end = false;
	int rc = 0;

	*there = false;
	forget_metas(t);
	while (!rc && !*there) {
		rc = skip_rest(t, err);
		if (!rc)
			rc = read_tar_header(t, &h, &end, err);
		if (rc || end)
			break;
		rc = read_size(t, &h, err);
		if (!rc)
			rc = h.type && strchr("LKxgX", h.type) ? read_meta(t, &h, err)
			                                       : read_tar_entry(t, &h, there, err);
	}
	return rc;
}
