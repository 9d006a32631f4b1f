/* cublaslt.h - declarations of NVIDIA's cuBLASLt, a library that is opened when first needed. */
#ifndef GT_KERNELS_CUDA_LIBRARY_CUBLASLT_H
#define GT_KERNELS_CUDA_LIBRARY_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The declarations below are gtrain's own and need no header of cuBLASLt. So this file also
 * compiles without CUDA's toolkit, as in the tests on simulated GPUs (tests/cudasim/). The same
 * binary of gtrain runs with the libraries of CUDA 12 and of CUDA 13, because the functions
 * declared in this file have had the same binary interface since CUDA 11. If a toolkit is
 * installed, cublaslt_abi.cu compares every number and every size with the toolkit's header.
 * Handles and descriptors are opaque pointers; enumerations are ints.
 *
 * Source: NVIDIA, "cuBLAS Library", "Using the cuBLASLt API".
 */

enum gt_lt_number {
	GT_LT_SUCCESS = 0,
	GT_LT_ALLOC_FAILED = 3,
	GT_LT_INVALID_VALUE = 7,
	GT_LT_NOT_SUPPORTED = 15,
	/* element types */
	GT_LT_F32 = 0,
	GT_LT_F64 = 1,
	GT_LT_F16 = 2,
	GT_LT_BF16 = 14,
	/* arithmetic for float32 values: F32 multiplies the values as they are; F32_TF32 rounds
	 * them to TF32 before it multiplies them; both add up the products in float32 */
	GT_LT_COMPUTE_F32 = 68,
	GT_LT_COMPUTE_F64 = 70,
	GT_LT_COMPUTE_F32_TF32 = 77,
	/* attributes of a product's descriptor */
	GT_LT_TRANS_A = 3,
	GT_LT_TRANS_B = 4,
	GT_LT_EPILOGUE = 7,
	GT_LT_BIAS_POINTER = 8,
	GT_LT_AUX_POINTER = 11, /* address of the matrix aux, which holds the input of gelu */
	GT_LT_AUX_LEADING = 12, /* leading dimension of the matrix aux */
	/* values of TRANS_A and TRANS_B */
	GT_LT_NOT_TRANSPOSED = 0,
	GT_LT_TRANSPOSED = 1,
	/* values of EPILOGUE: an operation on the result before it is stored */
	GT_LT_EPILOGUE_NONE = 1,
	GT_LT_EPILOGUE_BIAS = 4,
	GT_LT_EPILOGUE_GELU = 32,
	GT_LT_EPILOGUE_GELU_BIAS = 36,
	GT_LT_EPILOGUE_GELU_AUX = 160, /* also stores the input of gelu in the matrix aux */
	GT_LT_EPILOGUE_GELU_AUX_BIAS = 164,
	GT_LT_EPILOGUE_DGELU = 192, /* multiplies the result by the derivative of gelu at aux */
	/* A is the left factor of the column-major product that the library computes, and B the
	 * right factor. BGRADA also computes the sums of A over the dimension k, and stores these
	 * sums at BIAS_POINTER. BGRADB does the same with B. */
	GT_LT_EPILOGUE_BGRADA = 256,
	GT_LT_EPILOGUE_BGRADB = 512,
	/* attributes of a preference, which limits the algorithms that MatmulAlgoGetHeuristic() may
	 * propose */
	GT_LT_MAX_WORKSPACE = 1,
	GT_LT_REDUCTIONS = 3,
	GT_LT_ALIGNMENT_A = 5,
	GT_LT_ALIGNMENT_B = 6,
	GT_LT_ALIGNMENT_C = 7,
	GT_LT_ALIGNMENT_D = 8,
	/* values of REDUCTIONS: how several thread blocks of the GPU may combine their parts of one
	 * sum. 0: each sum must be computed by one thread block */
	GT_LT_REDUCE_IN_PLACE = 1,
	GT_LT_REDUCE_IN_WORKSPACE = 2
};

