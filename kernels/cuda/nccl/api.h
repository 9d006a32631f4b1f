/* api.h - NCCL's functions: declarations, and a table filled from the library at run time. */
#ifndef GT_KERNELS_CUDA_NCCL_API_H
#define GT_KERNELS_CUDA_NCCL_API_H

#include <limits.h>
#include <stddef.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* gtrain's own declarations: no header of NCCL is needed, and abi.cc compares them with it.
 * Communicators are pointers, enumerations ints. Source: NVIDIA, "NCCL API". */

enum gt_nccl_number {
	/* 2.14, the oldest supported: the first with non-blocking communicators */
	GT_NCCL_VERSION = 21400,
	/* the version of gt_nccl_config */
	GT_NCCL_CONFIG = 21700,
	/* the first with NCCL_LAUNCH_ORDER_IMPLICIT */
	GT_NCCL_ORDERING = 22600,
	/* the first with several ranks on a GPU */
	GT_NCCL_SHARING = 23000,
	/* a member of ncclConfig_t that is not set */
	GT_NCCL_UNSET = INT_MIN,
	/* values of ncclResult_t */
	GT_NCCL_SUCCESS = 0,
	GT_NCCL_INVALID_ARGUMENT = 4,
	GT_NCCL_INVALID_USAGE = 5,
	GT_NCCL_REMOTE_ERROR = 6,
	GT_NCCL_IN_PROGRESS = 7,
	/* values of ncclDataType_t */
	GT_NCCL_U8 = 1,
	GT_NCCL_I32 = 2,
	GT_NCCL_I64 = 4,
	GT_NCCL_F16 = 6,
	GT_NCCL_F32 = 7,
	GT_NCCL_F64 = 8,
	GT_NCCL_BF16 = 9,
	/* values of ncclRedOp_t */
	GT_NCCL_SUM = 0,
	GT_NCCL_MAX = 2,
	GT_NCCL_AVG = 4
};

/* ncclUniqueId, for a communicator that is being formed. */
struct gt_nccl_id {
	char bytes[128];
};

/* ncclConfig_t of version 2.17 (GT_NCCL_CONFIG). Older versions of NCCL read the members up to
 * `blocking`. In newer ones the struct has more members, and NCCL treats those that are missing
 * here as not set. */
struct gt_nccl_config {
	size_t size;
	unsigned magic; /* must be gt_nccl_magic */
	unsigned version;
	int blocking;
	/* blocks of a kernel: cgaClusterSize, minCTAs and maxCTAs; or GT_NCCL_UNSET */
	int cluster_size, min_blocks, max_blocks;
	const char *network; /* netName; NULL: not set */
};

static const unsigned gt_nccl_magic = 0xcafebeef;

/* The NCCL functions that gtrain calls: X(result, name, arguments). `name` is without the prefix
 * "nccl". */
#define GT_NCCL_FUNCTIONS(X)                                                                       \
	X(int, GetVersion, (int *version))                                                         \
	X(int, GetUniqueId, (struct gt_nccl_id * id))                                              \
	X(int, CommInitRankConfig,                                                                 \
	    (void **comm, int size, struct gt_nccl_id id, int rank,                                \
	        struct gt_nccl_config *config))                                                    \
	X(int, CommFinalize, (void *comm))                                                         \
	X(int, CommDestroy, (void *comm))                                                          \
	X(int, CommAbort, (void *comm))                                                            \
	X(int, CommGetAsyncError, (void *comm, int *status))                                       \
	X(int, GroupStart, (void))                                                                 \
	X(int, GroupEnd, (void))                                                                   \
	X(const char *, GetErrorString, (int status))                                              \
	X(const char *, GetLastError, (void *comm))                                                \
	X(int, AllReduce,                                                                          \
	    (const void *in, void *out, size_t count, int dtype, int reduction, void *comm,        \
	        cudaStream_t stream))                                                              \
	X(int, Reduce,                                                                             \
	    (const void *in, void *out, size_t count, int dtype, int reduction, int root,          \
	        void *comm, cudaStream_t stream))                                                  \
	X(int, ReduceScatter,                                                                      \
	    (const void *in, void *out, size_t count, int dtype, int reduction, void *comm,        \
	        cudaStream_t stream))                                                              \
	X(int, AllGather,                                                                          \
	    (const void *in, void *out, size_t count, int dtype, void *comm, cudaStream_t stream)) \
	X(int, Broadcast,                                                                          \
	    (const void *in, void *out, size_t count, int dtype, int root, void *comm,             \
	        cudaStream_t stream))                                                              \
	X(int, Send,                                                                               \
	    (const void *in, size_t count, int dtype, int peer, void *comm, cudaStream_t stream))  \
	X(int, Recv,                                                                               \
	    (void *out, size_t count, int dtype, int peer, void *comm, cudaStream_t stream))

/* Call ncclNAME() as gt_nccl->NAME(). */
struct gt_nccl_api {
#define GT_NCCL_MEMBER(result, name, arguments) result(*name) arguments;
	GT_NCCL_FUNCTIONS(GT_NCCL_MEMBER)
#undef GT_NCCL_MEMBER
};

/* The pointers are NULL until gt_nccl_open() has succeeded. */
extern const struct gt_nccl_api *const gt_nccl;

/* Open the library once, for the whole process. Any thread may call this. `version` may be NULL. */
int gt_nccl_open(int *version, struct gt_err *err);

/* Open a library and check its version. For gt_nccl_open() and tests. */
int gt_nccl_find(
    struct gt_nccl_api *out, int *version, const char *library_name, struct gt_err *err);

struct gt_nccl_version {
	char s[32];
};
/* "2.28.9" for 22809. */
struct gt_nccl_version gt_nccl_version_text(int version);

#ifdef __cplusplus
}
#endif

#endif
