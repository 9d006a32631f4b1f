/* abi.cc - gtrain's declarations of NVRTC beside its own, at compile time. */
#include "kernels/cuda/nvrtc/api.h"

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

#include "kernels/cuda/library/abi.cuh"

GT_SAME(0, NVRTC_SUCCESS);
GT_SAME(sizeof(int), sizeof(nvrtcResult));

#define CALL(result, name, arguments)                                                              \
	static_assert(gt_same_call<decltype(&nvrtc##name), result(*) arguments>::value, #name);
GT_NVRTC_FUNCTIONS(CALL)
#endif
