/* rows.cuh - macros that write rows of kernel tables, one row for each floating-point type. */
#ifndef GT_KERNELS_CUDA_CORE_ROWS_CUH
#define GT_KERNELS_CUDA_CORE_ROWS_CUH

#include "kernels/cuda/core/gpu.cuh"
#include "kernels/cuda/cuda.h"

/* gt_out_data() returns the data of output i of a call, gt_in_data() those of input i. Both return
 * nullptr if the tensor is optional and absent. */
template <class T> inline T *gt_out_data(const struct gt_call *call, int i = 0)
{
	return i < call->outputs && call->out[i].present ? (T *)call->out[i].data : nullptr;
}

template <class T> inline const T *gt_in_data(const struct gt_call *call, int i)
{
	return i < call->inputs && call->in[i].present ? (const T *)call->in[i].data : nullptr;
}

/* The unsigned integer type with the size of T. Kernels that only copy elements copy them as this
 * type: a copy of an integer keeps all bits, also those of a NaN. */
template <class T> struct gt_bits {
	typedef uint16_t type;
};
template <> struct gt_bits<float> {
	typedef uint32_t type;
};
template <> struct gt_bits<double> {
	typedef uint64_t type;
};

/* One row of a kernel table (struct gt_kernel, lib/graph/kernel.h): `function` computes the op
 * `name` for the element type `type`. If `accepts` is nullptr, the row accepts all calls. If
 * `prepare` is nullptr, nothing is prepared. The last row of a table is {}. */
#define GT_ROW(name, type, function, accepts, prepare)                                             \
	{                                                                                          \
#name, type, accepts, prepare, nullptr, function, nullptr                          \
	}

/* Four rows for op `name`, one for each type: F32, F64, BF16 and F16. The functions are the
 * instances run_NAME<T> of a template. `accepts` and `prepare` are not templates: all rows use the
 * same function. */
#define GT_ROWS(name, accepts, prepare)                                                            \
	GT_ROW(name, GT_F32, run_##name<float>, accepts, prepare),                                 \
	    GT_ROW(name, GT_F64, run_##name<double>, accepts, prepare),                            \
	    GT_ROW(name, GT_BF16, run_##name<gt_bf16>, accepts, prepare),                          \
	    GT_ROW(name, GT_F16, run_##name<gt_f16>, accepts, prepare)

#endif
