/* ranks.h - ranks with GPUs tell each other of their GPUs and of their errors. */
#ifndef GT_KERNELS_CUDA_GROUP_RANKS_H
#define GT_KERNELS_CUDA_GROUP_RANKS_H

#include <stdbool.h>

#include "kernels/cuda/cuda.h"
#include "lib/comm/group.h"

/* All functions but those that are about one rank are collective calls of a group for host memory.
 * Errors: those of groups. */

/* An error, or none, as bytes that ranks exchange. All ranks fail together: with the error of the
 * first that has one. */
struct gt_cuda_verdict {
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

struct gt_cuda_verdict gt_cuda_verdict_of(const struct gt_err *err);

/* The error that rank `rank` has, which is not 0, to *err. */
int gt_cuda_verdict_pass(const struct gt_cuda_verdict *v, int rank, struct gt_err *err);

/* The same of every rank, in *all, the caller's to free. A rank that has no memory for it tells the
 * others, and all fail: nobody waits for a rank that does not come. *all is NULL on failure. */
int gt_cuda_gather_new(
    struct gt_group *host, const void *mine, size_t bytes, void **all, struct gt_err *err);

/* All ranks go on, or fail with the error of the first that has one in *mine. */
int gt_cuda_agree(struct gt_group *host, const struct gt_err *mine, struct gt_err *err);

/* A rank, its process and its GPU. */
struct gt_cuda_card {
	struct gt_cuda_verdict verdict;
	int32_t index;
	char gpu[16];     /* "cuda:0" */
	char bus[32];     /* where it is in its host */
	char host[128];   /* also of containers with the same name */
	char process[64]; /* id and its namespace, as other containers may use the same ids */
};

/* The verdict is that of *err, which may have an error already, and is for the caller. */
struct gt_cuda_card gt_cuda_card_of(const struct gt_device *device, struct gt_err *err);

bool gt_cuda_card_same_host(const struct gt_cuda_card *a, const struct gt_cuda_card *b);
bool gt_cuda_card_same_gpu(const struct gt_cuda_card *a, const struct gt_cuda_card *b);
bool gt_cuda_card_same_process(const struct gt_cuda_card *a, const struct gt_cuda_card *b);

#endif
