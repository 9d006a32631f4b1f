/* images_tar.c - the files in a tar archive, read as a stream. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/text.h"
#include "lib/data/images.h"

/* Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar
 * manual, "Basic Tar Format" (types L, K, S and base-256 numbers). */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
	char link_name[100], magic[6], version[2], user[32], group[32], major[8], minor[8];
	char prefix[155], rest[12];
};

_Static_assert(sizeof(struct header) == 512, "a tar block");

/* Headers that describe the next one: GNU tar writes up to 3 (K, L, x) before a file. */
enum { BLOCK = 512, MAX_META = 1 << 20, MAX_METAS = 16, MAX_TAIL = 64 << 20, SIGNATURE = 12 };

struct tar {
	struct gt_byte_stream *in;
	struct gt_list *list;
	const char *front; /* of the paths in the list; NULL: nothing */
	char *path;        /* of the next file, from a long name or pax header; NULL: its own */
	int64_t pax_size;  /* of the next file; -1: its own */
	int metas;         /* headers since the last file */
};

static unsigned long long at(const struct tar *t)
{
	return gt_byte_stream_at(t->in);
}

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

#define INSIDE "in the middle of a file"

static int cut_short(const struct tar *t, const char *where, struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "the archive is cut short at byte %llu, %s", at(t), where);
	return gt_err_hint(err, "copy or download it again");
}

static int set_path(struct tar *t, const char *path, size_t length, struct gt_err *err)
{
	if (length > PATH_MAX)
		return gt_err_set(err, GT_EFORMAT,
		    "a name of %zu bytes before byte %llu, at most %d", length, at(t), PATH_MAX);
	free(t->path);
	t->path = gt_asprintf(err, "%.*s", (int)length, path);
	return t->path ? 0 : GT_ENOMEM;
}

static int malformed_pax(const struct tar *t, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "malformed pax header before byte %llu", at(t));
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

/* The path of the file that follows this header, in t->path. */
static int find_path(struct tar *t, const struct header *h, struct gt_err *err)
{
	bool has_prefix = !memcmp(h->magic, "ustar", 6) && h->prefix[0];

	if (!t->path)
		t->path = has_prefix ? gt_asprintf(err, "%.155s/%.100s", h->prefix, h->name)
		                     : gt_asprintf(err, "%.100s", h->name);
	if (!t->path)
		return GT_ENOMEM;
	gt_list_tidy_path(t->path);
	return 0;
}

/* All `size` bytes, or the archive is cut short; NULL skips them. */
static int read_exactly(
    struct tar *t, void *out, uint64_t size, const char *where, struct gt_err *err)
{
	uint64_t got;
	int rc = gt_byte_stream_read(t->in, out, size, &got, err);

	return !rc && got < size ? cut_short(t, where, err) : rc;
}

static int too_large(const char *path, uint64_t size, struct gt_err *err)
{
	char there[GT_TEXT_SIZE], max[GT_TEXT_SIZE];

	return gt_err_set(err, GT_EFORMAT, "'%.200s' has %s, more than an image's %s", path,
	    gt_text_bytes(there, size), gt_text_bytes(max, GT_IMAGE_MAX_FILE_BYTES));
}

/* Copy an image out of a compressed archive; of a file that only has an image's name, so much as
 * shows that. */
static int copy_image(struct tar *t, struct gt_listed *item, uint64_t size, struct gt_err *err)
{
	unsigned char head[SIGNATURE], *bytes;
	uint64_t first = size < SIGNATURE ? size : SIGNATURE;
	int rc = read_exactly(t, head, first, INSIDE, err);

	if (rc)
		return rc;
	if (!gt_image_is_known(head, first)) {
		rc = read_exactly(t, NULL, size - first, INSIDE, err);
		size = first;
	} else if (size > GT_IMAGE_MAX_FILE_BYTES) {
		rc = too_large(item->path, size, err);
	}
	if (rc)
		return rc;
	bytes = gt_list_alloc(t->list, size, err);
	if (!bytes)
		return GT_ENOMEM;
	memcpy(bytes, head, first);
	item->bytes = bytes;
	item->size = size;
	return size > first ? read_exactly(t, bytes + first, size - first, INSIDE, err) : 0;
}

