/* runtime.cc - the simulator's devices, streams and events: work that is queued, and done late. */
#include "tests/cudasim/inside.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unistd.h>

/* A piece of work. */
struct item {
	enum { KERNEL, COPY, FILL, RECORD, WAIT } kind;
	cudasim_grid grid;
	void (*release)(void *closure);
	void *to;
	const void *from;
	void *staged; /* the bytes of pageable host memory; freed with the item */
	size_t bytes;
	int value;
	mark *at;
	item *next;
};

struct cudasim_stream {
	int device;
	item *first, *last;
	uint64_t queued, done;
	cudasim_stream *next; /* all streams */
};

static struct {
	std::mutex lock;
	cudasim_stream *streams, *defaults[CUDASIM_DEVICES];
	cudaError_t error[CUDASIM_DEVICES];
	char fault[CUDASIM_DEVICES][400];
	uint64_t seed, draws;
	long kernels;
	int fail_in; /* allocations until one fails; 0: none does */
	bool failing, watched;
} sim = {};

static thread_local int device_of_thread;
static thread_local cudaError_t last_error;

typedef std::lock_guard<std::mutex> guard;

static cudaError_t give(cudaError_t e)
{
	if (e != cudaSuccess && e != cudaErrorNotReady)
		last_error = e;
	return e;
}

static int device_count()
{
	const char *text = getenv("CUDASIM_DEVICES");
	int n = text ? atoi(text) : 2;

	return n < CUDASIM_DEVICES ? n : CUDASIM_DEVICES;
}

static uint64_t seed()
{
	const char *text = getenv("CUDASIM_SEED");

	return sim.seed ? sim.seed : text ? strtoull(text, nullptr, 10) : 1;
}

/* ---- faults ---- */

static void end_with_faults()
{
	for (int i = 0; i < CUDASIM_DEVICES; i++) {
		if (!*sim.fault[i])
			continue;
		fprintf(stderr, "cudasim: device %d: %s (CUDASIM_SEED=%llu)\n", i, sim.fault[i],
		    (unsigned long long)seed());
		fflush(nullptr);
		_exit(99);
	}
}

static void set_fault(int device, const char *text)
{
	if (!sim.watched)
		atexit(end_with_faults);
	sim.watched = true;
	sim.error[device] = cudaErrorLaunchFailure;
	if (!*sim.fault[device])
		snprintf(sim.fault[device], sizeof(sim.fault[device]), "%s", text);
}

void cudasim_seed(uint64_t to)
{
	guard g(sim.lock);

	sim.seed = to;
	sim.draws = 0;
}

const char *cudasim_fault(int device)
{
	return *sim.fault[device] ? sim.fault[device] : nullptr;
}

void cudasim_forget(int device)
{
	guard g(sim.lock);

	*sim.fault[device] = '\0';
	sim.error[device] = cudaSuccess;
}

void cudasim_fail_allocation(int n)
{
	guard g(sim.lock);

	sim.fail_in = n;
	sim.failing = false;
}

long cudasim_kernels()
{
	return sim.kernels;
}

/* ---- work; with the lock ---- */

static void drop(mark *m)
{
	if (m && !--m->holders)
		delete m;
}

static void free_item(item *i)
{
	if (i->release)
		i->release(i->grid.closure);
	free(i->staged);
	drop(i->at);
	delete i;
}

static void run_item(const cudasim_stream *s, item *i)
{
	const char *fault = nullptr;

	switch (i->kind) {
	case item::KERNEL:
		if (sim.error[s->device] == cudaSuccess)
			fault = cudasim_run_grid(&i->grid, cudasim_mix(seed(), sim.draws++));
		sim.kernels++;
		break;
	case item::COPY:
		memcpy(i->to, i->staged ? i->staged : i->from, i->bytes);
		break;
	case item::FILL:
		memset(i->to, i->value, i->bytes);
		break;
	case item::RECORD:
		i->at->reached = true;
		i->at->ms = cudasim_ms;
		break;
	case item::WAIT:
		break;
	}
	if (fault)
		set_fault(s->device, fault);
}

static bool may_run(const cudasim_stream *s)
{
	return s->first && (s->first->kind != item::WAIT || s->first->at->reached);
}

/* Run the first item of some stream that may; false: there is none. */
static bool run_one()
{
	uint64_t count = 0, which;
	cudasim_stream *s;
	item *i;

	for (s = sim.streams; s; s = s->next)
		count += may_run(s);
	if (!count)
		return false;
	which = cudasim_mix(seed(), sim.draws++) % count;
	for (s = sim.streams; !may_run(s) || which--; s = s->next)
		;
	i = s->first;
	run_item(s, i);
	s->first = i->next;
	if (!s->first)
		s->last = nullptr;
	s->done++;
	free_item(i);
	return true;
}

