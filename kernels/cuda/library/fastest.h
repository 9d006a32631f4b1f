/* fastest.h - measure which algorithm for an operation is fastest, and remember the result. */
#ifndef GT_KERNELS_CUDA_LIBRARY_FASTEST_H
#define GT_KERNELS_CUDA_LIBRARY_FASTEST_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/library/choices.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An operation on the current device of the calling thread, and `count` algorithms that compute it.
 * Preferred algorithms come first: a later algorithm is chosen only if it is more than 2% faster
 * than the best one before it. The functions below are called with `self` as their first
 * argument:
 *
 *   prepare   Set *bytes to the device memory that the measurement needs.
 *   place     Use `memory`, which has the requested size, for the measurement. It has the
 *             alignment of device memory. If `numbers` is set, the memory contains random bits,
 *             the same for every type: read as bfloat16 or float32, their absolute values are 0.5
 *             to 1; as float16, 1.75 to 1.88; as float64, 2^-15 to 2^-7. If `numbers` is not set,
 *             all bytes are 0. With zeros, a GPU draws less power and runs at a higher clock than
 *             with the data of a real model, and the measured times are too short.
 *   queue     Queue the operation with algorithm i on the stream. If the first call for algorithm
 *             i fails, the algorithm is not used.
 *   verify    Optional, may be NULL. Called once, after the first run of algorithm i: run the
 *             algorithm on data that verify() chooses, and set *right to false if the result is
 *             wrong. *right is true before the call. An algorithm with a wrong result is not used.
 *             Algorithms are verified in the order of their indices.
 *   finish    Optional, may be NULL. Called when all queued work is done: stop using the stream,
 *             which is destroyed after this call.
 *
 * If the choice for this operation is already known, none of these functions is called.
 */
struct gt_candidates {
	const char *what;    /* text for error messages, for example "timing a product" */
	const char *library; /* library of the algorithms, for example "cublaslt" */
	/* version of the library; choices of each version are in a separate file (choices.h) */
	size_t version;
	const char *key;                 /* key of the operation (choices.h) */
	int count;                       /* number of algorithms */
	const struct gt_choice *choices; /* [count]: choices[i] identifies algorithm i */
	bool numbers;                    /* time with random numbers, not with zeros (`place`) */
	bool untimed;                    /* choose the first algorithm that works, without timing */
	int (*prepare)(void *self, size_t *bytes, struct gt_err *err);
	int (*place)(void *self, char *memory, struct gt_err *err);
	int (*queue)(void *self, int i, struct gt_stream *stream, struct gt_err *err);
	int (*verify)(void *self, int i, struct gt_stream *stream, bool *right, struct gt_err *err);
	void (*finish)(void *self);
	void *self;
};

/*
 * Set *best to the index of the fastest algorithm, or to -1 if no algorithm works. The choice is
 * remembered (choices.h). A remembered choice is used only if it is one of c->choices. If there is
 * not enough device memory for the measurement, *best is 0, and this choice is not remembered.
 *
 * Errors: GT_EDEVICE; GT_ENOMEM; the errors of prepare(), place() and verify(); the errors of
 * queue(), except in the first call for an algorithm.
 */
int gt_fastest(const struct gt_candidates *c, int *best, struct gt_err *err);

/* Return `bytes`, rounded up to a multiple of GT_DEVICE_ALIGN, the alignment of device memory. */
size_t gt_aligned_bytes(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
