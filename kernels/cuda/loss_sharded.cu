/* loss_sharded.cu - losses where each rank has the logits of some of the classes. */
#include "kernels/cuda/loss.cuh"

/* Formulas: lib/graph/ops/ops.h. */
template <class T> struct log_sum_exp_f {
	T *lse;
	const T *logits;
	int64_t classes;

	template <class TEAM, bool PACKED> __device__ void row(int64_t r) const
	{
		typename gt_wide<T>::type y =
		    gt_row_lse<TEAM, PACKED>(logits + r * classes, classes);

		if (TEAM::lane() == 0)
			gt_store(lse + r, y);
	}
};

struct exp_difference_f : gt_map_always {
	template <class W> __device__ void operator()(double &y, W a, W b)
	{
		y = exp((double)a - (double)b);
	}
};

struct add_log_f : gt_map_always {
	template <class W> __device__ void operator()(W &y, W a, double s)
	{
		y = (W)((double)a + log(s));
	}
};

/* ---- rows ---- */

template <class T> static int run_log_sum_exp(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[0]), classes = gt_tensor_last(&call->in[0]);
	log_sum_exp_f<T> f = { gt_out_data<T>(call), gt_in_data<T>(call, 0), classes };

	return gt_by_teams(call->stream, "log_sum_exp", rows, classes, f, err);
}

template <class T> static int run_exp_difference(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "exp_difference", gt_tensor_elements(&call->out[0]),
	    exp_difference_f(), err, gt_out(gt_out_data<double>(call)),
	    gt_in(gt_in_data<T>(call, 0)), gt_in(gt_in_data<T>(call, 1)));
}

template <class T> static int run_add_log(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "add_log", gt_tensor_elements(&call->out[0]), add_log_f(), err,
	    gt_out(gt_out_data<T>(call)), gt_in(gt_in_data<T>(call, 0)),
	    gt_in(gt_in_data<double>(call, 1)));
}

const struct gt_kernel gt_cuda_loss_sharded_kernels[] = {
	GT_ROWS(log_sum_exp, nullptr, nullptr),
	GT_ROWS(exp_difference, nullptr, nullptr),
	GT_ROWS(add_log, nullptr, nullptr),
	{},
};
