/* ranks.h - ranks with GPUs exchange descriptions of their GPUs, and their errors. */
#ifndef GT_KERNELS_CUDA_GROUP_RANKS_H
#define GT_KERNELS_CUDA_GROUP_RANKS_H

#include <stdbool.h>

#include "kernels/cuda/cuda.h"
#include "lib/comm/group.h"

/* Functions that take a group for host memory are collective calls. Errors: those of groups. */

/* An error, or none, as bytes that ranks exchange. All ranks fail together, with the error of the
 * lowest rank that has one. */
struct gt_cuda_verdict {
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

struct gt_cuda_verdict gt_cuda_verdict_of(const struct gt_err *err);

/* Copy the error of rank `rank` to *err. v->code is not 0. */
int gt_cuda_verdict_pass(const struct gt_cuda_verdict *v, int rank, struct gt_err *err);

/* Gather `bytes` bytes from every rank into *all, in the order of ranks; free it. If one rank has
 * no memory for *all, every rank fails, so no rank waits for a missing one. *all is NULL on
 * failure. */
int gt_cuda_gather_new(
    struct gt_group *host, const void *mine, size_t bytes, void **all, struct gt_err *err);

/* Return 0 on all ranks if no rank has an error in *mine. Otherwise all ranks fail with the error
 * of the lowest rank that has one. */
int gt_cuda_agree(struct gt_group *host, const struct gt_err *mine, struct gt_err *err);

/* A rank, its process and its GPU. */
struct gt_cuda_card {
	struct gt_cuda_verdict verdict;
	int32_t index;
	char gpu[16]; /* "cuda:0" */
	char bus[32]; /* its PCI bus id, as CUDA formats it */
	/* differs between hosts, even between containers with the same host name */
	char host[128];
	char process[64]; /* id and PID namespace, because other containers may use the same ids */
};

/* Describe this rank. The verdict is a copy of *err: an error from before the call, or of the call
 * itself. */
struct gt_cuda_card gt_cuda_card_of(const struct gt_device *device, struct gt_err *err);

bool gt_cuda_card_same_host(const struct gt_cuda_card *a, const struct gt_cuda_card *b);
bool gt_cuda_card_same_gpu(const struct gt_cuda_card *a, const struct gt_cuda_card *b);
bool gt_cuda_card_same_process(const struct gt_cuda_card *a, const struct gt_cuda_card *b);

#endif
