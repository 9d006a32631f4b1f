/* tensor.c - the elements of a stored tensor: bounds, strides, byte order. */
#include <stdbool.h>
#include <string.h>

#include "lib/ckpt/convert.h"
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
	unsigned char packed[GT_CONVERT_RUN * 16];
	int64_t index[GT_TREE_MAX_DIMS] = { 0 }, position = t->offset;
	size_t count = (size_t)gt_tensor_count(t), size = gt_dtype_size(t->dtype);
	bool contiguous = is_contiguous(t);
	int rc;

	for (size_t done = 0; done < count;) {
		size_t n = count - done < GT_CONVERT_RUN ? count - done : GT_CONVERT_RUN;

		if (contiguous)
			memcpy(packed,
			    (const unsigned char *)t->storage->bytes +
			        ((size_t)t->offset + done) * size,
			    n * size);
		else
			gather(t, n, index, &position, packed);
		if (t->storage->swapped)
			gt_tensor_swap(t->dtype, packed, n);
		rc = gt_convert_run(t->dtype, packed, to, dst + done * gt_dtype_size(to), n, err);
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

	if (!gt_convert_is_possible(t->dtype, to))
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
