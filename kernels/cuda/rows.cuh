/* rows.cuh - rows of kernel tables: an op in the four types that kernels compute with. */
#ifndef GT_KERNELS_CUDA_ROWS_CUH
#define GT_KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gpu.cuh"

/* The data of a call's tensors; NULL for an optional tensor that is absent. */
template <class T> inline T *gt_out_data(const struct gt_call *call, int i = 0)
{
	return i < call->outputs && call->out[i].present ? (T *)call->out[i].data : nullptr;
}

template <class T> inline const T *gt_in_data(const struct gt_call *call, int i)
{
	return i < call->inputs && call->in[i].present ? (const T *)call->in[i].data : nullptr;
}

/* An unsigned integer as large as T: a copy of it has the same bits, NaN or not. */
template <class T> struct gt_bits {
	typedef uint16_t type;
};
template <> struct gt_bits<float> {
	typedef uint32_t type;
};
template <> struct gt_bits<double> {
	typedef uint64_t type;
};

/* A row; its members are in the order of struct gt_kernel. If `accepts` is nullptr, the row accepts
 * all calls; if `prepare` is nullptr, nothing is prepared. A table ends with {}. */
#define GT_ROW(name, type, function, accepts, prepare)                                             \
	{                                                                                          \
#name, type, accepts, prepare, nullptr, function, nullptr                          \
	}

/* The function is a template run_NAME<T>; prepare, if any, is not. */
#define GT_ROWS(name, accepts, prepare)                                                            \
	GT_ROW(name, GT_F32, run_##name<float>, accepts, prepare),                                 \
	    GT_ROW(name, GT_F64, run_##name<double>, accepts, prepare),                            \
	    GT_ROW(name, GT_BF16, run_##name<gt_bf16>, accepts, prepare),                          \
	    GT_ROW(name, GT_F16, run_##name<gt_f16>, accepts, prepare)

#endif
