/* fastest.h - the fastest of several ways to do a piece of work: measured once, then remembered. */
#ifndef GT_KERNELS_CUDA_FASTEST_H
#define GT_KERNELS_CUDA_FASTEST_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/choices.h"
#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A piece of work on the calling thread's current device, and `count` ways to do it in the order of
 * preference, of which each has a choice that names it. The functions get `self`.
 *
 *   prepare   say how many bytes of device memory it takes to measure
 *   place     take this memory, aligned as device memory and zeroed: work on zeros draws less
 *             power and may be faster than a model's, but the same way wins
 *   queue     queue the work, done in way i; an error rules this way out
 *
 * None of them is called where an earlier choice is known.
 */
struct gt_contest {
	const char *what;    /* for errors: "timing a product" */
	const char *library; /* "cublaslt": choices of each library and version have a file */
	size_t version;
	const char *key; /* of the work: choices.h */
	int count;
	const struct gt_choice *choices; /* [count] */
	bool untimed;                    /* the first way that can be done, not the fastest */
	int (*prepare)(void *self, size_t *bytes, struct gt_err *err);
	int (*place)(void *self, char *memory, struct gt_err *err);
	int (*queue)(void *self, int i, cudaStream_t stream, struct gt_err *err);
	void *self;
};

/*
 * The number of the fastest way, or -1 where none can be done. It is remembered (choices.h), and
 * taken from there if it is offered again. Where there is no memory to measure in, it is 0.
 *
 * Errors: GT_EDEVICE, and those of prepare() and place().
 */
int gt_fastest(const struct gt_contest *c, int *best, struct gt_err *err);

/* Bytes, rounded up so that other device memory may follow. */
size_t gt_aligned_bytes(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
