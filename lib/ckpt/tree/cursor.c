/* cursor.c - the elements of a tensor, run by run, in the order that suits their storage. */
#include "lib/ckpt/tree/cursor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

/*
 * A cursor reads the elements [at, end) of a tensor, in order, in runs: blocks of consecutive
 * elements. All code that reads elements uses a cursor. Set the fields from `tensor` to `buffer`,
 * and zero the others. At the end call gt_cursor_release(), also after an error. The cursor does
 * not compare the storage (struct gt_storage) with its CRC-32. A caller that needs this comparison
 * calls gt_storage_check(). There is another way if the cursor reads all elements of a contiguous
 * tensor that fills its storage (gt_ckpt_tensor_is_whole()). Then the caller may set `sum`, and
 * compare `crc` with the CRC-32 of the storage after the last run.
 *
 *	struct gt_cursor c = { .tensor = t, .end = count, .max = 1024 };
 *
 *	while ((rc = gt_cursor_next(&c, &run, &n, err)) > 0)
 *		use(run, n);
 *	gt_cursor_release(&c);
 */

/* ---- strided elements in a row ---- */

/*
 * A range of elements, in order, is cut into boxes: all indices of the last dimensions, some of the
 * one before, one of the others. A box is then walked by source strides, the smallest innermost, so
 * that a transposed matrix is read by runs and not one element here, one there.
 */

enum {
	SCRATCH = 32 << 10,     /* bytes of a file looked at in one go */
	LITTLE = 32 << 10,      /* bytes in all that are not worth a mapping */
	FORGET_BYTES = 1 << 20, /* read, and then given back */
};

struct axis {
	int64_t count, from, to; /* elements, steps in the storage and in the result */
};

struct box {
	const struct gt_tree_tensor *t;
	struct axis axes[GT_TREE_MAX_DIMS]; /* steps in the storage fall */
	int ndim;
	int64_t position; /* index of the first element in the storage */
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
	enum { SMALL = 1 << 20 };
	uint64_t span = 1, count = 1, size = gt_dtype_size(b->t->dtype);

	for (int d = 0; d < b->ndim; d++) {
		span += (uint64_t)(b->axes[d].count - 1) * (uint64_t)b->axes[d].from;
		count *= (uint64_t)b->axes[d].count;
	}
	return span * size > 2 * count * size + SMALL;
}

/* The largest box that begins at the element `first` and has no more than `count`. A tensor that is
 * not contiguous has a dimension. */
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

/* Copy the `count` elements from the `first` on, in order, packed, in the storage's byte order. */
static int pack(
    const struct gt_tree_tensor *t, int64_t first, size_t count, void *out, struct gt_err *err)
{
	struct box b = { .t = t, .out = out };
	size_t size = gt_dtype_size(t->dtype), n;
	int rc = 0;

	for (; count && !rc; count -= n) {
		n = cut_box(&b, first, count);
		b.peek = t->storage->map && t->storage->map->fd >= 0 && is_sparse(&b);
		rc = take_box(&b, err);
		b.out += n * size;
		first += (int64_t)n;
	}
	return rc;
}

/* ---- the cursor ---- */

static int start_cursor(struct gt_cursor *c, struct gt_err *err)
{
	const struct gt_tree_tensor *t = c->tensor;
	size_t size = gt_dtype_size(t->dtype);
	uint64_t count = c->end - c->at;

	c->started = true;
	c->held = c->at;
	c->contiguous = gt_ckpt_tensor_is_contiguous(t);
	c->little = c->contiguous && t->storage->map && count * size <= LITTLE;
	assert(c->contiguous || !t->storage->read);
	if (c->buffer || (c->contiguous && !c->little && !t->storage->swapped && !t->storage->read))
		return 0;
	c->buffer = c->owned = gt_calloc(count < c->max ? count : c->max, size, err);
	return c->buffer ? 0 : GT_ENOMEM;
}

/* Give back the pages of the runs that are done with. */
static void give_back(struct gt_cursor *c)
{
	const struct gt_storage *s = c->tensor->storage;
	uint64_t size = gt_dtype_size(c->tensor->dtype), bytes = (c->at - c->held) * size;

	if (c->keep || c->little || !bytes || (bytes < FORGET_BYTES && c->at < c->end))
		return;
	if (c->contiguous)
		gt_storage_forget(s, ((uint64_t)c->tensor->offset + c->held) * size, bytes);
	else
		gt_storage_forget(s, 0, s->size_bytes);
	c->held = c->at;
}

