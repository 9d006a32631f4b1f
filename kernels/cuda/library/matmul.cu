/* matmul.cu - products of matrices by cuBLASLt; its epilogues add GELU and bias gradients. */
#include <cstdlib>

#include "kernels/cuda/core/columns.cuh"
#include "kernels/cuda/core/gelu.cuh"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/rows.cuh"
#include "kernels/cuda/library/product.h"

extern "C" {
#include "lib/base/mem.h"
}

struct matmul_state {
	struct gt_product *product;
	bool spreads; /* the bias is written to y before, and the product added to it */
	bool apart;   /* other kernels do the work for which the library has no epilogue */
};

/* y [rows, cols] = bias [cols] in every row. A 16-bit bias keeps its bits, so the sum that the
 * product adds to it is rounded once. */
template <class T> struct spread_f : gt_map_always {
	const T *bias;
	int64_t cols;

	__device__ void operator()(typename gt_wide<T>::type &y, int64_t i)
	{
		y = gt_load(bias[i % cols]);
	}
};

static struct gt_product_shape shape_of(const struct gt_call *call)
{
	const struct gt_tensor *a = &call->in[0], *b = &call->in[1];
	struct gt_product_shape s = {};

	s.dtype = a->dtype;
	s.untimed = call->untimed;
	s.tf32 = call->attrs.matmul.tf32;
	s.trans_a = call->attrs.matmul.trans_a;
	s.trans_b = call->attrs.matmul.trans_b;
	s.m = s.trans_a ? gt_tensor_last(a) : gt_tensor_rows(a);
	s.n = s.trans_b ? gt_tensor_rows(b) : gt_tensor_last(b);
	s.k = s.trans_a ? gt_tensor_rows(a) : gt_tensor_last(a);
	return s;
}

/* Ask the library for the product with its epilogue: support depends on types and version. Without
 * it, other kernels do the rest. */
static int make_product(struct matmul_state *m, struct gt_product_shape s, struct gt_err *err)
{
	int rc = gt_product_new(&m->product, &s, err);

	if (rc == GT_ENOTSUP && s.end) {
		s.end = GT_PRODUCT_PLAIN;
		m->apart = true;
		*err = {};
		return make_product(m, s, err);
	}
	if (rc == GT_ENOTSUP && s.bias) {
		s.bias = false;
		m->spreads = true;
		*err = {};
		return make_product(m, s, err);
	}
	return rc;
}

static void release_matmul(struct gt_call *call)
{
	struct matmul_state *m = (struct matmul_state *)call->state;

	if (m)
		gt_product_free(m->product);
	free(m);
	call->state = nullptr;
}

static int prepare_product(
    struct gt_call *call, const struct gt_product_shape &s, struct gt_err *err)
{
	struct matmul_state *m = (struct matmul_state *)gt_calloc(1, sizeof(*m), err);

	if (!m)
		return GT_ENOMEM;
	call->state = m;
	if (make_product(m, s, err)) {
		release_matmul(call);
		return err->code;
	}
	call->launches = m->spreads;
	gt_product_add_cost(m->product, 1, call);
	call->workspace_bytes = gt_product_workspace(m->product);
	return 0;
}

static int prepare_matmul(struct gt_call *call, struct gt_err *err)
{
	struct gt_product_shape s = shape_of(call);

	s.bias = gt_optional_input(call, 2) != nullptr;
	return prepare_product(call, s, err);
}

static int bind_matmul(struct gt_call *call, struct gt_err *err)
{
	struct matmul_state *m = (struct matmul_state *)call->state;

	if (!gt_optional_input(call, 2) || m->spreads)
		return 0;
	return gt_product_set_bias(m->product, call->in[2].data, err);
}

template <class T> static int spread(const struct gt_call *call, T *y, struct gt_err *err)
{
	spread_f<T> f = {};

	f.bias = gt_in_data<T>(call, 2);
	f.cols = gt_tensor_last(&call->in[2]);
	return gt_map(call->stream, call->kernel->op, gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(y), gt_index());
}

/* The product, with a bias where there is one, to y. */
template <class T> static int multiply(struct gt_call *call, void *y, struct gt_err *err)
{
	const struct matmul_state *m = (const struct matmul_state *)call->state;

	if (m->spreads && spread<T>(call, (T *)y, err))
		return err->code;
	return gt_product_run(m->product, call->stream, y, call->in[0].data, call->in[1].data, y, 1,
	    m->spreads ? 1 : 0, call->workspace, err);
}

template <class T> static int run_matmul(struct gt_call *call, struct gt_err *err)
{
	return multiply<T>(call, call->out[0].data, err);
}

/* ---- matmul_gelu ---- */

static bool keeps(const struct gt_call *call)
{
	return call->out[1].present;
}

static int prepare_matmul_gelu(struct gt_call *call, struct gt_err *err)
{
	struct gt_product_shape s = shape_of(call);

	s.bias = gt_optional_input(call, 2) != nullptr;
	s.end = keeps(call) ? GT_PRODUCT_GELU_KEEP : GT_PRODUCT_GELU;
	if (prepare_product(call, s, err))
		return err->code;
	call->launches += ((const struct matmul_state *)call->state)->apart;
	return 0;
}