static void finish(const cudasim_stream *s)
{
	uint64_t target = s->queued;

	if (s->done >= target)
		return;
	cudasim_open_memory(true);
	while (s->done < target)
		if (!run_one()) {
			fprintf(stderr, "cudasim: streams wait for each other\n");
			abort();
		}
	cudasim_open_memory(false);
}

static void finish_device(int device)
{
	for (cudasim_stream *s = sim.streams; s; s = s->next)
		if (s->device == device)
			finish(s);
}

static cudasim_stream *new_stream(int device)
{
	return sim.streams = new cudasim_stream{ device, nullptr, nullptr, 0, 0, sim.streams };
}

static cudasim_stream *stream_of(cudaStream_t stream)
{
	cudasim_stream **d = &sim.defaults[device_of_thread];

	if (!stream && !*d)
		*d = new_stream(device_of_thread);
	return stream ? stream : *d;
}

/* The item is copied; what it holds is the stream's from then on, or freed. */
static cudaError_t queue(cudaStream_t stream, const item &like)
{
	cudasim_stream *s = stream_of(stream);
	item *i = new item(like);

	if (sim.error[s->device] != cudaSuccess) {
		free_item(i);
		return give(sim.error[s->device]);
	}
	if (s->last)
		s->last->next = i;
	else
		s->first = i;
	s->last = i;
	s->queued++;
	return cudaSuccess;
}

void cudasim_launch(dim3 grid, dim3 threads, size_t dynamic_bytes, cudaStream_t stream,
    void (*call)(void *), void (*release)(void *), void *closure)
{
	item i = {};
	uint64_t per_block = (uint64_t)threads.x * threads.y * threads.z;
	guard g(sim.lock);

	i.kind = item::KERNEL;
	i.grid = { grid, threads, dynamic_bytes, call, closure };
	i.release = release;
	if (!per_block || per_block > 1024 || threads.z > 64 || !grid.x || !grid.y || !grid.z ||
	    grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535 || dynamic_bytes > 48 << 10) {
		give(dynamic_bytes > 48 << 10 ? cudaErrorInvalidValue
		                              : cudaErrorInvalidConfiguration);
		release(closure);
		return;
	}
	queue(stream, i);
}

/* ---- errors, devices ---- */

const char *cudaGetErrorString(cudaError_t error)
{
	static const struct {
		cudaError_t error;
		const char *text;
	} texts[] = {
		{ cudaSuccess, "no error" },
		{ cudaErrorInvalidValue, "invalid argument" },
		{ cudaErrorMemoryAllocation, "out of memory" },
		{ cudaErrorInvalidConfiguration, "invalid configuration argument" },
		{ cudaErrorNoDevice, "no CUDA-capable device is detected" },
		{ cudaErrorInvalidDevice, "invalid device ordinal" },
		{ cudaErrorInvalidResourceHandle, "invalid resource handle" },
		{ cudaErrorNotReady, "device not ready" },
		{ cudaErrorLaunchFailure, "unspecified launch failure" },
	};

	for (const auto &t : texts)
		if (t.error == error)
			return t.text;
	return "unknown error";
}

cudaError_t cudaGetLastError()
{
	cudaError_t e = last_error;

	last_error = cudaSuccess;
	return e;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	*count = device_count();
	return *count ? cudaSuccess : give(cudaErrorNoDevice);
}

static bool is_device(int device)
{
	return device >= 0 && device < device_count();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
	if (!is_device(device))
		return give(cudaErrorInvalidDevice);
	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "simulated GPU");
	out->totalGlobalMem = cudasim_memory_total();
	out->major = 9;
	out->multiProcessorCount = 2;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
	if (!is_device(device))
		return give(device_count() ? cudaErrorInvalidDevice : cudaErrorNoDevice);
	device_of_thread = device;
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = device_of_thread;
	return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	guard g(sim.lock);

	*total = cudasim_memory_total();
	*available = *total - cudasim_memory_used(device_of_thread);
	return give(sim.error[device_of_thread]);
}

/* ---- memory ---- */

/* Whether this allocation is to fail. */
static bool fails()
{
	if (sim.fail_in && !--sim.fail_in)
		sim.failing = true;
	return sim.failing;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
	guard g(sim.lock);

	*out = nullptr;
	if (sim.error[device_of_thread] != cudaSuccess)
		return give(sim.error[device_of_thread]);
	if (!bytes)
		return cudaSuccess;
	*out = fails() ? nullptr : cudasim_take(device_of_thread, bytes);
	return *out ? cudaSuccess : give(cudaErrorMemoryAllocation);
}

