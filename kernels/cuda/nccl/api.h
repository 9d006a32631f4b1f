/* api.h - NCCL's functions, from a library that is opened when it is needed. */
#ifndef GT_KERNELS_CUDA_NCCL_API_H
#define GT_KERNELS_CUDA_NCCL_API_H

#include <stddef.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The declarations below are gtrain's own, as in cublaslt.h. So this file needs no header of NCCL,
 * and one program runs with all versions from GT_NCCL_VERSION on. If NCCL's header is installed,
 * abi.cu compares the declarations with it. Communicators are opaque pointers, enumerations are
 * ints. Source: NVIDIA, "NCCL API" (docs.nvidia.com/deeplearning/nccl/user-guide).
 */

enum gt_nccl_number {
	/* 2.14, the first version with communicators whose calls do not block */
	GT_NCCL_VERSION = 21400,
	/* results */
	GT_NCCL_SUCCESS = 0,
	GT_NCCL_INVALID_ARGUMENT = 4,
	GT_NCCL_INVALID_USAGE = 5,
	GT_NCCL_REMOTE_ERROR = 6,
	GT_NCCL_IN_PROGRESS = 7,
	/* types of elements */
	GT_NCCL_U8 = 1,
	GT_NCCL_I32 = 2,
	GT_NCCL_I64 = 4,
	GT_NCCL_F16 = 6,
	GT_NCCL_F32 = 7,
	GT_NCCL_F64 = 8,
	GT_NCCL_BF16 = 9,
	/* reductions */
	GT_NCCL_SUM = 0,
	GT_NCCL_MAX = 2,
	GT_NCCL_AVG = 4
};

struct gt_nccl_id {
	char bytes[128];
};

/* ncclConfig_t of version 2.14. Newer versions treat the members that they have added as not
 * set. */
struct gt_nccl_config {
	size_t size;
	unsigned magic; /* gt_nccl_magic */
	unsigned version;
	int blocking;
};

static const unsigned gt_nccl_magic = 0xcafebeef;

/* The functions that are used, without their nccl: X(result, name, arguments). */
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

/* All NULL before gt_nccl_open() has succeeded, all there afterwards. */
extern const struct gt_nccl_api *const gt_nccl;

/*
 * Open the library, unless it is open; it stays open. Any thread may call this, any number of
 * times. *version may be NULL.
 *
 * Errors: GT_EDEVICE where the library or one of its functions is missing, or it is too old.
 */
int gt_nccl_open(int *version, struct gt_err *err);

/* For gt_nccl_open() and its test: the functions and the version of this library. */
int gt_nccl_find(
    struct gt_nccl_api *out, int *version, const char *library_name, struct gt_err *err);

/* "2.28.9" */
struct gt_nccl_version {
	char s[32];
};
struct gt_nccl_version gt_nccl_version_text(int version);

#ifdef __cplusplus
}
#endif

#endif
