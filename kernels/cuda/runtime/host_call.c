/* host_call.c - functions of the host that streams of GPUs call: a thread for each such stream. */
#include "kernels/cuda/runtime/host_call.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/cuda/runtime/capture.h"
#include "kernels/cuda/runtime/driver.h"
#include "kernels/cuda/runtime/pinned.h"
#include "lib/base/mem.h"
#include "lib/base/thread_pool.h"

/*
 * A call in a stream is an event and a wait for a number in pinned memory. The stream's thread
 * waits for the event, calls the function, and writes the number. cudaLaunchHostFunc() would need
 * no thread, but CUDA may make such calls of all streams one after the other: a call that waits for
 * another stream's would wait for ever.
 *
 * A GPU does not know that a call waits for another stream's work. If there are more streams than
 * queues (CUDA_DEVICE_MAX_CONNECTIONS; cmd/train/cuda_variables.c), streams share queues, and a
 * stream that waits for its number holds up those behind it in its queue. So a call waits safely
 * for work of its own rank that was queued before it; and for work that is queued later, or by
 * another rank of the same process, as long as no two of the streams share a queue. Groups of GPUs
 * and staged groups check this (group/thread_peers.c).
 *
 * CUDA takes about 1024 operations that are not done. Then the next one waits for a place, within
 * CUDA, and other threads' calls of CUDA wait for it. If calls of the host hold up the operations,
 * no place ever becomes free: the thread that makes those calls needs CUDA. So a stream takes
 * MOST_CALLS calls. The next one waits for a place here, where it holds up no other thread. A
 * staged group queues eleven operations or more for a call.
 */
enum { MOST_CALLS = 64 };

struct call {
	gt_host_fn *fn;
	void *self;
	cudaEvent_t begins; /* all work before the call is done */
	uint32_t number;
	int threads; /* OpenMP threads of the thread that queued the call */
	struct call *next;
};

struct gt_cuda_calls {
	int index; /* index of the device */
	pthread_t thread;
	pthread_mutex_t lock;       /* protects the members below, but for the numbers */
	pthread_cond_t more, fewer; /* calls have come; `unreturned` is less */
	struct call *first, *last;  /* queued */
	struct call *spare;
	int unreturned; /* calls that are queued or under way, at most MOST_CALLS */
	bool end;
	uint32_t queued;    /* number of the last call; they may wrap round */
	uint32_t *returned; /* pinned: that of the last one that is over */
};

/* ---- errors of calls ---- */

enum { DEVICES = 64 };

