/* muon.cu - the update of Muon: momentum, made orthogonal by Newton-Schulz iterations. */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/optim/muon.h"

/* buf = buf + (1 - momentum) (g - buf), and x the same step once more from there to g (Nesterov):
 * torch's lerp. */
struct advance_f {
	const struct gt_step_scalars *s;
	float fresh, factor;

	__device__ bool begin()
	{
		factor = s->result.grad_factor;
		return !s->result.skip;
	}

	__device__ void operator()(float &x, float &buf, float g)
	{
		float d = g * factor;

		buf = buf + fresh * (d - buf);
		x = buf + fresh * (d - buf);
	}
};

struct step_f {
	const struct gt_step_scalars *s;
	float lr_scale, decay, scale, shrink, step;

	__device__ bool begin()
	{
		float lr = s->block.lr * lr_scale;

		shrink = 1.0f - lr * decay;
		step = lr * scale;
		return !s->result.skip;
	}

	__device__ void operator()(float &p, float x)
	{
		p = p * shrink - step * x;
	}
};

/* step_f, which also stores the new parameter in the 16-bit working copy of the parameters. */
struct step_copy_f : step_f {
	using step_f::operator();

	__device__ void operator()(float &copy, float &p, float x)
	{
		step_f::operator()(p, x);
		copy = p;
	}
};

/* ---- x / max(its Frobenius norm, eps) ---- */

enum { THREADS = 256, BLOCKS = 256 };

static_assert(BLOCKS * sizeof(double) <= GT_CUDA_SCRATCH_BYTES, "all blocks fit");

static __global__ void sum_squares(double *partial, const float *x, int64_t count)
{
	GT_SHARED(double, shared, 32);
	double sum = 0;

	for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count;
	     i += (int64_t)gridDim.x * THREADS)
		sum += (double)x[i] * (double)x[i];
	sum = gt_block_sum(sum, shared);
	if (threadIdx.x == 0)
		partial[blockIdx.x] = sum;
}

struct normalize_f {
	const double *partial;
	int blocks;
	double eps;
	float scale;

	__device__ bool begin()
	{
		double sum = 0;

		for (int b = 0; b < blocks; b++)
			sum += partial[b];
		sum = sqrt(sum);
		scale = (float)(1 / (sum > eps ? sum : eps));
		return true;
	}

	__device__ void operator()(float &x)
	{
		x *= scale;
	}
};

static int normalize(struct gt_stream *stream, float *x, int64_t count, struct gt_err *err)
{
	unsigned blocks = gt_min_blocks((count + THREADS - 1) / THREADS, BLOCKS);
	normalize_f f = { (const double *)stream->scratch, (int)blocks, gt_muon_eps, 0 };

	GT_LAUNCH(
	    sum_squares, blocks, THREADS, 0, stream->queue, (double *)stream->scratch, x, count);
	if (gt_cuda_launched(stream, "muon", err))
		return err->code;
	return gt_map(stream, "muon", count, f, err, gt_inout(x));
}

/* ---- products, of matrices that are too small for cuBLASLt (muon.h) ---- */

/* A matrix in memory, and how far its rows and columns are apart. */
struct matrix {
	const float *p;
	int64_t row, col;
};

enum { TILE = 16 };

/* c [m, n] = alpha a [m, k] b [k, n] + beta d [m, n]; c and d are row-major; no d is NULL. */
static __global__ void multiply(float *c, const float *d, float alpha, float beta, struct matrix a,
    struct matrix b, int64_t m, int64_t n, int64_t k)
{
	GT_SHARED(float, left, TILE *TILE);
	GT_SHARED(float, right, TILE *TILE);
	int x = (int)threadIdx.x, y = (int)threadIdx.y;
	int64_t i = (int64_t)blockIdx.y * TILE + y, j = (int64_t)blockIdx.x * TILE + x;
	float sum = 0;

