/* queues.c - CUDA's streams, kept so that each has a hardware queue of its own. */
#include "kernels/cuda/runtime/queues.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct kept {
	int index;
	cudaStream_t queue;
	bool taken;
	struct kept *next;
};

/* In the order in which the streams were created. */
static struct {
	pthread_mutex_t lock;
	struct kept *first;
} cuda_queues = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock: the link to the device's first stream that is free, or the end of the list. */
static struct kept **find(int index)
{
	struct kept **at = &cuda_queues.first;

	while (*at && ((*at)->index != index || (*at)->taken))
		at = &(*at)->next;
	return at;
}

/* With the lock, so that the list has the order of creation. */
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
	at = find(index);
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