static int bind_matmul_gelu(struct gt_call *call, struct gt_err *err)
{
	struct matmul_state *m = (struct matmul_state *)call->state;

	if (!m->apart && keeps(call) && gt_product_set_aux(m->product, call->out[1].data, err))
		return err->code;
	return bind_matmul(call, err);
}

template <class T> static int run_matmul_gelu(struct gt_call *call, struct gt_err *err)
{
	const struct matmul_state *m = (const struct matmul_state *)call->state;
	T *y = gt_out_data<T>(call), *before = keeps(call) ? gt_out_data<T>(call, 1) : y;

	if (!m->apart)
		return multiply<T>(call, y, err);
	if (multiply<T>(call, before, err))
		return err->code;
	return gt_map(call->stream, "matmul_gelu", gt_tensor_elements(&call->out[0]),
	    gt_gelu_f<true>(), err, gt_out(y), gt_in((const T *)before));
}

/* ---- matmul_gelu_grad ---- */

static int prepare_matmul_gelu_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_product_shape s = shape_of(call);

	s.end = GT_PRODUCT_GELU_GRAD;
	if (prepare_product(call, s, err))
		return err->code;
	call->launches += ((const struct matmul_state *)call->state)->apart;
	return 0;
}

static int bind_matmul_gelu_grad(struct gt_call *call, struct gt_err *err)
{
	struct matmul_state *m = (struct matmul_state *)call->state;

	return m->apart ? 0 : gt_product_set_aux(m->product, call->in[2].data, err);
}

template <class T> static int run_matmul_gelu_grad(struct gt_call *call, struct gt_err *err)
{
	T *y = gt_out_data<T>(call);
	int rc = multiply<T>(call, y, err);

	if (rc || !((const struct matmul_state *)call->state)->apart)
		return rc;
	return gt_map(call->stream, "matmul_gelu_grad", gt_tensor_elements(&call->out[0]),
	    gt_gelu_grad_f<true>(), err, gt_out(y), gt_in((const T *)y),
	    gt_in(gt_in_data<T>(call, 2)));
}

/* ---- weight_grad ---- */

/* The side whose rows are summed up, or nullptr. */
static const struct gt_tensor *summed(const struct gt_call *call)
{
	if (gt_optional_input(call, 2))
		return &call->in[0];
	return gt_optional_input(call, 3) ? &call->in[1] : nullptr;
}

static struct gt_column_chunks chunks_of(const struct gt_tensor *t)
{
	return gt_column_chunks_of(gt_tensor_rows(t), gt_tensor_last(t));
}

/* If a separate kernel makes the sums, it uses the workspace after the product. */
static int prepare_weight_grad(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *side = summed(call);
	struct gt_product_shape s = shape_of(call);

	s.wide = call->out[0].dtype != s.dtype;
	if (side)
		s.end = side == &call->in[0] ? GT_PRODUCT_SUMS_A : GT_PRODUCT_SUMS_B;
	if (prepare_product(call, s, err))
		return err->code;
	if (((const struct matmul_state *)call->state)->apart) {
		struct gt_column_chunks m = chunks_of(side);
		size_t bytes = gt_column_bytes(&m, 1, side->dtype);

		call->launches += 2;
		if (bytes > call->workspace_bytes)
			call->workspace_bytes = bytes;
	}
	return 0;
}

static int bind_weight_grad(struct gt_call *call, struct gt_err *err)
{
	struct matmul_state *m = (struct matmul_state *)call->state;

	return m->apart || !summed(call) ? 0
	                                 : gt_product_set_bias(m->product, call->out[1].data, err);
}

template <class T> static int run_weight_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	const struct gt_tensor *side = summed(call);
	wide *const sums[] = { gt_out_data<wide>(call, 1) };
	struct gt_column_chunks m;
	gt_column_f<T> f;
	int rc = multiply<T>(call, call->out[0].data, err);

	if (rc || !((const struct matmul_state *)call->state)->apart)
		return rc;
	m = chunks_of(side);
	f = { (const T *)side->data, m.cols };

	gt_sum_columns(call->stream, sums, (wide *)call->workspace, f, &m);
	return gt_cuda_launched(call->stream, "weight_grad", err);
}

#define ROW(name, type, T)                                                                         \
	{                                                                                          \
#name, type, nullptr, prepare_##name, bind_##name, run_##name < T>, release_matmul \
	}
#define ROWS(name)                                                                                 \
	ROW(name, GT_F32, float), ROW(name, GT_F64, double), ROW(name, GT_BF16, gt_bf16),          \
	    ROW(name, GT_F16, gt_f16)

const struct gt_kernel gt_cuda_matmul_kernels[] = {
	ROWS(matmul),
	ROWS(matmul_gelu),
	ROWS(matmul_gelu_grad),
	ROWS(weight_grad),
	{},
};
