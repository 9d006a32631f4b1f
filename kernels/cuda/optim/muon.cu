/* muon.cu - the update of Muon: momentum, made orthogonal by Newton-Schulz iterations. */
#include <cstdlib>

#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/library/product.h"

extern "C" {
#include "lib/base/mem.h"
}

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

/* ---- products of large matrices, by cuBLASLt ---- */

/* cuBLASLt multiplies matrices from this side on. ALIGNED: elements in 32 bytes. */
enum { LEAST_SIDE = 128, ALIGNED = 8 };

/* The products of an iteration, for matrices of one shape: the cache of gt_update_kernel is a list
 * of them. */
struct products {
	int64_t rows, cols;
	struct gt_product *gram, *poly, *next; /* in the order in which they run */
	struct products *more;                 /* the products for other shapes */
};

static void free_shape(struct products *m)
{
	gt_product_free(m->next);
	gt_product_free(m->poly);
	gt_product_free(m->gram);
	free(m);
}

static void free_products(void *cache)
{
	struct products *m = (struct products *)cache;

	while (m) {
		struct products *more = m->more;

		free_shape(m);
		m = more;
	}
}

static const struct products *find_products(const void *cache, int64_t rows, int64_t cols)
{
	const struct products *m = (const struct products *)cache;

	while (m && (m->rows != rows || m->cols != cols))
		m = m->more;
	return m;
}

/* The work of an update holds two matrices of this shape and two squares, one behind the other. */
static bool is_for_library(int64_t rows, int64_t cols)
{
	int64_t side = rows < cols ? rows : cols;

	return side >= LEAST_SIDE && rows * cols % ALIGNED == 0 && side * side % ALIGNED == 0;
}

static int make_products(struct products *m, struct gt_err *err)
{
	bool tall = m->rows > m->cols;
	int64_t side = tall ? m->cols : m->rows;
	struct gt_product_shape s = {};

	s.dtype = GT_F32;
	s.untimed = s.no_workspace = true;
	s.m = s.n = side;
	s.k = tall ? m->rows : m->cols;
	s.trans_a = tall;
	s.trans_b = !tall;
	if (gt_product_new(&m->gram, &s, err))
		return err->code;
	s.k = side;
	s.trans_a = s.trans_b = false;
	if (gt_product_new(&m->poly, &s, err))
		return err->code;
	s.m = m->rows;
	s.n = m->cols;
	return gt_product_new(&m->next, &s, err);
}

/* cuBLASLt proposes algorithms that need no workspace of its own, and a product uses the first one
 * that works. No algorithm is timed, because timing could choose different algorithms in different
 * runs or on different ranks: so all ranks and runs get the same bits. */
static int prepare_products(void **cache, int64_t rows, int64_t cols, struct gt_err *err)
{
	struct products *m;

	if (!is_for_library(rows, cols) || find_products(*cache, rows, cols))
		return 0;
	m = (struct products *)gt_calloc(1, sizeof(*m), err);
	if (!m)
		return GT_ENOMEM;
	m->rows = rows;
	m->cols = cols;
	if (make_products(m, err)) {
		free_shape(m);
		return gt_err_prefix(err, "muon");
	}
	m->more = (struct products *)*cache;
	*cache = m;
	return 0;
}

static int run_products(const struct products *m, struct gt_stream *stream, float *next,
    const float *x, float *gram, float *poly, struct gt_err *err)
{
	const double *k = gt_muon_coefficients;
	bool tall = m->rows > m->cols;
	int rc = gt_product_run(m->gram, stream, gram, x, x, NULL, 1, 0, NULL, err);

	if (!rc)
		rc = gt_product_run(m->poly, stream, poly, gram, gram, gram, k[2], k[1], NULL, err);
	return rc ? rc
	          : gt_product_run(m->next, stream, next, tall ? x : poly, tall ? poly : x, x, 1,
	                k[0], NULL, err);
}

/* ---- products of smaller matrices ---- */

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
    int64_t rows, int64_t cols, const void *cache, struct gt_err *err)
{
	const double *k = gt_muon_coefficients;
	bool tall = rows > cols;
	int64_t side = tall ? cols : rows;
	const struct products *products = find_products(cache, rows, cols);
	struct matrix plain = { x, cols, 1 }, turned = { x, 1, cols }, a = { gram, side, 1 },
	              p = { poly, side, 1 };

	if (products)
		return run_products(products, stream, next, x, gram, poly, err);
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

/* The result is in the second matrix of the workspace, as the number of iterations is odd. */
static_assert(GT_MUON_STEPS % 2, "each iteration swaps the two matrices");

static int orthogonalize(struct gt_stream *stream, const struct gt_update *u, struct gt_err *err)
{
	int64_t count = u->rows * u->cols, side = u->rows < u->cols ? u->rows : u->cols;
	float *x = u->work, *next = x + count, *gram = x + 2 * count, *poly = gram + side * side;

	if (normalize(stream, x, count, err))
		return err->code;
	for (int i = 0; i < GT_MUON_STEPS; i++) {
		float *old = x;

		if (iterate(stream, next, x, gram, poly, u->rows, u->cols, u->cache, err))
			return err->code;
		x = next;
		next = old;
	}
	return 0;
}

static int update_muon(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	const struct gt_update_range *r = u->ranges;
	const struct gt_update_options *o = r->o;
	bool whole = u->phase == GT_UPDATE_WHOLE;
	int64_t all = u->rows * u->cols, count = whole ? all : r->count;
	advance_f advance = { s, 1.0f - o->momentum, 0 };
	step_f step = { s, o->lr_scale, o->weight_decay, o->step_scale, 0, 0 };
	int rc = 0;

	if (!count)
		return 0;
	if (whole || u->phase == GT_UPDATE_AVERAGE)
		rc = gt_map(stream, "muon", count, advance, err, gt_out(u->work),
		    gt_inout(r->states[0]), gt_in(r->g));
	if (!rc && (whole || u->phase == GT_UPDATE_ORTHOGONALIZE))
		rc = orthogonalize(stream, u, err);
	if (!rc && (whole || u->phase == GT_UPDATE_STEP))
		rc =
		    move_parameters(stream, count, step, o, r->p, u->work + (whole ? all : 0), err);
	return rc;
}

const struct gt_update_kernel gt_cuda_muon = { update_muon, prepare_products, free_products };
