/* matmul.cu - products of matrices: cuBLASLt's, with the bias in its epilogue where it can. */
#include <cstdlib>

#include "kernels/cuda/map.cuh"
#include "kernels/cuda/product.h"
#include "kernels/cuda/rows.cuh"

extern "C" {
#include "lib/base/mem.h"
}

struct matmul_state {
	struct gt_product *product;
	bool spreads; /* the bias is written to y before, and the product added to it */
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
	bool ta = call->attrs.matmul.trans_a, tb = call->attrs.matmul.trans_b;
	struct gt_product_shape s = { a->dtype, ta, tb, gt_optional_input(call, 2) != nullptr,
		ta ? gt_tensor_last(a) : gt_tensor_rows(a),
		tb ? gt_tensor_rows(b) : gt_tensor_last(b),
		ta ? gt_tensor_rows(a) : gt_tensor_last(a) };

	return s;
}

/* Which products of which types take a bias in the epilogue depends on the version of the library,
 * so it is asked. */
static int make_product(struct matmul_state *m, struct gt_product_shape s, struct gt_err *err)
{
	int rc = gt_product_new(&m->product, &s, err);

	if (rc != GT_ENOTSUP || !s.bias)
		return rc;
	s.bias = false;
	m->spreads = true;
	*err = {};
	return gt_product_new(&m->product, &s, err);
}

static void release_matmul(struct gt_call *call)
{
	struct matmul_state *m = (struct matmul_state *)call->state;

	if (m)
		gt_product_free(m->product);
	free(m);
	call->state = nullptr;
}

static int prepare_matmul(struct gt_call *call, struct gt_err *err)
{
	struct matmul_state *m = (struct matmul_state *)gt_calloc(1, sizeof(*m), err);

	if (!m)
		return GT_ENOMEM;
	call->state = m;
	if (make_product(m, shape_of(call), err)) {
		release_matmul(call);
		return err->code;
	}
	call->launches = m->spreads ? 2 : 1;
	call->workspace_bytes = gt_product_workspace(m->product);
	return 0;
}

static int bind_matmul(struct gt_call *call, struct gt_err *err)
{
	struct matmul_state *m = (struct matmul_state *)call->state;

	if (!gt_optional_input(call, 2) || m->spreads)
		return 0;
	return gt_product_set_bias(m->product, call->in[2].data, err);
}

template <class T> static int spread(const struct gt_call *call, struct gt_err *err)
{
	T *y = gt_out_data<T>(call);
	spread_f<T> f = {};

	f.bias = gt_in_data<T>(call, 2);
	f.cols = gt_tensor_last(&call->in[2]);
	return gt_map(call->stream, "matmul", gt_tensor_elements(&call->out[0]), f, err, gt_out(y),
	    gt_index());
}

template <class T> static int run_matmul(struct gt_call *call, struct gt_err *err)
{
	const struct matmul_state *m = (const struct matmul_state *)call->state;
	void *y = call->out[0].data;

	if (m->spreads && spread<T>(call, err))
		return err->code;
	return gt_product_run(m->product, call->stream, y, call->in[0].data, call->in[1].data, y, 1,
	    m->spreads ? 1 : 0, call->workspace, err);
}

#define ROW(type, T)                                                                               \
	{                                                                                          \
		"matmul", type, nullptr, prepare_matmul, bind_matmul, run_matmul<T>,               \
		    release_matmul                                                                 \
	}

const struct gt_kernel gt_cuda_matmul_kernels[] = {
	ROW(GT_F32, float),
	ROW(GT_F64, double),
	ROW(GT_BF16, gt_bf16),
	ROW(GT_F16, gt_f16),
	{},
};
