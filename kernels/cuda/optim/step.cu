/* step.cu - sums of a step: losses, squares of gradients, and the factors of the update. */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "lib/optim/step_policy.h"

enum { THREADS = 256 };

static __global__ void begin_step(struct gt_step_scalars *s)
{
	struct gt_step_result *r = &s->result;

	if (threadIdx.x == 0) {
		r->loss = 0;
		r->stop = s->block.stop;
		r->grad_norm = 0;
	}
	if (threadIdx.x < GT_SQUARES)
		r->squares[threadIdx.x] = 0;
}

int gt_cuda_begin_step(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err)
{
	GT_LAUNCH(begin_step, 1, 32, 0, stream->queue, s);
	return gt_cuda_launched(stream, "begin_step", err);
}

/* ---- losses ---- */

/*
 * The tree of lib/optim/step_kernels.h adds up neighbours, pairs of neighbours, and so on; a sum
 * without a neighbour goes on alone. So a subtree of 2^k elements can be added up as a binary
 * number counts: sums[j] is that of 2^j elements, and a new element carries as far as there are
 * sums. Example, three elements:
 *
 *   element a   done 0     sums[0] = a
 *   element b   done 1     carries: sums[1] = a + b
 *   element c   done 2     sums[0] = c
 *   end         done 3     both bits are set: (a + b) + c
 */
static __device__ double sum_subtree(const float *x, int64_t count)
{
	double sums[63], carry = 0;
	int top = 0;
	int64_t done = 0;

	for (; done < count; done++) {
		int level = 0;

		carry = (double)x[done];
		for (; done >> level & 1; level++)
			carry = sums[level] + carry;
		sums[level] = carry;
	}
	carry = 0;
	for (int level = 0; done >> level; level++)
		if (done >> level & 1)
			carry = top++ ? sums[level] + carry : sums[level];
	return carry;
}

/* A thread has 2^k elements, such that the threads have all; the last ones may have fewer. */
static __global__ void add_losses(struct gt_step_scalars *s, const float *losses, int64_t count)
{
	GT_SHARED(double, sums, THREADS);
	int64_t each = 1, first, left;
	int t = (int)threadIdx.x, used;

	while (each * THREADS < count)
		each *= 2;
	used = (int)((count + each - 1) / each);
	first = t * each;
	left = count - first;
	if (t < used)
		sums[t] = sum_subtree(losses + first, left < each ? left : each);
	for (int step = 1; step < used; step *= 2) {
		__syncthreads();
		if (t % (2 * step) == 0 && t + step < used)
			sums[t] += sums[t + step];
	}
	if (t == 0)
		s->result.loss += sums[0];
}

int gt_cuda_add_losses(struct gt_stream *stream, struct gt_step_scalars *s, const float *losses,
    int64_t count, struct gt_err *err)
{
	GT_LAUNCH(add_losses, 1, THREADS, 0, stream->queue, s, losses, count);
	return gt_cuda_launched(stream, "add_losses", err);
}

/* ---- squares ---- */

/* See lib/optim/step_kernels.h and kernels/cpu/step.c: by exponent, integers of 24 bits are squared
 * and added up in 64 bits; these sums are cut into digits, which are doubles. All of it is exact,
 * so the order of atomics on integers does not matter. */
enum {
	EXPONENTS = 256,       /* of float32, by their bits */
	EXACT_BLOCK = 1 << 16, /* squares that 64 bits hold the sum of */
	BLOCKS = 264,          /* at most, each with GT_SQUARES doubles of the stream's scratch */
	ADDERS = 32,           /* threads for each digit of the sums of all blocks */
	PACK = 4,              /* elements of a load */
	PACKS_AT_ONCE = 8,     /* loads of a thread that are under way together */
	CHUNK = THREADS * PACK * PACKS_AT_ONCE
};

static_assert(BLOCKS * GT_SQUARES * sizeof(double) <= GT_CUDA_SCRATCH_BYTES, "all blocks fit");

/* The loads of CHUNK elements are under way together; `begin` is a multiple of PACK. */
static __device__ void plain_squares(
    double *sums, const float *g, int64_t begin, int64_t end, double *shared)
{
	int64_t i = begin + threadIdx.x * PACK;
	double sum = 0;

	for (; i - threadIdx.x * PACK + CHUNK <= end; i += CHUNK) {
		gt_pack<float, PACK> v[PACKS_AT_ONCE];

		for (int k = 0; k < PACKS_AT_ONCE; k++)
			v[k] = *(const gt_pack<float, PACK> *)(g + i + k * THREADS * PACK);
		for (int k = 0; k < PACKS_AT_ONCE; k++)
			for (int j = 0; j < PACK; j++)
				sum += (double)v[k].at[j] * (double)v[k].at[j];
	}
	for (; i < end; i += THREADS * PACK)
		for (int j = 0; j < PACK && i + j < end; j++)
			sum += (double)g[i + j] * (double)g[i + j];
	sum = gt_block_sum(sum, shared);
	if (threadIdx.x == 0)
		sums[0] = sum;
}

static __device__ void add_digits(double *digits, unsigned long long sum, int exponent)
{
	int place = exponent ? 2 * (exponent - 1) : 0, shift = place % GT_SQUARE_DIGIT;
	unsigned long long mask = (1u << GT_SQUARE_DIGIT) - 1;

	digits += place / GT_SQUARE_DIGIT;
	*digits++ += (double)(sum << shift & mask);
	for (sum >>= GT_SQUARE_DIGIT - shift; sum; sum >>= GT_SQUARE_DIGIT)
		*digits++ += (double)(sum & mask);
}

