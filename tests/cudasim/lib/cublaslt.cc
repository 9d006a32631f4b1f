/* cublaslt.cc - stands in for cuBLASLt, over the memory and the streams of the simulator. */
#include "kernels/cuda/library/cublaslt.h"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "lib/base/half.h"
#include "tests/common/cublaslt.inc"
#include "tests/cudasim/inside.h"
#include "tests/cudasim/tf32.h"

/*
 * A library of its own, which gtrain opens as it opens the real one; the functions of the simulator
 * that it calls are the program's. It refuses descriptors that do not belong together, leading
 * dimensions below the number of rows, memory that is no device's or too short, pointers that are
 * less aligned than the preference promised, also in a batch, a workspace that is missing, and
 * algorithms that were proposed for another product. Sums are in float64, and rounded once; factors
 * are rounded to TF32 where the product says so, and never else.
 */

enum { MAGIC = 0x6c74 };

/* In the order in which they are proposed. One that reduces in place is not deterministic. */
static const struct {
	double ms;
	size_t workspace_bytes;
	unsigned reduction, alignment;
	bool refuses; /* to run */
} algorithms[] = {
	{ 1.0, 0, 0, 2, false },
	{ 0.5, 1 << 16, GT_LT_REDUCE_IN_WORKSPACE, 16, false },
	{ 0.2, 0, GT_LT_REDUCE_IN_PLACE, 2, false },
	{ 0.3, 0, 0, 256, false },
	{ 0.1, (size_t)64 << 20, 0, 16, false },
	{ 0.7, 0, 0, 16, false },
	{ 0.1, 0, 0, 2, true },
};
enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };

static double load(const void *p, int type, int64_t i)
{
	switch (type) {
	case GT_LT_F64:
		return ((const double *)p)[i];
	case GT_LT_F32:
		return ((const float *)p)[i];
	case GT_LT_F16:
		return gt_float_of_f16(((const uint16_t *)p)[i]);
	default:
		return gt_float_of_bf16(((const uint16_t *)p)[i]);
	}
}

static void store(void *p, int type, int64_t i, double x)
{
	switch (type) {
	case GT_LT_F64:
		((double *)p)[i] = x;
		break;
	case GT_LT_F32:
		((float *)p)[i] = (float)x;
		break;
	case GT_LT_F16:
		((uint16_t *)p)[i] = gt_f16_of_float((float)x);
		break;
	default:
		((uint16_t *)p)[i] = gt_bf16_of_float((float)x);
	}
}

extern "C" int cublasLtCreate(void **handle)
{
	if (cudasim_products.create_fails && cudasim_products.create_fails--)
		return cudasim_products.create_status;
	*handle = new int;
	return cudaGetDevice((int *)*handle) == cudaSuccess ? GT_LT_SUCCESS : 1;
}

/* ---- algorithms ---- */

/* The product that an algorithm was proposed for; the bias's address is not part of it. */
static uint64_t hash_of(const problem &p)
{
	const int64_t words[] = { p.m, p.n, p.k, p.a.type, p.y.type, p.op.compute, p.op.trans_a,
		p.op.trans_b, p.op.epilogue, p.a.leading, p.b.leading, p.y.leading, p.y.batch,
		p.a.step, p.b.step, p.y.step };
	uint64_t hash = MAGIC;

	for (int64_t w : words)
		hash = cudasim_mix(hash, (uint64_t)w);
	return hash;
}

static bool is_allowed(const preference &pref, int i)
{
	for (uint32_t alignment : pref.alignment)
		if (alignment < algorithms[i].alignment)
			return false;
	return algorithms[i].workspace_bytes <= pref.workspace_bytes &&
	       (algorithms[i].reduction & ~pref.reductions) == 0;
}

/* ---- epilogues ---- */

enum { BIAS = 4, GELU = 32, DGELU = 64, AUX = 128 };

static bool has_aux(const problem &p)
{
	return p.op.epilogue & AUX;
}

/* Elements of the vector that the bias's pointer is to. */
static int64_t vector_of(const problem &p)
{
	return p.op.epilogue == GT_LT_EPILOGUE_BGRADB                             ? p.n
	       : p.op.epilogue == GT_LT_EPILOGUE_BGRADA || (p.op.epilogue & BIAS) ? p.m
	                                                                          : 0;
}

/* Batches have none. Those beyond the bias are there for factors of 16 bits; sums of a side need it
 * not transposed, or the right one transposed, so that the summed operand lies as the library reads
 * it. */
