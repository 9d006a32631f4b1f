/* images.h - inside data: lists of image files, decoding, resizing. */
#ifndef GT_DATA_IMAGES_H
#define GT_DATA_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/mem.h"
#include "lib/data/byte_stream.h"
#include "lib/data/source.h"

/* ---- images_list.c: the images below a folder or in an archive ---- */

struct gt_listed {
	const char *path; /* from the folder or archive down, no leading "./" or "/" */
	bool folder;
	const unsigned char *bytes; /* images in archives: the content, borrowed; else NULL */
	size_t size;
};

/* A folder or an archive as it was when it was listed. */
struct gt_stamp {
	uint64_t inode;
	int64_t size, mtime_s, mtime_ns, ctime_s, ctime_ns;
};

struct gt_listed_folder {
	const char *path; /* as an item's; "" for the one that is listed */
	struct gt_stamp stamp;
};

/* Set the limit and zero the rest; release with gt_list_release(). */
struct gt_list {
	struct gt_arena arena;   /* the paths */
	struct gt_arena content; /* bytes of images from a compressed archive */
	struct gt_listed *items;
	size_t count, capacity;
	uint64_t limit_bytes;             /* limit of the memory for all of these; 0: no limit */
	struct gt_byte_stream **archives; /* that items borrow from */
	size_t archive_count, archive_capacity;
	struct gt_listed_folder *folders; /* that were listed */
	size_t folder_count, folder_capacity;
	bool has_loose_links; /* that lead nowhere */
	void **indexes;       /* files of the cache that items borrow from */
	size_t index_count, index_capacity, index_bytes;
	/* For archives in the form of WebDataset: also keep the content of .cls files, and put the
	 * archive's path before the path of each item. */
	bool labelled;
};

enum { GT_LABEL_BYTES = 32 }; /* of a .cls file, at most */

/* Add a file or folder; hidden ones (a part of the path begins with a dot) are left out.
 * Errors: GT_ENOMEM, also where the limit is passed. */
int gt_list_add(struct gt_list *list, const struct gt_listed *item, struct gt_err *err);

/* Take "./", doubled and trailing slashes off a path, in place. */
void gt_list_tidy_path(char *path);

/* Whether a file of this tidy path is an image, by its ending, and not hidden. */
bool gt_list_is_image(const char *path);

/* The same behind `front`, unless it is NULL, and a slash; hidden or not, by the item's path. */
int gt_list_add_behind(
    struct gt_list *list, const char *front, const struct gt_listed *item, struct gt_err *err);

/* `size` bytes of the list's memory for an image; NULL with err set where that passes the limit. */
unsigned char *gt_list_alloc(struct gt_list *list, size_t size, struct gt_err *err);

/* Whether `more` bytes of memory pass the list's limit: GT_ENOMEM. */
int gt_list_check_limit(const struct gt_list *list, size_t more, struct gt_err *err);

/* Sort the items by path, with the slash before every other character, so that folders are in the
 * order of their names. */
void gt_list_sort(struct gt_list *list);

/* List everything below a folder, following links; in any order. Long lists are kept
 * (gt_index_load()). */
int gt_list_folder(struct gt_list *list, const char *path, struct gt_err *err);

/*
 * The content of items is not needed any more: close the archives, free the bytes inflated from
 * compressed ones.
 */
void gt_list_forget_content(struct gt_list *list);

void gt_list_release(struct gt_list *list);

/* An image of the data set. */
struct gt_image_file {
	const struct gt_listed *file;
	int32_t class;
	const char *class_name; /* [class_name_length], in the file's path */
	size_t class_name_length;
};

/*
 * Find the images (.jpg, .jpeg, .png) below CLASS/ folders: *images [*count], yours to free(), by
 * class and then by path; classes are numbered by name. `split` is the sub-folder to take; NULL
 * takes `train` where there is one that holds class folders. If a folder contains only one folder
 * with class folders, that folder is used instead. `name` is for errors (GT_EINVAL). The list is
 * put in order.
 */
int gt_list_images(struct gt_list *list, const char *name, const char *split,
    struct gt_image_file **images, size_t *count, int *classes, struct gt_err *err);

/* ---- images_index.c: long lists, kept in the user's cache ---- */

struct gt_stamp gt_stamp_of(const struct stat *st);

/*
 * Lists of 10,000 items or more are kept as files, images/DIGEST.index below gt_user_cache_path(),
 * together with the stamps of all folders, or of the archive, that they were made from.
 *
 * gt_index_load() adds the items of a folder, or of a plain archive that is open, to the list:
 * false if there is no file, it is damaged or belongs to another path, or anything has changed.
 * gt_index_save() keeps the items from `first` on, which were listed from the time `began_s` on;
 * except lists with changes in the last moment, because the file system's clock may not distinguish
 * another change from them. If a file cannot be written, the next run lists the folder again.
 */
