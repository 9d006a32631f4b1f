/* list.c - the files below a folder: images and their classes. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/text.h"
#include "lib/base/walk.h"
#include "lib/data/images/images.h"

/* The folder that macOS adds to archives, with a file of metadata for each file. */
static const char metadata_folder[] = "__MACOSX";

static bool is_hidden_name(const char *name, size_t length)
{
	return *name == '.' ||
	       (length == strlen(metadata_folder) && !memcmp(name, metadata_folder, length));
}

static bool is_hidden(const char *path)
{
	for (const char *p = path; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (is_hidden_name(p, strcspn(p, "/")))
			return true;
	}
	return false;
}

void gt_list_tidy_path(char *path)
{
	char *to = path, *from = path;

	while (*from) {
		size_t length = strcspn(from, "/");

		if (length && !(length == 1 && *from == '.')) {
			if (to > path)
				*to++ = '/';
			memmove(to, from, length);
			to += length;
		}
		from += length;
		from += *from == '/';
	}
	*to = '\0';
}

/* Check the list's memory against its limit; sorting will take as much again for each item. */
int gt_list_check_limit(const struct gt_list *list, size_t more, struct gt_err *err)
{
	uint64_t used = list->arena.used + list->content.used + list->index_bytes +
	                list->count * (2 * sizeof(*list->items) + sizeof(struct gt_image_file));
	char limit[GT_TEXT_SIZE];

	if (!list->limit_bytes || (used <= list->limit_bytes && more <= list->limit_bytes - used))
		return 0;
	gt_err_set(err, GT_ENOMEM, "the images and names take more than %s of memory",
	    gt_text_bytes(limit, list->limit_bytes));
	return gt_err_hint(
	    err, "unpack a compressed archive: a folder or a plain .tar takes less memory");
}

unsigned char *gt_list_alloc(struct gt_list *list, size_t size, struct gt_err *err)
{
	return gt_list_check_limit(list, size, err) ? NULL
	                                            : gt_arena_alloc(&list->content, size, err);
}

int gt_list_add(struct gt_list *list, const struct gt_listed *item, struct gt_err *err)
{
	return gt_list_add_below(list, NULL, item, err);
}

int gt_list_add_below(
    struct gt_list *list, const char *front, const struct gt_listed *item, struct gt_err *err)
{
	size_t before = front ? strlen(front) + 1 : 0, length = before + strlen(item->path) + 1;
	int rc = gt_list_check_limit(list, length, err);
	char *path;

	if (rc)
		return rc;
	path = gt_arena_alloc(&list->arena, length, err);
	if (!path)
		return GT_ENOMEM;
	if (front) {
		memcpy(path, front, before - 1);
		path[before - 1] = '/';
	}
	strcpy(path + before, item->path);
	gt_list_tidy_path(path + before);
	if (!path[before] || is_hidden(path + before))
		return 0;
	rc = gt_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), err);
	if (rc)
		return rc;
	list->items[list->count] = *item;
	list->items[list->count++].path = path;
	return 0;
}

/* A folder below another one is an item, too. */
static int add_folder(
    struct gt_list *list, const FTSENT *entry, const char *below, struct gt_err *err)
{
	const struct gt_listed item = { .path = below, .folder = true };
	size_t before = list->count;
	int rc = gt_grow(&list->folders, list->folder_count, &list->folder_capacity,
	    sizeof(*list->folders), err);

	if (!rc && entry->fts_level)
		rc = gt_list_add(list, &item, err);
	if (rc)
		return rc;
	list->folders[list->folder_count++] =
	    (struct gt_listed_folder){ list->count > before ? list->items[before].path : "",
		    gt_stamp_of(entry->fts_statp) };
	return 0;
}

/* A link that leads nowhere may be an image, or, if its name has no ending, a class on a disk that
 * is not mounted. An input that is read alone fails alone. */
static int add_dangling(
    struct gt_list *list, const FTSENT *entry, const char *below, struct gt_err *err)
{
	const struct gt_listed item = { .path = below };

