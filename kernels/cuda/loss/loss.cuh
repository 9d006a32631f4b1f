/* loss.cuh - functions that the kernels of classification losses share. */
#ifndef GT_KERNELS_CUDA_LOSS_LOSS_CUH
#define GT_KERNELS_CUDA_LOSS_LOSS_CUH

#include "kernels/cuda/core/fault.cuh"
#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/rows.cuh"
#include "kernels/cuda/core/teams.cuh"
#include "lib/base/mixed_target.h"

enum { GT_LOSS_THREADS = 512 /* threads of the block that sums over rows */ };

/* A position of at least this number means that the row has a NaN. */
static constexpr int64_t GT_POSITION_NAN = (int64_t)1 << 40;

/* Negative targets are ignored, too large ones are bad. The kind of a row with two targets is the
 * later one in this enum. */
enum gt_target { GT_TARGET_IGNORED, GT_TARGET_COUNTS, GT_TARGET_BAD };

/* The targets of a batch. */
struct gt_targets {
	const int32_t *of_row; /* a target or a gt_mixed_target per row */
	/* classes of the model; the logits may have fewer */
	int64_t classes;
	struct gt_fault_slot *faults;

	/* Return the kind of row r's target, or of t, one of its targets. A bad one is reported as
	 * a fault. Only targets of GT_TARGET_COUNTS may be used as an index. */
	__device__ __forceinline__ gt_target kind(int64_t r) const
	{
		return kind_of(of_row[r], r);
	}

	__device__ __forceinline__ gt_target kind_of(int32_t t, int64_t r) const
	{
		if (t < 0)
			return GT_TARGET_IGNORED;
		if (t < classes)
			return GT_TARGET_COUNTS;
		gt_report_fault(faults, GT_FAULT_TARGET, t, r, classes);
		return GT_TARGET_BAD;
	}
};

/* Targets of a loss. */
struct gt_loss_targets : gt_targets {
	bool mixed; /* rows have a gt_mixed_target */
};

/* How targets count, besides their classes: attrs.loss, and the class weights. */
template <class T> struct gt_weighing {
	const T *of_class; /* nullptr: all are 1 */
	double smoothing;
	int64_t first, whole; /* the shard of the classes that a row of logits has */

	__device__ __forceinline__ typename gt_wide<T>::type of(int64_t c) const
	{
		return of_class ? gt_load(of_class[c]) : 1;
	}

	/* Return the sum of a row's weighted logits, divided by the number of all classes, to all
	 * threads of the team; 0 without smoothing. */
	template <class TEAM, bool PACKED>
	__device__ __forceinline__ double mean(const T *x, int64_t cols) const
	{
		typedef typename gt_wide<T>::type wide;
		double sum = 0;

		if (smoothing == 0)
			return 0;
		gt_each_pack<TEAM, PACKED>(x, cols, [&](const wide *v, int64_t i, int step) {
			for (int k = 0; k < GT_TEAM_PACK; k++)
				if (i + k * step < cols)
					sum += (double)of(first + i + k * step) * (double)v[k];
		});
		return TEAM::sum(sum) / (double)whole;
	}
};

/* The target of a row: one class, or two of a mixture (lib/base/mixed_target.h). A class that is
 * ignored or bad is -1 with weight 0. Kernels for one class know neither class weights nor
 * smoothing; those for two read targets of both forms. */
template <class W, int CLASSES> struct gt_row_target {
	int64_t t[CLASSES];
	W weight[CLASSES], all; /* weights of the classes; the sum of them and `spread` */
	W spread;               /* weight that is spread over all classes */
	gt_target kind;         /* the later of the classes' kinds */

	__device__ __forceinline__ gt_row_target(const gt_loss_targets &targets, int64_t r)
	{
		if constexpr (CLASSES == 1) {
			t[0] = targets.of_row[r];
			weight[0] = 1;
		} else if (!targets.mixed) {
			t[0] = targets.of_row[r];
			t[1] = -1;
			weight[0] = 1;
			weight[1] = 0;
		} else {
			const int32_t *of = targets.of_row + r * GT_MIXED_TARGET_WORDS;

			t[0] = of[0];
			t[1] = of[1];
			weight[0] = (W)((const struct gt_mixed_target *)of)->weight;
			weight[1] = 1 - weight[0];
		}
		kind = GT_TARGET_IGNORED;
		all = spread = 0;
		for (int k = 0; k < CLASSES; k++) {
			gt_target own = targets.kind_of((int32_t)t[k], r);

			kind = own > kind ? own : kind;
			if (own != GT_TARGET_COUNTS) {
				t[k] = -1;
				weight[k] = 0;
			}
			all += weight[k];
		}
	}

	/* Apply class weights and smoothing. */
	template <class T> __device__ __forceinline__ void weigh(const gt_weighing<T> &w)
	{
		if constexpr (CLASSES == 2) {
			all = spread = (W)w.smoothing * all;
			for (int k = 0; k < CLASSES; k++) {
				if (t[k] >= 0)
					weight[k] *= (W)(1 - w.smoothing) * (W)w.of(t[k]);
				all += weight[k];
			}
		}
	}
};

