/* backend.c - GPUs as a backend: memory, streams, events and copies over CUDA's run-time. */
#include "kernels/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/core/last_block.h"
#include "kernels/cuda/group/thread_peers.h"
#include "kernels/cuda/runtime/capture.h"
#include "kernels/cuda/runtime/driver.h"
#include "kernels/cuda/runtime/host_call.h"
#include "kernels/cuda/runtime/pinned.h"
#include "kernels/cuda/runtime/queues.h"
#include "lib/base/mem.h"
#include "lib/base/thread_pool.h"
#include "lib/device/holders.h"
#include "lib/device/probe.h"

const int gt_cuda_toolkit = CUDART_VERSION;
const int gt_cuda_oldest_gpu = GT_CUDA_OLDEST_GPU;

struct gt_event {
	cudaEvent_t event;
	int index;
};

/* The run-time library is in the binary, so it may be newer than the driver. It returns the same
 * error if it finds no driver at all. */
static int set_old_driver(int index, const char *what, struct gt_err *err)
{
	const char *driver = gt_cuda_oldest_driver(CUDART_VERSION);
	int version = 0;

	cudaDriverGetVersion(&version);
	if (version)
		gt_err_set(err, GT_EDEVICE,
		    "cuda:%d: %s: the driver runs CUDA up to %d.%d, and this build needs %d.0",
		    index, what, version / 1000, version % 1000 / 10, CUDART_VERSION / 1000);
	else
		gt_err_set(err, GT_EDEVICE, "cuda:%d: %s: there is no NVIDIA driver", index, what);
	if (version && driver)
		return gt_err_hint(err,
		    "install driver %s or later, or build gtrain with a toolkit of CUDA %d", driver,
		    version / 1000);
	return gt_err_hint(err, "'gtrain probe' shows the state of the driver");
}

int gt_cuda_check(cudaError_t e, int index, const char *what, struct gt_err *err)
{
	if (e == cudaSuccess)
		return 0;
	cudaGetLastError(); /* the next call has its own */
	if (e == cudaErrorInsufficientDriver)
		return set_old_driver(index, what, err);
	gt_err_set(err, GT_EDEVICE, "cuda:%d: %s: %s", index, what, cudaGetErrorString(e));
	if (e == cudaErrorMemoryAllocation)
		gt_err_hint(err, "other processes may use the GPU's memory or queues; 'gtrain "
		                 "probe' lists the processes");
	return err->code;
}

/*
 * The same, or the error of a function of the host that a stream called. CUDA does not know of
 * that error: the stream went on.
 */
static int check_all(cudaError_t e, int index, const char *what, struct gt_err *err)
{
	int rc = gt_cuda_check(e, index, what, err);

	return rc ? rc : gt_cuda_call_error(index, err);
}

int gt_cuda_launched(const struct gt_stream *stream, const char *kernel, struct gt_err *err)
{
	return check_all(cudaGetLastError(), stream->index, kernel, err);
}

/* ---- devices ---- */

/* The first call starts CUDA and the threads of its driver. These threads must not receive signals.
 * Otherwise the launcher would miss the signals for the end of its ranks, and a signal that asks a
 * rank to stop after the present step would end it at once. */
