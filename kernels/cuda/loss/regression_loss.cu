/* regression_loss.cu - regression_loss, its gradient, and regress_stats. */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/loss/loss.cuh"

/* Formulas: lib/graph/ops/regression_loss.c, lib/base/regression.h. One block adds up the samples,
 * in an order that depends on their number alone. A target that is NaN does not count. */
template <class T> struct regression_loss_sum : gt_loss_sum<T> {
	const T *y, *target, *label_weight; /* label_weight: nullptr: all are 1 */
	int64_t labels;
	struct gt_regression kind;

	__device__ void add(double *sums, int64_t r) const
	{
		double t = (double)gt_load(target[r]);
		double w = label_weight ? (double)gt_load(label_weight[r % labels]) : 1;

		sums[0] += t == t ? gt_regression_term(kind, (double)gt_load(y[r]), t, w) : 0;
	}
};

template <class T> struct regression_loss_grad_f {
	const T *dloss, *weight, *label_weight;
	int64_t labels;
	struct gt_regression kind;
	typename gt_wide<T>::type scale;

	__device__ bool begin()
	{
		scale = gt_load(*dloss) * gt_load(*weight);
		return true;
	}

	template <class W> __device__ void operator()(W &dy, W y, W t, int64_t i)
	{
		double w = label_weight ? (double)gt_load(label_weight[i % labels]) : 1;

		dy = t == t ? (W)(scale * (W)gt_regression_slope(kind, (double)y, (double)t, w))
		            : (W)0;
	}
};

template <class T> struct regress_stats_sum {
	double *out; /* [GT_REGRESS_STATS] */
	const T *y, *target;
	struct gt_regression kind;

	__device__ void add(double *sums, int64_t r) const
	{
		double t = (double)gt_load(target[r]);

		if (t == t)
			gt_regression_count(sums, kind, (double)gt_load(y[r]), t);
	}

	__device__ void finish(const double *sums) const
	{
		for (int k = 0; k < GT_REGRESS_STATS; k++)
			out[k] = sums[k];
	}
};

/* Input i, the weights of labels; nullptr: there are none. */
template <class T> static const T *label_weight_of(const struct gt_call *call, int i)
{
	return gt_optional_input(call, i) ? gt_in_data<T>(call, i) : nullptr;
}

template <class T> static int run_regression_loss(struct gt_call *call, struct gt_err *err)
{
	regression_loss_sum<T> sum = { { gt_out_data<T>(call), gt_in_data<T>(call, 2) },
		gt_in_data<T>(call, 0), gt_in_data<T>(call, 1), label_weight_of<T>(call, 3),
		gt_tensor_last(&call->in[0]), call->attrs.regression };

	return gt_sum_rows<1>(
	    call->stream, "regression_loss", gt_tensor_elements(&call->in[0]), sum, err);
}

template <class T> static int run_regression_loss_grad(struct gt_call *call, struct gt_err *err)
{
	regression_loss_grad_f<T> f = { gt_in_data<T>(call, 0), gt_in_data<T>(call, 3),
		label_weight_of<T>(call, 4), gt_tensor_last(&call->in[1]), call->attrs.regression,
		0 };

	return gt_map(call->stream, "regression_loss_grad", gt_tensor_elements(&call->in[1]), f,
	    err, gt_out(gt_out_data<T>(call)), gt_in(gt_in_data<T>(call, 1)),
	    gt_in(gt_in_data<T>(call, 2)), gt_index());
}

template <class T> static int run_regress_stats(struct gt_call *call, struct gt_err *err)
{
	regress_stats_sum<T> sum = { gt_out_data<double>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), call->attrs.regression };

	return gt_sum_rows<GT_REGRESS_STATS>(
	    call->stream, "regress_stats", gt_tensor_elements(&call->in[0]), sum, err);
}

const struct gt_kernel gt_cuda_regression_loss_kernels[] = {
	GT_ROWS(regression_loss, nullptr, nullptr),
	GT_ROWS(regression_loss_grad, nullptr, nullptr),
	GT_ROWS(regress_stats, nullptr, nullptr),
	{},
};
