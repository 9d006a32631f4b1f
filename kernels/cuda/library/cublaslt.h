/* cublaslt.h - declarations of NVIDIA's cuBLASLt, a library that is opened when first needed. */
#ifndef GT_KERNELS_CUDA_LIBRARY_CUBLASLT_H
#define GT_KERNELS_CUDA_LIBRARY_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gtrain's own declarations: no header of cuBLASLt is needed, and cublaslt_abi.cc compares them
 * with the toolkit's. Enumerations are ints. Source: NVIDIA, "cuBLAS Library". */

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
	/* arithmetic; F32_TF32 rounds factors to TF32 and adds up in float32 */
	GT_LT_COMPUTE_F32 = 68,
	GT_LT_COMPUTE_F64 = 70,
	GT_LT_COMPUTE_F32_TF32 = 77,
	/* attributes of a product */
	GT_LT_TRANS_A = 3,
	GT_LT_TRANS_B = 4,
	GT_LT_EPILOGUE = 7,
	GT_LT_BIAS_POINTER = 8,
	GT_LT_AUX_POINTER = 11, /* aux holds the input of gelu */
	GT_LT_AUX_LEADING = 12,
	GT_LT_NOT_TRANSPOSED = 0,
	GT_LT_TRANSPOSED = 1,
	/* values of EPILOGUE */
	GT_LT_EPILOGUE_NONE = 1,
	GT_LT_EPILOGUE_BIAS = 4,
	GT_LT_EPILOGUE_GELU = 32,
	GT_LT_EPILOGUE_GELU_BIAS = 36,
	GT_LT_EPILOGUE_GELU_AUX = 160,
	GT_LT_EPILOGUE_GELU_AUX_BIAS = 164,
	GT_LT_EPILOGUE_DGELU = 192, /* times gelu'(aux) */
	/* also sums of the left (A) or right (B) factor over k, stored at BIAS_POINTER */
	GT_LT_EPILOGUE_BGRADA = 256,
	GT_LT_EPILOGUE_BGRADB = 512,
	/* attributes of a matrix: number of matrices, elements from one to the next */
	GT_LT_BATCH_COUNT = 5,
	GT_LT_BATCH_STEP = 6,
	/* attributes of a preference: limits for MatmulAlgoGetHeuristic() */
	GT_LT_MAX_WORKSPACE = 1,
	GT_LT_REDUCTIONS = 3,
	GT_LT_ALIGNMENT_A = 5,
	GT_LT_ALIGNMENT_B = 6,
	GT_LT_ALIGNMENT_C = 7,
	GT_LT_ALIGNMENT_D = 8,
	/* values of REDUCTIONS; 0: one thread block computes each sum */
	GT_LT_REDUCE_IN_PLACE = 1,
	GT_LT_REDUCE_IN_WORKSPACE = 2
};

/* An algorithm: opaque data of one library version. */
struct gt_lt_algorithm {
	uint64_t data[8];
};

/* A proposal of MatmulAlgoGetHeuristic(). */
struct gt_lt_candidate {
	struct gt_lt_algorithm algorithm;
	size_t workspace_bytes;
	int status;  /* the other members need GT_LT_SUCCESS */
	float waves; /* not used */
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
	X(int, MatrixLayoutSetAttribute,                                                           \
	    (void *layout, int attribute, const void *value, size_t bytes))                        \
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

/* The members are NULL until gt_lt_open() has succeeded. */
extern const struct gt_lt_api *const gt_lt;

/* Open the library once, and set *handle to the current device's handle, borrowed. Any thread may
 * call this. */
int gt_lt_open(void **handle, struct gt_err *err);

/* Open the first library of `names` (NULL at the end) that creates a handle. For gt_lt_open() and
 * tests. */
int gt_lt_find(struct gt_lt_api *out, void **handle, const char *const *names, struct gt_err *err);

/* Return 0, or GT_EDEVICE with `what` and the meaning of the status. */
int gt_lt_check(int status, const char *what, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
