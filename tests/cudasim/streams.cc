/* streams.cc - the simulator's streams and events, and waits for values in host memory. */
#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <cuda.h>

#include "tests/cudasim/inside.h"

void cudasim_wait_for_place(const cudasim_stream *stream)
{
	enum { AT_ONCE = 64, PAUSE_US = 200, MOST_PAUSES = 200000 };

	for (int i = 1; stream->queued - stream->done >= CUDASIM_QUEUE &&
	                cudasim_device_error(stream->device) == cudaSuccess;
	     i++) {
		cudasim_work();
		if (i % AT_ONCE == 0)
			usleep(PAUSE_US);
		if (i / AT_ONCE < MOST_PAUSES)
			continue;
		fprintf(stderr, "cudasim: a stream is full, and other threads that could go on "
		                "wait for the one that queues more\n");
		abort();
	}
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	guard g(cudasim_lock);

	(void)flags;
	*out = cudasim_new_stream(cudasim_device);
	return cudasim_device_error(cudasim_device);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	guard g(cudasim_lock);

	cudasim_finish(stream);
	cudasim_delete_stream(stream);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	guard g(cudasim_lock);
	cudasim_stream *s = cudasim_stream_of(stream);

	if (cudasim_forbid(s) != cudaSuccess)
		return cudaErrorStreamCaptureUnsupported;
	cudasim_finish(s);
	return cudasim_device_error(s->device);
}

/* A caller that asks again and again sees the work go on. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	guard g(cudasim_lock);
	const cudasim_stream *s = cudasim_stream_of(stream);

	if (cudasim_forbid(s) != cudaSuccess)
		return cudaErrorStreamCaptureUnsupported;
	if (s->first)
		cudasim_work();
	if (cudasim_device_error(s->device) != cudaSuccess)
		return cudasim_device_error(s->device);
	if (s->first)
		return cudaErrorNotReady;
	cudasim_synced = std::max(cudasim_synced, s->known);
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	*out = new cudasim_event{ nullptr, !(flags & cudaEventDisableTiming) };
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	guard g(cudasim_lock);

	delete event;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	item i = {};
	guard g(cudasim_lock);

	event->last = std::make_shared<mark>();
	event->last->in = cudasim_stream_of(stream)->capture;
	event->last->captured = cudasim_stream_of(stream)->capture != nullptr;
	event->last->known = cudasim_stream_of(stream)->known;
	i.kind = item::RECORD;
	i.at = event->last;
	return cudasim_queue(stream, i);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	item i = {};
	guard g(cudasim_lock);

	(void)flags;
	if (!event->last)
		return cudaSuccess;
	if (cudasim_stream_of(stream)->capture || event->last->captured)
		return cudasim_keep_wait(cudasim_stream_of(stream), event->last);
	i.kind = item::WAIT;
	i.at = event->last;
	cudasim_stream_of(stream)->known =
	    std::max(cudasim_stream_of(stream)->known, event->last->known);
	return cudasim_queue(stream, i);
}

/* A device with a fault queues nothing, so an event may never be reached. */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	guard g(cudasim_lock);
	std::shared_ptr<mark> last = event->last;

	if (cudasim_forbid_mark(last) != cudaSuccess)
		return cudaErrorCapturedEvent;
	cudasim_work_until([=] { return !last || last->reached; });
	cudasim_synced = std::max(cudasim_synced, last ? last->known : 0);
	return cudasim_device_error(cudasim_device);
}

/* A caller that asks again and again sees the work go on. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
	guard g(cudasim_lock);
	bool reached = !event->last || event->last->reached;

	if (cudasim_forbid_mark(event->last) != cudaSuccess)
		return cudaErrorCapturedEvent;
	if (!reached)
		cudasim_work();
	if (cudasim_device_error(cudasim_device) != cudaSuccess)
		return cudasim_device_error(cudasim_device);
	if (!reached)
		return cudaErrorNotReady;
	cudasim_synced = std::max(cudasim_synced, event->last ? event->last->known : 0);
	return cudaSuccess;
}

/* ---- the driver ---- */

static int lose_in;  /* waits until one is lost; 0: none is */
static long flushed; /* waits with a flush */

long cudasim_flushed()
{
	return flushed;
}

void cudasim_lose_wait(int n)
{
	guard g(cudasim_lock);

	lose_in = n;
}

/* Values are in memory of the host that is pinned. */
static CUresult queue_value(cudaStream_t stream, CUdeviceptr at, const item &i)
{
	if (at % i.bytes || !cudasim_is_pinned((const void *)at, i.bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (cudasim_forbid(cudasim_stream_of(stream)) != cudaSuccess)
		return (CUresult)cudaErrorStreamCaptureUnsupported;
	return (CUresult)cudasim_queue(stream, i);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	item i = {};
	guard g(cudasim_lock);

	i.kind = item::WAIT_VALUE;
	i.from = (const void *)at;
	i.bytes = sizeof(value);
	i.value = value;
	if (flags != CU_STREAM_WAIT_VALUE_GEQ &&
	    (flags != (CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH) ||
	        !cudasim_flushes()))
		return CUDA_ERROR_INVALID_VALUE;
	flushed += flags != CU_STREAM_WAIT_VALUE_GEQ;
	if (lose_in && !--lose_in)
		return CUDA_SUCCESS;
	return queue_value(stream, at, i);
}

/* A thread that sees the value also sees the memory that the stream has written before. */
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags)
{
	item i = {};
	guard g(cudasim_lock);

	i.kind = item::WRITE_VALUE;
	i.to = (void *)at;
	i.bytes = sizeof(value);
	i.value = value;
	if (flags != CU_STREAM_WRITE_VALUE_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	return queue_value(stream, at, i);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned version,
    unsigned long long flags, enum cudaDriverEntryPointQueryResult *found)
{
	static const struct {
		const char *name;
		void *function;
	} functions[] = {
		{ "cuStreamWaitValue32", (void *)cuStreamWaitValue32 },
		{ "cuStreamWriteValue32", (void *)cuStreamWriteValue32 },
		{ "cuDeviceGet", (void *)cuDeviceGet },
		{ "cuDeviceGetUuid", (void *)cuDeviceGetUuid },
		{ "cuModuleLoadData", (void *)cuModuleLoadData },
		{ "cuModuleGetFunction", (void *)cuModuleGetFunction },
		{ "cuLaunchKernel", (void *)cuLaunchKernel },
	};

	*out = nullptr;
	for (const auto &f : functions)
		if (version >= 11070 && !flags && !strcmp(symbol, f.name))
			*out = f.function;
	*found = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}
