/* loss.cuh - sums and maxima for losses over classes, whole and in shards. */
#ifndef GT_KERNELS_CUDA_LOSS_CUH
#define GT_KERNELS_CUDA_LOSS_CUH

#include "kernels/cuda/fault.cuh"
#include "kernels/cuda/real.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/teams.cuh"
#include "lib/base/mixed_target.h"

enum { GT_LOSS_THREADS = 512 /* threads of the single block that adds up rows */ };
static constexpr int64_t GT_RANK_NAN = (int64_t)1 << 40; /* more than there are classes */

/* The targets of rows, and the number of classes. A row of two classes has the larger kind. */
enum gt_target { GT_TARGET_IGNORED, GT_TARGET_COUNTS, GT_TARGET_BAD };

struct gt_targets {
	const int32_t *of_row;
	int64_t classes;
	struct gt_fault_slot *faults;

	/* Use a target as an index only if its kind is GT_TARGET_COUNTS. A target that is not a
	 * class is reported. */
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

/*
 * The target of a row, of type W: its class; or, with CLASSES 2, those of a mixture
 * (lib/base/mixed_target.h). A class that does not count is -1 and has the weight 0. The row is bad
 * if one class is, and does not count if none does.
 */
template <class W, int CLASSES> struct gt_row_target {
	int64_t t[CLASSES];
	W weight[CLASSES], all; /* all: their sum */
	gt_target kind;

	__device__ __forceinline__ gt_row_target(const gt_targets &targets, int64_t r)
	{
		if constexpr (CLASSES == 1) {
			t[0] = targets.of_row[r];
			weight[0] = 1;
		} else {
			const int32_t *of = targets.of_row + r * GT_MIXED_TARGET_WORDS;

			t[0] = of[0];
			t[1] = of[1];
			weight[0] = (W)((const struct gt_mixed_target *)of)->weight;
			weight[1] = 1 - weight[0];
		}
		kind = GT_TARGET_IGNORED;
		all = 0;
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
};

/* Whether input i of a call has the targets of mixtures. */
static inline bool gt_mixed_targets(const struct gt_call *call, int i, int64_t rows)
{
	return gt_tensor_elements(&call->in[i]) != rows;
}

/* The targets in input i of a call whose logits have `classes` classes, unless they are a shard of
 * the classes. */
static inline gt_targets gt_targets_of(const struct gt_call *call, int i, int64_t classes)
{
	int64_t whole = call->attrs.loss.whole;

	return { gt_in_data<int32_t>(call, i), whole ? whole : classes, call->stream->faults };
}

/*
 * A thread's part of log(sum(exp(x))) over a row: the largest number so far and the sum of exp(x -
 * largest). A new largest number shrinks the sum, so one pass over memory is enough. NaN if the row
 * has one. The initial `largest` is the lowest finite number, because -infinity minus -infinity
 * would be NaN. So a row that holds only -infinity has the sum 0 and the logarithm -infinity.
 * Source: Milakov and Gimelshein 2018, arXiv 1805.02867.
 */
template <class W> struct gt_lse {
	W largest = gt_lowest<W>::value, sum = 0;

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

	/* Combine the parts of all threads of the team; each thread gets the result. */
	template <class TEAM> __device__ __forceinline__ W of_team() const
	{
		W most = TEAM::max(largest);

		return most + gt_log(TEAM::sum(sum * gt_exp(largest - most)));
	}
};

template <class TEAM, bool PACKED, class T>
__device__ __forceinline__ typename gt_wide<T>::type gt_row_lse(const T *x, int64_t cols)
{
	typedef typename gt_wide<T>::type wide;
	gt_lse<wide> lse;

	gt_each_pack<TEAM, PACKED>(x, cols, [&lse](const wide *v, int64_t, int) { lse.take(v); });
	return lse.template of_team<TEAM>();
}

/* A thread's part of the rank of an element with value `own` and index t in its row: the number of
 * elements that come before it in falling order. Equal elements are ordered by index. t may lie
 * outside the row; then only elements of the row are counted. */
template <class W> struct gt_rank {
	W own;
	int64_t t;
	int count = 0;
	bool nan = false;

	__device__ __forceinline__ gt_rank(W own_, int64_t t_, int64_t cols)
	    : own(own_), t(t_ < cols ? t_ : cols)
	{
	}

	__device__ __forceinline__ void take(const W *v, int64_t i, int step)
	{
		for (int k = 0; k < GT_TEAM_PACK; k++) {
			count += i + k * step < t ? v[k] >= own : v[k] > own;
			nan |= v[k] != v[k];
		}
	}

	/* Combine the parts of all threads of the team; each thread gets the rank. It is at least
	 * GT_RANK_NAN if the row has a NaN. */
	template <class TEAM> __device__ __forceinline__ int64_t of_team() const
	{
		return TEAM::sum(count + (nan ? GT_RANK_NAN : 0));
	}
};

/* ---- sums of numbers of rows, in double ---- */

/* One block; f.add(sums, r) adds the summands of row r, f.finish(sums) writes the result. */
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

template <int SUMS, class F>
static int gt_sum_rows(
    struct gt_stream *stream, const char *name, int64_t rows, F f, struct gt_err *err)
{
	GT_LAUNCH((gt_add_rows<SUMS, F>), 1, GT_LOSS_THREADS, 0, stream->queue, f, rows);
	return gt_cuda_launched(stream, name, err);
}

/* loss = weight * sum */
template <class T> struct gt_loss_sum {
	T *loss;
	const T *weight;

	__device__ void finish(const double *sums) const
	{
		typedef typename gt_wide<T>::type wide;

		gt_store(loss, (wide)((double)gt_load(*weight) * sums[0]));
	}
};

/* The sums of classify_stats. */
enum { GT_STATS = 4 };

struct gt_stats_sum {
	double *out; /* [GT_STATS] */

	__device__ void finish(const double *sums) const
	{
		for (int k = 0; k < GT_STATS; k++)
			out[k] = sums[k];
	}
};

/* Row r of these logits, which is row first + r of the targets. */
template <class T> struct gt_classify_stats {
	double *of_row; /* [all rows, GT_STATS] */
	const T *logits;
	gt_targets target;
	int64_t classes, stride; /* elements from row to row */
	int64_t first;

	template <class TEAM, bool PACKED> __device__ void row(int64_t r) const
	{
		typedef typename gt_wide<T>::type wide;
		const T *x = logits + r * stride;
		double *out = of_row + (first + r) * GT_STATS;
		gt_target kind = target.kind(first + r);
		bool counts = kind == GT_TARGET_COUNTS;
		wide own = counts ? gt_load(x[target.of_row[first + r]]) : 0;
		gt_rank<wide> rank(own, target.of_row[first + r], classes);
		gt_lse<wide> lse;
		wide all;
		int64_t before;

		if (counts)
			gt_each_pack<TEAM, PACKED>(
			    x, classes, [&](const wide *v, int64_t i, int step) {
				    lse.take(v);
				    rank.take(v, i, step);
			    });
		all = lse.template of_team<TEAM>();
		before = rank.template of_team<TEAM>();
		if (TEAM::lane())
			return;
		out[0] = counts ? (double)all - (double)own : kind == GT_TARGET_BAD ? NAN : 0;
		out[1] = counts;
		out[2] = counts && before < 1;
		out[3] = counts && before < 5;
	}
};

struct gt_classify_stats_sum : gt_stats_sum {
	const double *of_row;

	__device__ void add(double *sums, int64_t r) const
	{
		for (int k = 0; k < GT_STATS; k++)
			sums[k] += of_row[r * GT_STATS + k];
	}
};

#endif