static bool is_supported(const problem &p)
{
	const char *major = getenv("CUDASIM_MAJOR");
	bool ampere = p.a.type == GT_LT_BF16 || p.op.compute == GT_LT_COMPUTE_F32_TF32;

	if ((ampere && major && atoi(major) < 8) ||
	    (p.y.batch > 1 && p.op.epilogue != GT_LT_EPILOGUE_NONE))
		return false;
	switch (p.op.epilogue) {
	case GT_LT_EPILOGUE_NONE:
		return true;
	case GT_LT_EPILOGUE_BIAS:
		return p.y.type != GT_LT_F64;
	case GT_LT_EPILOGUE_GELU:
	case GT_LT_EPILOGUE_GELU_BIAS:
		return size_of(p.a.type) == 2;
	case GT_LT_EPILOGUE_GELU_AUX:
	case GT_LT_EPILOGUE_GELU_AUX_BIAS:
	case GT_LT_EPILOGUE_DGELU:
		return size_of(p.a.type) == 2 && size_of(p.y.type) == 2 &&
		       p.op.aux_leading >= p.m && p.op.aux_leading % 8 == 0 && p.op.aux;
	case GT_LT_EPILOGUE_BGRADA:
		return size_of(p.a.type) == 2 && !p.op.trans_a;
	case GT_LT_EPILOGUE_BGRADB:
		return size_of(p.a.type) == 2 && p.op.trans_b;
	default:
		return false;
	}
}

static double inner_of(double x)
{
	return 0.79788456080286535588 * (x + 0.044715 * x * x * x);
}

static double gelu(double x)
{
	return x / 2 * (1 + tanh(inner_of(x)));
}

