/* exp_logits.cu - a product that writes the exponentials of logits, and the kernels around it. */
#include "kernels/cuda/loss/exp_logits.cuh"

#include "kernels/cuda/core/async.cuh"
#include "kernels/cuda/core/mma.cuh"

/*
 * The head of a model is the product that computes logits z = x * w^T, followed by softmax and
 * cross-entropy. The rows of the head are processed in chunks. The functions of exp_logits.cuh
 * process one chunk in bfloat16: x [rows, width], w [classes, width] and one target per row.
 *
 * Let p = exp(z) / sum(exp(z)) be the softmax of a row. The gradient of the loss with respect to z
 * is scale * p, and scale * (p - 1) at the target; `scale` is an input. If a library computed the
 * product, a separate kernel for softmax would have to read all of z and write p. In this file, the
 * product itself writes e = exp(z - shift):
 *
 *   shift    of a row: its logit at its target, which is computed before the product
 *   sum      of a row: the sum of its elements of e
 *   factor   of a row: scale / sum
 *
 * The factor is known only after the product. So the large matrix e is not multiplied by it, but
 * smaller matrices are:
 *
 *   d = e, except at the target: there d = -(sum of the row's other elements of e)
 *   xs = factor * x         dw = d^T * xs       dx = factor * (d * w)
 *
 * Then factor * d is the gradient with respect to z. The large matrix d [rows, classes] is written
 * once and read twice, by the products for dw and dx.
 *
 * bfloat16 has the exponents of float32, so it can hold large and small values of e. If a logit of
 * a row is far above the logit at the target, the sum of the row can exceed 1e20 (a loss of 46). If
 * it does, another kernel computes the row again, with the largest logit as its shift. For each
 * such row this kernel reads all of w, so a step with many such rows is slow.
 *
 * If the L2 cache of the GPU is smaller than x, the product reads parts of x from memory several
 * times. The number of bytes that `gtrain train --dry-run --verbose` prints is then too small,
 * because it counts x as read once.
 *
 * Example with one row, three classes, target 0, scale 1 and logits 0, 1, 2:
 *   shift 0   e = 1, 2.72, 7.39   2.72 + 7.39 = 10.11    loss = log(11.11) = 2.41
 *   d = -10.11, 2.72, 7.39        factor 1 / 11.11       factor * d = -0.91, 0.24, 0.67
 *
 * If the target of a row is ignored (negative), e and factor of the row are 0. If the target is not
 * a class (too large), they are NaN.
 */

/*
 * The product: a block makes SIDE x SIDE exponentials by tensor cores, DEPTH of the width at a
 * time; while it multiplies one step of both factors, the next one is copied to shared memory. Its
 * 8 warps are 2 down and 4 across, each with 64 x 32 elements. Neighbouring blocks share columns,
 * so w is read once while x stays in the L2 cache.
 */
enum {
	SIDE = 128,
	DEPTH = 32,
	PACK = 8,             /* elements in 16 bytes */
	LD = DEPTH + PACK,    /* between rows of a step: 8 rows are in different banks */
	STEP = 2 * SIDE * LD, /* elements of x, then of w */
	E_LD = SIDE + PACK,   /* between rows of the tile that is written */
	THREADS = 256,
	DOWN = 2,
	ACROSS = 4,
	TILES_M = SIDE / DOWN / GT_TILE,
	TILES_N = SIDE / ACROSS / GT_TILE,
	WARPS = THREADS / 32
};

static const float max_sum = 1e20f; /* the largest sum that needs no other shift */

static_assert(SIDE * E_LD * 2 + ACROSS * SIDE * 4 <= 2 * STEP * 2, "the tile fits into the steps");

/* ---- own memory ---- */

static __host__ __device__ __forceinline__ int64_t tiles_of(int64_t classes)
{
	return (classes + SIDE - 1) / SIDE;
}

bool gt_exp_logits_fit(int64_t width, int64_t classes)
{
	static const int64_t most_tiles = 65535; /* blocks of a grid in its second dimension */

	return width % PACK == 0 && tiles_of(classes) <= most_tiles;
}

int64_t gt_exp_logits_floats(int64_t rows, int64_t classes)
{
	return rows * (3 + tiles_of(classes));
}

