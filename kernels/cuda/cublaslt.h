/* cublaslt.h - cuBLASLt's functions, from a library that is opened when it is needed. */
#ifndef GT_KERNELS_CUDA_CUBLASLT_H
#define GT_KERNELS_CUDA_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The declarations below are gtrain's own. So this file compiles without a toolkit, for the
 * simulator, and one program runs with the libraries of CUDA 12 and 13: the part of cuBLASLt in use
 * has had the same binary interface since version 11. If a toolkit is installed, cublaslt_abi.cu
 * compares every number and every size with its header. Handles and descriptors are opaque
 * pointers, enumerations are ints. Source: NVIDIA, "cuBLAS Library", "Using the cuBLASLt API".
 */

enum gt_lt_number {
	GT_LT_SUCCESS = 0,
	GT_LT_INVALID_VALUE = 7,
	GT_LT_NOT_SUPPORTED = 15,
	/* types of elements */
	GT_LT_F32 = 0,
	GT_LT_F64 = 1,
	GT_LT_F16 = 2,
	GT_LT_BF16 = 14,
	/* arithmetic: F32 multiplies float32 as it is, F32_TF32 rounds it to TF32 before; sums are
	 * in float32 either way */
	GT_LT_COMPUTE_F32 = 68,
	GT_LT_COMPUTE_F64 = 70,
	GT_LT_COMPUTE_F32_TF32 = 77,
	/* attributes of a product */
	GT_LT_TRANS_A = 3,
	GT_LT_TRANS_B = 4,
	GT_LT_EPILOGUE = 7,
	GT_LT_BIAS_POINTER = 8,
	GT_LT_AUX_POINTER = 11,
	GT_LT_AUX_LEADING = 12, /* dimension */
	/* values of these */
	GT_LT_NOT_TRANSPOSED = 0,
	GT_LT_TRANSPOSED = 1,
	GT_LT_EPILOGUE_NONE = 1,
	GT_LT_EPILOGUE_BIAS = 4,
	GT_LT_EPILOGUE_GELU = 32,
	GT_LT_EPILOGUE_GELU_BIAS = 36,
	GT_LT_EPILOGUE_GELU_AUX = 160, /* aux: the input of gelu */
	GT_LT_EPILOGUE_GELU_AUX_BIAS = 164,
	GT_LT_EPILOGUE_DGELU = 192,
	GT_LT_EPILOGUE_BGRADA =
	    256, /* the sums over the rows of the library's left side, to bias */
	GT_LT_EPILOGUE_BGRADB = 512, /* the same for its right side */
	/* attributes of a preference */
	GT_LT_MAX_WORKSPACE = 1,
	GT_LT_REDUCTIONS = 3,
	GT_LT_ALIGNMENT_A = 5,
	GT_LT_ALIGNMENT_B = 6,
	GT_LT_ALIGNMENT_C = 7,
	GT_LT_ALIGNMENT_D = 8,
	/* how the parts of a sum that several blocks compute are combined; 0: each sum is computed
	 * by one block */
	GT_LT_REDUCE_IN_PLACE = 1,
	GT_LT_REDUCE_IN_WORKSPACE = 2
};

/* An algorithm: bytes that mean something to the version of the library that wrote them. */
struct gt_lt_algorithm {
	uint64_t data[8];
};

struct gt_lt_candidate {
	struct gt_lt_algorithm algorithm;
	size_t workspace_bytes;
	int status; /* the other members are valid if this is GT_LT_SUCCESS */
	float waves;
	int reserved[4];
};

/* The functions that are used, without their cublasLt: X(result, name, arguments). */
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

/* Call cublasLtNAME() as gt_lt->NAME(). */
struct gt_lt_api {
#define GT_LT_MEMBER(result, name, arguments) result(*name) arguments;
	GT_LT_FUNCTIONS(GT_LT_MEMBER)
#undef GT_LT_MEMBER
};

/* All members are NULL until gt_lt_open() has succeeded, and all are set afterwards. */
extern const struct gt_lt_api *const gt_lt;

/*
 * Open the library, and create its handle for the current device of the calling thread, unless they
 * exist. Both stay open; *handle is borrowed. Any thread may call this, any number of times.
 *
 * Errors: GT_EDEVICE where the library or one of its functions is missing, or it finds no GPU.
 */
int gt_lt_open(void **handle, struct gt_err *err);

/* For gt_lt_open() and its test: find the functions in the first library of the list `names` (ended
 * by NULL) that exists. */
int gt_lt_find(struct gt_lt_api *out, const char *const *names, struct gt_err *err);

/* Return 0, or GT_EDEVICE with `what` and the status in words. */
int gt_lt_check(int status, const char *what, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
