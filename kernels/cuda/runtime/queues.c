/* queues.c - CUDA's streams, kept so that each has a hardware queue of its own. */
#include "kernels/cuda/runtime/queues.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * A GPU has 1 to 32 hardware queues for a process (CUDA C++ Programming Guide, "CUDA Environment
 * Variables", CUDA_DEVICE_MAX_CONNECTIONS). NVIDIA does not document which queue a stream gets.
 * On an H200, each new stream seemed to get the next one in turn (see below).
 * A stream that waits for another rank holds up all later work of its hardware queue. So two
 * streams of ranks that are threads on one GPU must not have the same queue.
 *
 * Counting the streams that are in use is not enough, if streams are freed and others created.
 * Example with 4 hardware queues; the letters are streams:
 *
 *   create A B C      A in queue 0, B in 1, C in 2
 *   free B C          A in queue 0
 *   create D E F      D in queue 3, E in 0, F in 1: E and A share a queue
 *
 * So a stream that is given back is kept until the process ends, and taken again before a new one
 * is created: D and E are the old B and C, and F is the first one that CUDA puts into queue 3. The
 * default stream is never freed either, and keeps its queue. When streams were not kept, ranks on
 * an H200 waited for each other until their timeout (tests/unit/test_zero.c).
 *
 * `index` is the index of the device. All functions may be called from any thread.
 */

struct kept {
	int index;
	cudaStream_t queue;
	bool taken;
	struct kept *next;
};

/* All streams, in the order in which they were created. */
static struct {
	pthread_mutex_t lock;
	struct kept *first;
} cuda_queues = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Return the link to the device's first free stream, or the end of the list. The caller holds the
 * lock. */
static struct kept **find_free_stream(int index)
{
	struct kept **at = &cuda_queues.first;

	while (*at && ((*at)->index != index || (*at)->taken))
		at = &(*at)->next;
	return at;
}

/* Create a stream at the end of the list. The caller holds the lock, so that the list has the order
 * of creation. */
static cudaError_t create(struct kept **end, int index)
{
	struct kept *k = malloc(sizeof(*k));
	cudaError_t e;

	if (!k)
		return cudaErrorMemoryAllocation;
	*k = (struct kept){ .index = index };
	e = cudaStreamCreateWithFlags(&k->queue, cudaStreamNonBlocking);
	if (e == cudaSuccess)
		*end = k;
	else
		free(k);
	return e;
}

cudaError_t gt_cuda_queue_take(int index, cudaStream_t *out)
{
	struct kept **at;
	cudaError_t e = cudaSuccess;

	*out = NULL;
	pthread_mutex_lock(&cuda_queues.lock);
	at = find_free_stream(index);
	if (!*at)
		e = create(at, index);
	if (*at) {
		(*at)->taken = true;
		*out = (*at)->queue;
	}
	pthread_mutex_unlock(&cuda_queues.lock);
	return e;
}

/* Whether a stream has no work left. The work of a device that has failed never ends. */
static bool is_idle(cudaStream_t queue)
{
	bool idle = cudaStreamQuery(queue) == cudaSuccess;

	cudaGetLastError();
	return idle;
}

void gt_cuda_queue_give(int index, cudaStream_t queue)
{
	struct kept **at = &cuda_queues.first, *k;
	bool idle = is_idle(queue);

	pthread_mutex_lock(&cuda_queues.lock);
	while (*at && ((*at)->index != index || (*at)->queue != queue))
		at = &(*at)->next;
	k = *at;
	if (k && idle) {
		k->taken = false;
	} else if (k) {
		*at = k->next;
		cudaStreamDestroy(queue);
		cudaGetLastError();
		free(k);
	}
	pthread_mutex_unlock(&cuda_queues.lock);
}
