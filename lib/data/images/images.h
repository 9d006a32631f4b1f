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
	/* Relative to the listed folder or archive, without "./" or "/" at its beginning. */
	const char *path;
	bool folder; /* true for a folder, false for a file */
	/* [size] content of an image in an archive, borrowed; NULL for other files. */
	const unsigned char *bytes;
	size_t size;
};

/* Properties of a folder or an archive when it was listed. If they have changed since, the folder
 * or archive must be listed again. */
struct gt_stamp {
	uint64_t inode;
	int64_t size, mtime_s, mtime_ns, ctime_s, ctime_ns; /* size in bytes */
};

struct gt_listed_folder {
	const char *path; /* relative to the listed folder; "" for the listed folder itself */
	struct gt_stamp stamp;
};

/* The files and folders of one or more folders or archives. Before use, zero it and set
 * limit_bytes. Release it with gt_list_release(). */
struct gt_list {
	struct gt_arena arena;   /* owns the paths */
	struct gt_arena content; /* owns the bytes of images from compressed archives */
	struct gt_listed *items;
	size_t count, capacity;
	uint64_t limit_bytes;             /* limit of the memory of all fields; 0: no limit */
	struct gt_byte_stream **archives; /* uncompressed archives; items borrow their bytes */
	size_t archive_count, archive_capacity;
	struct gt_listed_folder *folders; /* all folders that were listed */
	size_t folder_count, folder_capacity;
	/* Set by gt_list_images(). root: the folder that has the class folders, relative to the
	 * listed folder: "", or a path that ends in a slash. (A class folder has the images of one
	 * class.) default_part: the folder of a part of the data that was chosen because no split
	 * was given; NULL: none. others: number of files in class folders that are pictures in
	 * formats that gtrain does not read. other: the path of the first of these files. */
	const char *root, *default_part, *other;
	size_t others;
	void **indexes; /* contents of cache files (gt_index_load()); items borrow from them */
	size_t index_count, index_capacity, index_bytes;
	/* true: the images are inputs for predictions. A symbolic link that leads to no file is
	 * then added to the list, although it cannot be read. false: such a link is an error if it
	 * may be an image or a folder. */
	bool inputs;
	/* For archives in the form of WebDataset, which have the class of each image in a .cls
	 * file: also store the content of .cls files, and put the archive's path before the path of
	 * each item. */
	bool labelled;
};

enum { GT_LABEL_BYTES = 32 }; /* limit of the size of a .cls file */

/* Add a copy of an item to the list. An item is hidden if a part of its path begins with a dot or
 * is `__MACOSX`. Hidden items are left out. Errors: GT_ENOMEM, also if the list's limit is
 * exceeded. */
int gt_list_add(struct gt_list *list, const struct gt_listed *item, struct gt_err *err);

/* Remove "." parts and unneeded slashes (leading, doubled, trailing) from a path, in place. */
void gt_list_tidy_path(char *path);

/* Return whether a file name ends as those of formats that gtrain reads (GT_IMAGE_ENDINGS), and no
 * part of its path is hidden. The path must be tidy (gt_list_tidy_path()). */
bool gt_list_is_image(const char *path);

/* Add an item with the path FRONT/PATH: FRONT is `front`, and PATH is item->path. Only PATH decides
 * whether the item is hidden. If `front` is NULL, do the same as gt_list_add(). */
int gt_list_add_below(
    struct gt_list *list, const char *front, const struct gt_listed *item, struct gt_err *err);

/* Allocate `size` bytes of the list's memory for an image. Return NULL and set err if this would
 * exceed the limit, or if memory runs out. */
unsigned char *gt_list_alloc(struct gt_list *list, size_t size, struct gt_err *err);

/* Return GT_ENOMEM if `more` bytes of memory would exceed the list's limit, else 0. */
int gt_list_check_limit(const struct gt_list *list, size_t more, struct gt_err *err);

