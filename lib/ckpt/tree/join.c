/* join.c - the elements of a tensor, fetched from the boxes in which a checkpoint stores them. */
#include "lib/ckpt/tree/join.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/ckpt/tree/cast.h"
#include "lib/ckpt/tree/cursor.h"
#include "lib/ckpt/tree/tree.h"

/*
 * A box consists of runs: elements that are neighbors in the box and in the whole. Example: a
 * tensor of shape [4, 6] in two boxes of shape [4, 3]. The whole has 24 elements, numbered row by
 * row; the box at [0, 3] has four runs of three elements, which begin at 3, 9, 15 and 21. A box at
 * [2, 0] of shape [2, 6] would be one run, which begins at 12.
 *
 * The storage has no bytes. A call that reads the elements [first, end) looks at each box for the
 * runs that reach into this range.
 */

enum {
	COMPARED_MAX = 1 << 28, /* comparisons of two boxes in a checkpoint */
	KEEP_BYTES = 1 << 20,   /* pages of shorter runs are given back together */
	CONVERTED = 4096,       /* elements converted at a time */
};

/* A box of a joined tensor. */
struct part {
	struct gt_tree_tensor tensor;
	const int64_t *offset, *size;
	int outer;          /* dimensions [0, outer) number the runs */
	uint64_t run, runs; /* elements of a run; number of runs */
	uint64_t end;       /* number of the last element in the whole, plus 1 */
};

struct joined {
	struct gt_storage storage;
	const char *name;
	enum gt_dtype dtype;
	size_t element; /* bytes */
	int64_t stride[GT_TREE_MAX_DIMS];
	struct part *parts;
	size_t count;
	pthread_mutex_t lock; /* one thread computes the sum of a box */
};

/* ---- the check ---- */

static void put_dims(struct gt_buf *out, const int64_t *dims, int ndim)
{
	for (int i = 0; i < ndim; i++)
		gt_buf_printf(out, "%s%lld", i ? ", " : "[", (long long)dims[i]);
	gt_buf_puts(out, ndim ? "]" : "[]");
}

/* Set an error about a box and, if it is not NULL, another one. */
static int fail_box(const struct gt_join *j, const struct gt_join_box *box, const char *what,
    const struct gt_join_box *other, struct gt_err *err)
{
	struct gt_buf text = { 0 };
	int rc;

	gt_buf_puts(&text, "the chunk at ");
	put_dims(&text, box->offset, j->ndim);
	gt_buf_puts(&text, " of shape ");
	put_dims(&text, box->size, j->ndim);
	gt_buf_puts(&text, what);
	put_dims(&text, other ? other->offset : j->shape, j->ndim);
	rc = gt_err_set(err, GT_EFORMAT, "%.600s", gt_buf_text(&text));
	gt_buf_release(&text);
	return rc;
}

static bool is_empty(const struct gt_join *j, const struct gt_join_box *box)
{
	for (int i = 0; i < j->ndim; i++)
		if (!box->size[i])
			return true;
	return false;
}

/* Add the number of elements of each box. Boxes within the tensor have no more than it. */
static int count_elements(const struct gt_join *j, uint64_t *total, struct gt_err *err)
{
	*total = 0;
	for (size_t b = 0; b < j->count; b++) {
		const struct gt_join_box *box = &j->boxes[b];
		uint64_t count = 1, end;

		for (int i = 0; i < j->ndim; i++) {
			if (box->offset[i] < 0 || box->size[i] < 0 ||
			    __builtin_add_overflow(box->offset[i], box->size[i], &end) ||
			    end > (uint64_t)j->shape[i])
				return fail_box(
				    j, box, " lies outside of the tensor of shape ", NULL, err);
			count *= (uint64_t)box->size[i];
		}
		if (__builtin_add_overflow(*total, count, total))
			*total = UINT64_MAX;
	}
	return 0;
}

struct sorted {
	const struct gt_join_box *box;
	int64_t key; /* box->offset[sweep] */
};

