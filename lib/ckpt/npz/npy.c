/* npy.c - the header of numpy's .npy files. */
#include "lib/ckpt/npz/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/ckpt/bytes.h"
#include "lib/ckpt/tree/tree.h"

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

static const char magic[] = "\x93NUMPY";

enum {
	MAGIC_BYTES = 6,
	ALIGN = 64,
	GROWTH_DIGITS = 21, /* numpy pads the first size to so many digits */
};

static const struct {
	const char *name;
	enum gt_dtype dtype;
} types[] = {
	{ "f4", GT_F32 },
	{ "f8", GT_F64 },
	{ "f2", GT_F16 },
	{ "i8", GT_I64 },
	{ "i4", GT_I32 },
	{ "i2", GT_I16 },
	{ "i1", GT_I8 },
	{ "u8", GT_U64 },
	{ "u4", GT_U32 },
	{ "u2", GT_U16 },
	{ "u1", GT_U8 },
	{ "b1", GT_BOOL },
	{ "c8", GT_C64 },
	{ "c16", GT_C128 },
};

bool gt_npy_dtype(const char *name, enum gt_dtype *dtype)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (strcmp(types[i].name, name))
			continue;
		*dtype = types[i].dtype;
		return true;
	}
	return false;
}

/* ---- reading ---- */

struct reader {
	const char *text;
	size_t size, at;
	size_t base; /* offset of the text in the file */
};

static int wrong(const struct reader *r, const char *due, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "npy: the header has something else than %s at byte %zu",
	    due, r->base + r->at);
}

static char peek(struct reader *r)
{
	while (r->at < r->size && r->text[r->at] == ' ')
		r->at++;
	return r->at < r->size ? r->text[r->at] : '\0';
}

static bool accept(struct reader *r, char c)
{
	if (peek(r) != c || !c)
		return false;
	r->at++;
	return true;
}

/* A string of Python's, without escapes, into `out`. */
static int read_string(struct reader *r, char *out, size_t size, struct gt_err *err)
{
	char quote = peek(r);
	size_t n = 0;

	if (quote != '\'' && quote != '"')
		return wrong(r, "a string", err);
	r->at++;
	while (r->at < r->size && r->text[r->at] != quote) {
		char c = r->text[r->at];

		if (c == '\\' || c < ' ' || n + 1 >= size)
			return wrong(r, "a plain string", err);
		out[n++] = c;
		r->at++;
	}
	if (r->at == r->size)
		return wrong(r, "the end of a string", err);
	r->at++;
	out[n] = '\0';
	return 0;
}

static bool accept_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	peek(r);
	if (r->size - r->at < n || memcmp(r->text + r->at, word, n) != 0)
		return false;
	r->at += n;
	return true;
}

static int read_count(struct reader *r, int64_t *out, struct gt_err *err)
{
	int64_t n = 0;

	if (peek(r) < '0' || peek(r) > '9')
		return wrong(r, "a count", err);
	while (r->at < r->size && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, r->text[r->at] - '0', &n))
			return wrong(r, "a count below 2^63", err);
		r->at++;
	}
	accept(r, 'L'); /* Python 2's long */
	*out = n;
	return 0;
}

/* (), (2,), (2, 3) */
static int read_shape(struct reader *r, struct gt_npy *out, struct gt_err *err)
{
	bool comma = true;
	int rc;

	if (!accept(r, '('))
		return wrong(r, "a tuple", err);
	while (!accept(r, ')')) {
		if (!comma)
			return wrong(r, "',' or ')'", err);
		if (out->ndim == GT_TREE_MAX_DIMS)
			return gt_err_set(
			    err, GT_ENOTSUP, "npy: more than %d dimensions", GT_TREE_MAX_DIMS);
		rc = read_count(r, &out->shape[out->ndim], err);
		if (rc)
			return rc;
		out->ndim++;
		comma = accept(r, ',');
	}
	if (out->ndim == 1 && !comma)
		return wrong(r, "a tuple", err);
	return 0;
}

/* The elements of arrays that are never weights; NULL for other types. */
static const char *descr_others(const char *descr)
{
	char kind = *descr ? descr[1] : '\0';

	return kind == 'O' ? "objects" : kind == 'U' || kind == 'S' ? "strings" : NULL;
}

