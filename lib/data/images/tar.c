/* tar.c - the images in a tar archive, read as a stream. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/text.h"
#include "lib/data/core/tar.h"
#include "lib/data/images/images.h"

/* Bytes that tell an image from other files. */
enum { SIGNATURE = 12 };

/* The archive of a list. */
struct listing {
	struct gt_tar tar;
	struct gt_list *list;
	const char *front; /* put before the paths in the list; NULL: nothing */
};

static int too_large(const char *path, uint64_t size, struct gt_err *err)
{
	char there[GT_TEXT_SIZE], max[GT_TEXT_SIZE];

	return gt_err_set(err, GT_EFORMAT, "'%.200s' has %s, more than an image's %s", path,
	    gt_text_bytes(there, size), gt_text_bytes(max, GT_IMAGE_MAX_FILE_BYTES));
}

/* Copy an image out of a compressed archive. If the file only has an image's name, copy the bytes
 * that show it. */
static int copy_image(struct listing *l, struct gt_listed *item, struct gt_err *err)
{
	uint64_t size = l->tar.size;
	unsigned char head[SIGNATURE], *bytes;
	uint64_t first = size < SIGNATURE ? size : SIGNATURE;
	int rc = gt_tar_read(&l->tar, head, first, err);

	if (rc)
		return rc;
	if (!gt_image_is_known(head, first))
		size = first;
	else if (size > GT_IMAGE_MAX_FILE_BYTES)
		return too_large(item->path, size, err);
	bytes = gt_list_alloc(l->list, size, err);
	if (!bytes)
		return GT_ENOMEM;
	memcpy(bytes, head, first);
	item->bytes = bytes;
	item->size = size;
	return size > first ? gt_tar_read(&l->tar, bytes + first, size - first, err) : 0;
}

/* Copy the few bytes of a class's number. */
static int copy_label(struct listing *l, struct gt_listed *item, struct gt_err *err)
{
	uint64_t size = l->tar.size;
	unsigned char *bytes;

	if (size > GT_LABEL_BYTES)
		return gt_err_set(err, GT_EFORMAT,
		    "'%.200s' has %llu bytes, more than a class's %d", item->path,
		    (unsigned long long)size, GT_LABEL_BYTES);
	bytes = gt_list_alloc(l->list, size + 1, err);
	if (!bytes)
		return GT_ENOMEM;
	item->bytes = bytes;
	item->size = size;
	return gt_tar_read(&l->tar, bytes, size, err);
}

/* Whether an archive of this list says the class of an image in the file `path`. */
static bool is_label(const struct listing *l, const char *path)
{
	return l->list->labelled && gt_text_ends_with(path, ".cls");
}

static int take_image(struct listing *l, struct gt_listed *item, struct gt_err *err)
{
	if (gt_byte_stream_is_gzip(l->tar.in))
		return copy_image(l, item, err);
	item->size = l->tar.size;
	item->bytes = gt_tar_borrow(&l->tar);
	return 0;
}

static int read_item(struct listing *l, struct gt_err *err)
{
	struct gt_listed item = { .path = l->tar.path, .folder = l->tar.kind == GT_TAR_FOLDER };
	int rc = 0;

	if (!item.folder && is_label(l, item.path))
		rc = copy_label(l, &item, err);
	else if (!item.folder && gt_list_is_image(item.path))
		rc = take_image(l, &item, err);
	return rc ? rc : gt_list_add_below(l->list, l->front, &item, err);
}

/* An image in a folder may be a link, so one in an archive must not get lost in silence. A link to
 * a folder counts as an empty folder, which is an error where the folder of a class is. */
static int read_link(struct listing *l, struct gt_err *err)
{
	struct gt_listed item = { .path = l->tar.path, .folder = true };

	if (!gt_list_is_image(item.path) && !is_label(l, item.path))
		return l->tar.kind == GT_TAR_SYMLINK
		           ? gt_list_add_below(l->list, l->front, &item, err)
		           : 0;
	gt_err_set(
	    err, GT_ENOTSUP, "'%.200s' is a link, which has no content in an archive", item.path);
	return gt_err_hint(
	    err, "pack the archive again, with copies of the files instead of links");
}

static int list_tar_entry(struct listing *l, struct gt_err *err)
{
	gt_list_tidy_path(l->tar.path);
	return l->tar.kind == GT_TAR_FILE || l->tar.kind == GT_TAR_FOLDER ? read_item(l, err)
	                                                                  : read_link(l, err);
}

static int not_a_tar(struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "neither a folder nor a tar archive");
	return gt_err_hint(err, "images come as a folder, a .tar or a .tar.gz");
}

static int list_tar(
    struct gt_list *list, const char *path, struct gt_byte_stream *archive, struct gt_err *err)
{
	struct listing l = { .list = list, .front = list->labelled ? path : NULL };
	bool there;
	int rc;

	gt_tar_init(&l.tar, archive);
	do {
		rc = gt_tar_next(&l.tar, &there, err);
		if (!rc && there)
			rc = list_tar_entry(&l, err);
	} while (!rc && there);
	if (l.tar.not_tar)
		rc = not_a_tar(err);
	gt_tar_release(&l.tar);
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

/*
 * Add the files of a tar archive to the list: ustar, GNU long names, pax paths.
 *
 *   plain        The images' bytes are borrowed from the archive, so it stays open. A long list is
 *                stored in the user's cache (gt_index_load()).
 *   compressed   The images' bytes are copied to the list's memory; other files are skipped. At
 *                most 64 MiB of other bytes may follow the archive's end marker.
 *
 * Errors, which name the archive: GT_EIO, GT_EFORMAT (not a tar, bad checksum, cut short, an image
 * of more than GT_IMAGE_MAX_FILE_BYTES in a compressed archive, a label of more than
 * GT_LABEL_BYTES), GT_ENOTSUP (sparse files), GT_ENOMEM (also: more than the list's limit).
 */
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
