/* planted.h - kernels that are wrong in a known way, and one that uses everything rightly. */
#ifndef GT_TESTS_CUDASIM_PLANTED_H
#define GT_TESTS_CUDASIM_PLANTED_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PLANTED_THREADS = 64, PLANTED_BLOCKS = 3, PLANTED_COUNT = PLANTED_THREADS * PLANTED_BLOCKS };

/* Each works on y[PLANTED_COUNT] with a grid of PLANTED_BLOCKS blocks. */
enum planted {
	PLANTED_NOTHING,           /* y[i] = the sum of the indices of block and lanes, see there */
	PLANTED_MISSING_BARRIER,   /* y has NaN in it */
	PLANTED_DIVERGENT_BARRIER, /* half of the threads at another line */
	PLANTED_ABSENT_LANE,       /* a shuffle that waits for a lane that ended */
	PLANTED_OWN_MASK,          /* a lane calls with a mask that it is not in */
	PLANTED_OTHER_MASK,        /* a shuffle from a lane that is not in the mask */
	PLANTED_RACE,              /* two threads write one element */
	PLANTED_BLOCK_RACE,        /* so do two blocks */
	PLANTED_SHARED,            /* beyond the end of shared memory */
	PLANTED_DYNAMIC,           /* of dynamic shared memory */
	PLANTED_GLOBAL,            /* of y */
	PLANTED_READ               /* reads beyond the end of y */
};

/* Whether the thread sanitizer looks at these kernels, and not at the rest of the program alone. It
 * reports two accesses of threads that no barrier orders, of one block or of two in a row. */
bool planted_has_tsan(void);

/* Queue one on a stream. */
void planted_launch(enum planted which, float *y, cudaStream_t stream);

/* y[i] += x[i], count a multiple of PLANTED_THREADS. */
void planted_add(float *y, const float *x, int count, cudaStream_t stream);

/* Each thread i of the grid reports a target 100 + i of row i as a fault; the classes are 10. */
struct gt_stream;
void planted_fault(struct gt_stream *stream);

/* A kernel that nothing is wrong with, of so many threads and dynamic shared memory. */
void planted_configure(unsigned threads, size_t dynamic_bytes, float *y);

/* Allow that kernel so much dynamic shared memory. */
cudaError_t planted_allow(int bytes);

#ifdef __cplusplus
}
#endif

#endif