	if (list->inputs)
		return gt_list_add(list, &item, err);
	if (is_hidden(below) || (strchr(entry->fts_name, '.') && !gt_list_is_image(below)))
		return 0;
	gt_err_set(err, GT_EIO, "'%s' is a link to a file that does not exist", entry->fts_path);
	return gt_err_hint(err, "remove the link, or bring back the file or folder it leads to");
}

struct walk {
	struct gt_list *list;
	size_t root; /* length of the path of the folder */
};

static int add_entry(void *context, FTS *fts, FTSENT *entry, struct gt_err *err)
{
	const struct walk *w = context;
	const char *below = entry->fts_path + w->root;
	const struct gt_listed item = { .path = below };

	switch (entry->fts_info) {
	case FTS_D:
		if (!entry->fts_level || !is_hidden_name(entry->fts_name, entry->fts_namelen))
			return add_folder(w->list, entry, below, err);
		fts_set(fts, entry, FTS_SKIP);
		return 0;
	case FTS_F:
		return gt_list_add(w->list, &item, err);
	case FTS_SLNONE:
		return add_dangling(w->list, entry, below, err);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		errno = entry->fts_errno;
		return gt_err_sys(err, "cannot list '%s'", entry->fts_path);
	case FTS_DC:
		return gt_err_set(
		    err, GT_EIO, "'%s' is a link to a folder that holds it", entry->fts_path);
	default:
		return 0;
	}
}

static int walk(struct gt_list *list, const char *path, struct gt_err *err)
{
	struct walk context = { list, strlen(path) };
	const struct gt_folder_walk how = { .visit = add_entry, .context = &context };

	return gt_folder_walk(path, &how, err);
}

int gt_list_folder(struct gt_list *list, const char *path, struct gt_err *err)
{
	size_t first = list->count;
	int64_t began_s = time(NULL);
	int rc;

	if (gt_index_load(list, path, NULL))
		return 0;
	rc = walk(list, path, err);
	if (rc)
		return rc;
	gt_list_sort(list);
	gt_index_save(list, first, path, NULL, began_s);
	return 0;
}

void gt_list_forget_content(struct gt_list *list)
{
	while (list->archive_count)
		gt_byte_stream_close(list->archives[--list->archive_count]);
	gt_arena_release(&list->content);
}

void gt_list_release(struct gt_list *list)
{
	gt_list_forget_content(list);
	gt_arena_release(&list->arena);
	for (size_t i = 0; i < list->index_count; i++)
		free(list->indexes[i]);
	free(list->indexes);
	free(list->archives);
	free(list->folders);
	free(list->items);
	*list = (struct gt_list){ 0 };
}

static bool is_image(const char *path)
{
	const struct gt_image_format *format = gt_image_format_of_name(path);

	return format && format->decoder != GT_DECODER_NONE;
}

bool gt_list_is_image(const char *path)
{
	return is_image(path) && !is_hidden(path);
}

static int compare_paths(const void *a, const void *b)
{
	const unsigned char *p = (const unsigned char *)((const struct gt_listed *)a)->path;
	const unsigned char *q = (const unsigned char *)((const struct gt_listed *)b)->path;

	while (*p && *p == *q) {
		p++;
		q++;
	}
	return (*p == '/' ? 1 : *p ? *p + 1 : 0) - (*q == '/' ? 1 : *q ? *q + 1 : 0);
}

/* Lists of the cache are in order. */
void gt_list_sort(struct gt_list *list)
{
	size_t i = 1;

	while (i < list->count && compare_paths(&list->items[i - 1], &list->items[i]) <= 0)
		i++;
	if (i < list->count)
		qsort(list->items, list->count, sizeof(*list->items), compare_paths);
}

/* other: a picture of the class that cannot be read, or NULL. */
static int no_images(const char *name, const char *root, const char *class, size_t length,
    const char *other, struct gt_err *err)
{
	const char *slash = *root ? "/" : "";

	if (other) {
		gt_err_set(err, GT_EINVAL,
		    "the class folder '%.*s' in '%s%s%s' has no images that gtrain reads, but %s "
		    "images, such as '%.200s'",
		    (int)length, class, name, slash, root, gt_image_format_of_name(other)->name,
		    other);
		return gt_err_hint(err, "convert the images to " GT_IMAGE_FORMATS_OR);
	}
	gt_err_set(err, GT_EINVAL, "the class folder '%.*s' in '%s%s%s' has no images", (int)length,
	    class, name, slash, root);
	return gt_err_hint(err, "put files into it that end in " GT_IMAGE_ENDINGS ", or remove it");
}

