/* loss.cuh - functions that the kernels of classification losses share. */
#ifndef GT_KERNELS_CUDA_LOSS_LOSS_CUH
#define GT_KERNELS_CUDA_LOSS_LOSS_CUH

#include "kernels/cuda/core/fault.cuh"
#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/rows.cuh"
#include "kernels/cuda/core/teams.cuh"
#include "lib/base/mixed_target.h"

enum { GT_LOSS_THREADS = 512 /* threads of the single block that sums over rows */ };

/* gt_sort_position::of_team() returns at least this number if a logit of the row is NaN. The number
 * is larger than any number of classes. */
static constexpr int64_t GT_POSITION_NAN = (int64_t)1 << 40;

/* The kinds of targets: negative (ignored), a class (counts), or too large (bad). If a row has two
 * targets, the kind of the row is the one of their two kinds that comes later in this enum. */
enum gt_target { GT_TARGET_IGNORED, GT_TARGET_COUNTS, GT_TARGET_BAD };

/* The targets of a batch. */
struct gt_targets {
	const int32_t *of_row; /* one target or one struct gt_mixed_target per row */
	/* number of classes of the model, even if the call's logits belong to some classes only */
	int64_t classes;
	struct gt_fault_slot *faults;

	/* kind() returns the kind of the only target of row r. kind_of() returns the kind of t, one
	 * of the targets of row r. Both report a bad target as a fault (fault.cuh). Use a target as
	 * an index only if its kind is GT_TARGET_COUNTS. */
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
 * The target of one row: one class if CLASSES is 1, or the two classes of a mixture if CLASSES is 2
 * (lib/base/mixed_target.h). Weights have type W. A class that is ignored or bad is replaced by -1
 * and has the weight 0.
 */
template <class W, int CLASSES> struct gt_row_target {
	int64_t t[CLASSES];     /* the classes */
	W weight[CLASSES], all; /* the weights of the classes, and the sum of these weights */
	gt_target kind;         /* bad if a class is bad; ignored if all classes are ignored */

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

/* Return whether input i of a call holds mixed targets, each of which is two classes and a weight
 * (lib/base/mixed_target.h). Such an input has more elements than rows. */
static inline bool gt_mixed_targets(const struct gt_call *call, int i, int64_t rows)
{
	return gt_tensor_elements(&call->in[i]) != rows;
}

/* Return the targets in input i of a call. `classes` is the number of classes of the call's logits.
 * If the logits are a shard (the logits of some classes only: lib/graph/attrs.h), the attributes
 * give the number of all classes. */
static inline gt_targets gt_targets_of(const struct gt_call *call, int i, int64_t classes)
{
	int64_t whole = call->attrs.loss.whole;

	return { gt_in_data<int32_t>(call, i), whole ? whole : classes, call->stream->faults };
}

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
template <class W> struct gt_lse {
	W largest = gt_lowest<W>::value, sum = 0;

	/* Add the elements v[GT_TEAM_PACK] of the row. */
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

	/* Combine the values of all threads of the team. Return the result to each thread. */
	template <class TEAM> __device__ __forceinline__ W of_team() const
	{
		W max = TEAM::max(largest);

		return max + gt_log(TEAM::sum(sum * gt_exp(largest - max)));
	}
};

/* Return log(sum(exp(x))) over x[cols] to each thread of the team. */
template <class TEAM, bool PACKED, class T>
__device__ __forceinline__ typename gt_wide<T>::type gt_row_lse(const T *x, int64_t cols)
{
	typedef typename gt_wide<T>::type wide;
	gt_lse<wide> lse;

	gt_each_pack<TEAM, PACKED>(x, cols, [&lse](const wide *v, int64_t, int) { lse.take(v); });
	return lse.template of_team<TEAM>();
}

/*
 * The position of an element in its row: the number of elements that come before it if the row is
 * sorted in descending order. Equal elements are sorted by index. The element has the value `own`
 * and the index t. If the row is a shard of a longer row, only elements of the shard are counted,
 * and t may be outside the shard. Each thread of a team (teams.cuh) has one gt_sort_position.
 */
template <class W> struct gt_sort_position {
	W own;            /* value of the element */
	int64_t t;        /* index of the element; `cols` if the element comes after this shard */
	int count = 0;    /* number of elements before it that this thread has read */
	bool nan = false; /* this thread has read a NaN */

	__device__ __forceinline__ gt_sort_position(W own_, int64_t t_, int64_t cols)
	    : own(own_), t(t_ < cols ? t_ : cols)
	{
	}

	/* Read v[GT_TEAM_PACK]: the elements with the indices i, i + step, i + 2 * step, ... */
	__device__ __forceinline__ void take(const W *v, int64_t i, int step)
	{
		for (int k = 0; k < GT_TEAM_PACK; k++) {
			count += i + k * step < t ? v[k] >= own : v[k] > own;
			nan |= v[k] != v[k];
		}
	}

	/* Combine the values of all threads of the team. Return the position to each thread. The
	 * position is at least GT_POSITION_NAN if the row has a NaN. */
	template <class TEAM> __device__ __forceinline__ int64_t of_team() const
	{
		return TEAM::sum(count + (nan ? GT_POSITION_NAN : 0));
	}
};

/* ---- sums over rows, in double ---- */

/* A kernel with one block that computes SUMS sums over rows. f.add(sums, r) adds the terms of row r
 * to sums[SUMS]. f.finish(sums) writes the results. */
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

/* Queue the kernel gt_add_rows(). `name` is the name of the op, for errors. Errors: GT_EDEVICE. */
template <int SUMS, class F>
static int gt_sum_rows(
    struct gt_stream *stream, const char *name, int64_t rows, F f, struct gt_err *err)
{
	GT_LAUNCH((gt_add_rows<SUMS, F>), 1, GT_LOSS_THREADS, 0, stream->queue, f, rows);
	return gt_cuda_launched(stream, name, err);
}

/* A base class for functors of gt_sum_rows(): finish() writes loss = weight * sums[0]. */
template <class T> struct gt_loss_sum {
	T *loss;
	const T *weight;

	__device__ void finish(const double *sums) const
	{
		typedef typename gt_wide<T>::type wide;

		gt_store(loss, (wide)((double)gt_load(*weight) * sums[0]));
	}
};

/* Number of sums of the op classify_stats (lib/graph/ops/ops.h): cross-entropy, rows that count,
 * top-1 hits, top-5 hits. */
enum { GT_STATS = 4 };

/* A base class for functors of gt_sum_rows(): finish() writes the sums of classify_stats. */
struct gt_stats_sum {
	double *out; /* [GT_STATS] */

	__device__ void finish(const double *sums) const
	{
		for (int k = 0; k < GT_STATS; k++)
			out[k] = sums[k];
	}
};

/* A functor for gt_by_teams() (teams.cuh): computes the terms of classify_stats for each row of a
 * chunk of the logits. */
template <class T> struct gt_classify_stats {
	double *of_row;          /* output [all rows, GT_STATS] */
	const T *logits;         /* [rows of the chunk, stride] */
	gt_targets target;       /* targets of all rows */
	int64_t classes, stride; /* stride: elements from one row of logits to the next */
	int64_t first;           /* index, in all rows, of the first row of the chunk */

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

/* A functor for gt_sum_rows(): sums the terms that gt_classify_stats wrote. */
struct gt_classify_stats_sum : gt_stats_sum {
	const double *of_row;

	__device__ void add(double *sums, int64_t r) const
	{
		for (int k = 0; k < GT_STATS; k++)
			sums[k] += of_row[r * GT_STATS + k];
	}
};

#endif
