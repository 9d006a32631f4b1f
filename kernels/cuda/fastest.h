/* fastest.h - measure once which way to do a piece of work is fastest, and remember it. */
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
 * A piece of work on the current device of the calling thread, and `count` ways to do it, the
 * preferred first. choices[i] names way i. The functions below get `self`.
 *
 *   prepare   set *bytes to the device memory that the measurement needs
 *   place     take this memory, aligned as device memory and zeroed: work on zeros draws less
 *             power and may be faster than a model's, but the same way wins
 *   queue     queue the work, done in way i; an error rules this way out
 *
 * If an earlier choice is known, none of the functions is called.
 */
struct gt_contest {
	const char *what;    /* for errors: "timing a product" */
	const char *library; /* "cublaslt": choices of each library and version have a file */
	size_t version;
	const char *key; /* key of the work in choices.h */
	int count;
	const struct gt_choice *choices; /* [count] */
	bool untimed;                    /* take the first way that works; do not measure */
	int (*prepare)(void *self, size_t *bytes, struct gt_err *err);
	int (*place)(void *self, char *memory, struct gt_err *err);
	int (*queue)(void *self, int i, cudaStream_t stream, struct gt_err *err);
	void *self;
};

/*
 * Set *best to the number of the fastest way, or -1 if no way works. The result is remembered
 * (choices.h), and used again if the same way is still offered. If there is no memory for the
 * measurement, *best is 0.
 *
 * Errors: GT_EDEVICE, and those of prepare() and place().
 */
int gt_fastest(const struct gt_contest *c, int *best, struct gt_err *err);

/* Round bytes up to the alignment of device memory. */
size_t gt_aligned_bytes(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