/* Each number once; rows of x and of w for the logits at targets; of x for xs; of dx. */
double gt_exp_logits_bytes_read(int64_t rows, int64_t width, int64_t classes)
{
	return (double)gt_exp_logits_floats(rows, classes) * sizeof(float) +
	       4 * (double)(rows * width) * sizeof(gt_bf16);
}

/* Each number once; xs; dx. */
double gt_exp_logits_bytes_written(int64_t rows, int64_t width, int64_t classes)
{
	return (double)gt_exp_logits_floats(rows, classes) * sizeof(float) +
	       2 * (double)(rows * width) * sizeof(gt_bf16);
}

struct numbers {
	float *own;    /* [rows]: logits at targets */
	float *shift;  /* [rows] */
	float *factor; /* [rows] */
	float *sums;   /* [tiles][rows]: of e, without the target */
};

static __host__ __device__ __forceinline__ numbers numbers_of(const gt_exp_logits &a)
{
	return { a.workspace, a.workspace + a.rows, a.workspace + 2 * a.rows,
		a.workspace + 3 * a.rows };
}

static __device__ __forceinline__ int64_t target_of(const gt_exp_logits &a, int64_t r)
{
	return a.target.of_row[a.first + r];
}

/* ---- logits at targets ---- */

typedef gt_map_buffer<gt_bf16, true, true>::lanes<PACK> pack;
typedef gt_pack<gt_bf16, PACK> words;

/* The lanes of a warp: their parts of the product of two rows. */
static __device__ __forceinline__ float dot(
    const gt_bf16 *x, const gt_bf16 *w, int64_t width, int lane, int lanes)
{
	pack a = { (gt_bf16 *)x, {} }, b = { (gt_bf16 *)w, {} };
	float sum = 0;

	for (int64_t k = lane * PACK; k < width; k += lanes * PACK) {
		a.load(k);
		b.load(k);
		for (int i = 0; i < PACK; i++)
			sum += a.v[i] * b.v[i];
	}
	return sum;
}

/* A warp has a row. */
static __global__ void own_logits(gt_exp_logits a)
{
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
	int lane = (int)threadIdx.x % 32;
	numbers n = numbers_of(a);
	gt_target kind;
	float own;

	if (r >= a.rows)
		return;
	kind = lane ? GT_TARGET_IGNORED : a.target.kind(a.first + r);
	kind = (gt_target)__shfl_sync(0xffffffffu, (int)kind, 0);
	own = kind == GT_TARGET_BAD ? NAN : INFINITY;
	if (kind == GT_TARGET_COUNTS)
		own = gt_warp_sum(
		    dot(a.x + r * a.width, a.w + target_of(a, r) * a.width, a.width, lane, 32));
	if (lane == 0)
		n.own[r] = n.shift[r] = own;
}

/* ---- the product ---- */

/* Queue the copies of a thread: rows from `first` on of from [rows, width], columns from k on. */
static __device__ __forceinline__ void fetch_row_tile(gt_async_copies &copies, gt_bf16 *to,
    const gt_bf16 *from, int64_t rows, int64_t width, int64_t first, int64_t k)
{
	for (int i = (int)threadIdx.x; i < SIDE * DEPTH / PACK; i += THREADS) {
		int64_t r = first + i / (DEPTH / PACK), c = k + i % (DEPTH / PACK) * PACK;
		bool inside = r < rows && c < width;

		copies.copy(to + i / (DEPTH / PACK) * LD + i % (DEPTH / PACK) * PACK,
		    inside ? from + r * width + c : from, inside ? 16 : 0);
	}
}

typedef float tile_sums[TILES_M][TILES_N][GT_TILE_LANE];

/*
 * The logits of this thread. Two steps of shared memory take turns:
 *
 *   copies      step 0 | step 1     | step 2     | -
 *   multiplies           0            1            2
 *
 * wait<1>() leaves the group committed last on its way, and waits for those before it. A group is
 * committed in the last round too, empty, so that this always means the step about to be
 * multiplied. The first barrier makes the copies of all threads visible, the second keeps a step
 * until all warps have read it.
 */
