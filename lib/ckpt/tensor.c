/* tensor.c - the elements of a stored tensor: bounds, strides, byte order, conversion. */
#include <stdbool.h>
#include <string.h>

#include "lib/ckpt/tree.h"

int64_t gt_tensor_count(const struct gt_tree_tensor *t)
{
	int64_t count = 1;

	for (int i = 0; i < t->ndim; i++)
		count *= t->shape[i];
	return count;
}

bool gt_tensor_contiguous_stride(int ndim, const int64_t *shape, int64_t *stride)
{
	int64_t count = 1, bytes;
	bool empty = false;

	for (int i = ndim - 1; i >= 0; i--) {
		stride[i] = count;
		if (shape[i] < 0)
			return false;
		if (shape[i] == 0)
			empty = true;
		else if (__builtin_mul_overflow(count, shape[i], &count))
			return false;
	}
	/* 16: the largest element. A caller may then multiply by any size of element. */
	return empty || !__builtin_mul_overflow(count, (int64_t)16, &bytes);
}

/* The index of the last element, counted from the start of the storage; false on overflow. */
static bool last_index(const struct gt_tree_tensor *t, int64_t *last)
{
	int64_t step;

	*last = t->offset;
	for (int i = 0; i < t->ndim; i++)
		if (t->stride[i] < 0 ||
		    __builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &step) ||
		    __builtin_add_overflow(*last, step, last))
			return false;
	return true;
}

int gt_tensor_check(const struct gt_tree_tensor *t, struct gt_err *err)
{
	int64_t unused[GT_TREE_MAX_DIMS], last;
	int64_t room = (int64_t)(t->storage->size_bytes / gt_dtype_size(t->dtype));

	if (!gt_tensor_contiguous_stride(t->ndim, t->shape, unused))
		return gt_err_set(err, GT_EFORMAT, "a tensor's shape is negative or overflows");
	if (t->offset < 0)
		return gt_err_set(err, GT_EFORMAT, "a tensor starts before its storage");
	if (gt_tensor_count(t) == 0)
		return 0;
	if (!last_index(t, &last))
		return gt_err_set(err, GT_EFORMAT, "a tensor's strides are negative or overflow");
	if (last >= room)
		return gt_err_set(err, GT_EFORMAT,
		    "a tensor reaches element %lld of storage '%.80s', which has %lld",
		    (long long)last, t->storage->key, (long long)room);
	return 0;
}

/* ---- byte order ---- */

static void reverse(unsigned char *p, size_t size)
{
	for (size_t i = 0; i < size / 2; i++) {
		unsigned char c = p[i];

		p[i] = p[size - 1 - i];
		p[size - 1 - i] = c;
	}
}

void gt_tensor_swap(enum gt_dtype dtype, void *elements, size_t count)
{
	bool complex = dtype == GT_C64 || dtype == GT_C128;
	size_t size = gt_dtype_size(dtype) / (complex ? 2 : 1);
	unsigned char *p = elements;

	if (complex)
		count *= 2;
	for (size_t i = 0; i < count; i++)
		reverse(p + i * size, size);
}

/* ---- rounding ---- */

static uint32_t float_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static float bits_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

/*
 * A double as the float next to it whose last bit is 1 if anything was lost ("round to odd"):
 * rounding that to a shorter format then gives what one rounding of the double would.
 * Source: Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008.
 */
static float round_to_odd(double d)
{
	float f = (float)d;
	uint32_t u = float_bits(f);

	if (d != d || (double)f == d || (u & 1))
		return f;
	return bits_float(__builtin_fabs((double)f) < __builtin_fabs(d) ? u + 1 : u - 1);
}