/* Return whether input i has mixed targets: more elements than rows. */
static inline bool gt_mixed_targets(const struct gt_call *call, int i, int64_t rows)
{
	return gt_tensor_elements(&call->in[i]) != rows;
}

/* Return the targets in input i. `classes` is the number of logits per row, which may be a
 * shard. */
static inline gt_targets gt_targets_of(const struct gt_call *call, int i, int64_t classes)
{
	int64_t whole = call->attrs.loss.whole;

	return { gt_in_data<int32_t>(call, i), whole ? whole : classes, call->stream->faults };
}

/* Return the same for rows of logits in input `logits`, perhaps mixed. */
static inline gt_loss_targets gt_loss_targets_of(const struct gt_call *call, int i, int logits)
{
	return { gt_targets_of(call, i, gt_tensor_last(&call->in[logits])),
		gt_mixed_targets(call, i, gt_tensor_rows(&call->in[logits])) };
}

/* Return the weighing with class weights in input i. */
template <class T>
static gt_weighing<T> gt_weighing_of(const struct gt_call *call, int i, int logits)
{
	int64_t whole = call->attrs.loss.whole;

	return { gt_optional_input(call, i) ? gt_in_data<T>(call, i) : nullptr,
		call->attrs.loss.smoothing, call->attrs.loss.first,
		whole ? whole : gt_tensor_last(&call->in[logits]) };
}

/* Return whether kernels for one class per row suffice. */
static inline bool gt_one_class(const struct gt_call *call, int target, int logits, int weights)
{
	return !gt_mixed_targets(call, target, gt_tensor_rows(&call->in[logits])) &&
	       !gt_optional_input(call, weights) && call->attrs.loss.smoothing == 0;
}

/* log(sum(exp(x))) of a row that a team reads once; each thread has one gt_lse. A NaN makes it NaN.
 * loss.cu says how. */
template <class W> struct gt_lse {
	W largest = gt_lowest<W>::value, sum = 0;

	/* Add elements of the row. */
	__device__ __forceinline__ void take(const W *v)
	{
		W now = largest;

		for (int k = 0; k < GT_TEAM_PACK; k++)
			now = v[k] > now ? v[k] : now;
		if (now > largest) {
			sum *= gt_exp(largest - now);
			largest = now;
		}
		for (int k = 0; k < GT_TEAM_PACK; k++)
			sum += gt_exp(v[k] - now);
	}

	/* Return the result to all threads of the team. */
	template <class TEAM> __device__ __forceinline__ W of_team() const
	{
		W max = TEAM::max(largest);

		return max + gt_log(TEAM::sum(sum * gt_exp(largest - max)));
	}
};

/* Return log(sum(exp(x))) to all threads of the team. */
template <class TEAM, bool PACKED, class T>
__device__ __forceinline__ typename gt_wide<T>::type gt_row_lse(const T *x, int64_t cols)
{
	typedef typename gt_wide<T>::type wide;
	gt_lse<wide> lse;

	gt_each_pack<TEAM, PACKED>(x, cols, [&lse](const wide *v, int64_t, int) { lse.take(v); });
	return lse.template of_team<TEAM>();
}

/* The number of elements before one if its row, or this shard of it, is sorted in descending order,
 * equal elements by index. Each thread of a team has one. */
template <class W> struct gt_sort_position {
	W own;
	int64_t t;        /* index of the element; `cols` if it comes after this shard */
	int count = 0;    /* the elements before it in this thread */
	bool nan = false; /* this thread has read a NaN */

	__device__ __forceinline__ gt_sort_position(W own_, int64_t t_, int64_t cols)
	    : own(own_), t(t_ < cols ? t_ : cols)
	{
	}

	/* Read the elements i, i + step, i + 2 * step, ... */
	__device__ __forceinline__ void take(const W *v, int64_t i, int step)
	{
		for (int k = 0; k < GT_TEAM_PACK; k++) {
			count += i + k * step < t ? v[k] >= own : v[k] > own;
			nan |= v[k] != v[k];
		}
	}

	/* Return the position to all threads of the team. */
	template <class TEAM> __device__ __forceinline__ int64_t of_team() const
	{
		return TEAM::sum(count + (nan ? GT_POSITION_NAN : 0));
	}
};