static int fail_descr(const char *descr, struct gt_err *err)
{
	if (strchr(descr, 'O')) {
		gt_err_set(
		    err, GT_ENOTSUP, "npy: an array of objects ('%s'), which is a pickle", descr);
		return gt_err_hint(err, "save it again as numbers");
	}
	if (strchr(descr, 'V')) {
		gt_err_set(err, GT_ENOTSUP, "npy: an array of raw bytes ('%s')", descr);
		return gt_err_hint(err,
		    "if it was bfloat16 or float8, which numpy does not have: save "
		    "it again as float32");
	}
	return gt_err_set(err, GT_ENOTSUP, "npy: gtrain does not know the dtype '%s'", descr);
}

static int read_descr(struct reader *r, struct gt_npy *out, struct gt_err *err)
{
	char descr[64];
	int rc;

	if (peek(r) == '[')
		return gt_err_set(err, GT_ENOTSUP, "npy: an array of structures, not of numbers");
	rc = read_string(r, descr, sizeof(descr), err);
	if (rc)
		return rc;
	if (!*descr || !strchr("<>|=", *descr) || !gt_npy_dtype(descr + 1, &out->dtype)) {
		out->others = descr_others(descr);
		return fail_descr(descr, err);
	}
	out->swapped = (*descr == '<' && gt_host_is_big()) || (*descr == '>' && !gt_host_is_big());
	return 0;
}

enum { DESCR = 1, ORDER = 2, SHAPE = 4 };

static int read_value(
    struct reader *r, const char *key, int *met, struct gt_npy *out, struct gt_err *err)
{
	static const char *const keys[] = { "descr", "fortran_order", "shape" };
	int field = 0;

	for (int i = 0; i < 3; i++)
		if (!strcmp(key, keys[i]))
			field = 1 << i;
	if (!field || *met & field)
		return gt_err_set(err, GT_EFORMAT, "npy: the header has the key '%s'%s", key,
		    field ? " twice" : "");
	*met |= field;
	if (field == DESCR)
		return read_descr(r, out, err);
	if (field == SHAPE)
		return read_shape(r, out, err);
	out->fortran_order = accept_word(r, "True");
	if (!out->fortran_order && !accept_word(r, "False"))
		return wrong(r, "True or False", err);
	return 0;
}

static int read_dict(struct reader *r, struct gt_npy *out, struct gt_err *err)
{
	bool comma = true;
	char key[16];
	int met = 0, rc;

	if (!accept(r, '{'))
		return wrong(r, "'{'", err);
	while (!accept(r, '}')) {
		if (!comma)
			return wrong(r, "',' or '}'", err);
		rc = read_string(r, key, sizeof(key), err);
		if (!rc && !accept(r, ':'))
			rc = wrong(r, "':'", err);
		if (!rc)
			rc = read_value(r, key, &met, out, err);
		if (rc)
			return rc;
		comma = accept(r, ',');
	}
	if (met != (DESCR | ORDER | SHAPE))
		return gt_err_set(
		    err, GT_EFORMAT, "npy: the header lacks descr, fortran_order or shape");
	accept(r, '\n');
	return peek(r) || r->at < r->size ? wrong(r, "blanks", err) : 0;
}

/* Where the header's text starts, and its length as stated. */
static size_t text_at(const unsigned char *p)
{
	return MAGIC_BYTES + 2 + (p[6] == 1 ? 2 : 4);
}

static size_t text_bytes(const unsigned char *p)
{
	return gt_get_le(p + MAGIC_BYTES + 2, p[6] == 1 ? 2 : 4);
}

bool gt_npy_begins(const void *bytes, size_t size)
{
	return size >= GT_NPY_START && !memcmp(bytes, magic, MAGIC_BYTES);
}

size_t gt_npy_header_bytes(const void *bytes, size_t size)
{
	const unsigned char *p = bytes;

	if (size < MAGIC_BYTES + 2 || size < text_at(p) || text_bytes(p) > GT_NPY_HEADER_MAX)
		return size;
	return text_at(p) + text_bytes(p);
}

