/* loss.cu - cross_entropy, its gradient, and classify_stats. */
#include "kernels/cuda/loss/loss.cuh"

/*
 * log(sum(exp(x))) over a row x that a team of threads reads (teams.cuh). Each thread of the team
 * has one gt_lse. It keeps the largest element so far and the sum of exp(x - largest). When a
 * larger element comes, the thread scales the sum down. So one pass over memory is enough.
 *
 * The result is NaN if the row has a NaN. `largest` begins with the lowest finite number, because
 * -infinity minus -infinity would be NaN. So for a row of only -infinity, the sum is 0 and the
 * result is -infinity.
 *
 * Source: Milakov and Gimelshein 2018, arXiv 1805.02867.
 */

/*
 * A team of threads reads a row of logits once and leaves the row's numbers in the workspace; then
 * one block adds them up in double, in an order that depends on the number of rows alone. Formulas:
 * lib/graph/ops/loss.c. A row whose target is no class gives NaN, so that no update can use it.
 */
template <class T, int CLASSES> struct cross_entropy_f {
	T *lse;
	double *of_row;
	const T *logits;
	gt_loss_targets target;
	gt_weighing<T> weighing;
	int64_t classes;

	template <class TEAM, bool PACKED> __device__ void row(int64_t r) const
	{
		typedef typename gt_wide<T>::type wide;
		const T *x = logits + r * classes;
		wide y = gt_row_lse<TEAM, PACKED>(x, classes);
		double mean = 0;

		if constexpr (CLASSES == 2)
			mean = weighing.template mean<TEAM, PACKED>(x, classes);
		if (TEAM::lane())
			return;
		gt_store(lse + r, y);
		of_row[r] = term(gt_row_target<wide, CLASSES>(target, r), x, y, mean);
	}

	template <class W>
	__device__ __forceinline__ double term(
	    gt_row_target<W, CLASSES> row, const T *x, W y, double mean) const
	{
		double sum = 0;

		row.weigh(weighing);
		if (row.spread > 0)
			sum = (double)row.spread * ((double)y - mean);

		if (row.kind == GT_TARGET_BAD)
			return NAN;
		for (int k = 0; k < CLASSES; k++)
			if (row.t[k] >= 0)
				sum += (double)row.weight[k] *
				       ((double)y - (double)gt_load(x[row.t[k]]));
		return sum;
	}
};

template <class T> struct cross_entropy_sum : gt_loss_sum<T> {
	const double *of_row;

	__device__ void add(double *sums, int64_t r) const
	{
		sums[0] += of_row[r];
	}
};

/* Elements do not depend on each other, so threads take 16 bytes at a time wherever a row begins,
 * where the memory of both tensors does so alike. */
template <class T, int CLASSES> struct cross_entropy_grad_f {
	typedef typename gt_wide<T>::type wide;
	enum { W = 16 / sizeof(T) };
	T *dlogits;
	const T *dloss, *logits;
	gt_loss_targets target;
	const T *lse, *weight;
	gt_weighing<T> weighing;
	int64_t classes, first;
	bool each; /* rows have a dloss each */

	/* Values that the elements of a row share: scale is 0 for a row that does not count. */
	struct of_row {
		T *d;
		const T *x;
		wide scale, lse;
		/* the targets' indices in this shard; no element has an index outside of it */
		int64_t t[CLASSES];
		wide less[CLASSES]; /* subtracted from that element */
		bool counts;
		/* the factor of class weights that are subtracted from all elements, or 0 */
		wide spread;
		gt_weighing<T> weighing;

		template <int N> __device__ __forceinline__ void take(int64_t i) const
		{
			typename gt_map_buffer<T, true, false>::template lanes<N> v = { (T *)x,
				{} };
			typename gt_map_buffer<T, false, true>::template lanes<N> y = { d, {} };

			if (counts)
				v.load(i);
			for (int k = 0; k < N; k++) {
				y.v[k] = counts ? scale * gt_exp(v.v[k] - lse) : scale;
				for (int c = 0; c < CLASSES; c++)
					if (counts && i + k == t[c])
						y.v[k] -= less[c];
			}
			if constexpr (CLASSES == 2)
				for (int k = 0; k < N && spread != 0; k++)
					y.v[k] -= spread * weighing.of(weighing.first + i + k);
			y.store(i);
		}
	};

	__device__ of_row of(int64_t r) const
	{
		gt_row_target<wide, CLASSES> row(target, r);
		wide scale = gt_load(dloss[each ? r : 0]) * gt_load(*weight);

		row.weigh(weighing);

		of_row o = { dlogits + r * classes, logits + r * classes, scale * row.all,
			gt_load(lse[r]), {}, {}, row.kind == GT_TARGET_COUNTS,
			scale * row.spread / (wide)weighing.whole, weighing };

		for (int k = 0; k < CLASSES; k++) {
			o.t[k] = row.t[k] < 0 ? -1 : row.t[k] - first;
			o.less[k] = scale * row.weight[k];
		}
		if (!o.counts) {
			o.scale = row.kind == GT_TARGET_BAD ? (wide)NAN : 0;
			o.spread = 0;
		}
		return o;
	}

	template <class TEAM, bool PACKED> __device__ void row(int64_t r) const
	{
		of_row o = of(r);
		int64_t past = (int64_t)((uintptr_t)o.x % 16 / sizeof(T));
		int64_t head = past ? W - past : 0, packs;

		if (head > classes || (uintptr_t)o.d % 16 != (uintptr_t)o.x % 16)
			head = classes;
		packs = (classes - head) / W;
		for (int64_t i = TEAM::lane(); i < head; i += TEAM::SIZE)
			o.template take<1>(i);
		for (int64_t p = TEAM::lane(); p < packs; p += TEAM::SIZE)
			o.template take<W>(head + p * W);
		for (int64_t i = head + packs * W + TEAM::lane(); i < classes; i += TEAM::SIZE)
			o.template take<1>(i);
	}
};