	for (int64_t from = 0; from < k; from += TILE) {
		left[y * TILE + x] =
		    i < m && from + x < k ? a.p[i * a.row + (from + x) * a.col] : 0;
		right[y * TILE + x] =
		    j < n && from + y < k ? b.p[(from + y) * b.row + j * b.col] : 0;
		__syncthreads();
		for (int l = 0; l < TILE; l++)
			sum += left[y * TILE + l] * right[l * TILE + x];
		__syncthreads();
	}
	if (i < m && j < n)
		c[i * n + j] = alpha * sum + (d ? beta * d[i * n + j] : 0);
}

static void launch_product(struct gt_stream *stream, float *c, const float *d, float alpha,
    float beta, struct matrix a, struct matrix b, int64_t m, int64_t n, int64_t k)
{
	dim3 grid((unsigned)((n + TILE - 1) / TILE), (unsigned)((m + TILE - 1) / TILE));

	GT_LAUNCH(
	    multiply, grid, dim3(TILE, TILE), 0, stream->queue, c, d, alpha, beta, a, b, m, n, k);
}

/* With A = X X^T, or X^T X where that is smaller: next = a X + (b A + c A A) X, or the same with
 * the polynomial on the right, as if X were transposed. gram and poly are [side, side]. */
static int iterate(struct gt_stream *stream, float *next, const float *x, float *gram, float *poly,
    int64_t rows, int64_t cols, const struct gt_muon_cache *cache, struct gt_err *err)
{
	const double *k = gt_muon_coefficients;
	bool tall = rows > cols;
	int64_t side = tall ? cols : rows;
	const struct gt_muon_cache *products = gt_muon_products_find(cache, rows, cols);
	struct matrix plain = { x, cols, 1 }, turned = { x, 1, cols }, a = { gram, side, 1 },
	              p = { poly, side, 1 };

	if (products)
		return gt_muon_products_run(products, stream, next, x, gram, poly, err);
	launch_product(stream, gram, nullptr, 1, 0, tall ? turned : plain, tall ? plain : turned,
	    side, side, tall ? rows : cols);
	launch_product(stream, poly, gram, (float)k[2], (float)k[1], a, a, side, side, side);
	launch_product(
	    stream, next, x, 1, (float)k[0], tall ? plain : p, tall ? p : plain, rows, cols, side);
	return gt_cuda_launched(stream, "muon", err);
}

/* Move the parameters p[count] along x[count], the orthogonal momentum. If o->copy is not NULL,
 * also write the new parameters to this working copy. */
static int move_parameters(struct gt_stream *stream, int64_t count, const step_f &step,
    const struct gt_update_options *o, float *p, const float *x, struct gt_err *err)
{
	const step_copy_f both = { step };

	if (!o->copy)
		return gt_map(stream, "muon", count, step, err, gt_inout(p), gt_in(x));
	if (o->copy_type == GT_F16)
		return gt_map(stream, "muon", count, both, err, gt_out((gt_f16 *)o->copy),
		    gt_inout(p), gt_in(x));
	return gt_map(
	    stream, "muon", count, both, err, gt_out((gt_bf16 *)o->copy), gt_inout(p), gt_in(x));
}

int gt_cuda_muon(struct gt_stream *stream, float *p, const float *g, float *buf, int64_t rows,
    int64_t cols, float *work, const struct gt_muon_cache *cache, const struct gt_update_options *o,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	int64_t count = rows * cols, side = rows < cols ? rows : cols;
	float *x = work, *next = work + count, *gram = work + 2 * count, *poly = gram + side * side;
	advance_f advance = { s, 1.0f - o->momentum, 0 };
	step_f step = { s, o->lr_scale, o->weight_decay, o->step_scale, 0, 0 };

	if (!count)
		return 0;
	if (gt_map(stream, "muon", count, advance, err, gt_out(x), gt_inout(buf), gt_in(g)) ||
	    normalize(stream, x, count, err))
		return err->code;
	for (int i = 0; i < GT_MUON_STEPS; i++) {
		float *old = x;

		if (iterate(stream, next, x, gram, poly, rows, cols, cache, err))
			return err->code;
		x = next;
		next = old;
	}
	return move_parameters(stream, count, step, o, p, x, err);
}