/* Copy the few bytes of a class's number. */
static int copy_label(struct tar *t, struct gt_listed *item, uint64_t size, struct gt_err *err)
{
	unsigned char *bytes;

	if (size > GT_LABEL_BYTES)
		return gt_err_set(err, GT_EFORMAT,
		    "'%.200s' has %llu bytes, more than a class's %d", item->path,
		    (unsigned long long)size, GT_LABEL_BYTES);
	bytes = gt_list_alloc(t->list, size + 1, err);
	if (!bytes)
		return GT_ENOMEM;
	item->bytes = bytes;
	item->size = size;
	return read_exactly(t, bytes, size, INSIDE, err);
}

static int read_item(struct tar *t, const struct header *h, uint64_t size, struct gt_err *err)
{
	struct gt_listed item = { .folder = h->type == '5' };
	int rc = find_path(t, h, err);

	if (rc)
		return rc;
	item.path = t->path;
	if (!item.folder && t->list->labelled && gt_text_ends_with(item.path, ".cls")) {
		rc = copy_label(t, &item, size, err);
	} else if (item.folder || !gt_list_is_image(item.path)) {
		rc = read_exactly(t, NULL, size, INSIDE, err);
	} else if (gt_byte_stream_is_gzip(t->in)) {
		rc = copy_image(t, &item, size, err);
	} else {
		item.bytes = gt_byte_stream_borrow(t->in, size);
		item.size = size;
	}
	return rc ? rc : gt_list_add_below(t->list, t->front, &item, err);
}

/* Long names and pax records belong to one entry only. */
static void forget_metas(struct tar *t)
{
	free(t->path);
	t->path = NULL;
	t->pax_size = -1;
	t->metas = 0;
}

/* Read a header that describes the next one. */
static int read_meta(struct tar *t, const struct header *h, uint64_t size, struct gt_err *err)
{
	char *text;
	int rc;

	if (++t->metas > MAX_METAS)
		return gt_err_set(err, GT_EFORMAT,
		    "more than %d headers for one file before byte %llu", MAX_METAS, at(t));
	if (h->type != 'L' && h->type != 'x')
		return read_exactly(t, NULL, size, INSIDE, err);
	if (size > MAX_META)
		return gt_err_set(err, GT_EFORMAT, "a header of %llu bytes at byte %llu",
		    (unsigned long long)size, at(t));
	text = gt_calloc(size + 1, 1, err);
	if (!text)
		return GT_ENOMEM;
	rc = read_exactly(t, text, size, INSIDE, err);
	if (!rc)
		rc = h->type == 'x' ? read_pax(t, text, size, err) : set_path(t, text, size, err);
	free(text);
	return rc;
}

/* An image in a folder may be a link, so one in an archive must not get lost in silence. A link to
 * a folder counts as an empty folder, which is an error where the folder of a class is. */
static int read_link(struct tar *t, const struct header *h, struct gt_err *err)
{
	struct gt_listed item = { .folder = true };
	int rc = find_path(t, h, err);

	item.path = t->path;
	if (rc)
		return rc;
	if (!gt_list_is_image(t->path) &&
	    !(t->list->labelled && gt_text_ends_with(t->path, ".cls")))
		return h->type == '2' ? gt_list_add_below(t->list, t->front, &item, err) : 0;
	gt_err_set(
	    err, GT_ENOTSUP, "'%.200s' is a link, which has no content in an archive", t->path);
	return gt_err_hint(
	    err, "pack the archive again, with copies of the files instead of links");
}

