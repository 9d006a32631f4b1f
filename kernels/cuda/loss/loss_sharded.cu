/* loss_sharded.cu - losses where each rank has the logits of some of the classes. */
#include "kernels/cuda/loss/loss.cuh"

/*
 * Formulas: lib/graph/ops/loss_sharded.c. Example, two ranks, a row with the logits 1 2 on rank 0
 * and 3 0 on rank 1, whose target is class 2:
 *
 *                               rank 0   rank 1   of all
 *   log_sum_exp                 2.31     3.05     max    3.05
 *   exp_difference to the max   0.48     1        sum    1.48
 *   add_log                                              3.05 + log(1.48) = 3.44
 *   pick                        0        3        sum    3
 *   loss                                                 3.44 - 3 = 0.44
 *
 * Ranks exchange one number per row three times, never logits. Differences and sums are in
 * double, so the loss differs from that of one rank by roundings alone.
 */
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

/*
 * The target's logit on the rank that has its class, 0 on the others, so a sum over ranks finds
 * it. A bad target gives NaN.
 */
template <class T, int CLASSES> struct pick_f : gt_map_always {
	const T *logits;
	gt_loss_targets target;
	gt_weighing<T> weighing;
	int64_t classes, first;

	template <class W> __device__ void operator()(W &picked, int64_t r)
	{
		picked = of_row<W>(r, 0);
	}

	/* `mean`: that of the row's weighted logits, which smoothing adds. */
	template <class W> __device__ __forceinline__ W of_row(int64_t r, double mean) const
	{
		gt_row_target<W, CLASSES> row(target, r);
		double sum = 0;

		row.weigh(weighing);
		sum = (double)row.spread * mean;

		for (int k = 0; k < CLASSES; k++) {
			int64_t t = row.t[k] - first;

			if (row.t[k] >= 0 && t >= 0 && t < classes)
				sum += (double)row.weight[k] *
				       (double)gt_load(logits[r * classes + t]);
		}
		return row.kind == GT_TARGET_BAD ? (W)NAN : (W)sum;
	}
};

/* The same with smoothing: a team reads all logits of a row. */
template <class T> struct pick_smoothed_f {
	T *picked;
	pick_f<T, 2> pick;

	template <class TEAM, bool PACKED> __device__ void row(int64_t r) const
	{
		typedef typename gt_wide<T>::type wide;
		double mean = pick.weighing.template mean<TEAM, PACKED>(
		    pick.logits + r * pick.classes, pick.classes);

		if (TEAM::lane() == 0)
			gt_store(picked + r, pick.template of_row<wide>(r, mean));
	}
};

template <class T> struct count_before_f {
	double *before;
	const T *logits;
	const int32_t *target;
	const T *picked;
	int64_t classes, first;

	template <class TEAM, bool PACKED> __device__ void row(int64_t r) const
	{
		typedef typename gt_wide<T>::type wide;
		gt_sort_position<wide> position(gt_load(picked[r]), target[r] - first, classes);
		int64_t count;

		if (target[r] >= 0)
			gt_each_pack<TEAM, PACKED>(logits + r * classes, classes,
			    [&position](
			        const wide *v, int64_t i, int step) { position.take(v, i, step); });
		count = position.template of_team<TEAM>();
		if (TEAM::lane() == 0)
			/*
			 * If a rank has a NaN among its logits, the sum over ranks must not make
			 * the row right.
			 */
			before[r] = count >= GT_POSITION_NAN ? (double)INFINITY : (double)count;
	}
};

template <class T, int CLASSES> struct cross_entropy_sharded_sum : gt_loss_sum<T> {
	gt_loss_targets target;
	gt_weighing<T> weighing;
	const T *lse, *picked;

	__device__ void add(double *sums, int64_t r) const
	{
		gt_row_target<double, CLASSES> row(target, r);

		row.weigh(weighing);
		if (row.kind != GT_TARGET_IGNORED)
			sums[0] += row.all * (double)gt_load(lse[r]) - (double)gt_load(picked[r]);
	}
};