/* Sort the items by path. The slash counts as the smallest character, so the items of a folder are
 * together, and folders are in the order of their names. */
void gt_list_sort(struct gt_list *list);

/* Add everything below a folder to the list, following symbolic links. The order of the items is
 * not specified. A long list is stored in the user's cache, and loaded from it
 * (gt_index_load()). */
int gt_list_folder(struct gt_list *list, const char *path, struct gt_err *err);

/* Close the archives, and free the bytes of images from compressed archives. After this call the
 * content of items must not be used. */
void gt_list_forget_content(struct gt_list *list);

void gt_list_release(struct gt_list *list);

/* An image of the data set. */
struct gt_image_file {
	const struct gt_listed *file;
	int32_t class;
	/* [class_name_length] the class folder's name: a part of the file's path, without a
	 * terminating zero */
	const char *class_name;
	size_t class_name_length;
};

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
    struct gt_image_file **images, size_t *count, int *classes, struct gt_err *err);

/* ---- root.c ---- */

/*
 * Find the folder that has the class folders in a sorted list, and set list->root and
 * list->default_part.
 *
 *   split     The sub-folder that has the class folders. If there is no such folder, but the name
 *             means a part of the data (training, validation, test), the folder whose name means
 *             the same part: for `val`, also `Validation`. NULL: the folder of the part to train
 *             on if it has class folders, otherwise the listed folder itself.
 *   held_out  If `split` is NULL: prefer the validation part, then the test part.
 *
 * A folder that contains nothing but one folder is skipped. Folders that are all named like parts
 * of the data are never classes. Errors: GT_EINVAL, GT_ENOMEM.
 */
int gt_list_find_root(
    struct gt_list *list, const char *name, const char *split, bool held_out, struct gt_err *err);

/* Return the part of `path` below `root` ("" or ending in a slash); NULL if it is elsewhere. */
const char *gt_list_below(const char *path, const char *root);

/* ---- index.c: long lists, stored in the user's cache ---- */

/* Return the stamp of a file or folder from the result of stat(). */
struct gt_stamp gt_stamp_of(const struct stat *st);

/*
 * Lists of 10,000 items or more are stored in files, images/DIGEST.index below
 * gt_user_cache_path(). Such a file also has the stamp of the listed archive, or the stamps of all
 * listed folders. `archive` is the open uncompressed archive; it is NULL for a folder.
 *
 * gt_index_load() adds the stored items of a folder or archive to the list. It returns false if
 * there is no file, if the file is damaged or belongs to another path, or if a stamp has changed.
 *
 * gt_index_save() stores the items from index `first` on. `began_s` is the time when the listing
 * began, in seconds. Nothing is stored if a folder or the archive changed less than 2 seconds
 * before `began_s`: if it changes again, its stamp may stay the same, because the clock of a file
 * system may be coarse. If the file cannot be written, there is no error: the next run lists the
 * folder again.
 */
bool gt_index_load(struct gt_list *list, const char *path, const struct gt_byte_stream *archive);
void gt_index_save(const struct gt_list *list, size_t first, const char *path,
    const struct gt_byte_stream *archive, int64_t began_s);

/* ---- images.c: data sets of images ---- */

/* The images of a data set. */
struct gt_image_set {
	struct gt_list list;
	struct gt_image_file *files; /* [count]; the data set frees it with free() */
	size_t count;
	bool in_memory; /* the list has the contents of the images, too */
	/* The folder or archive that the paths are relative to; freed like `files`. NULL: the paths
	 * are complete. */
	char *below;
};

/* A function that finds the images of a spec (spec.h). It sets the fields of `set`, and the classes
 * and class names of `s`. Before the call, `set` is zeroed except for list.limit_bytes. The caller
 * releases `set` and `s`, also after an error. */
typedef int gt_find_images_fn(struct gt_image_set *set, struct gt_source *s,
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err);

