/* cublaslt.cu - stands in for cuBLASLt on a GPU: plain kernels, for the race checker. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/common/cublaslt.inc"

/*
 * racecheck of compute-sanitizer fails if it leaves out kernels of cuBLASLt, and did not end within
 * 95 s when it checked them (CUDA 13.0, H200). With this library in place of cuBLASLt, racecheck
 * checks the kernels of gtrain around a product. The library refuses all epilogues, so kernels of
 * gtrain compute them. Each thread computes one element of the result;
 * blockIdx.y is the number of the product in a batch.
 */

template <class T> __device__ double value_of(T x)
{
	return (double)x;
}

template <> __device__ double value_of(__half x)
{
	return __half2float(x);
}

template <> __device__ double value_of(__nv_bfloat16 x)
{
	return __bfloat162float(x);
}

/* Round the sum once: by way of float32, a result of 16 bits would be rounded twice. */
__device__ void put(double *to, double x)
{
	*to = x;
}

__device__ void put(float *to, double x)
{
	*to = (float)x;
}

__device__ void put(__half *to, double x)
{
	*to = __double2half(x);
}

__device__ void put(__nv_bfloat16 *to, double x)
{
	*to = __double2bfloat16(x);
}

__device__ double tf32_of(double x)
{
	uint32_t bits;

	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"((float)x));
	return __uint_as_float(bits);
}

/* Distances, in elements, between neighbours in a column or a row of op(a) [m, k] and op(b)
 * [k, n]. */
struct steps {
	int64_t a_row, a_inner, b_inner, b_col;
};

template <class In, class Out>
__global__ void multiply(
    problem p, steps s, double alpha, const In *a, const In *b, double beta, const Out *c, Out *y)
{
	int64_t at = blockIdx.x * (int64_t)blockDim.x + threadIdx.x, i = at % p.m, j = at / p.m;
	bool tf32 = p.op.compute == GT_LT_COMPUTE_F32_TF32;
	double sum = 0;

	if (j >= p.n)
		return;
	a += blockIdx.y * p.a.step;
	b += blockIdx.y * p.b.step;
	c += blockIdx.y * p.c.step;
	y += blockIdx.y * p.y.step;
	for (int64_t k = 0; k < p.k; k++) {
		double u = value_of(a[i * s.a_row + k * s.a_inner]);
		double v = value_of(b[k * s.b_inner + j * s.b_col]);

		sum += tf32 ? tf32_of(u) * tf32_of(v) : u * v;
	}
	sum *= alpha;
	if (beta != 0)
		sum += beta * value_of(c[j * p.c.leading + i]);
	put(&y[j * p.y.leading + i], sum);
}

template <class In, class Out>
static void launch(const problem &p, double alpha, const void *a, const void *b, double beta,
    const void *c, void *y, cudaStream_t stream)
{
	enum { THREADS = 256 };
	steps s = { p.op.trans_a ? p.a.leading : 1, p.op.trans_a ? 1 : p.a.leading,
		p.op.trans_b ? p.b.leading : 1, p.op.trans_b ? 1 : p.b.leading };

	dim3 blocks((unsigned)((p.m * p.n + THREADS - 1) / THREADS), (unsigned)p.y.batch);

	multiply<In, Out><<<blocks, THREADS, 0, stream>>>(
	    p, s, alpha, (const In *)a, (const In *)b, beta, (const Out *)c, (Out *)y);
}

extern "C" int cublasLtCreate(void **handle)
{
	static int any;

	*handle = &any;
	return GT_LT_SUCCESS;
}

extern "C" int cublasLtMatmulAlgoGetHeuristic(void *, void *desc, void *a, void *b, void *c,
    void *d, void *, int wanted, struct gt_lt_candidate *found, int *count)
{
	problem p = problem_of(desc, a, b, c, d);

	*count = 0;
	if (!fits_together(p) || wanted < 1)
		return GT_LT_INVALID_VALUE;
	if (p.op.epilogue != GT_LT_EPILOGUE_NONE)
		return GT_LT_NOT_SUPPORTED;
	*found = {};
	*count = 1;
	return GT_LT_SUCCESS;
}

extern "C" int cublasLtMatmul(void *, void *desc, const void *alpha, const void *a, void *a_layout,
    const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, void *d,
    void *d_layout, const struct gt_lt_algorithm *, void *, size_t, cudaStream_t stream)
{
	problem p = problem_of(desc, a_layout, b_layout, c_layout, d_layout);
	bool wide = p.op.scale == GT_LT_F64;
	double factor = wide ? *(const double *)alpha : *(const float *)alpha;
	double keep = wide ? *(const double *)beta : *(const float *)beta;

	if (!fits_together(p) || p.op.epilogue != GT_LT_EPILOGUE_NONE)
		return GT_LT_INVALID_VALUE;
	if (wide)
		launch<double, double>(p, factor, a, b, keep, c, d, stream);
	else if (p.a.type == GT_LT_F32)
		launch<float, float>(p, factor, a, b, keep, c, d, stream);
	else if (p.a.type == GT_LT_F16 && p.y.type == GT_LT_F32)
		launch<__half, float>(p, factor, a, b, keep, c, d, stream);
	else if (p.a.type == GT_LT_F16)
		launch<__half, __half>(p, factor, a, b, keep, c, d, stream);
	else if (p.y.type == GT_LT_F32)
		launch<__nv_bfloat16, float>(p, factor, a, b, keep, c, d, stream);
	else
		launch<__nv_bfloat16, __nv_bfloat16>(p, factor, a, b, keep, c, d, stream);
	return cudaGetLastError() == cudaSuccess ? GT_LT_SUCCESS : 13;
}
