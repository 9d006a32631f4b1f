/* ranks.h - exchange errors and descriptions of GPUs between the ranks of a group. */
#ifndef GT_KERNELS_CUDA_GROUP_RANKS_H
#define GT_KERNELS_CUDA_GROUP_RANKS_H

#include <stdbool.h>

#include "kernels/cuda/cuda.h"
#include "lib/comm/group.h"

/* Some functions have an argument `host`: the group with which the ranks exchange data in host
 * memory (lib/comm/group.h). Such functions are collective calls: all ranks of the group must call
 * them. Their errors are those of lib/comm/group.h. */

/* The result of an operation on one rank: an error, or code 0 for success. Ranks exchange this
 * struct as bytes. */
struct gt_cuda_verdict {
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

/* Convert *err to a verdict. */
struct gt_cuda_verdict gt_cuda_verdict_of(const struct gt_err *err);

/* Copy the error *v of rank `rank` to *err on rank `mine`. v->code must not be 0. If the two ranks
 * differ, the text gets the prefix "rank N", and gt_err_follow() marks the error as a consequence
 * of the error of another rank. Return err->code. */
int gt_cuda_verdict_pass(const struct gt_cuda_verdict *v, int rank, int mine, struct gt_err *err);

/* Gather `bytes` bytes from every rank, in the order of ranks, into a new array *all. The caller
 * frees *all. On failure *all is NULL. If one rank cannot allocate the array, all ranks return
 * GT_ENOMEM, and none of them waits for that rank. The other ranks mark their error with
 * gt_err_follow(). */
int gt_cuda_gather_new(
    struct gt_group *host, const void *mine, size_t bytes, void **all, struct gt_err *err);

/* Return 0 on all ranks if no rank has an error in *mine. Otherwise all ranks fail with the error
 * of the lowest rank that has an error, and the other ranks mark this error with
 * gt_err_follow(). */
int gt_cuda_agree(struct gt_group *host, const struct gt_err *mine, struct gt_err *err);

/* A description of a rank: its host, its process and its GPU. */
struct gt_cuda_card {
	struct gt_cuda_verdict verdict; /* the rank's error, if it has failed */
	int32_t index;                  /* CUDA's index of the GPU in the rank's process */
	char gpu[16];                   /* device name of the GPU: "cuda:0" */
	char bus[32];                   /* PCI bus id of the GPU, as CUDA formats it */
	/* identity of the device, which is the GPU or a part of it: an instance (MIG) */
	char identity[GT_DEVICE_IDENTITY_SIZE];
	/* host name and boot id; two hosts with the same host name have different boot ids */
	char host[128];
	/* process id and PID namespace; processes in two containers may have the same process id */
	char process[64];
};

/* Return a description of this rank. If *err already holds an error when this is called, the
 * verdict is that error. If gt_cuda_card_of() itself fails, it sets *err, and the verdict is the
 * new error. */
struct gt_cuda_card gt_cuda_card_of(const struct gt_device *device, struct gt_err *err);

bool gt_cuda_card_same_host(const struct gt_cuda_card *a, const struct gt_cuda_card *b);
/* Whether the two ranks compute on the same device: a GPU, or an instance of one. */
bool gt_cuda_card_same_gpu(const struct gt_cuda_card *a, const struct gt_cuda_card *b);
/* Whether their devices have the same PCI bus id: the same device, or two instances of a GPU. */
bool gt_cuda_card_same_bus(const struct gt_cuda_card *a, const struct gt_cuda_card *b);
bool gt_cuda_card_same_process(const struct gt_cuda_card *a, const struct gt_cuda_card *b);

#endif
