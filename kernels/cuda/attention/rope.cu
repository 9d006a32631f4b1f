/* rope.cu - rotary positions of queries and keys, and their gradient. */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/rows.cuh"

/* Formulas: lib/graph/ops/rope.c. Frequencies and angles are rounded to the type that is computed
 * with, as on the CPU, whatever the data's. */

/* The frequencies are powers of theta: pair j of `pairs` turns by theta^(-j / pairs) per token. */
struct rope_powers {
	double log_theta; /* the logarithm of theta to base 2 */

	explicit rope_powers(const struct gt_call *call) : log_theta(log2(call->attrs.rope.theta))
	{
	}

	template <class W> __device__ __forceinline__ W frequency(int64_t j, int64_t pairs) const
	{
		return (W)exp2(-log_theta * (double)j / (double)pairs);
	}

	template <class W> __device__ __forceinline__ W scale() const
	{
		return 1;
	}
};

/* The frequencies are a table, which is an argument of the kernel. */
struct rope_table {
	struct gt_rope_angles angles;

	explicit rope_table(const struct gt_call *call) : angles(*call->attrs.rope.angles)
	{
	}

	template <class W> __device__ __forceinline__ W frequency(int64_t j, int64_t) const
	{
		return angles.frequency[j];
	}

	template <class W> __device__ __forceinline__ W scale() const
	{
		return (W)angles.scale;
	}
};

template <class F> struct rope_sizes {
	int64_t T, D, wide;       /* wide: columns of qkv */
	int64_t queries, rotated; /* the columns of q, and of q and k together */
	int64_t pairs;            /* pairs of columns of a head that are rotated */
	const int32_t *past;      /* NULL: 0 */
	const int32_t *positions; /* [B, T]; NULL: 0, 1, ... in each row */
	F frequencies;

	rope_sizes(const struct gt_call *call, const struct gt_tensor *qkv, const int32_t *before,
	    const int32_t *places)
	    : T(qkv->shape[1]), D(0), wide(qkv->shape[2]), queries(0), rotated(0), pairs(0),
	      past(before), positions(places), frequencies(call)
	{
		D = wide / (call->attrs.rope.heads + 2 * call->attrs.rope.kv_heads);
		queries = D * call->attrs.rope.heads;
		rotated = queries + D * call->attrs.rope.kv_heads;
		pairs = call->attrs.rope.angles ? call->attrs.rope.angles->pairs : D / 2;
	}

	/* Element i of qkv, one of those rotated, of x, whose other half is at `x[other]`. */
	template <class W, class T_>
	__device__ __forceinline__ W turned(const T_ *x, int64_t at, int64_t i, int sign) const
	{
		int64_t j = i % wide % D, t = positions ? positions[i / wide] : i / wide % T;
		W angle, other, own = gt_load(x[at]);

		if (j >= 2 * pairs)
			return own;
		angle = (W)((past ? *past : 0) + t) *
		        frequencies.template frequency<W>(j % pairs, pairs);
		other = gt_load(x[j < pairs ? at + pairs : at - pairs]);
		return frequencies.template scale<W>() *
		       (own * cos(angle) + (j < pairs ? -other : other) * ((W)sign * sin(angle)));
	}
};

template <class T, class F> struct rope_f : gt_map_always {
	const T *q, *k, *v;
	rope_sizes<F> s;

	explicit rope_f(const struct gt_call *call)
	    : q(gt_in_data<T>(call, 0)), k(gt_in_data<T>(call, 1)), v(gt_in_data<T>(call, 2)),
	      s(call, &call->out[0], gt_in_data<int32_t>(call, 3), gt_in_data<int32_t>(call, 4))
	{
	}

	template <class W> __device__ void operator()(W &y, int64_t i)
	{
		int64_t c = i % s.wide, row = i / s.wide, keys = s.rotated - s.queries;

		if (c < s.queries)
			y = s.template turned<W>(q, row * s.queries + c, i, 1);
		else if (c < s.rotated)
			y = s.template turned<W>(k, row * keys + c - s.queries, i, 1);
		else
			y = gt_load(v[row * keys + c - s.rotated]);
	}
};

template <class T, class F> struct rope_grad_f : gt_map_always {
	const T *d;
	T *dq, *dk, *dv;
	rope_sizes<F> s;

	explicit rope_grad_f(const struct gt_call *call)
	    : d(gt_in_data<T>(call, 0)), dq(gt_out_data<T>(call)), dk(gt_out_data<T>(call, 1)),
	      dv(gt_out_data<T>(call, 2)),
	      s(call, &call->in[0], nullptr, gt_in_data<int32_t>(call, 1))
	{
	}

	template <class W> __device__ void operator()(W own, int64_t i)
	{
		int64_t c = i % s.wide, row = i / s.wide, keys = s.rotated - s.queries;

		if (c < s.queries)
			gt_store(dq + row * s.queries + c, s.template turned<W>(d, i, i, -1));
		else if (c < s.rotated)
			gt_store(
			    dk + row * keys + c - s.queries, s.template turned<W>(d, i, i, -1));
		else
			gt_store(dv + row * keys + c - s.rotated, own);
	}
};

template <class T, class F> static int rotate(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "rope", gt_tensor_elements(&call->out[0]), rope_f<T, F>(call),
	    err, gt_out(gt_out_data<T>(call)), gt_index());
}

template <class T, class F> static int rotate_back(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "rope_grad", gt_tensor_elements(&call->in[0]),
	    rope_grad_f<T, F>(call), err, gt_in(gt_in_data<T>(call, 0)), gt_index());
}

template <class T> static int run_rope(struct gt_call *call, struct gt_err *err)
{
	return call->attrs.rope.angles ? rotate<T, rope_table>(call, err)
	                               : rotate<T, rope_powers>(call, err);
}

template <class T> static int run_rope_grad(struct gt_call *call, struct gt_err *err)
{
	return call->attrs.rope.angles ? rotate_back<T, rope_table>(call, err)
	                               : rotate_back<T, rope_powers>(call, err);
}

const struct gt_kernel gt_cuda_rope_kernels[] = {
	GT_ROWS(rope, nullptr, nullptr),
	GT_ROWS(rope_grad, nullptr, nullptr),
	{},
};