static uint16_t to_bf16(double d)
{
	uint32_t u = float_bits(round_to_odd(d));

	if (d != d)
		return 0x7fc0; /* PyTorch's NaN: c10/util/BFloat16.h */
	return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

/* f16 counts in steps of 2^-24 below 2^-14; adding a power of two rounds to its last place. */
static uint16_t to_f16(double d)
{
	float f = round_to_odd(d);
	uint32_t u = float_bits(f);
	uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
	uint32_t a = u & 0x7fffffff;

	if (a > 0x7f800000)
		return sign | 0x7e00;
	if (a >= 0x47800000) /* 65536 and above */
		return sign | 0x7c00;
	if (a < 0x38800000) { /* below 2^-14: half is subnormal, its unit the last place of 0.5f */
		float shifted = bits_float(a) + 0.5f;

		return sign | (uint16_t)(float_bits(shifted) - float_bits(0.5f));
	}
	a += 0xfff + (a >> 13 & 1);
	return sign | (uint16_t)((a - 0x38000000) >> 13);
}

static double from_f16(uint16_t h)
{
	uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ff;
	double magnitude;

	if (exponent == 31)
		magnitude = fraction ? __builtin_nan("") : __builtin_inf();
	else if (exponent == 0)
		magnitude = fraction * 0x1p-24;
	else
		magnitude = bits_float((exponent + 112) << 23 | fraction << 13);
	return h & 0x8000 ? -magnitude : magnitude;
}

/* ---- runs of elements: gather, convert, store ---- */

enum { RUN = 256 }; /* elements converted at a time */

enum family { FAMILY_FLOAT, FAMILY_INT, FAMILY_COMPLEX };

static enum family family_of(enum gt_dtype dtype)
{
	switch (dtype) {
	case GT_F32:
	case GT_F64:
	case GT_F16:
	case GT_BF16:
		return FAMILY_FLOAT;
	case GT_C64:
	case GT_C128:
		return FAMILY_COMPLEX;
	default:
		return FAMILY_INT;
	}
}

/* for each i < n: *(TYPE *)p -> out[i]; memcpy, as nothing from a file is aligned */
#define LOAD_EACH(TYPE, EXPRESSION)                                                                \
	for (size_t i = 0; i < n; i++) {                                                           \
		TYPE x;                                                                            \
		memcpy(&x, (const unsigned char *)p + i * sizeof(x), sizeof(x));                   \
		out[i] = (EXPRESSION);                                                             \
	}                                                                                          \
	break

#define STORE_EACH(TYPE, EXPRESSION)                                                               \
	for (size_t i = 0; i < n; i++) {                                                           \
		TYPE x = (EXPRESSION);                                                             \
		memcpy((unsigned char *)p + i * sizeof(x), &x, sizeof(x));                         \
	}                                                                                          \
	break

static void load_floats(enum gt_dtype dtype, const void *p, size_t n, double *out)
{
	switch (dtype) {
	case GT_F64:
		LOAD_EACH(double, x);
	case GT_F16:
		LOAD_EACH(uint16_t, from_f16(x));
	case GT_BF16:
		LOAD_EACH(uint16_t, bits_float((uint32_t)x << 16));
	default:
		LOAD_EACH(float, x);
	}
}

static void store_floats(enum gt_dtype dtype, void *p, size_t n, const double *in)
{
	switch (dtype) {
	case GT_F64:
		STORE_EACH(double, in[i]);
	case GT_F16:
		STORE_EACH(uint16_t, to_f16(in[i]));
	case GT_BF16:
		STORE_EACH(uint16_t, to_bf16(in[i]));
	default:
		STORE_EACH(float, (float)in[i]);
	}
}

static void load_ints(enum gt_dtype dtype, const void *p, size_t n, int64_t *out)
{
	switch (dtype) {
	case GT_I64:
		LOAD_EACH(int64_t, x);
	case GT_I32:
		LOAD_EACH(int32_t, x);
	case GT_I16:
		LOAD_EACH(int16_t, x);
	case GT_I8:
		LOAD_EACH(int8_t, x);
	case GT_BOOL:
		LOAD_EACH(uint8_t, x != 0);
	default:
		LOAD_EACH(uint8_t, x);
	}
}

static void store_ints(enum gt_dtype dtype, void *p, size_t n, const int64_t *in)
{
	switch (dtype) {
	case GT_I64:
		STORE_EACH(int64_t, in[i]);
	case GT_I32:
		STORE_EACH(int32_t, (int32_t)in[i]);
	case GT_I16:
		STORE_EACH(int16_t, (int16_t)in[i]);
	default:
		STORE_EACH(uint8_t, (uint8_t)in[i]);
	}
}

static int check_range(enum gt_dtype dtype, size_t n, const int64_t *in, struct gt_err *err)
{
	static const int64_t low[GT_DTYPE_COUNT] = {
		[GT_I64] = INT64_MIN, [GT_I32] = INT32_MIN, [GT_I16] = INT16_MIN, [GT_I8] = INT8_MIN
	};
	static const int64_t high[GT_DTYPE_COUNT] = {
		[GT_I64] = INT64_MAX,
		[GT_I32] = INT32_MAX,
		[GT_I16] = INT16_MAX,
		[GT_I8] = INT8_MAX,
		[GT_U8] = UINT8_MAX,
		[GT_BOOL] = 1,
	};

	for (size_t i = 0; i < n; i++)
		if (in[i] < low[dtype] || in[i] > high[dtype])
			return gt_err_set(err, GT_EINVAL, "the value %lld does not fit %s",
			    (long long)in[i], gt_dtype_name(dtype));
	return 0;
}

static int convert_run(
    enum gt_dtype from, const void *src, enum gt_dtype to, void *dst, size_t n, struct gt_err *err)
{
	union {
		double real[RUN];
		int64_t integer[RUN];
	} run;
	int rc;

	if (from == to) {
		memcpy(dst, src, n * gt_dtype_size(to));
	} else if (family_of(to) == FAMILY_FLOAT) {
		load_floats(from, src, n, run.real);
		store_floats(to, dst, n, run.real);
	} else {
		load_ints(from, src, n, run.integer);
		rc = check_range(to, n, run.integer, err);
		if (rc)
			return rc;
		store_ints(to, dst, n, run.integer);
	}
	return 0;
}

/* ---- reading ---- */

static bool is_contiguous(const struct gt_tree_tensor *t)
{
	int64_t expected = 1;

	for (int i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] != 1 && t->stride[i] != expected)
			return false;
		expected *= t->shape[i];
	}
	return true;
}

