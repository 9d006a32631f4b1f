/* npy.h - private: the header of NumPy's .npy files. */
#ifndef GT_CKPT_NPZ_NPY_H
#define GT_CKPT_NPZ_NPY_H

#include "lib/ckpt/ckpt.h"

/* The header of a .npy file (the format is in npz/npy.c). */
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

/* Set *dtype to the type that NumPy calls `name`, such as "f4". Return false if there is none. */
bool gt_npy_dtype(const char *name, enum gt_dtype *dtype);

/* Longest header text that gtrain accepts, in bytes. */
enum { GT_NPY_HEADER_MAX = 64 * 1024 };

/* Number of bytes that gt_npy_begins() needs. */
enum { GT_NPY_START = 12 };
/* Return whether `bytes`, the first GT_NPY_START or more bytes of a file, begin like a .npy
 * file. */
bool gt_npy_begins(const void *bytes, size_t size);

/*
 * Return the number of bytes before the elements, from the first 12 or more bytes of the file;
 * `size` if they are too few or the header is too long.
 */
size_t gt_npy_header_bytes(const void *bytes, size_t size);

/*
 * Parse a header. GT_ENOTSUP: a dtype, version or number of dimensions. GT_EIO: the file changed
 * meanwhile.
 */
int gt_npy_parse(
    struct gt_npy *out, const void *bytes, size_t size, uint64_t file_size, struct gt_err *err);

/*
 * Format a header of version 1, little-endian and row-major. The caller frees *header. GT_ENOTSUP:
 * NumPy has no such dtype.
 */
int gt_npy_format(unsigned char **header, size_t *size, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_err *err);

#endif
