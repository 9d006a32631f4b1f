/* fastest.h - measure which algorithm for an operation is fastest, and remember the result. */
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
 * An operation on the current device of the calling thread, and `count` algorithms that compute it.
 * Preferred algorithms come first: a later algorithm is chosen only if it is more than 2% faster
 * than the best one before it. The functions below are called with `self` as their first
 * argument:
 *
 *   prepare   Set *bytes to the device memory that the measurement needs.
 *   place     Use `memory`, which has the requested size, for the measurement. It has the
 *             alignment of device memory. If `numbers` is set, the memory already has random
 *             numbers: near 1 in bfloat16, float16 and float32, and 2^-15 to 2^-7 in float64.
 *             Otherwise all bytes are 0. With zeros a GPU draws less power and runs at a higher
 *             clock than with the data of a real model, so that the measured times are too short.
 *   queue     Queue the operation with algorithm i on the stream. If this fails the first time, the
 *             algorithm is not used.
 *   verify    Optional (NULL): called once after the first run of algorithm i. Run the algorithm on
 *             data that verify() chooses, and set *right to false if the result is wrong; *right is
 *             true before the call. A wrong algorithm is not used. Algorithms are verified in the
 *             order of their indices.
 *
 *   finish    Optional (NULL): forget the stream, which is destroyed after this call. All queued
 *             work is done.
 *
 * If the choice for this operation is already known, none of these functions is called.
 */
struct gt_candidates {
	const char *what;    /* text for error messages, for example "timing a product" */
	const char *library; /* library of the algorithms, for example "cublaslt" */
	size_t version;  /* version of the library; each has its own file of choices (choices.h) */
	const char *key; /* key of the operation (choices.h) */
	int count;       /* number of algorithms */
	const struct gt_choice *choices; /* [count]: choices[i] identifies algorithm i */
	bool numbers;                    /* time with numbers, not with zeros: see place */
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
 * not enough device memory for the measurement, *best is 0, and this is not remembered.
 *
 * Errors: GT_EDEVICE; the errors of prepare() and place(); errors of queue() after its first
 * success; those of verify().
 */
int gt_fastest(const struct gt_candidates *c, int *best, struct gt_err *err);

/* Return `bytes`, rounded up to a multiple of GT_DEVICE_ALIGN, the alignment of device memory. */
size_t gt_aligned_bytes(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