template <class T> struct classify_stats_sharded_sum : gt_stats_sum {
	const T *lse, *picked;
	const double *before;
	const int32_t *target;

	__device__ void add(double *sums, int64_t r) const
	{
		if (target[r] < 0)
			return;
		sums[0] += (double)gt_load(lse[r]) - (double)gt_load(picked[r]);
		sums[1] += 1;
		sums[2] += before[r] < 1;
		sums[3] += before[r] < 5;
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

template <class T, int CLASSES> static pick_f<T, CLASSES> pick_of(const struct gt_call *call)
{
	pick_f<T, CLASSES> f;

	f.logits = gt_in_data<T>(call, 0);
	f.target = gt_loss_targets_of(call, 1, 0);
	f.weighing = gt_weighing_of<T>(call, 2, 0);
	f.classes = gt_tensor_last(&call->in[0]);
	f.first = call->attrs.loss.first;
	return f;
}

template <class T> static int run_pick_smoothed(struct gt_call *call, struct gt_err *err)
{
	pick_smoothed_f<T> f = { gt_out_data<T>(call), pick_of<T, 2>(call) };

	return gt_by_teams(
	    call->stream, "pick", gt_tensor_rows(&call->in[0]), f.pick.classes, f, err);
}

template <class T, int CLASSES> static int run_pick_of(struct gt_call *call, struct gt_err *err)
{
	pick_f<T, CLASSES> f = pick_of<T, CLASSES>(call);

	return gt_map(call->stream, "pick", gt_tensor_rows(&call->in[0]), f, err,
	    gt_out(gt_out_data<T>(call)), gt_index());
}

template <class T> static int run_pick(struct gt_call *call, struct gt_err *err)
{
	if (call->attrs.loss.smoothing != 0)
		return run_pick_smoothed<T>(call, err);
	return gt_one_class(call, 1, 0, 2) ? run_pick_of<T, 1>(call, err)
	                                   : run_pick_of<T, 2>(call, err);
}

template <class T> static int run_count_before(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[0]), classes = gt_tensor_last(&call->in[0]);
	count_before_f<T> f = { gt_out_data<double>(call), gt_in_data<T>(call, 0),
		gt_in_data<int32_t>(call, 1), gt_in_data<T>(call, 2), classes,
		call->attrs.loss.first };

	return gt_by_teams(call->stream, "count_before", rows, classes, f, err);
}

template <class T, int CLASSES>
static int run_cross_entropy_sharded_of(struct gt_call *call, struct gt_err *err)
{
	cross_entropy_sharded_sum<T, CLASSES> sum = {
		{ gt_out_data<T>(call), gt_in_data<T>(call, 4) }, gt_loss_targets_of(call, 1, 0),
		gt_weighing_of<T>(call, 5, 0), gt_in_data<T>(call, 2), gt_in_data<T>(call, 3)
	};

	return gt_sum_loss(call, "cross_entropy_sharded", gt_tensor_rows(&call->in[0]), sum, err);
}

template <class T> static int run_cross_entropy_sharded(struct gt_call *call, struct gt_err *err)
{
	return gt_one_class(call, 1, 0, 5) ? run_cross_entropy_sharded_of<T, 1>(call, err)
	                                   : run_cross_entropy_sharded_of<T, 2>(call, err);
}

template <class T> static int run_classify_stats_sharded(struct gt_call *call, struct gt_err *err)
{
	classify_stats_sharded_sum<T> sum = { { gt_out_data<double>(call) }, gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<double>(call, 2), gt_in_data<int32_t>(call, 3) };

	return gt_sum_rows<GT_STATS>(
	    call->stream, "classify_stats_sharded", gt_tensor_elements(&call->in[0]), sum, err);
}

const struct gt_kernel gt_cuda_loss_sharded_kernels[] = {
	GT_ROWS(log_sum_exp, nullptr, nullptr),
	GT_ROWS(exp_difference, nullptr, nullptr),
	GT_ROWS(add_log, nullptr, nullptr),
	GT_ROWS(pick, nullptr, nullptr),
	GT_ROWS(count_before, nullptr, nullptr),
	GT_ROWS(cross_entropy_sharded, nullptr, nullptr),
	GT_ROWS(classify_stats_sharded, nullptr, nullptr),
	{},
};