/*
 * At most EXACT_BLOCK elements, 2^16, whose squares of 48 bits have a sum of 64 bits. `counts` is
 * [EXPONENTS]. Infinity and NaN have the last exponent and no exact square: one thread adds them
 * up as doubles, which makes the norm infinite or NaN.
 */
static __device__ void exact_squares(
    double *sums, const float *g, int64_t begin, int64_t end, unsigned long long *counts)
{
	int t = (int)threadIdx.x;
	double strange = 0;

	static_assert((int)THREADS == (int)EXPONENTS, "a thread for each exponent");
	counts[t] = 0;
	__syncthreads();
	for (int64_t i = begin + t; i < end; i += THREADS) {
		float x = g[i];
		uint32_t bits, exponent;
		unsigned long long fraction;

		memcpy(&bits, &x, sizeof(bits));
		exponent = bits >> 23 & 255;
		fraction = (bits & 0x7fffff) | (exponent ? 0x800000 : 0);
		atomicAdd(&counts[exponent], fraction * fraction);
	}
	__syncthreads();
	for (int e = 0; t == 0 && e < EXPONENTS - 1; e++)
		if (counts[e])
			add_digits(sums, counts[e], e);
	for (int64_t i = begin; t == 0 && counts[EXPONENTS - 1] && i < end; i++)
		if (!(g[i] * 0 == 0))
			strange += (double)g[i] * (double)g[i];
	if (t == 0)
		sums[GT_SQUARE_DIGITS] += strange;
	__syncthreads();
}

/* The sums of block b are partial[b]. */
static __global__ void squares_of_blocks(
    double *partial, const float *g, int64_t count, int64_t chunk, const struct gt_step_scalars *s)
{
	GT_SHARED(unsigned long long, counts, EXPONENTS);
	GT_SHARED(double, shared, 32);
	int64_t begin = (int64_t)blockIdx.x * chunk;
	int64_t end = begin + chunk < count ? begin + chunk : count;
	double *sums = partial + (int64_t)blockIdx.x * GT_SQUARES;

	if (threadIdx.x < GT_SQUARES)
		sums[threadIdx.x] = 0;
	__syncthreads();
	if (!s->block.exact) {
		plain_squares(sums, g, begin, end, shared);
		return;
	}
	for (int64_t i = begin; i < end; i += EXACT_BLOCK)
		exact_squares(sums, g, i, i + EXACT_BLOCK < end ? i + EXACT_BLOCK : end, counts);
}

/* Thread (i, j) adds up digit i of blocks j, j + ADDERS, j + 2 * ADDERS and so on. Then thread
 * (i, 0) adds the sums of threads (i, 1), (i, 2) and so on to its own, in this order. */
static __global__ void add_squares(struct gt_step_scalars *s, const double *partial, int blocks)
{
	GT_SHARED(double, sums, 32 * ADDERS);
	int i = (int)threadIdx.x, j = (int)threadIdx.y;
	double sum = 0;

	for (int b = j; i < GT_SQUARES && b < blocks; b += ADDERS)
		sum += partial[b * GT_SQUARES + i];
	sums[j * 32 + i] = sum;
	__syncthreads();
	if (i >= GT_SQUARES || j)
		return;
	for (int k = 1; k < ADDERS; k++)
		sum += sums[k * 32 + i];
	s->result.squares[i] += sum;
}

int gt_cuda_squares(struct gt_stream *stream, const float *g, int64_t count,
    struct gt_step_scalars *s, struct gt_err *err)
{
	/* A block has whole chunks, but for the last one. */
	int64_t chunk = (count + (int64_t)BLOCKS * CHUNK - 1) / (BLOCKS * CHUNK) * CHUNK;
	int blocks = chunk ? (int)((count + chunk - 1) / chunk) : 0;
	double *partial = (double *)stream->scratch;
	int rc;

	if (!count)
		return 0;
	GT_LAUNCH(squares_of_blocks, (unsigned)blocks, THREADS, 0, stream->queue, partial, g, count,
	    chunk, s);
	rc = gt_cuda_launched(stream, "squares", err);
	if (rc)
		return rc;
	GT_LAUNCH(add_squares, 1, dim3(32, ADDERS), 0, stream->queue, s, partial, blocks);
	return gt_cuda_launched(stream, "squares", err);
}

/* ---- rows ---- */

static __global__ void copy_rows(float *to, int64_t to_stride, const float *from,
    int64_t from_stride, int64_t length, int64_t count)
{
	int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;

	for (; i < count; i += (int64_t)gridDim.x * THREADS)
		to[i / length * to_stride + i % length] =
		    from[i / length * from_stride + i % length];
}

int gt_cuda_copy_rows(struct gt_stream *stream, float *to, int64_t to_stride, const float *from,
    int64_t from_stride, int64_t length, int64_t rows, struct gt_err *err)
{
	int64_t count = rows * length;

	if (!count)
		return 0;
	GT_LAUNCH(copy_rows, gt_min_blocks((count + THREADS - 1) / THREADS, 4096), THREADS, 0,
	    stream->queue, to, to_stride, from, from_stride, length, count);
	return gt_cuda_launched(stream, "copy_rows", err);
}

/* ---- the update ---- */

static __global__ void begin_update(struct gt_step_scalars *s)
{
	gt_step_begin_update(s);
}

int gt_cuda_begin_update(struct gt_stream *stream, struct gt_step_scalars *s, struct gt_err *err)
{
	GT_LAUNCH(begin_update, 1, 1, 0, stream->queue, s);
	return gt_cuda_launched(stream, "begin_update", err);
}