/* The bytes of the next n elements as they are stored. */
static int fetch_stored_run(struct gt_cursor *c, size_t n, const void **run, struct gt_err *err)
{
	const struct gt_tree_tensor *t = c->tensor;
	size_t size = gt_dtype_size(t->dtype);
	uint64_t at = ((uint64_t)t->offset + c->at) * size;

	*run = c->buffer;
	if (!c->contiguous)
		return pack(t, (int64_t)c->at, n, c->buffer, err);
	if (c->little)
		return gt_map_peek(
		    t->storage->map, t->storage->file_offset + at, c->buffer, n * size, err);
	if (t->storage->read)
		return t->storage->read(t->storage->self, at, c->buffer, n * size, err);
	*run = (const unsigned char *)t->storage->bytes + at;
	return 0;
}

/*
 * Read the next run: set *run to its address and *n to its number of elements. The elements are
 * packed and in the host's byte order; their address need not be aligned. They are in the mapping
 * of the file or in the buffer `buffer`. In the buffer, they are valid until the next call. Return
 * 1, or 0 after the last run. If the elements are few or far apart, the cursor reads them from the
 * file with a system call. So it does not load pages of the mapping into memory. Errors: GT_ENOMEM;
 * GT_EIO if the file cannot be read.
 */
int gt_cursor_next(struct gt_cursor *c, const void **run, size_t *n, struct gt_err *err)
{
	const struct gt_tree_tensor *t = c->tensor;
	size_t size = gt_dtype_size(t->dtype);
	int rc = c->started || c->at == c->end ? 0 : start_cursor(c, err);

	*n = c->end - c->at < c->max ? c->end - c->at : c->max;
	if (rc)
		return rc;
	give_back(c);
	if (!*n)
		return 0;
	rc = fetch_stored_run(c, *n, run, err);
	if (rc)
		return rc;
	if (c->sum)
		c->crc = gt_crc32(c->crc, *run, *n * size);
	if (t->storage->swapped) {
		if (*run != c->buffer)
			memcpy(c->buffer, *run, *n * size);
		gt_ckpt_tensor_swap(t->dtype, c->buffer, *n);
		*run = c->buffer;
	}
	c->at += *n;
	return 1;
}

void gt_cursor_release(struct gt_cursor *c)
{
	if (c->started)
		give_back(c);
	free(c->owned);
	c->owned = NULL;
}

/* ---- storage order ---- */

/* The next dimension outwards: the smallest stride that is left, of equal ones the last. */
static int smallest_stride(const struct gt_tree_tensor *t, const bool *done)
{
	int best = -1;

	for (int i = t->ndim - 1; i >= 0; i--)
		if (!done[i] && (best < 0 || t->stride[i] < t->stride[best]))
			best = i;
	return best;
}

/*
 * Set *out to a tensor that has the elements of `t` in the order of the storage. *out has no
 * dimensions of size 1 and no expanded dimensions (stride 0); neighboring dimensions are joined
 * where possible. Each element of *out stands for *repeats elements of `t`. Use *out for results
 * that do not depend on the order of elements, such as sums and minima: reading in the order of the
 * storage is much faster. out->shape and out->stride point into `dims`.
 */
void gt_ckpt_tensor_in_storage_order(struct gt_tree_tensor *out, const struct gt_tree_tensor *t,
    int64_t dims[2 * GT_TREE_MAX_DIMS], uint64_t *repeats)
{
	int64_t shape[GT_TREE_MAX_DIMS], stride[GT_TREE_MAX_DIMS];
	bool done[GT_TREE_MAX_DIMS] = { false };
	int n = 0;

	*repeats = 1;
	for (int k = 0; k < t->ndim; k++) {
		int i = smallest_stride(t, done);

		done[i] = true;
		if (t->shape[i] == 1)
			continue;
		if (t->stride[i] == 0 && t->shape[i] > 0) {
			*repeats *= (uint64_t)t->shape[i];
		} else if (n && t->stride[i] == shape[n - 1] * stride[n - 1]) {
			shape[n - 1] *= t->shape[i];
		} else {
			shape[n] = t->shape[i];
			stride[n++] = t->stride[i];
		}
	}
	for (int i = 0; i < n; i++) {
		dims[i] = shape[n - 1 - i];
		dims[GT_TREE_MAX_DIMS + i] = stride[n - 1 - i];
	}
	*out = *t;
	out->ndim = n;
	out->shape = dims;
	out->stride = dims + GT_TREE_MAX_DIMS;
}

/* ---- work for threads ---- */

int gt_pieces_add(struct gt_pieces *p, size_t job, uint64_t count, uint64_t max, struct gt_err *err)
{
	for (uint64_t at = 0; at < count; at += max) {
		if (gt_grow(&p->items, p->count, &p->capacity, p->size, err))
			return GT_ENOMEM;
		memset(gt_pieces_get(p, p->count), 0, p->size);
		*(struct gt_piece *)gt_pieces_get(p, p->count++) =
		    (struct gt_piece){ job, at, count - at < max ? count - at : max };
	}
	return 0;
}
