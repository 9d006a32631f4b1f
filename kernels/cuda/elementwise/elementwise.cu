/* elementwise.cu - sums, activations, constants, copies, casts, blocks and their gradients. */
#include "kernels/cuda/core/gelu.cuh"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/rows.cuh"

/* Formulas: lib/graph/ops/elementwise.c. W is float, or double for tensors of float64. */

struct add_f : gt_map_always {
	template <class W> __device__ void operator()(W &y, W a, W b)
	{
		y = a + b;
	}
};

struct accumulate_f : gt_map_always {
	template <class W> __device__ void operator()(W &sum, W x)
	{
		sum += x;
	}
};

/* Also of a cast, where a double becomes a float or a float a double. */
struct copy_f : gt_map_always {
	template <class V, class W> __device__ void operator()(V &y, W x)
	{
		y = (V)x;
	}
};

struct fill_f : gt_map_always {
	double value;

	template <class W> __device__ void operator()(W &y)
	{
		y = (W)value;
	}
};

struct relu_f : gt_map_always {
	template <class W> __device__ void operator()(W &y, W x)
	{
		y = x < 0 ? 0 : x;
	}
};

/* A NaN in y lets the gradient through, as in PyTorch. */
struct relu_grad_f : gt_map_always {
	template <class W> __device__ void operator()(W &dx, W dy, W y)
	{
		dx = y <= 0 ? 0 : dy;
	}
};

struct swiglu_f : gt_map_always {
	template <class W> __device__ void operator()(W &y, W a, W b)
	{
		y = a / (1 + gt_exp(-a)) * b;
	}
};

struct swiglu_grad_f : gt_map_always {
	template <class W> __device__ void operator()(W &da, W &db, W dy, W a, W b)
	{
		W s = 1 / (1 + gt_exp(-a)), silu = a * s;

		da = dy * b * (s + silu * (1 - s));
		db = dy * silu;
	}
};

/* ---- rows ---- */

template <class T, class F> static int unary(struct gt_call *call, F f, struct gt_err *err)
{
	return gt_map(call->stream, call->kernel->op, gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(gt_out_data<T>(call)), gt_in(gt_in_data<T>(call, 0)));
}

template <class T, class F> static int binary(struct gt_call *call, F f, struct gt_err *err)
{
	return gt_map(call->stream, call->kernel->op, gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(gt_out_data<T>(call)), gt_in(gt_in_data<T>(call, 0)),
	    gt_in(gt_in_data<T>(call, 1)));
}

template <class T> static int run_add(struct gt_call *call, struct gt_err *err)
{
	return binary<T>(call, add_f(), err);
}

template <class T> static int run_accumulate(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "accumulate", gt_tensor_elements(&call->in[0]), accumulate_f(),
	    err, gt_inout((T *)call->in[0].data), gt_in(gt_in_data<T>(call, 1)));
}

template <class T> static int run_copy(struct gt_call *call, struct gt_err *err)
{
	return unary<T>(call, copy_f(), err);
}

template <class T> static int run_fill(struct gt_call *call, struct gt_err *err)
{
	fill_f f;

	f.value = call->attrs.fill.value;
	return gt_map(call->stream, "fill", gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(gt_out_data<T>(call)));
}

template <class T> static int run_relu(struct gt_call *call, struct gt_err *err)
{
	return unary<T>(call, relu_f(), err);
}

template <class T> static int run_relu_grad(struct gt_call *call, struct gt_err *err)
{
	return binary<T>(call, relu_grad_f(), err);
}

template <class T> static int run_gelu(struct gt_call *call, struct gt_err *err)
{
	if (call->attrs.gelu.kind == GT_GELU_TANH)
		return unary<T>(call, gt_gelu_f<true>(), err);
	return unary<T>(call, gt_gelu_f<false>(), err);
}

template <class T> static int run_gelu_grad(struct gt_call *call, struct gt_err *err)
{
	if (call->attrs.gelu.kind == GT_GELU_TANH)
		return binary<T>(call, gt_gelu_grad_f<true>(), err);
	return binary<T>(call, gt_gelu_grad_f<false>(), err);
}

template <class T> static int run_swiglu(struct gt_call *call, struct gt_err *err)
{
	return binary<T>(call, swiglu_f(), err);
}

