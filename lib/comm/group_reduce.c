/* group_reduce.c - sums, averages and maxima of several buffers. */
#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "lib/base/half.h"
#include "lib/comm/group_backend.h"
#include "lib/comm/world/world.h"

/*
 * A block of elements goes through an accumulator that stays in the first-level cache: so a result
 * may be written over one of its sources, to several places, and in another type than that of the
 * sum. A tree of n sources has one accumulator per level. Blocks are short, so that results are
 * written soon after their sources are read. The bytes AHEAD of a block are fetched meanwhile:
 * AHEAD is a page, as a processor's own prefetching stops at the end of a page.
 *
 * Two sources need no accumulator where the elements in memory have the type of the sum: then two
 * ranks, with at most two results, go over a block once. Outputs are fetched as inputs are, unless
 * they are the inputs; otherwise stores would wait for memory, and the loads behind them.
 *
 * Sources that are small together are often in a cache. Fetching them then costs more than it
 * gains: it took a fourth of the time when two ranks summed 1 to 4 MiB in place. The pieces of a
 * staged collective (shm/collectives.c) are small, too; they are not slower for it.
 */
enum { BLOCK_BYTES = 1024, AHEAD_BYTES = 4096, CACHED_BYTES = 4 << 20, LEVELS_MAX = 10 };
_Static_assert(1 << LEVELS_MAX >= GT_WORLD_MAX_RANKS, "a tree of all ranks");

/* ---- the loops of one type ---- */

struct arithmetic {
	size_t block; /* elements at a time */
	/* acc = a op b; acc = acc op b */
	void (*sum_pair)(void *acc, const void *a, const void *b, size_t n);
	void (*sum)(void *acc, const void *b, size_t n);
	void (*max_pair)(void *acc, const void *a, const void *b, size_t n);
	void (*max)(void *acc, const void *b, size_t n);
	void (*divide)(void *acc, int by, size_t n);
	void (*load)(void *acc, const void *src, size_t n);
	void (*store)(void *dst, const void *acc, size_t n);
	enum gt_dtype wide; /* the type of an accumulator */
	/* write a op b to `to` and `also`, which may be the inputs; NULL if `wide` is another
	 * type */
	void (*sum_both)(void *to, void *also, const void *a, const void *b, size_t n);
	void (*max_both)(void *to, void *also, const void *a, const void *b, size_t n);
};

/* The functions of one reduction: acc = a op b; acc = acc op b; acc = acc op another accumulator;
 * to = also = a op b, or NULL. */
struct reduction {
	void (*pair)(void *acc, const void *a, const void *b, size_t n);
	void (*next)(void *acc, const void *b, size_t n);
	void (*join)(void *acc, const void *b, size_t n);
	void (*both)(void *to, void *also, const void *a, const void *b, size_t n);
};

#define SAME(x)    (x)
#define ADD(x, y)  ((x) + (y))
#define MOST(x, y) ((y) > (x) || (y) != (y) ? (y) : (x)) /* a NaN wins */

/* Integers wrap around. */
#define ADD_I32(x, y) ((int32_t)((uint32_t)(x) + (uint32_t)(y)))
#define ADD_I64(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))

/* The loops for longer vectors, too: which ones, is chosen when the program is loaded, before a
 * sanitizer is ready (and clang says by other names than these that there is one). Each loop begins
 * at a line of the instruction cache, so that its speed does not depend on the code before it. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                \
    !defined(__SANITIZE_THREAD__)
#define VECTORS                                                                                    \
	__attribute__((target_clones("avx512f", "avx2", "default"), optimize("align-loops=64")))
#else
#define VECTORS
#endif

/* T is the type in memory, ACC that of the sum. */
#define LOOPS_OF(NAME, T, ACC, WIDEN, OP)                                                          \
	VECTORS static void NAME##_pair(void *acc, const void *a, const void *b, size_t n)         \
	{                                                                                          \
		ACC *restrict to = acc;                                                            \
		const T *x = a, *y = b;                                                            \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			to[i] = OP(WIDEN(x[i]), WIDEN(y[i]));                                      \
	}                                                                                          \
	VECTORS static void NAME(void *acc, const void *b, size_t n)                               \
	{                                                                                          \
		ACC *restrict to = acc;                                                            \
		const T *y = b;                                                                    \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			to[i] = OP(to[i], WIDEN(y[i]));                                            \
	}