/* ---- rows ---- */

template <class T, int CLASSES>
static int run_cross_entropy_of(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[0]), classes = gt_tensor_last(&call->in[0]);
	double *of_row = (double *)call->workspace;
	cross_entropy_f<T, CLASSES> f = { gt_out_data<T>(call, 1), of_row, gt_in_data<T>(call, 0),
		gt_loss_targets_of(call, 1, 0), gt_weighing_of<T>(call, 3, 0), classes };
	cross_entropy_sum<T> sum = { { gt_out_data<T>(call), gt_in_data<T>(call, 2) }, of_row };

	if (gt_by_teams(call->stream, "cross_entropy", rows, classes, f, err))
		return err->code;
	return gt_sum_loss(call, "cross_entropy", rows, sum, err);
}

template <class T> static int run_cross_entropy(struct gt_call *call, struct gt_err *err)
{
	return gt_one_class(call, 1, 0, 3) ? run_cross_entropy_of<T, 1>(call, err)
	                                   : run_cross_entropy_of<T, 2>(call, err);
}

static int prepare_cross_entropy(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	call->launches = 2;
	call->workspace_bytes = (size_t)gt_tensor_rows(&call->in[0]) * sizeof(double);
	return 0;
}

template <class T, int CLASSES>
static int run_cross_entropy_grad_of(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[1]), classes = gt_tensor_last(&call->in[1]);
	cross_entropy_grad_f<T, CLASSES> f = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_loss_targets_of(call, 2, 1), gt_in_data<T>(call, 3),
		gt_in_data<T>(call, 4), gt_weighing_of<T>(call, 5, 1), classes,
		call->attrs.loss.first, call->attrs.loss.each };

	return gt_by_teams<false>(call->stream, "cross_entropy_grad", rows, classes, f, err);
}

template <class T> static int run_cross_entropy_grad(struct gt_call *call, struct gt_err *err)
{
	return gt_one_class(call, 2, 1, 5) ? run_cross_entropy_grad_of<T, 1>(call, err)
	                                   : run_cross_entropy_grad_of<T, 2>(call, err);
}

template <class T> static int run_classify_stats(struct gt_call *call, struct gt_err *err)
{
	int64_t rows = gt_tensor_rows(&call->in[0]), classes = gt_tensor_last(&call->in[0]);
	double *of_row = (double *)call->workspace;
	gt_classify_stats<T> f = { of_row, gt_in_data<T>(call, 0), gt_targets_of(call, 1, classes),
		classes, classes, 0 };
	gt_classify_stats_sum sum = { { gt_out_data<double>(call) }, of_row };

	if (gt_by_teams(call->stream, "classify_stats", rows, classes, f, err))
		return err->code;
	return gt_sum_rows<GT_STATS>(call->stream, "classify_stats", rows, sum, err);
}

static int prepare_classify_stats(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	call->launches = 2;
	call->workspace_bytes = (size_t)gt_tensor_rows(&call->in[0]) * GT_STATS * sizeof(double);
	return 0;
}

const struct gt_kernel gt_cuda_loss_kernels[] = {
	GT_ROWS(cross_entropy, nullptr, prepare_cross_entropy),
	GT_ROWS(cross_entropy_grad, nullptr, nullptr),
	GT_ROWS(classify_stats, nullptr, prepare_classify_stats),
	{},
};