template <class T> static int run_swiglu_grad(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "swiglu_grad", gt_tensor_elements(&call->out[0]),
	    swiglu_grad_f(), err, gt_out(gt_out_data<T>(call)), gt_out(gt_out_data<T>(call, 1)),
	    gt_in(gt_in_data<T>(call, 0)), gt_in(gt_in_data<T>(call, 1)),
	    gt_in(gt_in_data<T>(call, 2)));
}

/* ---- bias_add: a bias for each column ---- */

enum { BIAS_COLUMNS = 64, BIAS_ROWS = 4, BIAS_BLOCKS = 1024 };

/* A thread has one pack of columns, whose biases it keeps, and every so many rows. */
template <class T, int W>
static __global__ void add_bias(T *y, const T *x, const T *bias, int64_t rows, int64_t cols)
{
	int64_t c = ((int64_t)blockIdx.x * BIAS_COLUMNS + threadIdx.x) * W;
	typename gt_map_buffer<T, true, false>::template lanes<W> b = { (T *)bias, {} };

	if (c >= cols)
		return;
	b.load(c);
	for (int64_t r = (int64_t)blockIdx.y * BIAS_ROWS + threadIdx.y; r < rows;
	     r += (int64_t)gridDim.y * BIAS_ROWS) {
		typename gt_map_buffer<T, true, true>::template lanes<W> v = { y, {} },
		                                                         from = { (T *)x, {} };

		from.load(r * cols + c);
		for (int k = 0; k < W; k++)
			v.v[k] = from.v[k] + b.v[k];
		v.store(r * cols + c);
	}
}

template <class T, int W> static void launch_bias(struct gt_call *call, int64_t rows, int64_t cols)
{
	int64_t strips = (rows + BIAS_ROWS - 1) / BIAS_ROWS;
	dim3 grid((unsigned)((cols + BIAS_COLUMNS * W - 1) / (BIAS_COLUMNS * W)),
	    gt_min_blocks(strips, BIAS_BLOCKS));

	GT_LAUNCH((add_bias<T, W>), grid, dim3(BIAS_COLUMNS, BIAS_ROWS), 0, call->stream->queue,
	    gt_out_data<T>(call), gt_in_data<T>(call, 0), gt_in_data<T>(call, 1), rows, cols);
}

template <class T> static int run_bias_add(struct gt_call *call, struct gt_err *err)
{
	constexpr int W = 16 / sizeof(T);
	int64_t rows = gt_tensor_rows(&call->in[0]), cols = gt_tensor_last(&call->in[0]);

	if (!rows || !cols)
		return 0;
	if (cols % W == 0)
		launch_bias<T, W>(call, rows, cols);
	else
		launch_bias<T, 1>(call, rows, cols);
	return gt_cuda_launched(call->stream, "bias_add", err);
}

/* ---- cast ---- */

template <class T, class V> static int cast(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "cast", gt_tensor_elements(&call->out[0]), copy_f(), err,
	    gt_out(gt_out_data<V>(call)), gt_in(gt_in_data<T>(call, 0)));
}

/* Float64 has no way from or to a type of 16 bits, which would have to round once. */
static bool accepts_cast(const struct gt_call *call)
{
	enum gt_dtype from = call->in[0].dtype, to = call->out[0].dtype;

	return from == to || from == GT_F32 || (to == GT_F32 && gt_dtype_is_real(from));
}

static __global__ void to_whole(int32_t *y, const float *x, int64_t n)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		y[i] = x[i] > -2147483648.0f && x[i] < 2147483648.0f ? (int32_t)x[i] : INT32_MIN;
}

static int cast_to_whole(struct gt_call *call, struct gt_err *err)
{
	const int threads = 256;
	int64_t n = gt_tensor_elements(&call->out[0]);

	if (n)
		GT_LAUNCH((to_whole), (unsigned)((n + threads - 1) / threads), threads, 0,
		    call->stream->queue, gt_out_data<int32_t>(call), gt_in_data<float>(call, 0), n);
	return gt_cuda_launched(call->stream, "cast", err);
}

static int run_cast_f32(struct gt_call *call, struct gt_err *err)
{
	switch (call->out[0].dtype) {
	case GT_I32:
		return cast_to_whole(call, err);
	case GT_F64:
		return cast<float, double>(call, err);
	case GT_BF16:
		return cast<float, gt_bf16>(call, err);
	case GT_F16:
		return cast<float, gt_f16>(call, err);
	default:
		return cast<float, float>(call, err);
	}
}