#define BOTH_OF(NAME, T, OP)                                                                       \
	VECTORS static void NAME##_both(                                                           \
	    void *to, void *also, const void *a, const void *b, size_t n)                          \
	{                                                                                          \
		T *p = to, *q = also;                                                              \
		const T *x = a, *y = b;                                                            \
                                                                                                   \
		_Pragma("omp simd") for (size_t i = 0; i < n; i++)                                 \
		{                                                                                  \
			T found = OP(x[i], y[i]);                                                  \
                                                                                                   \
			p[i] = found;                                                              \
			q[i] = found;                                                              \
		}                                                                                  \
	}

#define STORE_OF(NAME, T, ACC, NARROW)                                                             \
	VECTORS static void NAME(void *dst, const void *acc, size_t n)                             \
	{                                                                                          \
		T *restrict to = dst;                                                              \
		const ACC *from = acc;                                                             \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			to[i] = NARROW(from[i]);                                                   \
	}

#define LOAD_OF(NAME, T, ACC, WIDEN)                                                               \
	VECTORS static void NAME(void *acc, const void *src, size_t n)                             \
	{                                                                                          \
		ACC *restrict to = acc;                                                            \
		const T *from = src;                                                               \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			to[i] = WIDEN(from[i]);                                                    \
	}

/* A power of two has an exact inverse, and multiplying is faster. */
#define DIVIDE_FLOAT(NAME, ACC)                                                                    \
	VECTORS static void NAME(void *acc, int by, size_t n)                                      \
	{                                                                                          \
		ACC *to = acc;                                                                     \
                                                                                                   \
		if (by & (by - 1))                                                                 \
			for (size_t i = 0; i < n; i++)                                             \
				to[i] /= (ACC)by;                                                  \
		else                                                                               \
			for (size_t i = 0; i < n; i++)                                             \
				to[i] *= 1 / (ACC)by;                                              \
	}

#define DIVIDE_INT(NAME, ACC)                                                                      \
	VECTORS static void NAME(void *acc, int by, size_t n)                                      \
	{                                                                                          \
		ACC *to = acc;                                                                     \
                                                                                                   \
		for (size_t i = 0; i < n; i++)                                                     \
			to[i] /= by;                                                               \
	}

LOOPS_OF(sum_f32, float, float, SAME, ADD)
LOOPS_OF(max_f32, float, float, SAME, MOST)
LOOPS_OF(sum_f64, double, double, SAME, ADD)
LOOPS_OF(max_f64, double, double, SAME, MOST)
LOOPS_OF(sum_f16, uint16_t, float, gt_float_of_f16, ADD)
LOOPS_OF(max_f16, uint16_t, float, gt_float_of_f16, MOST)
LOOPS_OF(sum_bf16, uint16_t, float, gt_float_of_bf16, ADD)
LOOPS_OF(max_bf16, uint16_t, float, gt_float_of_bf16, MOST)
LOOPS_OF(sum_i32, int32_t, int32_t, SAME, ADD_I32)
LOOPS_OF(max_i32, int32_t, int32_t, SAME, MOST)
LOOPS_OF(sum_i64, int64_t, int64_t, SAME, ADD_I64)
LOOPS_OF(max_i64, int64_t, int64_t, SAME, MOST)
BOTH_OF(sum_f32, float, ADD)
BOTH_OF(max_f32, float, MOST)
BOTH_OF(sum_f64, double, ADD)
BOTH_OF(max_f64, double, MOST)
BOTH_OF(sum_i32, int32_t, ADD_I32)
BOTH_OF(max_i32, int32_t, MOST)
BOTH_OF(sum_i64, int64_t, ADD_I64)
BOTH_OF(max_i64, int64_t, MOST)
DIVIDE_FLOAT(divide_f32, float)
DIVIDE_FLOAT(divide_f64, double)
DIVIDE_INT(divide_i32, int32_t)
DIVIDE_INT(divide_i64, int64_t)
LOAD_OF(load_f16, uint16_t, float, gt_float_of_f16)
LOAD_OF(load_bf16, uint16_t, float, gt_float_of_bf16)
STORE_OF(store_f16, uint16_t, float, gt_f16_of_float)
STORE_OF(store_bf16, uint16_t, float, gt_bf16_of_float)