static int cuda_count(void)
{
	sigset_t before;
	int n = 0;

	gt_block_signals(&before);
	if (cudaGetDeviceCount(&n) != cudaSuccess) {
		cudaGetLastError(); /* no driver, or no GPU */
		n = 0;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return n;
}

static int cuda_describe(int index, char *text, size_t size, struct gt_err *err)
{
	struct cudaDeviceProp p;
	int rc = gt_cuda_check(
	    cudaGetDeviceProperties(&p, index), index, "cudaGetDeviceProperties", err);

	if (!rc)
		snprintf(text, size, "%s, %.1f GiB, compute capability %d.%d, %d multiprocessors",
		    p.name, (double)p.totalGlobalMem / (1 << 30), p.major, p.minor,
		    p.multiProcessorCount);
	return rc;
}

/* Tensor cores read TF32 and bfloat16 from Ampere on. */
static int cuda_check_products(int index, enum gt_dtype dtype, bool tf32, struct gt_err *err)
{
	struct cudaDeviceProp p;
	int rc = gt_cuda_check(
	    cudaGetDeviceProperties(&p, index), index, "cudaGetDeviceProperties", err);

	if (rc || p.major >= 8 || (dtype != GT_BF16 && !tf32))
		return rc;
	return gt_err_set(err, GT_ENOTSUP,
	    "%s needs compute capability 8.0, and cuda:%d, %s, has %d.%d",
	    tf32 ? "tf32" : gt_dtype_name(dtype), index, p.name, p.major, p.minor);
}

/* Kernels for newer GPUs cannot be loaded. */
static int check_age(int index, struct gt_err *err)
{
	int major = 0, minor = 0;
	cudaError_t e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);

	if (e == cudaSuccess)
		e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
	if (e != cudaSuccess || 10 * major + minor >= GT_CUDA_OLDEST_GPU)
		return gt_cuda_check(e, index, "cudaDeviceGetAttribute", err);
	gt_err_set(err, GT_ENOTSUP,
	    "cuda:%d has compute capability %d.%d, and this build has kernels for %d.%d and above",
	    index, major, minor, GT_CUDA_OLDEST_GPU / 10, GT_CUDA_OLDEST_GPU % 10);
	return gt_err_hint(err, "'gtrain probe --check' says how to fix it");
}

/* The first call for a device makes its context, and may start threads as in cuda_count(). */
static int cuda_enter(int index, struct gt_err *err)
{
	sigset_t before;
	cudaError_t e;

	gt_block_signals(&before);
	e = cudaSetDevice(index);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (gt_cuda_check(e, index, "cudaSetDevice", err))
		return err->code;
	return check_age(index, err);
}

static int cuda_memory(int index, uint64_t *available, uint64_t *total, struct gt_err *err)
{
	size_t left = 0, all = 0;
	int rc = gt_cuda_check(cudaMemGetInfo(&left, &all), index, "cudaMemGetInfo", err);

	*available = left;
	*total = all;
	return rc;
}

/* ---- memory ---- */

static int set_out_of_memory(int index, size_t bytes, struct gt_err *err)
{
	size_t left = 0, all = 0;

	cudaGetLastError();
	if (cudaMemGetInfo(&left, &all) != cudaSuccess)
		cudaGetLastError();
	gt_err_set(err, GT_ENOMEM, "cuda:%d: no memory: %zu bytes asked for, %zu of %zu are free",
	    index, bytes, left, all);
	err->device_memory = true;
	return err->code;
}

/*
 * Zeros are there when this returns, for whichever stream comes next. The default stream does not
 * wait for gtrain's streams, nor they for it: they are made with cudaStreamNonBlocking.
 */
static int clear(int index, void *p, size_t bytes, struct gt_err *err)
{
	int rc = gt_cuda_check(cudaMemsetAsync(p, 0, bytes, NULL), index, "cudaMemset", err);

	return rc ? rc
	          : gt_cuda_check(cudaStreamSynchronize(NULL), index, "cudaStreamSynchronize", err);
}

/*
 * cudaMalloc() and cudaFree() may wait for all streams of the device: also for one that waits for a
 * function of the host, which may wait for another rank, whose thread is in here. This memory is
 * taken and given back in the order of a stream that has no other work.
 */
static int cuda_alloc(int index, size_t bytes, void **out, struct gt_err *err)
{
	cudaError_t e = cudaMallocAsync(out, bytes ? bytes : 1, NULL);
	int rc;

	if (e != cudaSuccess)
		*out = NULL;
	if (e == cudaErrorMemoryAllocation)
		return set_out_of_memory(index, bytes, err);
	rc = gt_cuda_check(e, index, "cudaMallocAsync", err);
	if (!rc)
		rc = clear(index, *out, bytes ? bytes : 1, err);
	if (rc && *out) {
		cudaFreeAsync(*out, NULL);
		*out = NULL;
	}
	return rc;
}