bool gt_index_load(struct gt_list *list, const char *path, const struct gt_byte_stream *archive);
void gt_index_save(const struct gt_list *list, size_t first, const char *path,
    const struct gt_byte_stream *archive, int64_t began_s);

/* ---- images.c ---- */

/* The images of a data set: found, and read later. */
struct gt_image_set {
	struct gt_list list;
	struct gt_image_file *files; /* [count], to be freed, as `below` */
	size_t count;
	bool in_memory; /* the list has the content, too */
	char *below;    /* the folder or archive that their paths begin at; NULL: whole paths */
};

/* Find the images of a spec: fill in the set, which is empty but for the limit of its list, and
 * classes and names of the source. The caller releases both, after an error, too. */
typedef int gt_find_images_fn(struct gt_image_set *set, struct gt_source *s,
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err);

/* Open a data set of images that `find` finds. Its kind has these settings, besides its own. */
int gt_images_open(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, gt_find_images_fn *find, struct gt_err *err);

/* clang-format off */
#define GT_IMAGE_SETTINGS \
	{ "size", "N", "the model's, else as they are", \
	    "resize to N x N: the shorter side to N, then the centre" }, \
	{ "reduce", "yes|no", "yes", "decode large JPEGs at a part of their size, in less time" }, \
	{ "channels", "1|3", "the model's, else 3", "read images as gray or as RGB" }, \
	{ "mean", "a/b/c", "0", \
	    "subtracted from pixels of the 0..1 scale, by channel or for all" }, \
	{ "std", "a/b/c", "1", "then divides them, by channel or for all" }
/* clang-format on */

/* ---- images_tar.c ---- */

/*
 * List a tar archive: ustar, GNU long names, pax paths. In a plain archive the images' bytes are
 * borrowed from it, so it stays open, and a long list is kept (gt_index_load()). Out of a
 * compressed one they are copied to the list's memory, those of all other files are skipped. The
 * archive ends at its end marker; behind it at most 64 MiB of anything may follow.
 *
 * Errors, with the archive's path: GT_EIO, GT_EFORMAT (not a tar, bad checksum, cut short, an image
 * of more than GT_IMAGE_MAX_FILE_BYTES in a compressed archive, a label of more than
 * GT_LABEL_BYTES), GT_ENOTSUP (sparse files), GT_ENOMEM (more than the list's limit).
 */
int gt_list_archive(struct gt_list *list, const char *path, struct gt_err *err);

/* ---- images_decode.c ---- */

/* The file: 4 bytes for each pixel that an image may have, as if it were not compressed. */
enum { GT_IMAGE_MAX_PIXELS = 64 << 20, GT_IMAGE_MAX_FILE_BYTES = 4 * GT_IMAGE_MAX_PIXELS };

/* Whether the first bytes of a file are those of a JPEG or a PNG. */
bool gt_image_is_known(const unsigned char *data, size_t size);

/* A JPEG or PNG in memory, whose header has been read; the bytes are borrowed until it is closed.
 * Errors: GT_EFORMAT (neither, corrupt, more than GT_IMAGE_MAX_PIXELS), GT_ENOMEM. */
struct gt_image;

int gt_image_open(
    struct gt_image **out, const unsigned char *data, size_t size, struct gt_err *err);
void gt_image_close(struct gt_image *image);

/* In pixels, of the picture turned upright as the Exif part of a JPEG says. */
int gt_image_height(const struct gt_image *image);
int gt_image_width(const struct gt_image *image);

/* The grey value that Pillow's convert("L") gives: ITU-R BT.601, in 16 bits. */
static inline uint8_t gt_image_grey(const uint8_t rgb[3])
{
	return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

/*
 * Decode the part of the upright picture that `view` is about, and resize it (resize.h) to
 * pixels [view->down.count, view->across.count, channels], channels = 1 (grey) or 3 (RGB).
 *
 * Pixels are those that Pillow's convert("RGB") and convert("L") give: accurate integer DCT, smooth
 * chroma upsampling; alpha and transparent colours are dropped; four colours are inverted CMYK.
 * Values of 16 bits are reduced to their upper 8, also in grey PNGs, where Pillow clips at 255 and
 * makes them white. With `reduced` a JPEG that becomes smaller by half or more is decoded at 4, 2
 * or 1 eighths of its size, in less time: pixels then differ a little. Pixels of a JPEG that the
 * view does not need are not decoded, so that damage in them goes unnoticed. Once for each
 * gt_image_open().
 *
 * Errors: GT_EFORMAT (corrupt, cut short, size and content disagree), GT_ENOTSUP, GT_ENOMEM;
 * `pixels` is undefined then.
 */
struct gt_view;
int gt_image_read(struct gt_image *image, const struct gt_view *view, int channels, bool reduced,
    uint8_t *pixels, struct gt_err *err);

#endif