/* Waits for all work of the device, as the real one does. */
cudaError_t cudaFree(void *p)
{
	guard g(sim.lock);

	if (!p)
		return cudaSuccess;
	for (int d = 0; d < CUDASIM_DEVICES; d++) {
		finish_device(d);
		if (cudasim_give(d, p))
			return give(sim.error[d]);
	}
	return give(cudaErrorInvalidValue);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
	guard g(sim.lock);

	*out = fails() ? nullptr : cudasim_take_pinned(bytes);
	return *out ? cudaSuccess : give(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *p)
{
	guard g(sim.lock);

	if (!p)
		return cudaSuccess;
	for (int d = 0; d < CUDASIM_DEVICES; d++)
		finish_device(d);
	return cudasim_give_pinned(p) ? cudaSuccess : give(cudaErrorInvalidValue);
}

static cudaError_t copy_from_pageable(item *i, cudaStream_t stream)
{
	i->staged = malloc(i->bytes);
	if (!i->staged)
		return give(cudaErrorMemoryAllocation);
	memcpy(i->staged, i->from, i->bytes);
	return queue(stream, *i);
}

static bool overlap(const void *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	return a && (const char *)a < b + b_bytes && b < (const char *)a + a_bytes;
}

/* Whether a copy that is queued reads or writes these bytes of the host. */
static bool is_awaited(const char *host, size_t bytes)
{
	for (const cudasim_stream *s = sim.streams; s; s = s->next)
		for (const item *i = s->first; i; i = i->next)
			if (i->kind == item::COPY && (overlap(i->from, i->bytes, host, bytes) ||
			                                 overlap(i->to, i->bytes, host, bytes)))
				return true;
	return false;
}

cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	item i = {};
	cudaError_t e;
	guard g(sim.lock);

	i.kind = item::COPY;
	i.to = to;
	i.from = from;
	i.bytes = bytes;
	if (!bytes)
		return cudaSuccess;
	if (cudasim_is_device(to, bytes) != (kind != cudaMemcpyDeviceToHost) ||
	    cudasim_is_device(from, bytes) != (kind != cudaMemcpyHostToDevice))
		return give(cudaErrorInvalidValue);
	if (kind == cudaMemcpyHostToDevice && !cudasim_is_pinned(from, bytes))
		return copy_from_pageable(&i, stream);
	if (kind != cudaMemcpyDeviceToHost)
		return queue(stream, i);
	if (cudasim_is_pinned(to, bytes)) {
		if (!is_awaited((const char *)to, bytes))
			memset(to, 0xff, bytes);
		return queue(stream, i);
	}
	e = queue(stream, i);
	if (e == cudaSuccess)
		finish(stream_of(stream));
	return e == cudaSuccess ? give(sim.error[stream_of(stream)->device]) : e;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	item i = {};
	guard g(sim.lock);

	i.kind = item::FILL;
	i.to = p;
	i.value = value;
	i.bytes = bytes;
	if (!bytes)
		return cudaSuccess;
	return cudasim_is_device(p, bytes) ? queue(stream, i) : give(cudaErrorInvalidValue);
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	guard g(sim.lock);

	(void)flags;
	*out = new_stream(device_of_thread);
	return give(sim.error[device_of_thread]);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	cudasim_stream **link = &sim.streams;
	guard g(sim.lock);

	finish(stream);
	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	delete stream;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	guard g(sim.lock);
	cudasim_stream *s = stream_of(stream);

	finish(s);
	return give(sim.error[s->device]);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	(void)flags;
	*out = new cudasim_event{ nullptr };
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	guard g(sim.lock);

	drop(event->last);
	delete event;
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	item i = {};
	guard g(sim.lock);

	drop(event->last);
	event->last = new mark{ false, 2, 0 }; /* the event's and the item's */
	i.kind = item::RECORD;
	i.at = event->last;
	return queue(stream, i);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
	item i = {};
	guard g(sim.lock);

	(void)flags;
	if (!event->last)
		return cudaSuccess;
	event->last->holders++;
	i.kind = item::WAIT;
	i.at = event->last;
	return queue(stream, i);
}

static bool is_reached(const struct cudasim_event *e)
{
	return !e->last || e->last->reached;
}

/* A device with a fault queues nothing, so an event may never be reached. */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	guard g(sim.lock);

	cudasim_open_memory(true);
	while (!is_reached(event) && run_one())
		;
	cudasim_open_memory(false);
	return give(sim.error[device_of_thread]);
}

/* Whoever asks again and again sees the work go on. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
	guard g(sim.lock);
	bool reached = is_reached(event);

	if (!reached) {
		cudasim_open_memory(true);
		run_one();
		cudasim_open_memory(false);
	}
	if (sim.error[device_of_thread] != cudaSuccess)
		return give(sim.error[device_of_thread]);
	return reached ? cudaSuccess : cudaErrorNotReady;
}
