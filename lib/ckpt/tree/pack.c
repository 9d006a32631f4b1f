/* pack.c - elements of a strided tensor put in a row, in the order that suits their storage. */
#include "lib/ckpt/tree/pack.h"

#include <string.h>

#include "lib/ckpt/tree/tree.h"

/*
 * A range of elements, in order, is cut into boxes: all indices of the last dimensions, some of the
 * one before, one of the others. A box is then walked by source strides, the smallest innermost, so
 * that a transposed matrix is read by runs and not one element here, one there.
 */

enum { SCRATCH = 32 << 10 }; /* bytes of a file looked at in one go */

struct axis {
	int64_t count, from, to; /* elements, steps in the storage and in the result */
};

struct box {
	const struct gt_tree_tensor *t;
	struct axis axes[GT_TREE_MAX_DIMS]; /* steps in the storage fall */
	int ndim;
	int64_t position; /* of the first element in the storage */
	unsigned char *out;
	bool peek; /* too far apart to be mapped: each page would bring its neighbours */
};

static void copy_run(
    unsigned char *out, size_t to, const unsigned char *in, size_t from, size_t n, size_t size)
{
	if (from == size && to == size) {
		memcpy(out, in, n * size);
		return;
	}
	switch (size) { /* a copy of known size is one instruction */
	case 4:
		for (; n; n--, out += to, in += from)
			memcpy(out, in, 4);
		break;
	case 2:
		for (; n; n--, out += to, in += from)
			memcpy(out, in, 2);
		break;
	default:
		for (; n; n--, out += to, in += from)
			memcpy(out, in, size);
	}
}

/* The innermost axis, from `position` in the storage to `out`. */
static int take_run(const struct box *b, int64_t position, unsigned char *out, struct gt_err *err)
{
	const struct gt_storage *s = b->t->storage;
	const struct axis *a = &b->axes[b->ndim - 1];
	size_t size = gt_dtype_size(b->t->dtype), from = (size_t)a->from * size;
	size_t to = (size_t)a->to * size, left = (size_t)a->count;
	uint64_t at = (uint64_t)position * size;
	unsigned char scratch[SCRATCH];

	if (!b->peek) {
		copy_run(out, to, (const unsigned char *)s->bytes + at, from, left, size);
		return 0;
	}
	while (left) {
		size_t fit = from ? (SCRATCH - size) / from + 1 : left, n = fit < left ? fit : left;
		int rc =
		    gt_map_peek(s->map, s->file_offset + at, scratch, (n - 1) * from + size, err);

		if (rc)
			return rc;
		copy_run(out, to, scratch, from, n, size);
		out += n * to;
		at += n * from;
		left -= n;
	}
	return 0;
}

static int take_box(const struct box *b, struct gt_err *err)
{
	int64_t index[GT_TREE_MAX_DIMS] = { 0 }, position = b->position, at = 0;
	size_t size = gt_dtype_size(b->t->dtype);
	int rc;

	for (;;) {
		int d = b->ndim - 2;

		rc = take_run(b, position, b->out + (size_t)at * size, err);
		if (rc)
			return rc;
		for (; d >= 0 && ++index[d] == b->axes[d].count; d--) {
			position -= (b->axes[d].count - 1) * b->axes[d].from;
			at -= (b->axes[d].count - 1) * b->axes[d].to;
			index[d] = 0;
		}
		if (d < 0)
			return 0;
		position += b->axes[d].from;
		at += b->axes[d].to;
	}
}

static void add_axis(struct box *b, struct axis axis)
{
	int at = b->ndim;

	if (axis.count == 1)
		return;
	for (; at && b->axes[at - 1].from < axis.from; at--)
		b->axes[at] = b->axes[at - 1];
	b->axes[at] = axis;
	b->ndim++;
}

/* Whether the box spans much more of the file than it takes. */
static bool is_sparse(const struct box *b)
{
	enum { LITTLE = 1 << 20 };
	uint64_t span = 1, count = 1, size = gt_dtype_size(b->t->dtype);

	for (int d = 0; d < b->ndim; d++) {
		span += (uint64_t)(b->axes[d].count - 1) * (uint64_t)b->axes[d].from;
		count *= (uint64_t)b->axes[d].count;
	}
	return span * size > 2 * count * size + LITTLE;
}

/* The largest box that begins at the element `first` and has no more than `count`. */
static size_t cut_box(struct box *b, int64_t first, size_t count)
{
	const struct gt_tree_tensor *t = b->t;
	int64_t inner = 1, index[GT_TREE_MAX_DIMS] = { 0 }, rest = first, steps;
	int d = t->ndim - 1;

	b->position = t->offset;
	b->ndim = 0;
	for (int i = t->ndim - 1; i >= 0; i--) {
		index[i] = rest % t->shape[i];
		rest /= t->shape[i];
		b->position += index[i] * t->stride[i];
	}
	/* Take in a dimension as a whole while the next begins at its first element. */
	for (; d > 0 && !index[d] && inner * t->shape[d] <= (int64_t)count; d--) {
		add_axis(b, (struct axis){ t->shape[d], t->stride[d], inner });
		inner *= t->shape[d];
	}
	steps = (int64_t)count / inner;
	if (steps > t->shape[d] - index[d])
		steps = t->shape[d] - index[d];
	add_axis(b, (struct axis){ steps, t->stride[d], inner });
	if (!b->ndim)
		b->axes[b->ndim++] = (struct axis){ 1, 1, 1 };
	return (size_t)(steps * inner);
}

int gt_ckpt_tensor_pack(
    const struct gt_tree_tensor *t, int64_t first, size_t count, void *out, struct gt_err *err)
{
	struct box b = { .t = t, .out = out };
	size_t size = gt_dtype_size(t->dtype);
	int rc = 0;

	while (count && !rc) {
		size_t n = t->ndim ? cut_box(&b, first, count) : 1;

		if (!t->ndim) {
			b.axes[b.ndim++] = (struct axis){ 1, 1, 1 };
			b.position = t->offset;
		}
		b.peek = t->storage->map && t->storage->map->fd >= 0 && is_sparse(&b);
		rc = take_box(&b, err);
		b.out += n * size;
		first += (int64_t)n;
		count -= n;
	}
	return rc;
}
