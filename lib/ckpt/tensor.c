/* tensor.c - the elements of a stored tensor: bounds, strides, byte order. */
#include <stdbool.h>
#include <string.h>

#include "lib/ckpt/cast.h"
#include "lib/ckpt/tree.h"

/* Elements that strides of 0 make of fewer: expand() to more is an attack on who writes them out. */
static const int64_t MAX_REPEATED = (int64_t)1 << 32;

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

static int wrong(const struct gt_tree_tensor *t, const char *what, struct gt_err *err)
{
	return gt_err_set(err, GT_EFORMAT, "a tensor of storage '%.80s' %s", t->storage->key, what);
}

int gt_tensor_check(const struct gt_tree_tensor *t, struct gt_err *err)
{
	int64_t unused[GT_TREE_MAX_DIMS], last;
	int64_t room = (int64_t)(t->storage->size_bytes / gt_dtype_size(t->dtype));

	if (!gt_tensor_contiguous_stride(t->ndim, t->shape, unused))
		return wrong(t, "has a shape that is negative or overflows", err);
	if (t->offset < 0)
		return wrong(t, "starts before it", err);
	if (gt_tensor_count(t) == 0)
		return 0;
	if (!last_index(t, &last))
		return wrong(t, "has strides that are negative or overflow", err);
	if (gt_tensor_count(t) > MAX_REPEATED && gt_tensor_count(t) > room)
		return gt_err_set(err, GT_EFORMAT,
		    "a tensor repeats storage '%.80s' of %lld elements to %lld elements",
		    t->storage->key, (long long)room, (long long)gt_tensor_count(t));
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

/* ---- reading ---- */

bool gt_tensor_is_contiguous(const struct gt_tree_tensor *t)
{
	int64_t expected = 1;

	for (int i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] != 1 && t->stride[i] != expected)
			return false;
		expected *= t->shape[i];
	}
	return true;
}

/* Where an odometer over the elements stands: one number per dimension, and what they come to. */
struct place {
	int64_t index[GT_TREE_MAX_DIMS], position;
};

static void seek(const struct gt_tree_tensor *t, int64_t element, struct place *at)
{
	at->position = t->offset;
	for (int i = t->ndim - 1; i >= 0; i--) {
		at->index[i] = element % t->shape[i];
		at->position += at->index[i] * t->stride[i];
		element /= t->shape[i];
	}
}

/* Go to the next element of the dimensions before the last. */
static void advance(const struct gt_tree_tensor *t, struct place *at)
{
	for (int i = t->ndim - 2; i >= 0; i--) {
		at->position += t->stride[i];
		if (++at->index[i] < t->shape[i])
			return;
		at->position -= t->stride[i] * t->shape[i];
		at->index[i] = 0;
	}
}

static void copy_strided(
    unsigned char *out, const unsigned char *in, size_t n, size_t size, int64_t stride)
{
	size_t step = (size_t)stride * size;

	if (stride == 1) {
		memcpy(out, in, n * size);
		return;
	}
	switch (size) { /* a copy of known size is one instruction */
	case 4:
		for (size_t i = 0; i < n; i++)
			memcpy(out + i * 4, in + i * step, 4);
		break;
	case 2:
		for (size_t i = 0; i < n; i++)
			memcpy(out + i * 2, in + i * step, 2);
		break;
	default:
		for (size_t i = 0; i < n; i++)
			memcpy(out + i * size, in + i * step, size);
	}
}

/* The next n elements, in order, packed. */
static void gather(const struct gt_tree_tensor *t, size_t n, struct place *at, unsigned char *out)
{
	const unsigned char *storage = t->storage->bytes;
	size_t size = gt_dtype_size(t->dtype);
	int last = t->ndim - 1;

	if (last < 0) {
		memcpy(out, storage + (size_t)at->position * size, n * size);
		return;
	}
	while (n) {
		size_t row = (size_t)(t->shape[last] - at->index[last]), run = row < n ? row : n;

		copy_strided(
		    out, storage + (size_t)at->position * size, run, size, t->stride[last]);
		out += run * size;
		n -= run;
		at->index[last] += (int64_t)run;
		at->position += (int64_t)run * t->stride[last];
		if (at->index[last] == t->shape[last]) {
			at->position -= t->shape[last] * t->stride[last];
			at->index[last] = 0;
			advance(t, at);
		}
	}
}

int gt_tensor_read_range(const struct gt_tree_tensor *t, int64_t first, size_t count,
    enum gt_dtype to, void *dst, struct gt_err *err)
{
	enum { RUN_BYTES = 8192 };
	unsigned char packed[RUN_BYTES], *out = dst;
	size_t size = gt_dtype_size(t->dtype), most = RUN_BYTES / size;
	bool contiguous = gt_tensor_is_contiguous(t);
	struct place at;
	int rc = 0;

	if (!count)
		return 0;
	if (contiguous)
		at.position = t->offset + first;
	else
		seek(t, first, &at);
	for (size_t n; !rc && count; count -= n, out += n * gt_dtype_size(to)) {
		const unsigned char *run = packed;

		n = count < most ? count : most;
		if (contiguous) {
			run = (const unsigned char *)t->storage->bytes + (size_t)at.position * size;
			at.position += (int64_t)n;
		} else {
			gather(t, n, &at, packed);
		}
		if (t->storage->swapped) {
			if (run != packed)
				memcpy(packed, run, n * size);
			gt_tensor_swap(t->dtype, packed, n);
			run = packed;
		}
		rc = gt_cast(t->dtype, run, to, out, n, err);
	}
	return rc;
}

int gt_tensor_read(const struct gt_tree_tensor *t, enum gt_dtype to, void *dst, struct gt_err *err)
{
	size_t count = (size_t)gt_tensor_count(t);
	int rc;

	if (!gt_cast_knows(t->dtype, to))
		return gt_cast(t->dtype, NULL, to, dst, 0, err);
	rc = count ? gt_storage_check(t->storage, err) : 0;
	return rc ? rc : gt_tensor_read_range(t, 0, count, to, dst, err);
}
