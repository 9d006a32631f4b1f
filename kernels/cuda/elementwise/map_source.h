/* map_source.h - CUDA C++ for one program of the op map. */
#ifndef GT_KERNELS_CUDA_ELEMENTWISE_MAP_SOURCE_H
#define GT_KERNELS_CUDA_ELEMENTWISE_MAP_SOURCE_H

#include "lib/graph/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GT_MAP_SOURCE_THREADS = 256 }; /* threads of a block */

/* The name of the kernel in the source, which has the parameters: the outputs, the inputs, unsigned
 * packs, unsigned count. The first packs * gt_map_source_lanes() elements are computed as packs. */
#define GT_MAP_SOURCE_NAME "gt_map_compiled"

/* Return how many neighbours a thread computes: 16 bytes of the output. */
int gt_map_source_lanes(const struct gt_call *call);

/* Write the source for a call of map with at most 2^31 elements; *out is the caller's. Calls with
 * equal sources can share a kernel. Errors: GT_ENOMEM. */
int gt_map_source(char **out, const struct gt_call *call, struct gt_err *err);

#ifdef __cplusplus
}
#endif

#endif