/* Open a data set of the images that `find` finds. */
int gt_images_open(struct gt_source **out, const struct gt_spec *spec,
    const struct gt_data_request *request, gt_find_images_fn *find, struct gt_err *err);

/* The settings that gt_images_open() reads: rows of struct gt_setting for kinds of image data. */
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
int gt_list_archive(struct gt_list *list, const char *path, struct gt_err *err);

/* ---- decode.c: decode and resize an image ---- */

/* Limits of an image: its number of pixels, and the size of its file in bytes. A file may have 4
 * bytes for each pixel of the largest image. */
enum { GT_IMAGE_MAX_PIXELS = 64 << 20, GT_IMAGE_MAX_FILE_BYTES = 4 * GT_IMAGE_MAX_PIXELS };

enum gt_image_decoder { GT_DECODER_NONE, GT_DECODER_JPEG, GT_DECODER_PNG, GT_DECODER_WEBP };

/* A format of pictures. GT_DECODER_NONE: gtrain does not read it. */
struct gt_image_format {
	const char *name;
	enum gt_image_decoder decoder;
};

/* The formats that gtrain reads, for messages; GT_IMAGE_ENDINGS: the ends of their names. */
#define GT_IMAGE_FORMATS_OR "JPEG, PNG or WebP"
#define GT_IMAGE_ENDINGS    ".jpg, .jpeg, .png or .webp"

/* formats.c: return the format of a picture by its first bytes (12 of them suffice), or by
 * the end of its name; NULL: not known. */
const struct gt_image_format *gt_image_format_of_bytes(const unsigned char *data, size_t size);
const struct gt_image_format *gt_image_format_of_name(const char *path);

/* Return whether a file begins like a picture in a format that gtrain reads. */
bool gt_image_is_known(const unsigned char *data, size_t size);

/* A picture in memory. */
struct gt_image;

/* Read the header of an image. The bytes are borrowed until the image is closed. Errors: GT_EFORMAT
 * (another format, corrupt, more than GT_IMAGE_MAX_PIXELS), GT_ENOMEM. */
int gt_image_open(
    struct gt_image **out, const unsigned char *data, size_t size, struct gt_err *err);
void gt_image_close(struct gt_image *image);

/* Return the height or width of the upright picture, in pixels. If the Exif part of a JPEG has an
 * orientation, the picture is turned upright accordingly. */
int gt_image_height(const struct gt_image *image);
int gt_image_width(const struct gt_image *image);

/* Return the grey value of a pixel, equal to Pillow's convert("L"): ITU-R BT.601, with weights of
 * 16 bits. */
static inline uint8_t gt_image_grey(const uint8_t rgb[3])
{
	return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

struct gt_view;

/*
 * Decode a part of the upright picture, and resize it (resize.h). Call this at most once for each
 * opened image.
 *
 *   view       the part, and its size after resizing
 *   channels   1 (grey) or 3 (RGB)
 *   reduced    decode a JPEG at 4/8, 2/8 or 1/8 of its size, if it would be resized to half of its
 *              size or less. This takes less time; pixels then differ a little.
 *   pixels     result: [view->down.count, view->across.count, channels]; undefined after an error
 *
 * Pixels are equal to Pillow's convert("RGB") and convert("L"): accurate integer DCT, smooth chroma
 * upsampling; alpha and transparent colors are dropped; a JPEG of four colors is read as inverted
 * CMYK. Values of 16 bits are reduced to their upper 8 bits. There is one difference from Pillow:
 * in 16-bit grey PNGs, Pillow clips values at 255, so its images are white.
 *
 * Pixels of a JPEG that the view does not need are not decoded, so damage in them is not noticed.
 *
 * Errors: GT_EFORMAT (corrupt, cut short, size and content disagree), GT_ENOTSUP, GT_ENOMEM.
 */
int gt_image_read(struct gt_image *image, const struct gt_view *view, int channels, bool reduced,
    uint8_t *pixels, struct gt_err *err);

#endif