static int fail_twice(const char *name, const char *path, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "'%s' has '%s' twice", name, path);
	return gt_err_hint(
	    err, "unpack the archive, and pack it again: unpacking keeps the last of the two");
}

/* Number the classes of the items below `root`, which are in order. */
static int number_classes(struct gt_list *list, const char *name, const char *root,
    struct gt_image_file *images, size_t *count, int *classes, struct gt_err *err)
{
	const char *class = NULL, *other = NULL; /* other: of the class, in another format */
	size_t length = 0, in_class = 0;

	*count = 0;
	*classes = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct gt_listed *item = &list->items[i];
		const char *rest = gt_list_below(item->path, root);
		size_t head = rest ? strcspn(rest, "/") : 0;

		if (!head || (!rest[head] && !item->folder))
			continue; /* elsewhere, or beside the class folders */
		if (!class || head != length || strncmp(rest, class, head)) {
			if (class && !in_class)
				return no_images(name, root, class, length, other, err);
			class = rest;
			other = NULL;
			length = head;
			in_class = 0;
			++*classes;
		}
		if (item->folder)
			continue;
		if (is_image(rest)) {
			if (i && !strcmp(list->items[i - 1].path, item->path))
				return fail_twice(name, item->path, err);
			images[(*count)++] =
			    (struct gt_image_file){ item, (int32_t)(*classes - 1), rest, head };
			in_class++;
		} else if (gt_image_format_of_name(rest)) {
			other = other ? other : item->path;
			list->other = list->others++ ? list->other : item->path;
		}
	}
	return class && !in_class ? no_images(name, root, class, length, other, err) : 0;
}

static int no_classes(const struct gt_list *list, const char *name, struct gt_err *err)
{
	const char *root = list->root;
	bool has_images = false;

	for (size_t i = 0; i < list->count && !has_images; i++) {
		const char *rest = gt_list_below(list->items[i].path, root);

		has_images = rest && !list->items[i].folder && is_image(rest);
	}
	gt_err_set(err, GT_EINVAL, "'%s%s%s' has no class folders%s", name, *root ? "/" : "", root,
	    has_images ? ", only images" : "");
	return gt_err_hint(err, "images are found as FOLDER/CLASS/NAME.jpg, .png or .webp");
}

static int take_images(struct gt_list *list, const char *name, struct gt_image_file **images,
    size_t *count, int *classes, struct gt_err *err)
{
	int rc;

	*images = gt_calloc(list->count, sizeof(**images), err);
	if (!*images)
		return GT_ENOMEM;
	rc = number_classes(list, name, list->root, *images, count, classes, err);
	return rc || *classes ? rc : no_classes(list, name, err);
}

/*
 * Find the images (GT_IMAGE_ENDINGS) in the class folders of a list. The images of a class are
 * below the folder CLASS/; classes are numbered in the order of their names. This sorts the list.
 *
 *   images   [*count], sorted by class and then by path; the caller frees it with free()
 *   classes  number of classes
 *   name     the listed folder or archive, for messages
 *   split, held_out  as for gt_list_find_root()
 *
 * Errors: GT_EINVAL, also if an image is in an archive twice; GT_ENOMEM.
 */
int gt_list_images(struct gt_list *list, const char *name, const char *split, bool held_out,
    struct gt_image_file **images, size_t *count, int *classes, struct gt_err *err)
{
	int rc;

	*images = NULL;
	gt_list_sort(list);
	rc = gt_list_find_root(list, name, split, held_out, err);
	if (!rc)
		rc = take_images(list, name, images, count, classes, err);
	if (rc) {
		free(*images);
		*images = NULL;
	}
	return rc;
}