static void copy_4(void *dst, const void *acc, size_t n)
{
	memcpy(dst, acc, 4 * n);
}

static void copy_8(void *dst, const void *acc, size_t n)
{
	memcpy(dst, acc, 8 * n);
}

#define ROW(NAME, ACC, DIVIDE, LOAD, STORE, WIDE, SUM_BOTH, MAX_BOTH)                              \
	{                                                                                          \
		BLOCK_BYTES / sizeof(ACC), sum_##NAME##_pair, sum_##NAME, max_##NAME##_pair,       \
		    max_##NAME, DIVIDE, LOAD, STORE, WIDE, SUM_BOTH, MAX_BOTH                      \
	}

static const struct arithmetic rows[GT_DTYPE_COUNT] = {
	[GT_F32] = ROW(f32, float, divide_f32, copy_4, copy_4, GT_F32, sum_f32_both, max_f32_both),
	[GT_F64] = ROW(f64, double, divide_f64, copy_8, copy_8, GT_F64, sum_f64_both, max_f64_both),
	[GT_F16] = ROW(f16, float, divide_f32, load_f16, store_f16, GT_F32, NULL, NULL),
	[GT_BF16] = ROW(bf16, float, divide_f32, load_bf16, store_bf16, GT_F32, NULL, NULL),
	[GT_I32] =
	    ROW(i32, int32_t, divide_i32, copy_4, copy_4, GT_I32, sum_i32_both, max_i32_both),
	[GT_I64] =
	    ROW(i64, int64_t, divide_i64, copy_8, copy_8, GT_I64, sum_i64_both, max_i64_both),
};

int gt_reduce_left(int n)
{
	int left = 1;

	while (2 * left < n)
		left *= 2;
	return left;
}

/* A block of src[n], n >= 2, in a tree: to acc[0], by way of those behind it. */
static void reduce_tree(const struct reduction *r, unsigned char (*acc)[BLOCK_BYTES],
    const void *const *src, int n, size_t skip, size_t m)
{
	int left = gt_reduce_left(n);

	if (n == 2) {
		r->pair(acc[0], (const unsigned char *)src[0] + skip,
		    (const unsigned char *)src[1] + skip, m);
		return;
	}
	reduce_tree(r, acc, src, left, skip, m);
	if (n - left == 1) {
		r->next(acc[0], (const unsigned char *)src[left] + skip, m);
		return;
	}
	reduce_tree(r, acc + 1, src + left, n - left, skip, m);
	r->join(acc[0], acc[1], m);
}

/* The block at `skip` of all n, as far as there are `bytes`. */
static void prefetch(const void *const *at, int n, size_t skip, size_t bytes)
{
	size_t end = skip + BLOCK_BYTES < bytes ? skip + BLOCK_BYTES : bytes;

	for (int r = 0; r < n; r++)
		for (size_t i = skip; i < end; i += GT_COMM_LINE)
			__builtin_prefetch((const unsigned char *)at[r] + i);
}

static struct reduction reduction_of(const struct arithmetic *row, enum gt_reduction reduction)
{
	const struct arithmetic *wide = &rows[row->wide];

	switch (reduction) {
	case GT_MAX:
		return (struct reduction){ row->max_pair, row->max, wide->max, row->max_both };
	case GT_AVG:
		return (struct reduction){ row->sum_pair, row->sum, wide->sum, NULL };
	default:
		return (struct reduction){ row->sum_pair, row->sum, wide->sum, row->sum_both };
	}
}

/* The block at `skip` of src[2] to dst[dsts], which is 1 or 2. */
static void reduce_two(const struct reduction *r, void *const *dst, int dsts,
    const void *const *src, size_t skip, size_t m)
{
	r->both((unsigned char *)dst[0] + skip, (unsigned char *)dst[dsts - 1] + skip,
	    (const unsigned char *)src[0] + skip, (const unsigned char *)src[1] + skip, m);
}

