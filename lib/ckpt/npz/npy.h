/* npy.h - private: the header of NumPy's .npy files. */
#ifndef GT_CKPT_NPZ_NPY_H
#define GT_CKPT_NPZ_NPY_H

#include "lib/ckpt/ckpt.h"

/*
 * The header of a .npy file. The file consists of: the bytes "\x93NUMPY"; a version of two bytes;
 * the length of the header text (2 bytes in version 1, 4 bytes in versions 2 and 3); the header
 * text; the elements. The header text is a Python dict in ASCII (UTF-8 in version 3). It is padded
 * with spaces so that the elements start at a multiple of 64 bytes, and ends with a newline:
 *
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
 *
 * gtrain accepts only this pattern, with the keys in any order; it evaluates nothing. `descr`
 * consists of byte order ('<', '>', '|' or '='), kind and size. Objects ('|O') are pickles.
 * Structured types (their `descr` is a list), strings and dates are not numbers. All these types
 * are errors, and the message names the type. NumPy has no bfloat16 and no float8. Libraries save
 * bfloat16 and float8 as raw bytes ('|V2', '<V1'), so the header does not say which type the
 * elements have. gtrain neither reads nor writes such files.
 * Source: numpy/lib/format.py, "Format Version 1.0" to "3.0", numpy 1.24.
 */
struct gt_npy {
	enum gt_dtype dtype;
	bool swapped;       /* the byte order of the elements is not that of the host */
	bool fortran_order; /* column-major: the first index varies fastest in memory */
	int ndim;
	int64_t shape[32];
	size_t data_at; /* offset of the first element in the file, in bytes */
	/* "strings" or "objects" if gt_npy_parse() fails because the elements are such; otherwise
	 * NULL */
	const char *others;
};

/*
 * Set *dtype to the type that NumPy calls `name`: a kind and a size, such as "f4", without a byte
 * order. Return false if gtrain has no such type.
 */
bool gt_npy_dtype(const char *name, enum gt_dtype *dtype);

/* Longest header text that gtrain accepts, in bytes. */
enum { GT_NPY_HEADER_MAX = 64 * 1024 };

/* Number of bytes that gt_npy_begins() needs. */
enum { GT_NPY_START = 12 };
/* Return whether `bytes`, the first GT_NPY_START or more bytes of a file, begin like a .npy
 * file. */
bool gt_npy_begins(const void *bytes, size_t size);

/*
 * Return the number of bytes before the elements of a .npy file. `bytes` are the first 12 or more
 * bytes of the file, or the whole file if it is shorter. Return `size` if the bytes are too few to
 * contain the length of the header, or if the header is longer than GT_NPY_HEADER_MAX.
 */
size_t gt_npy_header_bytes(const void *bytes, size_t size);

/*
 * Parse the header of a file of `file_size` bytes. `bytes` are the first `size` bytes of the file:
 * the whole header, or as much of it as the file contains. Errors: GT_EFORMAT; GT_ENOTSUP for a
 * dtype or a version of the format that gtrain does not support, and for more than 32 dimensions;
 * GT_EIO if the header does not fit into `size` bytes, because another process has changed the file
 * since `size` was computed.
 */
int gt_npy_parse(
    struct gt_npy *out, const void *bytes, size_t size, uint64_t file_size, struct gt_err *err);

/*
 * Format a header of version 1 as NumPy does, for elements in little-endian row-major order. Set
 * *header to the header, which the caller frees with free(), and *size to its length in bytes.
 * Errors: GT_ENOTSUP for a dtype that NumPy does not have; GT_ENOMEM.
 */
int gt_npy_format(unsigned char **header, size_t *size, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_err *err);

#endif
