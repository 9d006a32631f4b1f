/* ranks.h - exchange errors and descriptions of GPUs between the ranks of a group. */
#ifndef GT_KERNELS_CUDA_GROUP_RANKS_H
#define GT_KERNELS_CUDA_GROUP_RANKS_H

#include <stdbool.h>

#include "kernels/cuda/cuda.h"
#include "lib/comm/group.h"

/* Functions with an argument `host`, a group for host memory, are collective calls. */

/* The error of a rank, or code 0, as bytes for other ranks. */
struct gt_cuda_rank_error {
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

struct gt_cuda_rank_error gt_cuda_rank_error_of(const struct gt_err *err);

/* Copy the error *v of rank `rank`, whose code is not 0, to *err on rank `mine`, as a consequence
 * if they differ (gt_err_follow()). Return err->code. */
int gt_cuda_rank_error_pass(
    const struct gt_cuda_rank_error *v, int rank, int mine, struct gt_err *err);

/* Gather `bytes` bytes of every rank into a new array, which the caller frees. All ranks fail
 * together; *all is NULL then. */
int gt_cuda_gather_new(
    struct gt_group *host, const void *mine, size_t bytes, void **all, struct gt_err *err);

/* Return 0 on all ranks, or on all ranks the error of the lowest rank that has one in *mine. */
int gt_cuda_agree(struct gt_group *host, const struct gt_err *mine, struct gt_err *err);

/* A rank's host, process and GPU. */
struct gt_cuda_rank_info {
	struct gt_cuda_rank_error error; /* the rank's error, if it has failed */
	int32_t index;                   /* CUDA's index of the GPU */
	char gpu[16];                    /* "cuda:0" */
	char bus[32];                    /* PCI bus id */
	/* identity of the GPU or of its MIG instance */
	char identity[GT_DEVICE_IDENTITY_SIZE];
	/* host name and boot id */
	char host[128];
	/* process id and PID namespace */
	char process[64];
};

/* Describe this rank. Its error is the error in *err, be it from before or from this call. */
struct gt_cuda_rank_info gt_cuda_rank_info_of(const struct gt_device *device, struct gt_err *err);

bool gt_cuda_same_host(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b);
/* the same device: a GPU, or an instance of one */
bool gt_cuda_same_gpu(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b);
/* the same GPU, or instances of it */
bool gt_cuda_same_bus(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b);
bool gt_cuda_same_process(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b);

#endif
