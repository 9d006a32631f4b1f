/* rows.cuh - macros that write rows of kernel tables, one row for each floating-point type. */
#ifndef GT_KERNELS_CUDA_CORE_ROWS_CUH
#define GT_KERNELS_CUDA_CORE_ROWS_CUH

#include "kernels/cuda/core/gpu.cuh"
#include "kernels/cuda/cuda.h"

/* The data of output i, or of input i; nullptr if it is absent. */
template <class T> inline T *gt_out_data(const struct gt_call *call, int i = 0)
{
	return i < call->outputs && call->out[i].present ? (T *)call->out[i].data : nullptr;
}

template <class T> inline const T *gt_in_data(const struct gt_call *call, int i)
{
	return i < call->inputs && call->in[i].present ? (const T *)call->in[i].data : nullptr;
}

/* An unsigned integer with the size of T: copies of it keep all bits, also those of a NaN. */
template <class T> struct gt_bits {
	typedef uint16_t type;
};
template <> struct gt_bits<float> {
	typedef uint32_t type;
};
template <> struct gt_bits<double> {
	typedef uint64_t type;
};

/* A row of a kernel table (lib/graph/kernel.h). `accepts` and `prepare` may be nullptr. The last
 * row is {}. */
#define GT_ROW(name, type, function, accepts, prepare)                                             \
	{                                                                                          \
#name, type, accepts, prepare, nullptr, function, nullptr                          \
	}

/* Rows for F32, F64, BF16 and F16: the functions run_NAME<T>, with the same `accepts` and
 * `prepare`. */
#define GT_ROWS(name, accepts, prepare)                                                            \
	GT_ROW(name, GT_F32, run_##name<float>, accepts, prepare),                                 \
	    GT_ROW(name, GT_F64, run_##name<double>, accepts, prepare),                            \
	    GT_ROW(name, GT_BF16, run_##name<gt_bf16>, accepts, prepare),                          \
	    GT_ROW(name, GT_F16, run_##name<gt_f16>, accepts, prepare)

#endif
