/* cublaslt_abi.cu - gtrain's declarations of cuBLASLt beside the toolkit's, at compile time. */
#include "kernels/cuda/cublaslt.h"

#if defined(__CUDACC__) && __has_include(<cublasLt.h>)
#include <cublasLt.h>

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

SAME(GT_LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(GT_LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(GT_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(GT_LT_F32, CUDA_R_32F);
SAME(GT_LT_F64, CUDA_R_64F);
SAME(GT_LT_F16, CUDA_R_16F);
SAME(GT_LT_BF16, CUDA_R_16BF);
SAME(GT_LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
SAME(GT_LT_COMPUTE_F64, CUBLAS_COMPUTE_64F);
SAME(GT_LT_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(GT_LT_TRANS_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(GT_LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(GT_LT_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(GT_LT_NOT_TRANSPOSED, CUBLAS_OP_N);
SAME(GT_LT_TRANSPOSED, CUBLAS_OP_T);
SAME(GT_LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
SAME(GT_LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(GT_LT_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(GT_LT_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(GT_LT_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(GT_LT_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(GT_LT_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(GT_LT_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(GT_LT_REDUCE_IN_PLACE, CUBLASLT_REDUCTION_SCHEME_INPLACE);
SAME(GT_LT_REDUCE_IN_WORKSPACE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(sizeof(gt_lt_algorithm), sizeof(cublasLtMatmulAlgo_t));
SAME(sizeof(gt_lt_candidate), sizeof(cublasLtMatmulHeuristicResult_t));
SAME(offsetof(gt_lt_candidate, workspace_bytes),
    offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
SAME(offsetof(gt_lt_candidate, status), offsetof(cublasLtMatmulHeuristicResult_t, state));
SAME(sizeof(int), sizeof(cudaDataType_t));
SAME(sizeof(int), sizeof(cublasComputeType_t));
SAME(sizeof(int), sizeof(cublasStatus_t));
SAME(sizeof(int), sizeof(cublasLtMatmulDescAttributes_t));
SAME(sizeof(int), sizeof(cublasLtMatmulPreferenceAttributes_t));

/* The same number of arguments of the same sizes, all passed as integers and pointers are. */
template <class T, class U> struct same_call {
	static const bool value = false;
};
template <class R, class... A, class S, class... B> struct same_call<R (*)(A...), S (*)(B...)> {
	static constexpr bool check()
	{
		if constexpr (sizeof...(A) == sizeof...(B))
			return sizeof(R) == sizeof(S) && ((sizeof(A) == sizeof(B)) && ...);
		return false;
	}
	static const bool value = check();
};

#define CALL(result, name, arguments)                                                              \
	static_assert(same_call<decltype(&cublasLt##name), result(*) arguments>::value, #name);
GT_LT_FUNCTIONS(CALL)
#endif
