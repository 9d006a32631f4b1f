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

/* An operation, and algorithms for it. Preferred ones come first: a later one must be more than 2%
 * faster. fastest.c describes the functions. */
struct gt_candidates {
	const char *what;    /* text of errors: "timing a product" */
	const char *library; /* the algorithms' library, for example "cublaslt" */
	/* each version has a file of choices (choices.h) */
	size_t version;
	const char *key; /* see choices.h */
	int count;
	const struct gt_choice *choices; /* [count]; choices[i] identifies algorithm i */
	bool numbers;                    /* time with random numbers instead of zeros */
	bool untimed;                    /* take the first that works */
	int (*prepare)(void *self, size_t *bytes, struct gt_err *err);
	int (*place)(void *self, char *memory, struct gt_err *err);
	int (*queue)(void *self, int i, struct gt_stream *stream, struct gt_err *err);
	int (*verify)(void *self, int i, struct gt_stream *stream, bool *right, struct gt_err *err);
	void (*finish)(void *self);
	void *self;
};

/* Set *best to the index of the fastest algorithm, or to -1 if none works, and remember it. Without
 * memory to measure, *best is 0. */
int gt_fastest(const struct gt_candidates *c, int *best, struct gt_err *err);

/* Round up to a multiple of GT_DEVICE_ALIGN. */
size_t gt_aligned_bytes(size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