/* ---- sums over rows, in double ---- */

/* A kernel of one block: f.add(sums, r) adds the terms of row r, f.finish(sums) writes the
 * results. */
template <int SUMS, class F> __global__ void gt_add_rows(F f, int64_t rows)
{
	GT_SHARED(double, shared, 32);
	double sums[SUMS] = {};

	for (int64_t r = threadIdx.x; r < rows; r += blockDim.x)
		f.add(sums, r);
	for (int k = 0; k < SUMS; k++)
		sums[k] = gt_block_sum(sums[k], shared);
	if (threadIdx.x == 0)
		f.finish(sums);
}

/* Queue gt_add_rows(). `name` is for errors: GT_EDEVICE. */
template <int SUMS, class F>
static int gt_sum_rows(
    struct gt_stream *stream, const char *name, int64_t rows, F f, struct gt_err *err)
{
	GT_LAUNCH((gt_add_rows<SUMS, F>), 1, GT_LOSS_THREADS, 0, stream->queue, f, rows);
	return gt_cuda_launched(stream, name, err);
}

/* A thread writes the loss of row r, f.add() and f.finish() of this row alone. */
template <class F> __global__ void gt_each_loss(F f, int64_t rows)
{
	int64_t r = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	double sum = 0;

	if (r >= rows)
		return;
	f.add(&sum, r);
	f.loss += r;
	f.finish(&sum);
}

/* Queue the sum of a loss over rows, or with attrs.loss.each the losses of the rows. Errors:
 * GT_EDEVICE. */
template <class F>
static int gt_sum_loss(
    const struct gt_call *call, const char *name, int64_t rows, F f, struct gt_err *err)
{
	const int threads = 256;

	if (!call->attrs.loss.each)
		return gt_sum_rows<1>(call->stream, name, rows, f, err);
	if (rows)
		GT_LAUNCH((gt_each_loss<F>), (unsigned)((rows + threads - 1) / threads), threads, 0,
		    call->stream->queue, f, rows);
	return gt_cuda_launched(call->stream, name, err);
}

/* Functors inherit finish(), which writes loss = weight * sums[0]. */
template <class T> struct gt_loss_sum {
	T *loss;
	const T *weight;

	__device__ void finish(const double *sums) const
	{
		typedef typename gt_wide<T>::type wide;

		gt_store(loss, (wide)((double)gt_load(*weight) * sums[0]));
	}
};

/* sums of classify_stats: cross-entropy, rows that count, top-1 hits, top-5 hits */
enum { GT_STATS = 4 };

/* Functors inherit finish(), which writes the sums of classify_stats. */
struct gt_stats_sum {
	double *out; /* [GT_STATS] */

	__device__ void finish(const double *sums) const
	{
		for (int k = 0; k < GT_STATS; k++)
			out[k] = sums[k];
	}
};

/* For gt_by_teams(): the terms of classify_stats of a chunk of logits. */
template <class T> struct gt_classify_stats {
	double *of_row;  /* [all rows, GT_STATS] */
	const T *logits; /* [rows of the chunk, stride] */
	gt_targets target;
	int64_t classes, stride; /* stride: between rows of logits */
	int64_t first;           /* the chunk's first row */

	template <class TEAM, bool PACKED> __device__ void row(int64_t r) const
	{
		typedef typename gt_wide<T>::type wide;
		const T *x = logits + r * stride;
		double *out = of_row + (first + r) * GT_STATS;
		gt_target kind = target.kind(first + r);
		bool counts = kind == GT_TARGET_COUNTS;
		wide own = counts ? gt_load(x[target.of_row[first + r]]) : 0;
		gt_sort_position<wide> position(own, target.of_row[first + r], classes);
		gt_lse<wide> lse;
		wide all;
		int64_t before;

		if (counts)
			gt_each_pack<TEAM, PACKED>(
			    x, classes, [&](const wide *v, int64_t i, int step) {
				    lse.take(v);
				    position.take(v, i, step);
			    });
		all = lse.template of_team<TEAM>();
		before = position.template of_team<TEAM>();
		if (TEAM::lane())
			return;
		out[0] = counts ? (double)all - (double)own : kind == GT_TARGET_BAD ? NAN : 0;
		out[1] = counts;
		out[2] = counts && before < 1;
		out[3] = counts && before < 5;
	}
};

/* For gt_sum_rows(): the sums of these terms. */
struct gt_classify_stats_sum : gt_stats_sum {
	const double *of_row;

	__device__ void add(double *sums, int64_t r) const
	{
		for (int k = 0; k < GT_STATS; k++)
			sums[k] += of_row[r * GT_STATS + k];
	}
};

#endif