/* The device may use returned memory again after a wait. */
static void cuda_free(int index, void *p, size_t bytes)
{
	(void)index;
	(void)bytes;
	if (p &&
	    (cudaFreeAsync(p, NULL) != cudaSuccess || cudaStreamSynchronize(NULL) != cudaSuccess))
		/* clear the error of an earlier kernel, which later calls report, too */
		cudaGetLastError();
}

static int cuda_host_alloc(int index, size_t bytes, void **out, struct gt_err *err)
{
	cudaError_t e = gt_cuda_pinned_take(index, bytes, out);

	if (e != cudaSuccess) {
		gt_cuda_check(e, index, "cudaMallocHost", err);
		if (e == cudaErrorMemoryAllocation)
			gt_err_set(err, GT_ENOMEM,
			    "cuda:%d: no pinned host memory: %zu bytes asked for", index, bytes);
		return err->code;
	}
	memset(*out, 0, bytes);
	return 0;
}

static void cuda_host_free(int index, void *p, size_t bytes)
{
	gt_cuda_pinned_give(index, p, bytes);
	if (!gt_cuda_count_stream(index, 0))
		gt_cuda_pinned_free_all(index);
}

/* ---- streams ---- */

static void cuda_stream_free(struct gt_stream *stream)
{
	if (!stream)
		return;
	if (stream->queue) {
		/*
		 * First its work, then the thread that makes its calls, which uses the stream's
		 * events; then the memory that both have used.
		 */
		cudaStreamSynchronize(stream->queue);
		gt_cuda_end_calls(stream);
		gt_cuda_queue_give(stream->index, stream->queue);
	}
	cuda_free(
	    stream->index, stream->scratch, GT_CUDA_SCRATCH_BYTES + GT_CUDA_BLOCK_COUNTER_BYTES);
	cudaGetLastError();
	if (stream->faults)
		gt_cuda_faults_close(stream->index);
	if (!gt_cuda_count_stream(stream->index, -1))
		gt_cuda_pinned_free_all(stream->index);
	free(stream);
}

static int cuda_stream_new(struct gt_stream **out, int index, struct gt_err *err)
{
	struct gt_stream *s = gt_calloc(1, sizeof(*s), err);
	int rc;

	*out = NULL;
	if (!s)
		return GT_ENOMEM;
	s->index = index;
	gt_cuda_count_stream(index, 1);
	rc = gt_cuda_check(gt_cuda_queue_take(index, &s->queue), index, "cudaStreamCreate", err);
	if (!rc)
		rc = gt_cuda_faults_open(&s->faults, index, err);
	if (!rc)
		rc = cuda_alloc(
		    index, GT_CUDA_SCRATCH_BYTES + GT_CUDA_BLOCK_COUNTER_BYTES, &s->scratch, err);
	if (rc)
		cuda_stream_free(s);
	else
		*out = s;
	return rc;
}

/* The result of a wait: the error of a device, or of the data that kernels met. */
static int after_wait(cudaError_t e, int index, const char *what, struct gt_err *err)
{
	int rc = check_all(e, index, what, err);

	return rc ? rc : gt_cuda_faults_take(index, err);
}

static int cuda_stream_sync(struct gt_stream *stream, struct gt_err *err)
{
	return after_wait(
	    cudaStreamSynchronize(stream->queue), stream->index, "cudaStreamSynchronize", err);
}

/* ---- events ---- */

static int new_event(struct gt_event **out, int index, unsigned flags, struct gt_err *err)
{
	struct gt_event *e = gt_calloc(1, sizeof(*e), err);
	int rc;

	*out = NULL;
	if (!e)
		return GT_ENOMEM;
	e->index = index;
	rc = gt_cuda_check(
	    cudaEventCreateWithFlags(&e->event, flags), index, "cudaEventCreate", err);
	if (rc)
		free(e);
	else
		*out = e;
	return rc;
}