/* The position of the next element: counts `index` up like an odometer. */
static int64_t advance(const struct gt_tree_tensor *t, int64_t *index, int64_t position)
{
	for (int i = t->ndim - 1; i >= 0; i--) {
		if (++index[i] < t->shape[i])
			return position + t->stride[i];
		position -= t->stride[i] * (t->shape[i] - 1);
		index[i] = 0;
	}
	return position;
}

/* The next n elements, in order, packed and in the host's byte order. */
static void gather(
    const struct gt_tree_tensor *t, size_t n, int64_t *index, int64_t *position, unsigned char *out)
{
	const unsigned char *storage = t->storage->bytes;
	size_t size = gt_dtype_size(t->dtype);

	for (size_t i = 0; i < n; i++) {
		memcpy(out + i * size, storage + (size_t)*position * size, size);
		*position = advance(t, index, *position);
	}
}

static int read_runs(
    const struct gt_tree_tensor *t, enum gt_dtype to, unsigned char *dst, struct gt_err *err)
{
	unsigned char packed[RUN * 16];
	int64_t index[GT_TREE_MAX_DIMS] = { 0 }, position = t->offset;
	size_t count = (size_t)gt_tensor_count(t), size = gt_dtype_size(t->dtype);
	bool contiguous = is_contiguous(t);
	int rc;

	for (size_t done = 0; done < count;) {
		size_t n = count - done < RUN ? count - done : RUN;

		if (contiguous)
			memcpy(packed,
			    (const unsigned char *)t->storage->bytes +
			        ((size_t)t->offset + done) * size,
			    n * size);
		else
			gather(t, n, index, &position, packed);
		if (t->storage->swapped)
			gt_tensor_swap(t->dtype, packed, n);
		rc = convert_run(t->dtype, packed, to, dst + done * gt_dtype_size(to), n, err);
		if (rc)
			return rc;
		done += n;
	}
	return 0;
}

int gt_tensor_read(const struct gt_tree_tensor *t, enum gt_dtype to, void *dst, struct gt_err *err)
{
	size_t size = gt_dtype_size(t->dtype);
	size_t count = (size_t)gt_tensor_count(t);
	int rc;

	if (t->dtype != to &&
	    (family_of(t->dtype) != family_of(to) || family_of(to) == FAMILY_COMPLEX))
		return gt_err_set(err, GT_ENOTSUP, "cannot read a tensor of %s as %s",
		    gt_dtype_name(t->dtype), gt_dtype_name(to));
	if (!count)
		return 0;
	if ((rc = gt_storage_check(t->storage, err)) < 0)
		return rc;
	if (t->dtype == to && !t->storage->swapped && is_contiguous(t)) {
		memcpy(dst, (const unsigned char *)t->storage->bytes + (size_t)t->offset * size,
		    count * size);
		return 0;
	}
	return read_runs(t, to, dst, err);
}