template <class T> static int run_cast(struct gt_call *call, struct gt_err *err)
{
	return call->out[0].dtype == GT_F32 ? cast<T, float>(call, err) : cast<T, T>(call, err);
}

/* ---- decode ---- */

static __device__ float float16_at(const uint8_t *p)
{
	return gt_to_float(*(const gt_f16 *)p);
}

/* Return element e of rows of blocks, whose bytes are even. */
template <enum gt_block B> static __device__ float decode_element(const uint8_t *x, int64_t e)
{
	const uint8_t *block =
	    x + e / GT_BLOCK_MOST * (B == GT_BLOCK_Q8_0 ? GT_Q8_0_BYTES : GT_Q4_0_BYTES);
	const int at = (int)(e % GT_BLOCK_MOST), half = GT_BLOCK_MOST / 2;

	if (B == GT_BLOCK_BF16)
		return gt_to_float(((const gt_bf16 *)x)[e]);
	if (B == GT_BLOCK_F16)
		return float16_at(x + 2 * e);
	if (B == GT_BLOCK_Q8_0)
		return float16_at(block) * (float)(signed char)block[2 + at];
	return float16_at(block) * (float)((block[2 + at % half] >> (at / half * 4) & 15) - 8);
}

/* A warp decodes a block. */
template <enum gt_block B, class T>
static __global__ void decode_elements(T *y, const uint8_t *x, int64_t n)
{
	int64_t e = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (e < n)
		gt_store(&y[e], decode_element<B>(x, e));
}

template <enum gt_block B, class T> static void launch_decode(const struct gt_call *call)
{
	const int threads = 256;
	int64_t n = gt_tensor_elements(&call->out[0]);

	if (n)
		GT_LAUNCH((decode_elements<B, T>), (unsigned)((n + threads - 1) / threads), threads,
		    0, call->stream->queue, gt_out_data<T>(call), gt_in_data<uint8_t>(call, 0), n);
}

template <class T> static int decode(struct gt_call *call, struct gt_err *err)
{
	switch (call->attrs.decode.block) {
	case GT_BLOCK_BF16:
		launch_decode<GT_BLOCK_BF16, T>(call);
		break;
	case GT_BLOCK_F16:
		launch_decode<GT_BLOCK_F16, T>(call);
		break;
	case GT_BLOCK_Q8_0:
		launch_decode<GT_BLOCK_Q8_0, T>(call);
		break;
	default:
		launch_decode<GT_BLOCK_Q4_0, T>(call);
		break;
	}
	return gt_cuda_launched(call->stream, "decode", err);
}

const struct gt_kernel gt_cuda_elementwise_kernels[] = {
	GT_ROWS(add, nullptr, nullptr),
	GT_ROWS(bias_add, nullptr, nullptr),
	GT_ROWS(relu, nullptr, nullptr),
	GT_ROWS(relu_grad, nullptr, nullptr),
	GT_ROWS(gelu, nullptr, nullptr),
	GT_ROWS(gelu_grad, nullptr, nullptr),
	GT_ROWS(swiglu, nullptr, nullptr),
	GT_ROWS(swiglu_grad, nullptr, nullptr),
	GT_ROWS(fill, nullptr, nullptr),
	GT_ROWS(copy, nullptr, nullptr),
	GT_ROWS(accumulate, nullptr, nullptr),
	{},
};

const struct gt_kernel gt_cuda_cast_kernels[] = {
	GT_ROW(cast, GT_F32, run_cast_f32, accepts_cast, nullptr),
	GT_ROW(cast, GT_F64, run_cast<double>, accepts_cast, nullptr),
	GT_ROW(cast, GT_BF16, run_cast<gt_bf16>, accepts_cast, nullptr),
	GT_ROW(cast, GT_F16, run_cast<gt_f16>, accepts_cast, nullptr),
	GT_ROW(decode, GT_F32, decode<float>, nullptr, nullptr),
	GT_ROW(decode, GT_BF16, decode<gt_bf16>, nullptr, nullptr),
	GT_ROW(decode, GT_F16, decode<gt_f16>, nullptr, nullptr),
	{},
};