static int cuda_event_new(struct gt_event **out, int index, struct gt_err *err)
{
	return new_event(out, index, cudaEventDisableTiming, err);
}

static int cuda_timed_event_new(struct gt_event **out, int index, struct gt_err *err)
{
	return new_event(out, index, cudaEventDefault, err);
}

static void cuda_event_free(struct gt_event *event)
{
	if (event && cudaEventDestroy(event->event) != cudaSuccess)
		cudaGetLastError();
	free(event);
}

static int cuda_event_record(struct gt_event *event, struct gt_stream *stream, struct gt_err *err)
{
	return check_all(
	    cudaEventRecord(event->event, stream->queue), event->index, "cudaEventRecord", err);
}

static int cuda_event_wait(struct gt_stream *stream, struct gt_event *event, struct gt_err *err)
{
	int rc = check_all(cudaStreamWaitEvent(stream->queue, event->event, 0), event->index,
	    "cudaStreamWaitEvent", err);

	return rc ? rc : gt_cuda_note_wait(stream, err);
}

static int cuda_event_sync(struct gt_event *event, struct gt_err *err)
{
	return after_wait(
	    cudaEventSynchronize(event->event), event->index, "cudaEventSynchronize", err);
}

/* An error counts as done: the next wait returns it. */
static bool cuda_event_done(struct gt_event *event)
{
	cudaError_t e = cudaEventQuery(event->event);

	if (e != cudaSuccess)
		cudaGetLastError();
	return e != cudaErrorNotReady;
}

static int cuda_event_seconds(
    double *seconds, struct gt_event *from, struct gt_event *to, struct gt_err *err)
{
	float ms = 0;
	int rc = check_all(cudaEventElapsedTime(&ms, from->event, to->event), to->index,
	    "cudaEventElapsedTime", err);

	*seconds = 1e-3 * (double)ms;
	return rc;
}

/* ---- copies ---- */

/*
 * A captured copy keeps its addresses. At a replay the host's memory may hold other data, or be
 * freed, so copies with the host are not captured.
 */
static int copy_on_stream(struct gt_stream *stream, void *to, const void *from, size_t bytes,
    enum cudaMemcpyKind kind, struct gt_err *err)
{
	int rc = kind == cudaMemcpyDeviceToDevice
	             ? 0
	             : gt_cuda_check_not_captured(stream, "memory of the host", err);

	if (!bytes || rc)
		return rc;
	return check_all(cudaMemcpyAsync(to, from, bytes, kind, stream->queue), stream->index,
	    "cudaMemcpyAsync", err);
}

static int cuda_copy_in(
    struct gt_stream *stream, void *device, const void *host, size_t bytes, struct gt_err *err)
{
	return copy_on_stream(stream, device, host, bytes, cudaMemcpyHostToDevice, err);
}

static int cuda_copy_out(
    struct gt_stream *stream, void *host, const void *device, size_t bytes, struct gt_err *err)
{
	return copy_on_stream(stream, host, device, bytes, cudaMemcpyDeviceToHost, err);
}

static int cuda_copy(
    struct gt_stream *stream, void *to, const void *from, size_t bytes, struct gt_err *err)
{
	return copy_on_stream(stream, to, from, bytes, cudaMemcpyDeviceToDevice, err);
}

static int cuda_zero(struct gt_stream *stream, void *device, size_t bytes, struct gt_err *err)
{
	if (!bytes)
		return 0;
	return check_all(cudaMemsetAsync(device, 0, bytes, stream->queue), stream->index,
	    "cudaMemsetAsync", err);
}

/* ---- the backend ---- */