/* Read the entry of this header; the archive stands behind its content afterwards. */
static int read_entry(struct tar *t, const struct header *h, struct gt_err *err)
{
	bool is_file = h->type == '0' || h->type == '\0' || h->type == '7';
	bool has_data = !h->type || !strchr("123456", h->type);
	int64_t size =
	    is_file && t->pax_size >= 0 ? t->pax_size : parse_number(h->size, sizeof(h->size));
	uint64_t padding, got;
	int rc;

	if (size < 0)
		return gt_err_set(
		    err, GT_EFORMAT, "malformed size in the header at byte %llu", at(t) - BLOCK);
	if (!has_data)
		size = 0;
	if ((uint64_t)size > gt_byte_stream_max_left(t->in))
		return cut_short(t, INSIDE, err);
	if (h->type == 'S') {
		rc = gt_err_set(err, GT_ENOTSUP, "a sparse file at byte %llu", at(t));
	} else if (h->type && strchr("LKxgX", h->type)) {
		rc = read_meta(t, h, (uint64_t)size, err);
	} else {
		if (h->type == '1' || h->type == '2')
			rc = read_link(t, h, err);
		else
			rc = is_file || h->type == '5'
			         ? read_item(t, h, (uint64_t)size, err)
			         : read_exactly(t, NULL, (uint64_t)size, INSIDE, err);
		forget_metas(t);
	}
	/* The last block may lack its padding only where the end marker is missing too. */
	padding = (uint64_t)(BLOCK - size % BLOCK) % BLOCK;
	return rc ? rc : gt_byte_stream_read(t->in, NULL, padding, &got, err);
}

static int not_a_tar(struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "neither a folder nor a tar archive");
	return gt_err_hint(err, "images come as a folder, a .tar or a .tar.gz");
}

/* The rest of a compressed archive, so that its checksum is compared. tar fills up to 10 KiB. */
static int read_tail(struct tar *t, struct gt_err *err)
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

/* One header and the bytes that belong to it: 1 for more, 0 at the end marker. */
static int read_block(struct tar *t, struct gt_err *err)
{
	unsigned long long start = at(t);
	struct header h;
	uint64_t got;
	int rc = gt_byte_stream_read(t->in, &h, BLOCK, &got, err);

	if (rc)
		return rc;
	if (got < BLOCK)
		return start ? cut_short(t, "before its end marker", err) : not_a_tar(err);
	if (is_zero_block((const unsigned char *)&h))
		return read_tail(t, err);
	if (!checksum_matches(&h)) {
		if (!start)
			return not_a_tar(err);
		gt_err_set(err, GT_EFORMAT, "wrong checksum in the tar header at byte %llu", start);
		return gt_err_hint(err, "the archive is damaged; copy or download it again");
	}
	rc = read_entry(t, &h, err);
	return rc ? rc : 1;
}

static int list_tar(
    struct gt_list *list, const char *path, struct gt_byte_stream *archive, struct gt_err *err)
{
	struct tar t = {
		.in = archive, .list = list, .front = list->labelled ? path : NULL, .pax_size = -1
	};
	int rc;

	do
		rc = read_block(&t, err);
	while (rc > 0);
	free(t.path);
	return rc;
}

static int list_plain_or_packed(
    struct gt_list *list, const char *path, struct gt_byte_stream *archive, struct gt_err *err)
{
	size_t first = list->count;
	int64_t began_s = time(NULL);
	int rc;

	if (gt_byte_stream_is_gzip(archive))
		return list_tar(list, path, archive, err);
	if (gt_index_load(list, path, archive))
		return 0;
	rc = list_tar(list, path, archive, err);
	if (rc)
		return rc;
	if (!list->labelled)
		gt_list_sort(list);
	gt_index_save(list, first, path, archive, began_s);
	return 0;
}

int gt_list_archive(struct gt_list *list, const char *path, struct gt_err *err)
{
	struct gt_byte_stream *archive;
	int rc = gt_grow(&list->archives, list->archive_count, &list->archive_capacity,
	    sizeof(*list->archives), err);

	if (!rc)
		rc = gt_byte_stream_open(&archive, path, err);
	if (rc)
		return rc;
	rc = list_plain_or_packed(list, path, archive, err);
	if (rc)
		gt_err_prefix(err, "'%s'", path);
	if (rc || gt_byte_stream_is_gzip(archive))
		gt_byte_stream_close(archive);
	else
		list->archives[list->archive_count++] = archive;
	return rc;
}
