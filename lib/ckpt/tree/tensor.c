/* tensor.c - stored tensors and the storages behind them: bounds, byte order, checksums. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/cursor.h"
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

/* Elements that strides of 0 make of fewer. */
static const int64_t MAX_REPEATED = (int64_t)1 << 32;

enum {
	REPEATED_FREE = 1 << 30, /* see tree.h */
	REPEATED_TIMES = 1024,
	RUN = 4096,      /* elements converted at a time */
	COMPARED = 1024, /* elements compared at a time */
	PIECE = 4 << 20, /* bytes of a mapping that are in memory at a time */
};

int64_t gt_ckpt_tensor_count(const struct gt_tree_tensor *t)
{
	int64_t count = 1;

	for (int i = 0; i < t->ndim; i++)
		count *= t->shape[i];
	return count;
}

bool gt_ckpt_tensor_contiguous_stride(int ndim, const int64_t *shape, int64_t *stride)
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

int gt_ckpt_tensor_check(const struct gt_tree_tensor *t, struct gt_err *err)
{
	int64_t unused[GT_TREE_MAX_DIMS], last;
	int64_t capacity = (int64_t)(t->storage->size_bytes / gt_dtype_size(t->dtype));

	if (!gt_ckpt_tensor_contiguous_stride(t->ndim, t->shape, unused))
		return wrong(t, "has a shape that is negative or overflows", err);
	if (t->offset < 0)
		return wrong(t, "starts before it", err);
	if (gt_ckpt_tensor_count(t) == 0)
		return 0;
	if (!last_index(t, &last))
		return wrong(t, "has strides that are negative or overflow", err);
	if (gt_ckpt_tensor_count(t) > MAX_REPEATED && gt_ckpt_tensor_count(t) > capacity)
		return gt_err_set(err, GT_EFORMAT,
		    "a tensor repeats storage '%.80s' of %lld elements to %lld elements",
		    t->storage->key, (long long)capacity, (long long)gt_ckpt_tensor_count(t));
	if (last >= capacity)
		return gt_err_set(err, GT_EFORMAT,
		    "a tensor reaches element %lld of storage '%.80s', which has %lld",
		    (long long)last, t->storage->key, (long long)capacity);
	return 0;
}

int gt_repeats_add(
    struct gt_repeats *r, const struct gt_storage *storage, uint64_t bytes, struct gt_err *err)
{
	if (__builtin_add_overflow(r->visited, bytes, &r->visited))
		r->visited = UINT64_MAX;
	if (gt_index_find(&r->storages, storage))
		return 0;
	r->stored += storage->size_bytes;
	return gt_index_add(&r->storages, storage, err) ? 0 : GT_ENOMEM;
}

int gt_repeats_end(struct gt_repeats *r, int rc, struct gt_err *err)
{
	gt_index_release(&r->storages);
	if (rc || r->visited <= REPEATED_FREE || r->visited / REPEATED_TIMES <= r->stored)
		return rc;
	return gt_err_set(err, GT_ENOTSUP,
	    "tensors repeat the %llu bytes of their storages to %llu: more than %d times over",
	    (unsigned long long)r->stored, (unsigned long long)r->visited, REPEATED_TIMES);
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

void gt_ckpt_tensor_swap(enum gt_dtype dtype, void *elements, size_t count)
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

bool gt_ckpt_tensor_is_contiguous(const struct gt_tree_tensor *t)
{
	int64_t expected = 1;

	for (int i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] != 1 && t->stride[i] != expected)
			return false;
		expected *= t->shape[i];
	}
	return true;
}

uint64_t gt_ckpt_tensor_bytes(const struct gt_tree_tensor *t)
{
	return (uint64_t)gt_ckpt_tensor_count(t) * gt_dtype_size(t->dtype);
}

bool gt_ckpt_tensor_is_whole(const struct gt_tree_tensor *t)
{
	return !t->offset && gt_ckpt_tensor_is_contiguous(t) &&
	       gt_ckpt_tensor_bytes(t) == t->storage->size_bytes;
}