static const struct gt_kernel *const tables[] = {
	gt_cuda_elementwise_kernels,
	gt_cuda_cast_kernels,
	gt_cuda_map_kernels,
	gt_cuda_sum_kernels,
	gt_cuda_dropout_kernels,
	gt_cuda_matmul_kernels,
	gt_cuda_batched_matmul_kernels,
	gt_cuda_grouped_kernels,
	gt_cuda_softmax_kernels,
	gt_cuda_norm_kernels,
	gt_cuda_norm_grad_kernels,
	gt_cuda_rms_norm_kernels,
	gt_cuda_rope_kernels,
	gt_cuda_batch_norm_kernels,
	gt_cuda_batch_norm_sync_kernels,
	gt_cuda_batch_norm_grad_kernels,
	gt_cuda_batch_norm_grad_sync_kernels,
	gt_cuda_pool_kernels,
	gt_cuda_resample_kernels,
	gt_cuda_shape_kernels,
	gt_cuda_arrange_kernels,
	gt_cuda_constant_kernels,
	gt_cuda_conv_kernels,
	gt_cuda_conv_grouped_kernels,
	gt_cuda_attention_kernels,
	gt_cuda_attention_grad_kernels,
	gt_cuda_attention_cached_kernels,
	gt_cuda_recurrent_kernels,
	gt_cuda_loss_kernels,
	gt_cuda_regression_loss_kernels,
	gt_cuda_linear_cross_entropy_kernels,
	gt_cuda_loss_sharded_kernels,
	gt_cuda_embedding_kernels,
	gt_cuda_embedding_grad_kernels,
	gt_cuda_index_kernels,
	NULL,
};

static const struct gt_kernel *const *cuda_kernels(void)
{
	return tables;
}

static const struct gt_range_kernels *cuda_ranges(void)
{
	return &gt_cuda_ranges;
}

static const struct gt_step_kernels *cuda_steps(void)
{
	return &gt_cuda_steps;
}

/* NCCL first: it is made for this, and connects hosts, too. */
static const struct gt_device_groups *const groups[] = { &gt_nccl_groups, &gt_cuda_ring_groups,
	NULL };

const struct gt_backend gt_cuda_backend = {
	.name = "cuda",
	.host_memory = false,
	.image_layout = GT_CHANNELS_LAST,
	/* linear_cross_entropy.cu says why; products want rows that begin at 16 bytes. */
	.logits_bytes = (size_t)1 << 30,
	.logits_align = 16,
	.count = cuda_count,
	.describe = cuda_describe,
	.enter = cuda_enter,
	.memory = cuda_memory,
	.identify = gt_cuda_identify,
	.holders = gt_holders_read,
	.peak_flops = gt_cuda_peak_flops,
	.check_products = cuda_check_products,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.host_alloc = cuda_host_alloc,
	.host_free = cuda_host_free,
	.stream_new = cuda_stream_new,
	.stream_free = cuda_stream_free,
	.stream_sync = cuda_stream_sync,
	.event_new = cuda_event_new,
	.event_free = cuda_event_free,
	.event_record = cuda_event_record,
	.event_wait = cuda_event_wait,
	.event_sync = cuda_event_sync,
	.event_done = cuda_event_done,
	.copy_in = cuda_copy_in,
	.copy_out = cuda_copy_out,
	.copy = cuda_copy,
	.zero = cuda_zero,
	.check_queues = gt_cuda_check_queues,
	.peer_open = gt_cuda_peer_open,
	.copy_peer = gt_cuda_copy_peer,
	.capture_begin = gt_cuda_capture_begin,
	.capture_end = gt_cuda_capture_end,
	.replay = gt_cuda_replay,
	.capture_free = gt_cuda_capture_free,
	.host_call = gt_cuda_host_call,
	.kernels = cuda_kernels,
	.ranges = cuda_ranges,
	.steps = cuda_steps,
	.groups = groups,
	.timed_event_new = cuda_timed_event_new,
	.event_seconds = cuda_event_seconds,
};