static double gelu_slope(double x)
{
	double t = tanh(inner_of(x));

	return (1 + t) / 2 +
	       x / 2 * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

/* Element (i, j) behind the product. */
static double finish(const problem &p, double x, int64_t i, int64_t j)
{
	int64_t at = j * p.op.aux_leading + i;

	if (p.op.epilogue & BIAS)
		x += load(p.op.bias, p.y.type, i);
	if (p.op.epilogue == GT_LT_EPILOGUE_DGELU)
		return x * gelu_slope(load(p.op.aux, p.y.type, at));
	if (has_aux(p))
		store(p.op.aux, p.y.type, at, x);
	return p.op.epilogue & GELU ? gelu(x) : x;
}

/* The sums over k of the rows of an unpacked side. */
static void sum_rows(const problem &p, const std::vector<double> &side, int64_t rows)
{
	for (int64_t i = 0; i < rows; i++) {
		double sum = 0;

		for (int64_t k = 0; k < p.k; k++)
			sum += side[(size_t)(i * p.k + k)];
		store(p.op.bias, p.y.type, i, sum);
	}
}

extern "C" int cublasLtMatmulAlgoGetHeuristic(void *, void *desc, void *a, void *b, void *c,
    void *d, void *pref, int wanted, struct gt_lt_candidate *found, int *count)
{
	problem p = problem_of(desc, a, b, c, d);

	*count = 0;
	if (!fits_together(p))
		return GT_LT_INVALID_VALUE;
	if (!is_supported(p))
		return GT_LT_NOT_SUPPORTED;
	for (int i = 0; i < ALGORITHMS && *count < wanted; i++) {
		struct gt_lt_candidate *f = &found[*count];

		if (!is_allowed(*(preference *)pref, i))
			continue;
		memset(f, 0, sizeof(*f));
		f->algorithm.data[0] = MAGIC;
		f->algorithm.data[1] = (uint64_t)i;
		f->algorithm.data[2] = hash_of(p);
		for (int k = 0; k < 4; k++)
			f->algorithm.data[3 + k] = ((preference *)pref)->alignment[k];
		f->workspace_bytes = algorithms[i].workspace_bytes;
		++*count;
	}
	return *count ? GT_LT_SUCCESS : GT_LT_NOT_SUPPORTED;
}

/* ---- products ---- */

struct work {
	problem p;
	double alpha, beta;
	const void *a, *b, *c;
	void *y;
	unsigned char *workspace;
	int algorithm;
};

/* A matrix in float64, its columns (or its rows) one behind the other, and `more` zeros. */
static std::vector<double> unpack(
    const void *p, const layout &l, bool rows, bool tf32, int64_t more)
{
	std::vector<double> out(l.rows * l.cols + (size_t)more);
	size_t to = 0;

	for (uint64_t i = 0; i < (rows ? l.rows : l.cols); i++)
		for (uint64_t k = 0; k < (rows ? l.cols : l.rows); k++)
			out[to++] = load(p, l.type,
			    rows ? (int64_t)k * l.leading + (int64_t)i
			         : (int64_t)i * l.leading + (int64_t)k);
	for (size_t i = 0; tf32 && i < to; i++)
		out[i] = cudasim_tf32((float)out[i]);
	return out;
}

enum { ROWS = 4 };

/* The products of b[count] with ROWS rows of a. unpack() has checked all accesses; each sum is
 * added up in the same order for all algorithms. Several sums at a time do not wait for each
 * other. */
__attribute__((no_sanitize("address", "undefined"))) static void dot_rows(
    double sum[ROWS], const double *a, const double *b, int64_t count)
{
	double s0 = 0, s1 = 0, s2 = 0, s3 = 0;

	for (int64_t k = 0; k < count; k++) {
		s0 += a[k] * b[k];
		s1 += a[k + count] * b[k];
		s2 += a[k + 2 * count] * b[k];
		s3 += a[k + 3 * count] * b[k];
	}
	sum[0] = s0;
	sum[1] = s1;
	sum[2] = s2;
	sum[3] = s3;
}

static void multiply(const work &w)
{
	const problem &p = w.p;
	bool tf32 = p.op.compute == GT_LT_COMPUTE_F32_TF32;
	std::vector<double> a = unpack(w.a, p.a, !p.op.trans_a, tf32, (ROWS - 1) * p.k);
	std::vector<double> b = unpack(w.b, p.b, p.op.trans_b, tf32, 0);
	double sum[ROWS];

	for (int64_t j = 0; j < p.n; j++)
		for (int64_t i = 0; i < p.m; i++) {
			double x;

			if (i % ROWS == 0)
				dot_rows(sum, a.data() + i * p.k, b.data() + j * p.k, p.k);
			x = w.alpha * sum[i % ROWS];
			if (w.beta != 0)
				x += w.beta * load(w.c, p.c.type, j * p.c.leading + i);
			store(w.y, p.y.type, j * p.y.leading + i, finish(p, x, i, j));
		}
	if (p.op.epilogue == GT_LT_EPILOGUE_BGRADA)
		sum_rows(p, a, p.m);
	if (p.op.epilogue == GT_LT_EPILOGUE_BGRADB)
		sum_rows(p, b, p.n);
}

/* Matrix i of a batch. */
static const void *matrix_at(const void *p, const layout &l, int32_t i)
{
	return (const char *)p + (size_t)(i * l.step) * size_of(l.type);
}

static void multiply_batch(const work &w)
{
	for (int32_t i = 0; i < w.p.y.batch; i++) {
		work one = w;

		one.a = matrix_at(w.a, w.p.a, i);
		one.b = matrix_at(w.b, w.p.b, i);
		one.c = matrix_at(w.c, w.p.c, i);
		one.y = (void *)matrix_at(w.y, w.p.y, i);
		multiply(one);
	}
}

/* A workspace is written to from end to end, as partial sums would be. */
static void run(void *closure)
{
	const work &w = *(work *)closure;
	double ms = algorithms[w.algorithm].ms;

	if (algorithms[w.algorithm].workspace_bytes)
		memset(w.workspace, 0x5a, algorithms[w.algorithm].workspace_bytes);
	multiply_batch(w);
	cudasim_ms += cudasim_products.slow == w.algorithm + 1 ? ms * 10 : ms;
}

/* Every matrix of a batch must be as aligned as the preference promised. */
static bool is_whole(const void *p, const layout &l, uint64_t alignment)
{
	size_t count = (l.cols - 1) * (size_t)l.leading + l.rows;

	count += (size_t)(l.batch - 1) * (size_t)l.step;
	return cudasim_can_use(p, count * size_of(l.type)) && (uintptr_t)p % alignment == 0 &&
	       (l.batch == 1 || (size_t)l.step * size_of(l.type) % alignment == 0);
}

static bool can_run(const work &w, const uint64_t *alignment, size_t workspace_bytes)
{
	const problem &p = w.p;
	size_t need = algorithms[w.algorithm].workspace_bytes;

	if (!is_whole(w.a, p.a, alignment[0]) || !is_whole(w.b, p.b, alignment[1]) ||
	    !is_whole(w.c, p.c, alignment[2]) || !is_whole(w.y, p.y, alignment[3]))
		return false;
	if (vector_of(p) && !cudasim_can_use(p.op.bias, (size_t)vector_of(p) * size_of(p.y.type)))
		return false;
	if (has_aux(p) &&
	    (!is_whole(p.op.aux, { p.y.type, p.y.rows, p.y.cols, p.op.aux_leading, 1, 0 }, 16)))
		return false;
	return workspace_bytes >= need &&
	       (!need || ((uintptr_t)w.workspace % 256 == 0 && cudasim_can_use(w.workspace, need)));
}

extern "C" int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a,
    void *a_layout, const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
    void *d, void *d_layout, const struct gt_lt_algorithm *algorithm, void *workspace,
    size_t workspace_bytes, cudaStream_t stream)
{
	problem p = problem_of(desc, a_layout, b_layout, c_layout, d_layout);
	work w = { p, load(alpha, p.op.scale, 0), load(beta, p.op.scale, 0), a, b, c, d,
		(unsigned char *)workspace, algorithm ? (int)algorithm->data[1] : ALGORITHMS };
	int device = -1;

	if (!algorithm || algorithm->data[0] != MAGIC || algorithm->data[1] >= ALGORITHMS ||
	    algorithm->data[2] != hash_of(p) || !fits_together(p) ||
	    cudaGetDevice(&device) != cudaSuccess || device != *(int *)handle ||
	    !can_run(w, algorithm->data + 3, workspace_bytes))
		return GT_LT_INVALID_VALUE;
	if (algorithms[w.algorithm].refuses)
		return GT_LT_NOT_SUPPORTED;
	__atomic_fetch_add(
	    &cudasim_products.queued, 1, __ATOMIC_RELAXED); /* ranks may be threads */
	__atomic_store_n(&cudasim_products.algorithm, w.algorithm, __ATOMIC_RELAXED);
	cudasim_launch(
	    dim3(1), dim3(1), 0, stream, run, [](void *closure) { delete (work *)closure; },
	    new work(w));
	return cudaGetLastError() == cudaSuccess ? GT_LT_SUCCESS : 13;
}
