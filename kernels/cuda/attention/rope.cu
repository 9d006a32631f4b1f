/* rope.cu - rotary positions of queries and keys, and their gradient. */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/rows.cuh"

/* Formulas: lib/graph/ops/rope.c. Frequencies and angles are rounded to the type that is computed
 * with, as on the CPU, whatever the data's. */
struct rope_sizes {
	int64_t T, D, wide;       /* wide: columns of qkv */
	int64_t queries, rotated; /* the columns of q, and of q and k together */
	double log_theta;         /* the logarithm of theta to base 2 */
	const int32_t *past;      /* NULL: 0 */

	rope_sizes(const struct gt_call *call, const struct gt_tensor *qkv, const int32_t *before)
	    : T(qkv->shape[1]), D(0), wide(qkv->shape[2]), queries(0), rotated(0),
	      log_theta(log2(call->attrs.rope.theta)), past(before)
	{
		D = wide / (call->attrs.rope.heads + 2 * call->attrs.rope.kv_heads);
		queries = D * call->attrs.rope.heads;
		rotated = queries + D * call->attrs.rope.kv_heads;
	}

	/* Element i of qkv, one of those rotated, of x, whose other half is at `x[other]`. */
	template <class W, class T_>
	__device__ __forceinline__ W turned(const T_ *x, int64_t at, int64_t i, int sign) const
	{
		int64_t half = D / 2, j = i % wide % D, t = i / wide % T;
		W frequency = (W)exp2(-log_theta * (double)(j % half) / (double)half);
		W angle = (W)((past ? *past : 0) + t) * frequency;
		W other = gt_load(x[j < half ? at + half : at - half]);

		return gt_load(x[at]) * cos(angle) +
		       (j < half ? -other : other) * ((W)sign * sin(angle));
	}
};

template <class T> struct rope_f : gt_map_always {
	const T *q, *k, *v;
	rope_sizes s;

	explicit rope_f(const struct gt_call *call)
	    : q(gt_in_data<T>(call, 0)), k(gt_in_data<T>(call, 1)), v(gt_in_data<T>(call, 2)),
	      s(call, &call->out[0], gt_in_data<int32_t>(call, 3))
	{
	}

	template <class W> __device__ void operator()(W &y, int64_t i)
	{
		int64_t c = i % s.wide, row = i / s.wide, keys = s.rotated - s.queries;

		if (c < s.queries)
			y = s.turned<W>(q, row * s.queries + c, i, 1);
		else if (c < s.rotated)
			y = s.turned<W>(k, row * keys + c - s.queries, i, 1);
		else
			y = gt_load(v[row * keys + c - s.rotated]);
	}
};

template <class T> struct rope_grad_f : gt_map_always {
	const T *d;
	T *dq, *dk, *dv;
	rope_sizes s;

	explicit rope_grad_f(const struct gt_call *call)
	    : d(gt_in_data<T>(call, 0)), dq(gt_out_data<T>(call)), dk(gt_out_data<T>(call, 1)),
	      dv(gt_out_data<T>(call, 2)), s(call, &call->in[0], nullptr)
	{
	}

	template <class W> __device__ void operator()(W own, int64_t i)
	{
		int64_t c = i % s.wide, row = i / s.wide, keys = s.rotated - s.queries;

		if (c < s.queries)
			gt_store(dq + row * s.queries + c, s.turned<W>(d, i, i, -1));
		else if (c < s.rotated)
			gt_store(dk + row * keys + c - s.queries, s.turned<W>(d, i, i, -1));
		else
			gt_store(dv + row * keys + c - s.rotated, own);
	}
};

template <class T> static int run_rope(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "rope", gt_tensor_elements(&call->out[0]), rope_f<T>(call), err,
	    gt_out(gt_out_data<T>(call)), gt_index());
}

template <class T> static int run_rope_grad(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "rope_grad", gt_tensor_elements(&call->in[0]),
	    rope_grad_f<T>(call), err, gt_in(gt_in_data<T>(call, 0)), gt_index());
}

const struct gt_kernel gt_cuda_rope_kernels[] = {
	GT_ROWS(rope, nullptr, nullptr),
	GT_ROWS(rope_grad, nullptr, nullptr),
	{},
};
