/* runs.c - the elements of a tensor, some thousand at a time. */
#include "lib/ckpt/tree/runs.h"

#include <string.h>

#include "lib/ckpt/tree/tree.h"

enum { FAR_BYTES = 4096 }; /* further apart than this, each element costs a page */

enum gt_run_kind gt_run_kind(enum gt_dtype dtype)
{
	static const int64_t none = 0, one = 1;
	struct gt_storage nothing = { .location = "cpu", .key = "", .name = "" };
	struct gt_tree_tensor empty = {
		.dtype = dtype, .ndim = 1, .shape = &none, .stride = &one, .storage = &nothing
	};

	if (dtype == GT_C64 || dtype == GT_C128)
		return GT_RUN_COMPLEX;
	/* Reading none of the elements tells whether some could be read. */
	if (!gt_ckpt_tensor_read(&empty, GT_F64, NULL, GT_ERR_IGNORED))
		return GT_RUN_REAL;
	if (!gt_ckpt_tensor_read(&empty, GT_I64, NULL, GT_ERR_IGNORED))
		return GT_RUN_INTEGER;
	return GT_RUN_UNKNOWN;
}

void gt_runs_begin(struct gt_runs *r, const struct gt_tree_tensor *t, uint64_t first)
{
	size_t size = gt_dtype_size(t->dtype);
	int64_t step = t->ndim ? t->stride[t->ndim - 1] : 1;

	r->t = t;
	r->contiguous = gt_ckpt_tensor_is_contiguous(t);
	r->scattered = !r->contiguous && t->storage->map &&
	               (t->shape[t->ndim - 1] == 1 || step > (int64_t)(FAR_BYTES / size));
	r->position = t->offset + (r->contiguous ? (int64_t)first : 0);
	for (int i = t->ndim - 1; i >= 0 && !r->contiguous; i--) {
		if (!t->shape[i])
			return;
		r->index[i] = (int64_t)(first % (uint64_t)t->shape[i]);
		r->position += r->index[i] * t->stride[i];
		first /= (uint64_t)t->shape[i];
	}
}

/* Count the index up like an odometer, the position with it. */
static void advance(struct gt_runs *r)
{
	const struct gt_tree_tensor *t = r->t;

	for (int i = t->ndim - 1; i >= 0; i--) {
		if (++r->index[i] < t->shape[i]) {
			r->position += t->stride[i];
			return;
		}
		r->position -= t->stride[i] * (t->shape[i] - 1);
		r->index[i] = 0;
	}
}

static int gather(struct gt_runs *r, size_t n, struct gt_err *err)
{
	const struct gt_storage *s = r->t->storage;
	size_t size = gt_dtype_size(r->t->dtype);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++, advance(r)) {
		size_t at = (size_t)r->position * size;

		if (r->scattered)
			rc = gt_map_peek(
			    s->map, s->file_offset + at, r->packed + i * size, size, err);
		else
			memcpy(r->packed + i * size, (const unsigned char *)s->bytes + at, size);
	}
	return rc;
}

const void *gt_runs_next(struct gt_runs *r, size_t n, struct gt_err *err)
{
	const unsigned char *bytes = r->t->storage->bytes;

	if (!r->contiguous)
		return gather(r, n, err) ? NULL : r->packed;
	bytes += (size_t)r->position * gt_dtype_size(r->t->dtype);
	r->position += (int64_t)n;
	return bytes;
}

/* ---- as numbers ---- */

static int read_as(const struct gt_runs *r, enum gt_dtype from, const void *run, size_t n,
    enum gt_dtype to, void *out, struct gt_err *err)
{
	const int64_t shape = (int64_t)n, stride = 1;
	struct gt_storage s = { .bytes = run,
		.size_bytes = n * gt_dtype_size(from),
		.key = "",
		.name = "",
		.location = "cpu",
		.swapped = r->t->storage->swapped };
	struct gt_tree_tensor t = {
		.dtype = from, .ndim = 1, .shape = &shape, .stride = &stride, .storage = &s
	};

	return gt_ckpt_tensor_read(&t, to, out, err);
}

/* The common types without a detour: n of them, unaligned, into doubles that a compiler can make
 * several of at a time. */
static void widen_f32(const unsigned char *p, size_t n, double *out)
{
	for (size_t i = 0; i < n; i++) {
		float x;

		memcpy(&x, p + 4 * i, 4);
		out[i] = x;
	}
}

static void widen_bf16(const unsigned char *p, size_t n, double *out)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t half;
		uint32_t bits;
		float x;

		memcpy(&half, p + 2 * i, 2);
		bits = (uint32_t)half << 16;
		memcpy(&x, &bits, 4);
		out[i] = x;
	}
}

/* Exponent and fraction of f16, put where those of f32 are, make a number 2^112 too small; those
 * with all exponent bits are infinite or NaN. */
static void widen_f16(const unsigned char *p, size_t n, double *out)
{
	for (size_t i = 0; i < n; i++) {
		uint16_t half;
		uint32_t bits, special;
		float x;

		memcpy(&half, p + 2 * i, 2);
		special = (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
		bits = (uint32_t)(half & 0x7fff) << 13 | special | (uint32_t)(half & 0x8000) << 16;
		memcpy(&x, &bits, 4);
		out[i] = (double)x * 0x1p112;
	}
}

/* uint64 goes beyond int64_t and, but for rounding, not beyond a double. */
static uint64_t load_u64(const struct gt_runs *r, const void *run, size_t i)
{
	uint64_t x;

	memcpy(&x, (const unsigned char *)run + 8 * i, 8);
	return r->t->storage->swapped ? __builtin_bswap64(x) : x;
}

static int read_integers_as_real(
    const struct gt_runs *r, const void *run, size_t n, double *out, struct gt_err *err)
{
	int64_t whole[GT_RUN];
	int rc = 0;

	if (r->t->dtype != GT_U64)
		rc = read_as(r, r->t->dtype, run, n, GT_I64, whole, err);
	for (size_t i = 0; i < n && !rc; i++)
		out[i] = r->t->dtype == GT_U64 ? (double)load_u64(r, run, i) : (double)whole[i];
	return rc;
}

int gt_runs_real(
    const struct gt_runs *r, const void *run, size_t n, double *out, struct gt_err *err)
{
	enum gt_dtype dtype = r->t->dtype;

	if (dtype == GT_C64 || dtype == GT_C128)
		return read_as(r, dtype == GT_C64 ? GT_F32 : GT_F64, run, 2 * n, GT_F64, out, err);
	if (gt_run_kind(dtype) == GT_RUN_INTEGER)
		return read_integers_as_real(r, run, n, out, err);
	if (r->t->storage->swapped)
		return read_as(r, dtype, run, n, GT_F64, out, err);
	switch (dtype) {
	case GT_F32:
		widen_f32(run, n, out);
		return 0;
	case GT_BF16:
		widen_bf16(run, n, out);
		return 0;
	case GT_F16:
		widen_f16(run, n, out);
		return 0;
	default:
		return read_as(r, dtype, run, n, GT_F64, out, err);
	}
}

int gt_runs_integer(
    const struct gt_runs *r, const void *run, size_t n, int64_t *out, struct gt_err *err)
{
	if (r->t->dtype != GT_U64)
		return read_as(r, r->t->dtype, run, n, GT_I64, out, err);
	for (size_t i = 0; i < n; i++)
		out[i] = (int64_t)(load_u64(r, run, i) ^ (uint64_t)1 << 63);
	return 0;
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