static struct {
	pthread_mutex_t lock; /* of `err` */
	atomic_bool failed;
	atomic_int streams;
	struct gt_err err; /* the first, while there are streams */
} call_errors[DEVICES] = { [0 ... DEVICES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static bool has_place(int index)
{
	return index >= 0 && index < DEVICES;
}

void gt_cuda_fail(int index, const struct gt_err *err)
{
	if (!has_place(index))
		return;
	pthread_mutex_lock(&call_errors[index].lock);
	if (!call_errors[index].failed)
		call_errors[index].err = *err;
	call_errors[index].failed = true;
	pthread_mutex_unlock(&call_errors[index].lock);
}

int gt_cuda_call_error(int index, struct gt_err *err)
{
	if (!has_place(index) || !call_errors[index].failed)
		return 0;
	pthread_mutex_lock(&call_errors[index].lock);
	*err = call_errors[index].err;
	pthread_mutex_unlock(&call_errors[index].lock);
	return err->code;
}

int gt_cuda_count_stream(int index, int by)
{
	int count = has_place(index) ? atomic_fetch_add(&call_errors[index].streams, by) + by : 0;

	if (has_place(index) && !count)
		call_errors[index].failed = false;
	return count;
}

/* ---- the thread ---- */

/*
 * Wait for an event by asking again and again, with pauses. cudaEventSynchronize() would keep a
 * whole processor busy. Events with cudaEventBlockingSync would not, but CUDA has little room for
 * them: on an H200, the next call of CUDA waited for a place (see above) after 56 such events were
 * recorded. It did not wait after 1000 events without this flag.
 */
static cudaError_t await(cudaEvent_t event)
{
	static const long most_ns = 200000;
	long ns = 10000;
	cudaError_t e;

	while ((e = cudaEventQuery(event)) == cudaErrorNotReady) {
		nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
		ns = ns * 5 / 4 < most_ns ? ns * 5 / 4 : most_ns;
	}
	cudaGetLastError(); /* "not ready" is no error of the next call */
	return e;
}

/*
 * Calls after a failed call are still made, because other ranks may wait for them. If the device
 * has failed, the call is not made, because the work before it will never be done. In time, where
 * the number of the call is 1:
 *
 *   stream   kernel | record begins | wait until *returned >= 1            | kernel
 *   thread            waits for begins | fn(self) | *returned = 1
 *
 * The number is stored last and with release, so the stream goes on when all writes of fn() are
 * done. It is stored after an error, too, or the stream would wait for ever.
 */
static void make_call(struct gt_cuda_calls *calls, const struct call *c)
{
	struct gt_err err = GT_ERR_INIT;
	int rc = gt_cuda_check(await(c->begins), calls->index, "cudaEventQuery", &err);

	omp_set_num_threads(c->threads);
	if (!rc)
		rc = c->fn(c->self, &err);
	if (rc)
		gt_cuda_fail(calls->index, &err);
	__atomic_store_n(calls->returned, c->number, __ATOMIC_RELEASE);
}

/* NULL: all calls are made, and there are to be no more. With the lock. */
static struct call *next_call(struct gt_cuda_calls *calls)
{
	struct call *c;

	while (!calls->first && !calls->end)
		pthread_cond_wait(&calls->more, &calls->lock);
	c = calls->first;
	if (c)
		calls->first = c->next;
	return c;
}

static void *live(void *arg)
{
	struct gt_cuda_calls *calls = arg;
	struct gt_err err = GT_ERR_INIT;
	struct call *c;

	if (gt_cuda_check(cudaSetDevice(calls->index), calls->index, "cudaSetDevice", &err))
		gt_cuda_fail(calls->index, &err);
	pthread_mutex_lock(&calls->lock);
	while ((c = next_call(calls))) {
		pthread_mutex_unlock(&calls->lock);
		make_call(calls, c);
		pthread_mutex_lock(&calls->lock);
		c->next = calls->spare;
		calls->spare = c;
		calls->unreturned--;
		pthread_cond_signal(&calls->fewer);
	}
	pthread_mutex_unlock(&calls->lock);
	return NULL;
}

/* ---- its life ---- */

static void free_all(struct gt_cuda_calls *calls)
{
	while (calls->spare) {
		struct call *c = calls->spare;

		calls->spare = c->next;
		cudaEventDestroy(c->begins);
		free(c);
	}
	cudaGetLastError();
	gt_cuda_pinned_give(calls->index, calls->returned, sizeof(*calls->returned));
	pthread_cond_destroy(&calls->fewer);
	pthread_cond_destroy(&calls->more);
	pthread_mutex_destroy(&calls->lock);
	free(calls);
}

static int start_host_calls(struct gt_stream *stream, struct gt_err *err)
{
	struct gt_cuda_calls *calls = gt_calloc(1, sizeof(*calls), err);
	void *p = NULL;
	int rc;

	if (!calls)
		return GT_ENOMEM;
	calls->index = stream->index;
	pthread_mutex_init(&calls->lock, NULL);
	pthread_cond_init(&calls->more, NULL);
	pthread_cond_init(&calls->fewer, NULL);
	rc = gt_cuda_check(gt_cuda_pinned_take(calls->index, sizeof(*calls->returned), &p),
	    calls->index, "cudaMallocHost", err);
	calls->returned = p;
	if (!rc) {
		*calls->returned = 0;
		rc = gt_thread_start(&calls->thread, live, calls, err);
	}
	if (rc)
		free_all(calls);
	else
		stream->calls = calls;
	return rc;
}

void gt_cuda_end_calls(struct gt_stream *stream)
{
	struct gt_cuda_calls *calls = stream->calls;

	if (!calls)
		return;
	pthread_mutex_lock(&calls->lock);
	calls->end = true;
	pthread_cond_signal(&calls->more);
	pthread_mutex_unlock(&calls->lock);
	pthread_join(calls->thread, NULL);
	free_all(calls);
	stream->calls = NULL;
}

/* ---- a call ---- */

int gt_cuda_find_wait_value(gt_cuda_wait_value_fn **out, int index, struct gt_err *err)
{
	void *fn;
	int rc = gt_cuda_driver_function(&fn, "cuStreamWaitValue32", index, err);

	memcpy(out, &fn, sizeof(fn));
	return rc;
}

/* A call with an event of its own, once there is a place for it. One thread queues a stream's
 * work, so nobody takes the place before hand_over(). */
static struct call *take_call(struct gt_cuda_calls *calls, struct gt_err *err)
{
	struct call *c;

	pthread_mutex_lock(&calls->lock);
	while (calls->unreturned == MOST_CALLS)
		pthread_cond_wait(&calls->fewer, &calls->lock);
	c = calls->spare;
	if (c)
		calls->spare = c->next;
	pthread_mutex_unlock(&calls->lock);
	if (c)
		return c;
	c = gt_calloc(1, sizeof(*c), err);
	if (c && gt_cuda_check(cudaEventCreateWithFlags(&c->begins, cudaEventDisableTiming),
	             calls->index, "cudaEventCreate", err)) {
		free(c);
		return NULL;
	}
	return c;
}

/* The call is made, or with `made` false goes back. */
static void hand_over(struct gt_cuda_calls *calls, struct call *c, bool made)
{
	pthread_mutex_lock(&calls->lock);
	c->next = made ? NULL : calls->spare;
	if (!made)
		calls->spare = c;
	else if (calls->first)
		calls->last->next = c;
	else
		calls->first = c;
	if (made) {
		calls->unreturned++;
		calls->last = c;
		calls->queued = c->number;
	}
	pthread_cond_signal(&calls->more);
	pthread_mutex_unlock(&calls->lock);
}

/* The driver's results have the numbers of the run-time's. Addresses of pinned memory are the same
 * on the GPU. */
static int queue_call(
    struct gt_stream *stream, struct call *c, gt_cuda_wait_value_fn *wait_value, struct gt_err *err)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)stream->calls->returned;
	int rc = gt_cuda_check(
	    cudaEventRecord(c->begins, stream->queue), stream->index, "cudaEventRecord", err);

	if (rc)
		return rc;
	return gt_cuda_check(
	    (cudaError_t)wait_value(stream->queue, at, c->number, CU_STREAM_WAIT_VALUE_GEQ),
	    stream->index, "cuStreamWaitValue32", err);
}