static int compare_sorted(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

static size_t sort_by(struct sorted *items, size_t count, int dim)
{
	size_t distinct = 0;

	for (size_t i = 0; i < count; i++)
		items[i].key = items[i].box->offset[dim];
	qsort(items, count, sizeof(*items), compare_sorted);
	for (size_t i = 0; i < count; i++)
		distinct += !i || items[i - 1].key != items[i].key;
	return distinct;
}

static bool overlap(const struct gt_join_box *a, const struct gt_join_box *b, int ndim)
{
	for (int i = 0; i < ndim; i++)
		if (a->offset[i] >= b->offset[i] + b->size[i] ||
		    b->offset[i] >= a->offset[i] + a->size[i])
			return false;
	return true;
}

/* Compare each box with those that begin, along the dimension `dim`, before it ends. */
static int compare_boxes(
    const struct gt_join *j, const struct sorted *items, size_t count, int dim, struct gt_err *err)
{
	for (size_t a = 0; a < count; a++) {
		const struct gt_join_box *box = items[a].box;
		int64_t end = box->offset[dim] + box->size[dim];

		for (size_t b = a + 1; b < count && items[b].key < end; b++) {
			if (++*j->compared > COMPARED_MAX)
				return gt_err_set(
				    err, GT_ENOTSUP, "too many chunks to compare them");
			if (overlap(box, items[b].box, j->ndim))
				return fail_box(j, box, " overlaps the one at ", items[b].box, err);
		}
	}
	return 0;
}

/* The sweep goes along the dimension with the most offsets, so that few boxes are compared. */
static int check_overlaps(const struct gt_join *j, struct gt_err *err)
{
	struct sorted *items = gt_calloc(j->count, sizeof(*items), err);
	size_t count = 0, most = 0;
	int best = 0, rc = 0;

	if (!items)
		return GT_ENOMEM;
	for (size_t i = 0; i < j->count; i++)
		if (!is_empty(j, &j->boxes[i]))
			items[count++].box = &j->boxes[i];
	if (count > 1 && !j->ndim)
		rc = gt_err_set(err, GT_EFORMAT, "a scalar has %zu chunks", count);
	for (int i = 0; count > 1 && i < j->ndim; i++) {
		size_t distinct = sort_by(items, count, i);

		if (distinct > most) {
			most = distinct;
			best = i;
		}
	}
	if (!rc && count > 1) {
		sort_by(items, count, best);
		rc = compare_boxes(j, items, count, best, err);
	}
	free(items);
	return rc;
}

int gt_join_check(const struct gt_join *j, struct gt_err *err)
{
	int64_t unused[GT_TREE_MAX_DIMS];
	uint64_t total, count = 1;
	int rc;

	if (!gt_ckpt_tensor_contiguous_stride(j->ndim, j->shape, unused))
		return gt_err_set(err, GT_EFORMAT, "a shape that is negative or overflows");
	for (int i = 0; i < j->ndim; i++)
		count *= (uint64_t)j->shape[i];
	rc = count_elements(j, &total, err);
	if (!rc)
		rc = check_overlaps(j, err);
	if (!rc && total != count)
		rc = gt_err_set(err, GT_EFORMAT, "its chunks have %llu of its %llu elements",
		    (unsigned long long)total, (unsigned long long)count);
	return rc;
}

/* ---- reading ---- */

/* Return the number of the first element of a run in the whole. */
static uint64_t run_start(const struct joined *j, const struct part *p, uint64_t run)
{
	uint64_t at = 0;

	for (int i = p->outer - 1; i >= 0; i--) {
		at +=
		    ((uint64_t)p->offset[i] + run % (uint64_t)p->size[i]) * (uint64_t)j->stride[i];
		run /= (uint64_t)p->size[i];
	}
	/* The run begins at the offset of the box in the first dimension that it covers. */
	return at + (uint64_t)p->offset[p->outer] * (uint64_t)j->stride[p->outer];
}

/* Return the first run that ends behind the element `first`. Runs are in ascending order. */
static uint64_t find_run(const struct joined *j, const struct part *p, uint64_t first)
{
	uint64_t low = 0, high = p->runs;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (run_start(j, p, middle) + p->run > first)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Copy elements of a part, counted within it, as they are on the host, or converted. */
static int copy_elements(const struct joined *j, const struct part *p, uint64_t at, uint64_t count,
    unsigned char *out, struct gt_err *err)
{
	bool same = p->tensor.dtype == j->dtype;
	struct gt_cursor c = { .tensor = &p->tensor,
		.at = at,
		.end = at + count,
		.max = same ? count : CONVERTED,
		.keep = count * j->element < KEEP_BYTES,
		.buffer = same ? out : NULL };
	const void *run;
	size_t n;
	int rc = 0;

	while (!rc && (rc = gt_cursor_next(&c, &run, &n, err)) > 0) {
		rc = run == out ? 0 : gt_cast(p->tensor.dtype, run, j->dtype, out, n, err);
		out += n * j->element;
	}
	gt_cursor_release(&c);
	return rc;
}

/* Copy the elements [first, end) of the whole that the part has; `out` begins with `first`. */
static int copy_part(const struct joined *j, const struct part *p, uint64_t first, uint64_t end,
    unsigned char *out, struct gt_err *err)
{
	uint64_t run = find_run(j, p, first), bytes = 0;
	int rc = 0;

	for (; !rc && run < p->runs; run++) {
		uint64_t start = run_start(j, p, run), skip = start < first ? first - start : 0;
		uint64_t count = p->run - skip;

		if (start + skip >= end)
			break;
		if (count > end - start - skip)
			count = end - start - skip;
		rc = copy_elements(j, p, run * p->run + skip, count,
		    out + (start + skip - first) * j->element, err);
		bytes += count * j->element;
		if (bytes >= KEEP_BYTES && p->run * j->element < KEEP_BYTES) {
			gt_storage_forget(p->tensor.storage, 0, p->tensor.storage->size_bytes);
			bytes = 0;
		}
	}
	return rc;
}

/* Compare the bytes of a box with their checksum, before the first of them is used. */
static int check_part(struct joined *j, const struct part *p, struct gt_err *err)
{
	struct gt_storage *s = p->tensor.storage;
	int rc;

	if (!s->has_crc || atomic_load_explicit(&s->checked, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&j->lock);
	rc = gt_storage_check(s, err);
	pthread_mutex_unlock(&j->lock);
	return rc;
}

static int read_joined(void *self, uint64_t offset, void *out, size_t bytes, struct gt_err *err)
{
	struct joined *j = self;
	uint64_t first = offset / j->element, end = first + bytes / j->element;
	int rc = 0;

	for (size_t i = 0; i < j->count && !rc; i++) {
		const struct part *p = &j->parts[i];

		if (p->end <= first || run_start(j, p, 0) >= end)
			continue;
		rc = check_part(j, p, err);
		if (!rc)
			rc = copy_part(j, p, first, end, out, err);
	}
	return rc ? gt_err_prefix(err, "tensor '%.200s'", j->name) : 0;
}

/* ---- joining ---- */

/* A run goes over the last dimensions that the box has as a whole, and the one before them. */
static void plan_part(struct part *p, const struct joined *j, const struct gt_join *join,
    const struct gt_join_box *box)
{
	int d = join->ndim - 1;

	*p = (struct part){ .tensor = *box->tensor,
		.offset = box->offset,
		.size = box->size,
		.run = 1,
		.runs = 1 };
	for (; d > 0 && box->size[d] == join->shape[d]; d--)
		p->run *= (uint64_t)box->size[d];
	p->outer = d;
	p->run *= (uint64_t)box->size[d];
	for (int i = 0; i < d; i++)
		p->runs *= (uint64_t)box->size[i];
	p->end = run_start(j, p, p->runs - 1) + p->run;
}

int gt_join_storage(
    struct gt_storage **out, const struct gt_join *join, struct gt_arena *arena, struct gt_err *err)
{
	static const int64_t one = 1, zero = 0;
	static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
	struct joined *j = gt_arena_alloc(arena, sizeof(*j), err);
	int rc = j ? gt_join_check(join, err) : GT_ENOMEM;
	uint64_t count = 1;

	*out = NULL;
	if (rc)
		return rc;
	j->name = gt_arena_strdup(arena, join->name, err);
	j->parts = gt_arena_alloc(arena, join->count * sizeof(*j->parts), err);
	if (!j->name || !j->parts)
		return GT_ENOMEM;
	j->dtype = join->dtype;
	j->element = gt_dtype_size(join->dtype);
	j->lock = unlocked;
	gt_ckpt_tensor_contiguous_stride(join->ndim, join->shape, j->stride);
	for (size_t i = 0; i < join->count; i++) {
		struct gt_join_box box = join->boxes[i];
		struct gt_join whole = *join;

		if (is_empty(join, &box))
			continue;
		if (!join->ndim) { /* a scalar is read as a vector of one element */
			box.offset = &zero;
			box.size = whole.shape = &one;
			whole.ndim = 1;
			j->stride[0] = 1;
		}
		plan_part(&j->parts[j->count++], j, &whole, &box);
	}
	for (int i = 0; i < join->ndim; i++)
		count *= (uint64_t)join->shape[i];
	j->storage = (struct gt_storage){ .size_bytes = count * j->element,
		.read = read_joined,
		.self = j,
		.key = "",
		.location = "cpu",
		.name = j->name };
	*out = &j->storage;
	return 0;
}

int gt_join_one(struct gt_tree **out, const char *name, const struct gt_tree_tensor *t,
    enum gt_dtype dtype, struct gt_arena *arena, struct gt_err *err)
{
	static const int64_t zero[GT_TREE_MAX_DIMS];
	const struct gt_join_box box = { zero, t->shape, t };
	uint64_t compared = 0;
	const struct gt_join join = { name, dtype, t->ndim, t->shape, &box, 1, &compared };

	*out = gt_tree_tensor(arena, dtype, t->ndim, t->shape, NULL, err);
	if (!*out)
		return err->code;
	(*out)->tensor.raw = dtype == t->dtype ? t->raw : NULL;
	return gt_join_storage(&(*out)->tensor.storage, &join, arena, err);
}
