/* npy.h - inside ckpt: the header of numpy's .npy files. */
#ifndef GT_CKPT_NPZ_NPY_H
#define GT_CKPT_NPZ_NPY_H

#include "lib/ckpt/ckpt.h"

/*
 * "\x93NUMPY", a version of two bytes, the header's length (2 bytes in version 1, 4 in 2 and 3),
 * the header, and the elements. The header is a Python dict in ASCII (UTF-8 in version 3), padded
 * with spaces so that the elements start at a multiple of 64, and ended by a newline:
 *
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * It is read as this one pattern, with the keys in any order; nothing is evaluated. `descr` is
 * byte order ('<', '>', '|' or '='), kind and size. Objects ('|O'), structures (a list), strings
 * and dates are errors that name the type: they are pickles, or not numbers. numpy has no bfloat16
 * and no float8. Libraries that save them write raw bytes ('|V2', '<V1'), which do not name the
 * type, so these are errors too, in reading and in writing.
 * Source: numpy/lib/format.py, "Format Version 1.0" to "3.0", numpy 1.24.
 */
struct gt_npy {
	enum gt_dtype dtype;
	bool swapped;
	bool fortran_order; /* elements that differ by one in the first index are neighbours */
	int ndim;
	int64_t shape[32];
	size_t data_at; /* byte of the first element */
};

/* The type that numpy calls "f4", for instance, without regard to byte order; false if gtrain has
 * no such type. */
bool gt_npy_dtype(const char *name, enum gt_dtype *dtype);

enum { GT_NPY_HEADER_MAX = 64 * 1024 };

/* Whether a file is an array; only its first bytes are needed. */
enum { GT_NPY_START = 12 };
bool gt_npy_begins(const void *bytes, size_t size);

/* The number of bytes before a file's elements. `bytes` are its first 12 or more, or all it has.
 * Returns `size` if they do not begin an array, or if its header is above the limit. */
size_t gt_npy_header_bytes(const void *bytes, size_t size);

/* Parse the header. `bytes` are the first `size` bytes of a file of `file_size` bytes: the whole
 * header, or all that the file has of it. GT_EFORMAT; GT_ENOTSUP for a dtype we do not support. */
int gt_npy_parse(
    struct gt_npy *out, const void *bytes, size_t size, uint64_t file_size, struct gt_err *err);

/*
 * A header as numpy writes it, of version 1, for elements in little-endian row-major order.
 * *header is yours to free(). GT_ENOTSUP for a dtype that numpy has no name for.
 */
int gt_npy_format(unsigned char **header, size_t *size, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_err *err);

#endif