static __device__ __forceinline__ void multiply(
    tile_sums &sum, gt_bf16 *steps, const gt_exp_logits &a, int64_t row, int64_t col)
{
	int warp = (int)threadIdx.x / 32, now = 0;
	int m = warp / ACROSS * TILES_M * GT_TILE, n = warp % ACROSS * TILES_N * GT_TILE;
	gt_async_copies copies;

	fetch_row_tile(copies, steps, a.x, a.rows, a.width, row, 0);
	fetch_row_tile(copies, steps + SIDE * LD, a.w, a.classes, a.width, col, 0);
	copies.commit();
	for (int64_t k = 0; k < a.width; k += DEPTH) {
		const gt_bf16 *x = steps + now * STEP, *w = x + SIDE * LD;
		gt_bf16 *next = steps + (now ^ 1) * STEP;

		if (k + DEPTH < a.width) {
			fetch_row_tile(copies, next, a.x, a.rows, a.width, row, k + DEPTH);
			fetch_row_tile(
			    copies, next + SIDE * LD, a.w, a.classes, a.width, col, k + DEPTH);
		}
		copies.commit();
		copies.wait<1>();
		__syncthreads();
		GT_UNROLL
		for (int i = 0; i < DEPTH; i += GT_TILE)
			gt_tile_grid(sum, x + m * LD + i, LD, w + n * LD + i, LD);
		__syncthreads();
		now ^= 1;
	}
}

/* Put exponentials in the place of this thread's logits, and in the block's tile. parts[ACROSS]
 * [SIDE] gets the sums of each warp's columns. */
static __device__ __forceinline__ void exponentiate(
    tile_sums &sum, gt_bf16 *tile, float *parts, const gt_exp_logits &a, int64_t row, int64_t col)
{
	int warp = (int)threadIdx.x / 32;
	int m = warp / ACROSS * TILES_M * GT_TILE, n = warp % ACROSS * TILES_N * GT_TILE;
	const float *shifts = numbers_of(a).shift;

	GT_UNROLL
	for (int t = 0; t < TILES_M * 2; t++) { /* rows of this thread */
		int i = m + t / 2 * GT_TILE + gt_tile_row(t % 2 * 2);
		bool inside = row + i < a.rows;
		float shift = inside ? shifts[row + i] : INFINITY, part = 0;
		int64_t target = inside ? target_of(a, row + i) : -1;

		GT_UNROLL
		for (int k = 0; k < TILES_N * 4; k++) { /* and columns */
			int e = t % 2 * 2 + k % 2 + k / 2 % 2 * 4, j = n + k / 4 * GT_TILE;
			float v = shift == INFINITY ? 0 : gt_exp(sum[t / 2][k / 4][e] - shift);

			j += gt_tile_col(e);
			gt_store(tile + i * E_LD + j, v);
			part += col + j < a.classes && col + j != target ? v : 0;
		}
		part += __shfl_xor_sync(0xffffffffu, part, 1);
		part += __shfl_xor_sync(0xffffffffu, part, 2);
		if (threadIdx.x % 4 == 0)
			parts[warp % ACROSS * SIDE + i] = part;
	}
}

/* Write the tile, and the sums of its rows. */
static __device__ __forceinline__ void write_tile(
    const gt_bf16 *tile, const float *parts, const gt_exp_logits &a, int64_t row, int64_t col)
{
	float *sums = numbers_of(a).sums + col / SIDE * a.rows;

	/* Rows of e are padded to whole packs. */
	for (int i = (int)threadIdx.x; i < SIDE * SIDE / PACK; i += THREADS) {
		int r = i / (SIDE / PACK), c = i % (SIDE / PACK) * PACK;

		if (row + r < a.rows && col + c < a.classes)
			*(words *)(a.e + (row + r) * a.stride + col + c) =
			    *(const words *)(tile + r * E_LD + c);
	}
	for (int r = (int)threadIdx.x; r < SIDE && row + r < a.rows; r += THREADS) {
		float sum = 0;

		for (int w = 0; w < ACROSS; w++)
			sum += parts[w * SIDE + r];
		sums[row + r] = sum;
	}
}

static __global__ __launch_bounds__(THREADS, 2) void exp_product(gt_exp_logits a)
{
	GT_SHARED(words, steps, 2 * STEP / PACK);
	int64_t row = (int64_t)blockIdx.x * SIDE, col = (int64_t)blockIdx.y * SIDE;
	gt_bf16 *tile = (gt_bf16 *)steps;
	float *parts = (float *)(tile + SIDE * E_LD);
	tile_sums sum = {};

	multiply(sum, tile, a, row, col);
	exponentiate(sum, tile, parts, a, row, col);
	__syncthreads();
	write_tile(tile, parts, a, row, col);
}