int gt_cuda_host_call(struct gt_stream *stream, gt_host_fn *fn, void *self, void *memory,
    size_t bytes, struct gt_err *err)
{
	gt_cuda_wait_value_fn *wait_value;
	struct call *c;
	int rc = gt_cuda_call_error(stream->index, err);

	if (!rc)
		rc = gt_cuda_check_not_captured(stream, "calls of the host", err);
	(void)memory; /* pinned: both sides see it at all times */
	(void)bytes;
	if (!rc && !has_place(stream->index))
		rc = gt_err_set(err, GT_EDEVICE, "cuda:%d: at most %d GPUs are supported",
		    stream->index, DEVICES);
	if (!rc)
		rc = gt_cuda_find_wait_value(&wait_value, stream->index, err);
	if (!rc && !stream->calls)
		rc = start_host_calls(stream, err);
	if (rc)
		return rc;
	c = take_call(stream->calls, err);
	if (!c)
		return err->code;
	c->fn = fn;
	c->self = self;
	c->number = stream->calls->queued + 1;
	c->threads = omp_get_max_threads();
	/*
	 * The stream's commands come first: the thread would find an event that was not recorded
	 * to be over.
	 */
	rc = queue_call(stream, c, wait_value, err);
	hand_over(stream->calls, c, !rc);
	return rc;
}