/* The same of src[n] to any number, by way of accumulators. */
static void reduce_block(const struct arithmetic *row, const struct reduction *r, bool average,
    void *const *dst, int dsts, const void *const *src, int n, size_t skip, size_t m)
{
	alignas(GT_COMM_LINE) unsigned char acc[LEVELS_MAX][BLOCK_BYTES];

	reduce_tree(r, acc, src, n, skip, m);
	if (average)
		row->divide(acc[0], n, m);
	for (int d = 0; d < dsts; d++)
		row->store((unsigned char *)dst[d] + skip, acc[0], m);
}

void gt_reduce(void *const *dst, int dsts, const void *const *src, int n, size_t count,
    enum gt_dtype dtype, enum gt_reduction reduction)
{
	const struct arithmetic *row = &rows[dtype];
	const struct reduction r = reduction_of(row, reduction);
	const bool two = r.both && n == 2 && dsts <= 2;
	const bool in_place = two && dst[0] == src[0] && dst[dsts - 1] == src[dsts - 1];
	const size_t size = gt_dtype_size(dtype);
	const bool fetched = (size_t)n * count * size > CACHED_BYTES;

	assert(row->block && dsts >= 1 && n >= 2 && n <= 1 << LEVELS_MAX);
	for (size_t at = 0; at < count; at += row->block) {
		size_t m = count - at < row->block ? count - at : row->block, skip = at * size;

		if (fetched)
			prefetch(src, n, skip + AHEAD_BYTES, count * size);
		if (two) {
			if (fetched && !in_place)
				prefetch((const void *const *)dst, dsts, skip + AHEAD_BYTES,
				    count * size);
			reduce_two(&r, dst, dsts, src, skip, m);
		} else {
			reduce_block(row, &r, reduction == GT_AVG, dst, dsts, src, n, skip, m);
		}
	}
}

/* ---- from rank to rank ---- */

enum gt_dtype gt_reduce_partial(enum gt_dtype dtype)
{
	return rows[dtype].wide;
}

/* The block at `at`. */
static void step_block(const struct arithmetic *row, const struct reduction *r,
    const struct gt_reduce_step *s, size_t at, size_t m)
{
	const size_t size = gt_dtype_size(s->dtype), wide = gt_dtype_size(row->wide);
	const unsigned char *in = (const unsigned char *)s->in + at * size;
	alignas(GT_COMM_LINE) unsigned char acc[BLOCK_BYTES];

	row->load(acc, in, m);
	for (int p = 0; p < s->partials; p++)
		r->join(acc, (const unsigned char *)s->partial[p] + at * wide, m);
	if (s->ranks && s->reduction == GT_AVG)
		row->divide(acc, s->ranks, m);
	for (int d = 0; d < s->dsts; d++)
		if (s->ranks)
			row->store((unsigned char *)s->dst[d] + at * size, acc, m);
		else
			memcpy((unsigned char *)s->dst[d] + at * wide, acc, m * wide);
}

static void step_blocks(
    const struct arithmetic *row, const struct reduction *r, const struct gt_reduce_step *s)
{
	for (size_t at = 0; at < s->count; at += row->block)
		step_block(row, r, s, at, s->count - at < row->block ? s->count - at : row->block);
}

void gt_reduce_step(const struct gt_reduce_step *s)
{
	const struct arithmetic *row = &rows[s->dtype];
	const struct reduction r = reduction_of(row, s->reduction);
	const bool divides = s->ranks && s->reduction == GT_AVG;

	if (row->wide == s->dtype && !divides && s->partials == 1)
		gt_reduce(s->dst, s->dsts, (const void *[]){ s->partial[0], s->in }, 2, s->count,
		    s->dtype, s->reduction == GT_MAX ? GT_MAX : GT_SUM);
	else if (row->wide == s->dtype && !divides && !s->partials)
		for (int d = 0; d < s->dsts; d++)
			gt_copy_bytes(s->dst[d], s->in, s->count * gt_dtype_size(s->dtype));
	else
		step_blocks(row, &r, s);
}
