/* abi.cc - gtrain's declarations of NCCL beside its own, at compile time. */
#include "kernels/cuda/nccl/api.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include "kernels/cuda/library/abi.cuh"

GT_SAME(GT_NCCL_VERSION, NCCL_VERSION(2, 14, 0));
GT_SAME(GT_NCCL_SUCCESS, ncclSuccess);
GT_SAME(GT_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
GT_SAME(GT_NCCL_INVALID_USAGE, ncclInvalidUsage);
GT_SAME(GT_NCCL_U8, ncclUint8);
GT_SAME(GT_NCCL_I32, ncclInt32);
GT_SAME(GT_NCCL_I64, ncclInt64);
GT_SAME(GT_NCCL_F16, ncclFloat16);
GT_SAME(GT_NCCL_F32, ncclFloat32);
GT_SAME(GT_NCCL_F64, ncclFloat64);
GT_SAME(GT_NCCL_BF16, ncclBfloat16);
GT_SAME(GT_NCCL_SUM, ncclSum);
GT_SAME(GT_NCCL_MAX, ncclMax);
GT_SAME(GT_NCCL_AVG, ncclAvg);
GT_SAME(sizeof(gt_nccl_id), sizeof(ncclUniqueId));
GT_SAME(sizeof(int), sizeof(ncclResult_t));
GT_SAME(sizeof(int), sizeof(ncclDataType_t));
GT_SAME(sizeof(int), sizeof(ncclRedOp_t));

/* A header that is older has too few functions, as the library that comes with it. */
#if NCCL_VERSION_CODE >= 21400
static constexpr ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;

static_assert(initial.magic == gt_nccl_magic, "magic");
GT_SAME(GT_NCCL_REMOTE_ERROR, ncclRemoteError);
GT_SAME(GT_NCCL_IN_PROGRESS, ncclInProgress);
GT_SAME(offsetof(gt_nccl_config, size), offsetof(ncclConfig_t, size));
GT_SAME(offsetof(gt_nccl_config, magic), offsetof(ncclConfig_t, magic));
GT_SAME(offsetof(gt_nccl_config, version), offsetof(ncclConfig_t, version));
GT_SAME(offsetof(gt_nccl_config, blocking), offsetof(ncclConfig_t, blocking));

#if NCCL_VERSION_CODE >= 21700
GT_SAME(GT_NCCL_UNSET, NCCL_CONFIG_UNDEF_INT);
GT_SAME(offsetof(gt_nccl_config, cluster_size), offsetof(ncclConfig_t, cgaClusterSize));
GT_SAME(offsetof(gt_nccl_config, min_blocks), offsetof(ncclConfig_t, minCTAs));
GT_SAME(offsetof(gt_nccl_config, max_blocks), offsetof(ncclConfig_t, maxCTAs));
GT_SAME(offsetof(gt_nccl_config, network), offsetof(ncclConfig_t, netName));
#endif

#define CALL(result, name, arguments)                                                              \
	static_assert(gt_same_call<decltype(&nccl##name), result(*) arguments>::value, #name);
GT_NCCL_FUNCTIONS(CALL)
#endif
#endif
