/* loss.cuh - what losses over classes are made of, whole and in shards. */
#ifndef GT_KERNELS_CUDA_LOSS_CUH
#define GT_KERNELS_CUDA_LOSS_CUH

#include "kernels/cuda/real.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/teams.cuh"

/*
 * A thread's part of log(sum(exp(x))) over a row: the largest number so far and the sum of
 * exp(x - largest). A new largest number shrinks the sum, so one pass over memory is enough. NaN
 * if the row has one. The largest begins at the lowest finite number, as -infinity less itself
 * would be a NaN: a row of -infinity alone has the sum 0 and the logarithm -infinity.
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

	/* Of all threads of the team, for each of them. */
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

#endif