int gt_ckpt_tensor_read(
    const struct gt_tree_tensor *t, enum gt_dtype to, void *dst, struct gt_err *err)
{
	size_t count = (size_t)gt_ckpt_tensor_count(t), n;
	bool same = t->dtype == to; /* then the result is where elements can be packed */
	struct gt_cursor c = { .tensor = t,
		.end = count,
		.max = same ? count : RUN,
		.buffer = same ? dst : NULL,
		.keep = true };
	unsigned char *out = dst;
	const void *run;
	int rc = 0;

	if (!gt_cast_supported(t->dtype, to))
		return gt_err_set(err, GT_ENOTSUP, "cannot read a tensor of %s as %s",
		    gt_ckpt_tensor_type(t), gt_dtype_name(to));
	if (count)
		rc = gt_storage_check(t->storage, err);
	while (!rc && (rc = gt_cursor_next(&c, &run, &n, err)) > 0) {
		rc = run == out ? 0 : gt_cast(t->dtype, run, to, out, n, err);
		out += n * gt_dtype_size(to);
	}
	gt_cursor_release(&c);
	return rc;
}

/* ---- comparing ---- */

static bool same_shape(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape));
}

/* Whether both are the same elements of one storage. */
static bool share_elements(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b)
{
	return a->storage == b->storage && a->dtype == b->dtype && a->offset == b->offset &&
	       !memcmp(a->stride, b->stride, (size_t)a->ndim * sizeof(*a->stride));
}

/* The next run of `c`, converted. 0 at the end. */
static int read_run(
    struct gt_cursor *c, enum gt_dtype as, void *converted, size_t *n, struct gt_err *err)
{
	const void *run;
	int rc = gt_cursor_next(c, &run, n, err);

	if (rc > 0 && gt_cast(c->tensor->dtype, run, as, converted, *n, err))
		return err->code;
	return rc;
}

int gt_ckpt_tensor_same(const struct gt_tree_tensor *a, const struct gt_tree_tensor *b,
    enum gt_dtype as, struct gt_err *err)
{
	enum { WIDEST = 16 };
	unsigned char one[COMPARED * WIDEST], two[COMPARED * WIDEST];
	struct gt_cursor x = {
		.tensor = a, .end = (uint64_t)gt_ckpt_tensor_count(a), .max = COMPARED, .keep = true
	};
	struct gt_cursor y = x;
	bool same = true;
	size_t n;
	int rc = 0;

	if (!same_shape(a, b))
		return 0;
	if (share_elements(a, b))
		return 1;
	y.tensor = b;
	if (x.end && !(rc = gt_storage_check(a->storage, err)))
		rc = gt_storage_check(b->storage, err);
	while (!rc && same && (rc = read_run(&x, as, one, &n, err)) > 0 &&
	       (rc = read_run(&y, as, two, &n, err)) > 0) {
		same = !memcmp(one, two, n * gt_dtype_size(as));
		rc = 0;
	}
	gt_cursor_release(&x);
	gt_cursor_release(&y);
	return rc ? rc : same;
}

/* ---- storages: compared with the file's checksum when first read ---- */

static uint32_t crc_of(const struct gt_storage *s)
{
	const unsigned char *bytes = s->bytes;
	uint32_t crc = 0;

	for (size_t done = 0; done < s->size_bytes;) {
		size_t n = s->size_bytes - done < PIECE ? s->size_bytes - done : PIECE;

		crc = gt_crc32(crc, bytes + done, n);
		if (s->map)
			gt_map_forget(s->map, s->file_offset + done, n);
		done += n;
	}
	return crc;
}

int gt_storage_copy(struct gt_storage *s, struct gt_arena *arena, struct gt_err *err)
{
	unsigned char *copy;
	int rc;

	if (!s->map)
		return 0;
	rc = gt_map_copy(s->map, s->file_offset, s->size_bytes, arena, &copy, err);
	if (rc)
		return rc;
	s->bytes = copy;
	s->map = NULL;
	return 0;
}

int gt_storage_compare(struct gt_storage *s, uint32_t crc, struct gt_err *err)
{
	if (crc != s->crc) {
		gt_err_set(err, GT_EFORMAT, "'%s' is damaged: its CRC-32 is %08x, not %08x",
		    s->name, crc, s->crc);
		return gt_err_hint(err, "copy or download the file again");
	}
	atomic_store_explicit(&s->checked, true, memory_order_relaxed);
	return 0;
}

int gt_storage_check(struct gt_storage *s, struct gt_err *err)
{
	if (!s->has_crc || atomic_load_explicit(&s->checked, memory_order_relaxed))
		return 0;
	return gt_storage_compare(s, crc_of(s), err);
}

void gt_storage_forget(const struct gt_storage *s, uint64_t start, uint64_t size)
{
	if (s->map)
		gt_map_forget(s->map, s->file_offset + start, size);
}