/*
 * Parse the header of a file of `file_size` bytes. `bytes` are the first `size` bytes of the file:
 * the whole header, or as much of it as the file contains. Errors: GT_EFORMAT; GT_ENOTSUP for a
 * dtype or a version of the format that gtrain does not support, and for more than 32 dimensions;
 * GT_EIO if the header does not fit into `size` bytes, because another process has changed the file
 * since `size` was computed.
 */
int gt_npy_parse(
    struct gt_npy *out, const void *bytes, size_t size, uint64_t file_size, struct gt_err *err)
{
	const unsigned char *p = bytes;
	struct reader r;

	*out = (struct gt_npy){ 0 };
	if (size < MAGIC_BYTES + 2 || memcmp(p, magic, MAGIC_BYTES) != 0)
		return gt_err_set(err, GT_EFORMAT, "npy: it does not start as an array");
	if (p[6] < 1 || p[6] > 3 || p[7])
		return gt_err_set(
		    err, GT_ENOTSUP, "npy: version %d.%d is not 1.0, 2.0 or 3.0", p[6], p[7]);
	r = (struct reader){ .base = text_at(p) };
	if (size < r.base)
		return gt_err_set(
		    err, GT_EFORMAT, "npy: it is cut within the first %zu bytes", r.base);
	r.text = (const char *)p + r.base;
	r.size = text_bytes(p);
	if (r.size > GT_NPY_HEADER_MAX)
		return gt_err_set(err, GT_EFORMAT, "npy: a header of %zu bytes: the most is %d",
		    r.size, GT_NPY_HEADER_MAX);
	if (r.size > file_size - r.base)
		return gt_err_set(err, GT_EFORMAT,
		    "npy: it is cut: %zu bytes of its header are missing",
		    (size_t)(r.size - (file_size - r.base)));
	if (r.size > size - r.base)
		return gt_err_set(err, GT_EIO, "npy: its header has changed while it was read");
	out->data_at = r.base + r.size;
	return read_dict(&r, out, err);
}

/* ---- writing ---- */

static const char *npy_type_name(enum gt_dtype dtype)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (types[i].dtype == dtype)
			return types[i].name;
	return NULL;
}

/* The dict, and the padding that numpy writes after it. */
static void put_dict(
    struct gt_buf *out, const char *type, size_t element, int ndim, const int64_t *shape)
{
	int digits = 0;

	gt_buf_printf(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
	    element > 1 ? '<' : '|', type);
	for (int i = 0; i < ndim; i++)
		gt_buf_printf(out, "%s%" PRId64, i ? ", " : "", shape[i]);
	gt_buf_puts(out, ndim == 1 ? ",), }" : "), }");
	if (ndim)
		digits = snprintf(NULL, 0, "%" PRId64, shape[0]);
	for (int i = digits; ndim && i < GROWTH_DIGITS; i++)
		gt_buf_puts(out, " ");
}

int gt_npy_format(unsigned char **header, size_t *size, enum gt_dtype dtype, int ndim,
    const int64_t *shape, struct gt_err *err)
{
	const char *type = npy_type_name(dtype);
	struct gt_buf out = { 0 };
	char *text;
	int rc;

	*header = NULL;
	if (!type) {
		gt_err_set(err, GT_ENOTSUP, "numpy has no %s", gt_dtype_name(dtype));
		return gt_err_hint(err, "cast it, as with {dtype} fp32");
	}
	gt_buf_add(&out, magic, MAGIC_BYTES);
	gt_buf_add(&out, "\1\0\0\0", 4); /* version 1.0, and the length, below */
	put_dict(&out, type, gt_dtype_size(dtype), ndim, shape);
	do
		gt_buf_puts(&out, " "); /* one at least, as numpy */
	while ((out.length + 1) % ALIGN);
	gt_buf_puts(&out, "\n");
	rc = gt_buf_take(&out, &text, size, err);
	if (rc)
		return rc;
	*header = (unsigned char *)text;
	gt_put_le(*header + MAGIC_BYTES + 2, *size - MAGIC_BYTES - 4, 2);
	return 0;
}
