/* pinned.c - a cache of pinned host memory, because freeing it may wait for the device. */
#include "kernels/cuda/runtime/pinned.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * Memory that is given back is not freed at once. It is kept for the next caller that asks for the
 * same number of bytes on the same device. It is freed after the last stream of the device is
 * freed.
 *
 * The reason is a deadlock: cudaFreeHost() may wait for all streams of the device. A stream may
 * wait for a host call (host_call.h), and the host call may wait for another rank, which can be a
 * thread of the same process. If that thread is inside cudaFreeHost(), the thread waits for the
 * stream, and the stream waits for the thread.
 *
 * `index` is the index of the device. All functions may be called from any thread.
 */

struct block {
	int index;
	void *p;
	size_t bytes;
	struct block *next;
};

/* One list for all devices. It is short: plans allocate a few blocks each, and mostly the same
 * sizes again, so a search by exact size finds one. */
static struct {
	pthread_mutex_t lock;
	struct block *first;
} pinned_blocks = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Take the first block of a device that is of this size, or of any (0), out of the list. */
static struct block *find_pinned_block(int index, size_t bytes)
{
	struct block **at, *found;

	pthread_mutex_lock(&pinned_blocks.lock);
	at = &pinned_blocks.first;
	while (*at && ((*at)->index != index || (bytes && (*at)->bytes != bytes)))
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&pinned_blocks.lock);
	return found;
}

cudaError_t gt_cuda_pinned_take(int index, size_t bytes, void **out)
{
	struct block *b;
	cudaError_t e;

	bytes = bytes ? bytes : 1;
	b = find_pinned_block(index, bytes);
	if (b) {
		*out = b->p;
		free(b);
		return cudaSuccess;
	}
	/* A block is made outside the lock: the driver may take milliseconds to pin the pages. */
	e = cudaMallocHost(out, bytes);
	if (e != cudaSuccess)
		*out = NULL;
	return e;
}

/* CUDA reports an earlier error of a kernel here, too. The block is freed in any case. */
static void free_host(void *p)
{
	if (cudaFreeHost(p) != cudaSuccess)
		/* clear the error of an earlier kernel, which later calls report, too */
		cudaGetLastError();
}

void gt_cuda_pinned_give(int index, void *p, size_t bytes)
{
	struct block *b = p ? malloc(sizeof(*b)) : NULL;

	/* Without memory for the list's entry the block is freed at once. That may wait for
	 * streams, which is better than losing the block. */
	if (!b) {
		if (p)
			free_host(p);
		return;
	}
	*b = (struct block){ .index = index, .p = p, .bytes = bytes ? bytes : 1 };
	pthread_mutex_lock(&pinned_blocks.lock);
	b->next = pinned_blocks.first;
	pinned_blocks.first = b;
	pthread_mutex_unlock(&pinned_blocks.lock);
}

void gt_cuda_pinned_free_all(int index)
{
	struct block *b;

	while ((b = find_pinned_block(index, 0))) {
		free_host(b->p);
		free(b);
	}
}
