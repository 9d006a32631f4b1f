/* images_tar.c - the files in a tar archive that lies in memory. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/images.h"

/* Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar
 * manual, "Basic Tar Format" (types L, K, S and base-256 numbers). */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
	char link_name[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], rest[12];
};

_Static_assert(sizeof(struct header) == 512, "a tar block");

enum { BLOCK = 512, MAX_META = 1 << 20 };

struct tar {
	const unsigned char *data;
	size_t size, at;
	char *path;       /* of the next file, from a long name or pax header; NULL: its own */
	int64_t pax_size; /* of the next file; -1: its own */
};

/* An octal number, or base 256 where the top bit is set; -1 where it is neither. */
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

static int cut_short(const struct tar *t, const char *where, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "the archive is cut short at byte %zu, %s", t->size, where);
	return gt_err_hint(err, "copy or download it again");
}

static int set_path(struct tar *t, const char *path, size_t length, struct gt_err *err)
{
	free(t->path);
	t->path = gt_asprintf(err, "%.*s", (int)length, path);
	return t->path ? 0 : GT_ENOMEM;
}

/* Records "LENGTH KEY=VALUE\n"; LENGTH counts all of itself. */
static int read_pax(struct tar *t, const char *p, size_t size, struct gt_err *err)
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
			return gt_err_set(
			    err, GT_EFORMAT, "malformed pax header at byte %zu", t->at);
		p++;
		left = length - (size_t)(p - digits) - 1; /* without the line's end */
		equals = memchr(p, '=', left);
		if (!equals)
			return gt_err_set(
			    err, GT_EFORMAT, "malformed pax header at byte %zu", t->at);
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

static int add_item(struct tar *t, struct gt_list *list, const struct header *h,
    const unsigned char *bytes, size_t size, struct gt_err *err)
{
	struct gt_listed item = { .folder = h->type == '5', .bytes = bytes, .size = size };
	bool has_prefix = !memcmp(h->magic, "ustar", 6) && h->prefix[0];
	int rc;

	if (!t->path) {
		t->path = has_prefix ? gt_asprintf(err, "%.155s/%.100s", h->prefix, h->name)
		                     : gt_asprintf(err, "%.100s", h->name);
		if (!t->path)
			return GT_ENOMEM;
	}
	item.path = t->path;
	rc = gt_list_add(list, &item, err);
	free(t->path);
	t->path = NULL;
	t->pax_size = -1;
	return rc;
}

/* What a header of this type asks for; the archive stands behind its content afterwards. */
static int read_entry(
    struct tar *t, struct gt_list *list, const struct header *h, struct gt_err *err)
{
	bool is_file = h->type == '0' || h->type == '\0' || h->type == '7';
	bool has_data = !h->type || !strchr("123456", h->type);
	int64_t size =
	    is_file && t->pax_size >= 0 ? t->pax_size : parse_number(h->size, sizeof(h->size));
	const unsigned char *bytes = t->data + t->at;
	int rc = 0;

	if (size < 0)
		return gt_err_set(
		    err, GT_EFORMAT, "malformed size in the header at byte %zu", t->at - BLOCK);
	if (!has_data)
		size = 0;
	if ((uint64_t)size > t->size - t->at)
		return cut_short(t, "in the middle of a file", err);
	if (h->type == 'L' || h->type == 'x') {
		if (size > MAX_META)
			return gt_err_set(err, GT_EFORMAT, "a header of %lld bytes at byte %zu",
			    (long long)size, t->at);
		rc = h->type == 'x' ? read_pax(t, (const char *)bytes, (size_t)size, err)
		                    : set_path(t, (const char *)bytes, (size_t)size, err);
	} else if (h->type == 'S') {
		rc = gt_err_set(err, GT_ENOTSUP, "a sparse file at byte %zu", t->at);
	} else if (is_file || h->type == '5') {
		rc = add_item(t, list, h, bytes, (size_t)size, err);
	}
	/* The last block may lack its padding only where the end marker is missing too. */
	size = (size + BLOCK - 1) / BLOCK * BLOCK;
	t->at = (uint64_t)size > t->size - t->at ? t->size : t->at + (size_t)size;
	return rc;
}

/* One header and what follows it: 1 for more, 0 at the end marker. */
static int read_block(struct tar *t, struct gt_list *list, struct gt_err *err)
{
	struct header h;
	int rc;

	if (t->size - t->at < BLOCK)
		return cut_short(t, "before its end marker", err);
	if (is_zero_block(t->data + t->at))
		return 0;
	memcpy(&h, t->data + t->at, BLOCK);
	if (!checksum_matches(&h)) {
		gt_err_set(err, GT_EFORMAT,
		    t->at ? "wrong checksum in the tar header at byte %zu"
		          : "neither a folder nor a tar archive",
		    t->at);
		return gt_err_hint(err, t->at ? "the archive is damaged; copy or download it again"
		                              : "images come as a folder, a .tar or a .tar.gz");
	}
	t->at += BLOCK;
	rc = read_entry(t, list, &h, err);
	return rc ? rc : 1;
}

int gt_list_tar(struct gt_list *list, const unsigned char *data, size_t size, struct gt_err *err)
{
	struct tar t = { .data = data, .size = size, .pax_size = -1 };
	int rc;

	if (size < BLOCK) {
		gt_err_set(err, GT_EFORMAT, "neither a folder nor a tar archive");
		return gt_err_hint(err, "images come as a folder, a .tar or a .tar.gz");
	}
	do
		rc = read_block(&t, list, err);
	while (rc > 0);
	free(t.path);
	return rc;
}