/* An algorithm, as opaque data. Only the library version that wrote the data can read it. */
struct gt_lt_algorithm {
	uint64_t data[8];
};

/* A result of MatmulAlgoGetHeuristic(): an algorithm that the library proposes for a matrix
 * product. */
struct gt_lt_candidate {
	struct gt_lt_algorithm algorithm;
	size_t workspace_bytes;
	int status;  /* the other members are valid only if this is GT_LT_SUCCESS */
	float waves; /* wavesCount of cuBLASLt: an estimate of how full the GPU is; not used */
	int reserved[4];
};

/* The functions of cuBLASLt that gtrain calls: X(result, name, arguments). The names are without
 * their prefix cublasLt. */
#define GT_LT_FUNCTIONS(X)                                                                         \
	X(size_t, GetVersion, (void))                                                              \
	X(int, Create, (void **handle))                                                            \
	X(int, MatmulDescCreate, (void **desc, int compute, int scale))                            \
	X(int, MatmulDescDestroy, (void *desc))                                                    \
	X(int, MatmulDescSetAttribute,                                                             \
	    (void *desc, int attribute, const void *value, size_t bytes))                          \
	X(int, MatrixLayoutCreate,                                                                 \
	    (void **layout, int type, uint64_t rows, uint64_t cols, int64_t leading))              \
	X(int, MatrixLayoutDestroy, (void *layout))                                                \
	X(int, MatmulPreferenceCreate, (void **preference))                                        \
	X(int, MatmulPreferenceDestroy, (void *preference))                                        \
	X(int, MatmulPreferenceSetAttribute,                                                       \
	    (void *preference, int attribute, const void *value, size_t bytes))                    \
	X(int, MatmulAlgoGetHeuristic,                                                             \
	    (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,       \
	        int wanted, struct gt_lt_candidate *found, int *count))                            \
	X(int, Matmul,                                                                             \
	    (void *handle, void *desc, const void *alpha, const void *a, void *a_layout,           \
	        const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,    \
	        void *d, void *d_layout, const struct gt_lt_algorithm *algorithm, void *workspace, \
	        size_t workspace_bytes, cudaStream_t stream))

/* Pointers to these functions. Call cublasLtNAME() as gt_lt->NAME(). */
struct gt_lt_api {
#define GT_LT_MEMBER(result, name, arguments) result(*name) arguments;
	GT_LT_FUNCTIONS(GT_LT_MEMBER)
#undef GT_LT_MEMBER
};

/* All members are NULL until gt_lt_open() has succeeded, and all are set afterwards. */
extern const struct gt_lt_api *const gt_lt;

/*
 * Open the library, unless it is open. Create a handle of cuBLASLt for the current device of the
 * calling thread, unless this device already has a handle. Set *handle to the device's handle. The
 * handle is borrowed. The library and the handles stay open until the process ends. Any thread may
 * call this, any number of times.
 *
 * Errors: GT_EDEVICE if the library or one of its functions is missing, if the library finds no
 * GPU, if the GPU has too little free memory, or if its index is too large.
 */
int gt_lt_open(void **handle, struct gt_err *err);

/* Open the first library in the list `names` that creates a handle for the current device, and set
 * the members of *out to its functions. The list ends with NULL. It has several libraries because
 * the library of CUDA 13 creates no handle if the driver is for CUDA 12. If the GPU has too little
 * free memory, fail without trying the other libraries. Only gt_lt_open() and its test call this.
 * Errors: GT_EDEVICE. */
int gt_lt_find(struct gt_lt_api *out, void **handle, const char *const *names, struct gt_err *err);

/* Check the status that a function of the library returned. Return 0 for GT_LT_SUCCESS; otherwise
 * return GT_EDEVICE, with `what` and the meaning of the status in the message. */
int gt_lt_check(int status, const char *what, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
