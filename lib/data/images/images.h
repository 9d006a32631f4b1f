/* images.h - private: find the image files of a data set, decode them and resize them. */
#ifndef GT_DATA_IMAGES_IMAGES_H
#define GT_DATA_IMAGES_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/mem.h"
#include "lib/data/core/byte_stream.h"
#include "lib/data/core/source.h"

/* ---- list.c: the images below a folder or in an archive ---- */

/* A file or folder in a list. */
struct gt_listed {
	/* relative to the listed folder or archive, without "./" or "/" at its beginning */
	const char *path;
	bool folder;
	/* [size] an image in an archive, borrowed; else NULL */
	const unsigned char *bytes;
	size_t size;
};

/* Properties of a folder or an archive. If they change, it is listed again. */
struct gt_stamp {
	uint64_t inode;
	int64_t size, mtime_s, mtime_ns, ctime_s, ctime_ns; /* size in bytes */
};

struct gt_listed_folder {
	const char *path; /* relative to the listed folder; "" for this folder */
	struct gt_stamp stamp;
};

/* The items of folders or archives. Zero it and set limit_bytes before use. */
struct gt_list {
	struct gt_arena arena;   /* owns the paths */
	struct gt_arena content; /* owns the bytes of images from compressed archives */
	struct gt_listed *items;
	size_t count, capacity;
	uint64_t limit_bytes; /* limit of its memory; 0: no limit */
	/* archives that are not compressed; items borrow their bytes */
	struct gt_byte_stream **archives;
	size_t archive_count, archive_capacity;
	struct gt_listed_folder *folders; /* all listed folders */
	size_t folder_count, folder_capacity;
	/* Set by gt_list_images(): the folder with the class folders, "" or with a slash at its
	 * end; the folder of a part of the data that was chosen because no split was given, or
	 * NULL; the first picture in a format that gtrain does not read, and the number of
	 * these. */
	const char *root, *default_part, *other;
	size_t others;
	void **indexes; /* contents of cache files; items borrow from them */
	size_t index_count, index_capacity, index_bytes;
	/* The images are inputs for predictions, so a broken link is an item; otherwise it is an
	 * error if it may be an image or a folder. */
	bool inputs;
	/* For WebDataset: keep the content of .cls files, and put the path of the archive before
	 * those of its items. */
	bool labelled;
};

enum { GT_LABEL_BYTES = 32 }; /* bytes of a .cls file */

/* Add a copy of an item, unless it is hidden: a part of its path begins with a dot or is
 * `__MACOSX`. Errors: GT_ENOMEM, also if the limit is exceeded. */
int gt_list_add(struct gt_list *list, const struct gt_listed *item, struct gt_err *err);

/* Remove "." parts and unneeded slashes from a path, in place. */
void gt_list_tidy_path(char *path);

/* Return whether a tidy path ends as GT_IMAGE_ENDINGS, and is not hidden. */
bool gt_list_is_image(const char *path);

/* Add an item with the path FRONT/PATH, where only PATH decides whether it is hidden. `front` may
 * be NULL. */
int gt_list_add_below(
    struct gt_list *list, const char *front, const struct gt_listed *item, struct gt_err *err);

/* Allocate memory of the list for an image. NULL with err set: no memory, or the limit is
 * exceeded. */
unsigned char *gt_list_alloc(struct gt_list *list, size_t size, struct gt_err *err);

/* Return GT_ENOMEM if `more` bytes would exceed the limit, else 0. */
int gt_list_check_limit(const struct gt_list *list, size_t more, struct gt_err *err);

/* Sort the items by path. The slash counts as the smallest character, so that folders stay
 * together. */
void gt_list_sort(struct gt_list *list);

/* Add everything below a folder, in no order. Links are followed. A long list is cached. */
int gt_list_folder(struct gt_list *list, const char *path, struct gt_err *err);

/* Close the archives, and free the content of items. */
void gt_list_forget_content(struct gt_list *list);

void gt_list_release(struct gt_list *list);

/* An image of the data set. */
struct gt_image_file {
	const struct gt_listed *file;
	int32_t class;
	/* [class_name_length] the name: a part of the path of the file */
	const char *class_name;
	size_t class_name_length;
};

/* Find the images in the class folders of a list, which is then sorted: images[*count], which the
 * caller frees, by class and then by path. Classes are numbered in the order of their names. `name`
 * is for messages; split, held_out: see gt_list_find_root(). Errors: GT_EINVAL, also if an image is
 * in an archive twice. */
int gt_list_images(struct gt_list *list, const char *name, const char *split, bool held_out,
    struct gt_image_file **images, size_t *count, int *classes, struct gt_err *err);

/* ---- root.c ---- */

/* Set list->root and list->default_part of a sorted list: the folder `split`, or one whose name
 * means the same part of the data; NULL: the folder of the training data or, if `held_out`, of
 * validation or test data. */
int gt_list_find_root(
    struct gt_list *list, const char *name, const char *split, bool held_out, struct gt_err *err);

/* Return the part of `path` below `root` ("" or ending in a slash), or NULL. */
const char *gt_list_below(const char *path, const char *root);

