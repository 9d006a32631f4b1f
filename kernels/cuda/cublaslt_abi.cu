/* cublaslt_abi.cu - gtrain's declarations of cuBLASLt beside the toolkit's, at compile time. */
#include "kernels/cuda/cublaslt.h"

#if defined(__CUDACC__) && __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include "kernels/cuda/abi.cuh"

GT_SAME(GT_LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
GT_SAME(GT_LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
GT_SAME(GT_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
GT_SAME(GT_LT_F32, CUDA_R_32F);
GT_SAME(GT_LT_F64, CUDA_R_64F);
GT_SAME(GT_LT_F16, CUDA_R_16F);
GT_SAME(GT_LT_BF16, CUDA_R_16BF);
GT_SAME(GT_LT_COMPUTE_F32, CUBLAS_COMPUTE_32F);
GT_SAME(GT_LT_COMPUTE_F64, CUBLAS_COMPUTE_64F);
GT_SAME(GT_LT_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA);
GT_SAME(GT_LT_TRANS_B, CUBLASLT_MATMUL_DESC_TRANSB);
GT_SAME(GT_LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
GT_SAME(GT_LT_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
GT_SAME(GT_LT_NOT_TRANSPOSED, CUBLAS_OP_N);
GT_SAME(GT_LT_TRANSPOSED, CUBLAS_OP_T);
GT_SAME(GT_LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
GT_SAME(GT_LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
GT_SAME(GT_LT_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
GT_SAME(GT_LT_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
GT_SAME(GT_LT_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
GT_SAME(GT_LT_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
GT_SAME(GT_LT_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
GT_SAME(GT_LT_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
GT_SAME(GT_LT_REDUCE_IN_PLACE, CUBLASLT_REDUCTION_SCHEME_INPLACE);
GT_SAME(GT_LT_REDUCE_IN_WORKSPACE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
GT_SAME(sizeof(gt_lt_algorithm), sizeof(cublasLtMatmulAlgo_t));
GT_SAME(sizeof(gt_lt_candidate), sizeof(cublasLtMatmulHeuristicResult_t));
GT_SAME(offsetof(gt_lt_candidate, workspace_bytes),
    offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
GT_SAME(offsetof(gt_lt_candidate, status), offsetof(cublasLtMatmulHeuristicResult_t, state));
GT_SAME(sizeof(int), sizeof(cudaDataType_t));
GT_SAME(sizeof(int), sizeof(cublasComputeType_t));
GT_SAME(sizeof(int), sizeof(cublasStatus_t));
GT_SAME(sizeof(int), sizeof(cublasLtMatmulDescAttributes_t));
GT_SAME(sizeof(int), sizeof(cublasLtMatmulPreferenceAttributes_t));

#define CALL(result, name, arguments)                                                              \
	static_assert(gt_same_call<decltype(&cublasLt##name), result(*) arguments>::value, #name);
GT_LT_FUNCTIONS(CALL)
#endif
