/* queues.c - CUDA's streams, kept so that each has a hardware queue of its own. */
#include "kernels/cuda/queues.h"

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
} queues = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock: the link to the device's first stream that is free, or the end of the list. */
static struct kept **find(int index)
{
	struct kept **at = &queues.first;

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
	pthread_mutex_lock(&queues.lock);
	at = find(index);
	if (!*at)
		e = create(at, index);
	if (*at) {
		(*at)->taken = true;
		*out = (*at)->queue;
	}
	pthread_mutex_unlock(&queues.lock);
	return e;
}

void gt_cuda_queue_give(int index, cudaStream_t queue)
{
	pthread_mutex_lock(&queues.lock);
	for (struct kept *k = queues.first; k; k = k->next)
		if (k->index == index && k->queue == queue)
			k->taken = false;
	pthread_mutex_unlock(&queues.lock);
}

void gt_cuda_queue_free_all(int index)
{
	struct kept **at;

	pthread_mutex_lock(&queues.lock);
	while (*(at = find(index))) {
		struct kept *k = *at;

		*at = k->next;
		if (cudaStreamDestroy(k->queue) != cudaSuccess)
			cudaGetLastError(); /* of a kernel before, which later calls report, too */
		free(k);
	}
	pthread_mutex_unlock(&queues.lock);
}