/* ---- rows ---- */

/* Compute a row again with its largest logit as the shift. Returns the sum without the target. */
static __device__ float redo_row(const gt_exp_logits &a, int64_t r, float *shift, float *shared)
{
	const gt_bf16 *x = a.x + r * a.width;
	float largest = gt_lowest<float>::value, sum = 0;
	int64_t target = target_of(a, r);

	for (int64_t v = threadIdx.x; v < a.classes; v += THREADS)
		largest = fmaxf(largest, dot(x, a.w + v * a.width, a.width, 0, 1));
	largest = gt_block_max(largest, shared);
	for (int64_t v = threadIdx.x; v < a.classes; v += THREADS) {
		float e = gt_exp(dot(x, a.w + v * a.width, a.width, 0, 1) - largest);

		gt_store(a.e + r * a.stride + v, e);
		sum += v != target ? e : 0;
	}
	*shift = largest;
	return gt_block_sum(sum, shared);
}

/* A block has a row. */
static __global__ __launch_bounds__(THREADS) void finish_rows(gt_exp_logits a)
{
	GT_SHARED(float, shared, 32);
	int64_t r = blockIdx.x, target = target_of(a, r);
	numbers n = numbers_of(a);
	float own = n.own[r], shift = own, others = 0, factor;
	double sum;
	pack x = { (gt_bf16 *)a.x + r * a.width, {} }, xs = { a.xs + r * a.width, {} };

	for (int64_t t = threadIdx.x; t < tiles_of(a.classes); t += THREADS)
		others += n.sums[t * a.rows + r];
	others = gt_block_sum(others, shared);
	if (others > max_sum)
		others = redo_row(a, r, &shift, shared);
	sum = (double)others + (double)gt_exp(own - shift);
	factor = target < 0 ? 0 : (float)((double)(*a.dloss * *a.weight) / sum);
	for (int64_t c = (int64_t)threadIdx.x * PACK; c < a.width; c += THREADS * PACK) {
		x.load(c);
		for (int k = 0; k < PACK; k++)
			xs.v[k] = factor * x.v[k];
		xs.store(c);
	}
	__syncthreads();
	if (threadIdx.x)
		return;
	n.factor[r] = factor;
	a.of_row[a.first + r] = target < 0 ? 0 : gt_log(sum) + (double)shift - (double)own;
	if (target >= 0 && target < a.classes)
		gt_store(a.e + r * a.stride + target, -others);
}

/* dx: a warp has a row. */
static __global__ void scale_rows(gt_exp_logits a, gt_bf16 *dx)
{
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
	pack row = { dx + r * a.width, {} };
	float factor;

	if (r >= a.rows)
		return;
	factor = numbers_of(a).factor[r];
	for (int64_t c = threadIdx.x % 32 * PACK; c < a.width; c += 32 * PACK) {
		row.load(c);
		for (int k = 0; k < PACK; k++)
			row.v[k] *= factor;
		row.store(c);
	}
}

/* ---- launches ---- */

#define NAME "linear_cross_entropy"

static unsigned blocks_of(int64_t count, int64_t each)
{
	return (unsigned)((count + each - 1) / each);
}

int gt_exp_logits_queue(struct gt_stream *stream, const gt_exp_logits &a, struct gt_err *err)
{
	dim3 grid(blocks_of(a.rows, SIDE), blocks_of(a.classes, SIDE));

	GT_LAUNCH(own_logits, blocks_of(a.rows, WARPS), THREADS, 0, stream->queue, a);
	GT_LAUNCH(exp_product, grid, THREADS, 0, stream->queue, a);
	GT_LAUNCH(finish_rows, (unsigned)a.rows, THREADS, 0, stream->queue, a);
	return gt_cuda_launched(stream, NAME, err);
}

int gt_exp_logits_scale(
    struct gt_stream *stream, const gt_exp_logits &a, gt_bf16 *dx, struct gt_err *err)
{
	GT_LAUNCH(scale_rows, blocks_of(a.rows, WARPS), THREADS, 0, stream->queue, a, dx);
	return gt_cuda_launched(stream, NAME, err);
}