/* ---- index.c: long lists, stored in the user's cache ---- */

/* Return the stamp of a file or folder. */
struct gt_stamp gt_stamp_of(const struct stat *st);

/* Long lists are stored in the user's cache, in images/DIGEST.index. gt_index_load() returns false
 * if there is no such file, or if the folders or the archive (NULL for a folder) have changed.
 * gt_index_save() stores the items from `first` on of a list that was begun at the second
 * `began_s`; it never fails. */
bool gt_index_load(struct gt_list *list, const char *path, const struct gt_byte_stream *archive);
void gt_index_save(const struct gt_list *list, size_t first, const char *path,
    const struct gt_byte_stream *archive, int64_t began_s);

/* ---- images.c: data sets of images ---- */

/* The images of a data set. */
struct gt_image_set {
	struct gt_list list;
	struct gt_image_file *files; /* [count], freed with free() */
	size_t count;
	bool in_memory; /* the list has their contents, too */
	/* the folder or archive of the paths; NULL: they are complete */
	char *below;
};

/* Find the images of a spec: set the fields of `set`, which is zeroed except for list.limit_bytes,
 * and classes and names of `s`. The caller releases both. */
typedef int gt_find_images_fn(struct gt_image_set *set, struct gt_source *s,
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err);

/* Open a data set of the images that `find` finds. */
int gt_images_open(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, gt_find_images_fn *find, struct gt_err *err);

/* The settings that gt_images_open() reads. */
/* clang-format off */
#define GT_IMAGE_SETTINGS \
	{ "size", "N", "the model's, else as they are", \
	    "size of the images: N x N pixels, cropped from the center" }, \
	{ "resize", "SIZE", "the shorter side to size", \
	    "size before the crop: N (the shorter side), HxW, squash or no" }, \
	{ "crop", "X", "1", "the share of the shorter side that size is, as 0.875" }, \
	{ "interpolation", "bilinear|bicubic|lanczos", "bilinear", \
	    "filter for resizing, antialiased" }, \
	{ "reduce", "yes|no", "yes", "decode large JPEGs at a reduced size, which is faster" }, \
	{ "channels", "1|3", "the model's, else 3", "read images as gray or as RGB" }, \
	GT_NORMALIZATION_SETTINGS("0", "1")
/* clang-format on */

/* ---- tar.c: the images in a tar archive ---- */

/* Add the files of a tar archive. It stays open if it is not compressed, because items borrow its
 * bytes; else images are copied, within the limit of the list. Errors name the archive. */
int gt_list_archive(struct gt_list *list, const char *path, struct gt_err *err);

/* ---- decode.c: decode and resize an image ---- */

/* Limits of an image. A file may have 4 bytes for each pixel of the largest one. */
enum { GT_IMAGE_MAX_PIXELS = 64 << 20, GT_IMAGE_MAX_FILE_BYTES = 4 * GT_IMAGE_MAX_PIXELS };

enum gt_image_decoder { GT_DECODER_NONE, GT_DECODER_JPEG, GT_DECODER_PNG, GT_DECODER_WEBP };

/* A format of pictures; GT_DECODER_NONE: gtrain does not read it. */
struct gt_image_format {
	const char *name;
	enum gt_image_decoder decoder;
};

/* The formats that gtrain reads, and the ends of their names. */
#define GT_IMAGE_FORMATS_OR "JPEG, PNG or WebP"
#define GT_IMAGE_ENDINGS    ".jpg, .jpeg, .png or .webp"

/* formats.c: return the format by the first 12 bytes, or by the end of the name; NULL: not
 * known. */
const struct gt_image_format *gt_image_format_of_bytes(const unsigned char *data, size_t size);
const struct gt_image_format *gt_image_format_of_name(const char *path);

/* Return whether gtrain reads the format of a file. */
bool gt_image_is_known(const unsigned char *data, size_t size);

/* A picture in memory. */
struct gt_image;

/* Read the header of an image. The bytes are borrowed. Errors: GT_EFORMAT, GT_ENOMEM. */
int gt_image_open(
    struct gt_image **out, const unsigned char *data, size_t size, struct gt_err *err);
void gt_image_close(struct gt_image *image);

/* Return the height or width of the upright picture, in pixels. */
int gt_image_height(const struct gt_image *image);
int gt_image_width(const struct gt_image *image);

/* Return the grey value of a pixel as Pillow's convert("L") does: ITU-R BT.601. */
static inline uint8_t gt_image_grey(const uint8_t rgb[3])
{
	return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

struct gt_view;

/* Decode a part of the upright picture, at most once, and resize it to pixels[view->down.count,
 * view->across.count, channels] as Pillow does. `channels` is 1 or 3; `reduced`: decode large JPEGs
 * at a reduced size, which changes pixels a little. Errors: GT_EFORMAT, GT_ENOTSUP, GT_ENOMEM. */
int gt_image_read(struct gt_image *image, const struct gt_view *view, int channels, bool reduced,
    uint8_t *pixels, struct gt_err *err);

#endif
