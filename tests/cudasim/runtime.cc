/* runtime.cc - the simulator's devices, memory and copies: work that is queued, and done late. */
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <unistd.h>

#include "tests/cudasim/inside.h"

std::mutex cudasim_lock;

static struct {
	cudasim_stream *streams, *defaults[CUDASIM_DEVICES];
	cudaError_t error[CUDASIM_DEVICES];
	char fault[CUDASIM_DEVICES][400];
	uint64_t seed, draws;
	uint64_t queued, ran; /* items of all streams */
	long kernels;
	int fail_in; /* allocations until one fails; 0: none does */
	bool failing, watched;
	int streams_made[CUDASIM_DEVICES];
} sim = {};

static std::condition_variable_any more_is_queued;

thread_local int cudasim_device;
thread_local uint64_t cudasim_synced;
int cudasim_held[CUDASIM_DEVICES];
static thread_local cudaError_t last_error;

cudaError_t cudasim_return(cudaError_t e)
{
	if (e != cudaSuccess && e != cudaErrorNotReady)
		last_error = e;
	return e;
}

cudaError_t cudasim_device_error(int device)
{
	return cudasim_return(sim.error[device]);
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

void cudasim_set_fault(int device, const char *text)
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
	guard g(cudasim_lock);

	sim.seed = to;
	sim.draws = 0;
}

const char *cudasim_fault(int device)
{
	return *sim.fault[device] ? sim.fault[device] : nullptr;
}

void cudasim_forget(int device)
{
	guard g(cudasim_lock);

	*sim.fault[device] = '\0';
	sim.error[device] = cudaSuccess;
}

void cudasim_fail_allocation(int n)
{
	guard g(cudasim_lock);

	sim.fail_in = n;
	sim.failing = false;
}

long cudasim_kernels()
{
	return sim.kernels;
}

/* ---- work ---- */

/* Whether the work at hand may access the memory of devices. To change that takes longer than small
 * work does, so it is let in for the first item that needs it, and stays till nothing is to run. */
static bool memory_is_open;

static void set_open(bool open)
{
	if (open != memory_is_open)
		cudasim_open_memory(open);
	memory_is_open = open;
}

static bool needs_memory(const item *i)
{
	return i->kind == item::KERNEL || i->kind == item::COPY || i->kind == item::FILL ||
	       i->kind == item::GATE ||
	       (i->kind == item::WRITE_VALUE && cudasim_is_device(i->to, sizeof(unsigned)));
}

static void run_item(const cudasim_stream *s, item *i)
{
	const char *fault = nullptr;

	if (needs_memory(i))
		set_open(true);
	switch (i->kind) {
	case item::KERNEL:
		cudasim_keep_peers(s->device);
		if (sim.error[s->device] == cudaSuccess)
			fault = cudasim_run_grid(&i->grid, cudasim_mix(seed(), sim.draws++));
		cudasim_spoil_peers(s->device);
		sim.kernels++;
		cudasim_ms += i->grid.ms;
		break;
	case item::COPY:
		memcpy(i->to, i->staged ? i->staged.get() : i->from, i->bytes);
		break;
	case item::FILL:
		memset(i->to, (int)i->value, i->bytes);
		break;
	case item::FREE:
		cudasim_give(s->device, i->to);
		break;
	case item::RECORD:
		i->at->reached = true;
		i->at->ms = cudasim_ms;
		break;
	case item::GATE: /* a device with a fault does its part of no collective */
		if (sim.error[s->device] == cudaSuccess)
			i->behind->run();
		break;
	case item::WRITE_VALUE:
		__atomic_store_n((unsigned *)i->to, i->value, __ATOMIC_RELEASE);
		break;
	case item::WAIT:
	case item::WAIT_VALUE:
		break;
	}
	if (fault)
		cudasim_set_fault(s->device, fault);
}

/* On a device with a fault no stream waits for the host. */
static bool is_written(const cudasim_stream *s, const item *i)
{
	unsigned there;

	if (cudasim_is_device(i->from, sizeof(there)))
		set_open(true);
	there = __atomic_load_n((const unsigned *)i->from, __ATOMIC_ACQUIRE);
	return (int)(there - i->value) >= 0 || sim.error[s->device] != cudaSuccess;
}

/* A stream that may run once may run from then on: other threads write values meanwhile. */
static bool may_run(const cudasim_stream *s)
{
	const item *i = s->first;

	return i && (i->kind != item::WAIT || i->at->reached) &&
	       (i->kind != item::KERNEL || cudasim_held[s->device] < CUDASIM_PLACES ||
	           sim.error[s->device] != cudaSuccess) &&
	       (i->kind != item::WAIT_VALUE || is_written(s, i)) &&
	       (i->kind != item::GATE || i->behind->may_run() ||
	           sim.error[s->device] != cudaSuccess);
}

/* Whether earlier work of another stream waits in the same hardware queue. */
static bool is_held_up(const cudasim_stream *s)
{
	for (const cudasim_stream *o = sim.streams; o; o = o->next)
		if (o->queue == s->queue && o->device == s->device && o != s && o->first &&
		    o->first->number < s->first->number && !may_run(o))
			return true;
	return false;
}

/* Run the first item of some stream that may; false: there is none. */
static bool run_one()
{
	/* Kept for its memory, and never freed: the driver's thread may outlive static objects. */
	static std::vector<cudasim_stream *> &ready = *new std::vector<cudasim_stream *>;
	cudasim_stream *s;
	item *i;

	ready.clear();
	for (s = sim.streams; s; s = s->next)
		if (may_run(s) && !is_held_up(s))
			ready.push_back(s);
	if (ready.empty())
		return false;
	s = ready[cudasim_mix(seed(), sim.draws++) % ready.size()];
	i = s->first;
	run_item(s, i);
	s->first = i->next;
	if (!s->first)
		s->last = nullptr;
	s->done++;
	sim.ran++;
	delete i;
	if (s->ends && !s->first)
		cudasim_delete_stream(s);
	return true;
}

void cudasim_work()
{
	run_one();
	set_open(false);
}

static bool driver_has_ended;

void cudasim_end_driver()
{
	guard g(cudasim_lock);

	driver_has_ended = true;
}

bool cudasim_drive()
{
	enum { IDLE = 500 / CUDASIM_DRIVER_MS, AT_ONCE = 64 };
	static uint64_t ran;
	static int idle;
	guard g(cudasim_lock);

	idle = sim.ran == ran ? idle + 1 : 0;
	for (int i = 0; i < AT_ONCE && idle >= IDLE && !driver_has_ended && run_one(); i++)
		;
	set_open(false);
	ran = sim.ran;
	return !driver_has_ended;
}

static void die(const char *text)
{
	fprintf(stderr, "cudasim: %s\n", text);
	abort();
}

/* Time since the last item of any stream ran. */
struct idleness {
	uint64_t ran;
	std::chrono::steady_clock::time_point since;
};

static void wait_for_other_threads(idleness *idle)
{
	auto now = std::chrono::steady_clock::now();
	bool waits = false;

	for (const cudasim_stream *s = sim.streams; s; s = s->next)
		waits = waits || (s->first && (s->first->kind == item::WAIT_VALUE ||
		                                  s->first->kind == item::GATE));
	if (!waits)
		die("streams wait for each other");
	if (idle->ran != sim.ran)
		*idle = { sim.ran, now };
	if (now - idle->since > std::chrono::seconds(100))
		die("a stream waits for a value that nobody writes, or for another rank");
	more_is_queued.wait_for(cudasim_lock, std::chrono::microseconds(200));
}

void cudasim_work_until(const std::function<bool()> &reached)
{
	idleness idle = { sim.ran, std::chrono::steady_clock::now() };

	if (reached())
		return;
	while (!reached()) {
		if (run_one())
			continue;
		if (sim.error[cudasim_device] != cudaSuccess)
			break;
		set_open(false);
		wait_for_other_threads(&idle);
	}
	set_open(false);
}

void cudasim_finish(const cudasim_stream *s)
{
	uint64_t target = s->queued;

	cudasim_work_until([=] { return s->done >= target; });
	cudasim_synced = std::max(cudasim_synced, s->known);
}

/* All that its streams have by now. Other threads may make and free streams meanwhile. */
static void finish_device(int device)
{
	uint64_t target = sim.queued;

	cudasim_work_until([=] {
		for (const cudasim_stream *s = sim.streams; s; s = s->next)
			if (s->device == device && s->first && s->first->number <= target)
				return false;
		return true;
	});
}

cudasim_stream *cudasim_new_stream(int device)
{
	cudasim_stream *s = new cudasim_stream{};

	s->device = device;
	s->queue = sim.streams_made[device]++ % cudasim_hardware_queues();
	s->next = sim.streams;
	return sim.streams = s;
}

void cudasim_delete_stream(cudasim_stream *stream)
{
	cudasim_stream **link = &sim.streams;

	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	while (stream->first) {
		item *i = stream->first;

		stream->first = i->next;
		delete i;
	}
	delete stream;
}

cudasim_stream *cudasim_stream_of(cudaStream_t stream)
{
	cudasim_stream **d = &sim.defaults[cudasim_device];

	if (!stream && !*d)
		*d = cudasim_new_stream(cudasim_device);
	return stream ? stream : *d;
}

cudaError_t cudasim_queue(cudaStream_t stream, const item &like)
{
	cudasim_stream *s = cudasim_stream_of(stream);
	item *i;

	if (!s->capture && s->queued - s->done >= CUDASIM_QUEUE)
		cudasim_wait_for_place(s);
	if (sim.error[s->device] != cudaSuccess)
		return cudasim_return(sim.error[s->device]);
	if (s->capture)
		return cudasim_keep(s, like);
	i = new item(like);
	i->number = ++sim.queued;
	if (s->last)
		s->last->next = i;
	else
		s->first = i;
	s->last = i;
	s->queued++;
	more_is_queued.notify_all();
	return cudaSuccess;
}

void cudasim_launch(dim3 grid, dim3 threads, size_t dynamic_bytes, cudaStream_t stream,
    void (*call)(void *), void (*release)(void *), void *closure)
{
	item i = {};
	uint64_t per_block = (uint64_t)threads.x * threads.y * threads.z;
	guard g(cudasim_lock);

	i.kind = item::KERNEL;
	i.grid = { grid, threads, dynamic_bytes, call, closure, cudasim_kernel_ms };
	i.closure = std::shared_ptr<void>(closure, release);
	if (!per_block || per_block > 1024 || threads.z > 64 || !grid.x || !grid.y || !grid.z ||
	    grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535) {
		cudasim_return(cudaErrorInvalidConfiguration);
		return;
	}
	cudasim_queue(stream, i);
}

/* ---- errors ---- */

cudaError_t cudaGetLastError()
{
	cudaError_t e = last_error;

	last_error = cudaSuccess;
	return e;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	guard g(cudasim_lock);

	*total = cudasim_memory_total();
	*available = *total - cudasim_memory_used(cudasim_device);
	return cudasim_return(sim.error[cudasim_device]);
}

/* ---- memory ---- */

/* Whether this allocation is to fail. */
static bool fails()
{
	if (sim.fail_in && !--sim.fail_in)
		sim.failing = true;
	return sim.failing;
}

static cudaError_t take(void **out, size_t bytes, bool shared)
{
	guard g(cudasim_lock);

	*out = nullptr;
	if (sim.error[cudasim_device] != cudaSuccess)
		return cudasim_return(sim.error[cudasim_device]);
	if (cudasim_forbid_thread() != cudaSuccess)
		return cudaErrorStreamCaptureUnsupported;
	if (!bytes)
		return cudaSuccess;
	*out = fails() ? nullptr : cudasim_take(cudasim_device, bytes, shared);
	return *out ? cudaSuccess : cudasim_return(cudaErrorMemoryAllocation);
}

/* Other processes may open it. */
cudaError_t cudaMalloc(void **out, size_t bytes)
{
	return take(out, bytes, true);
}

/* Waits for all work of the device, as the real one does. */
cudaError_t cudaFree(void *p)
{
	guard g(cudasim_lock);
	int device = cudasim_device_of(p);

	if (!p)
		return cudaSuccess;
	if (cudasim_forbid_thread() != cudaSuccess)
		return cudaErrorStreamCaptureUnsupported;
	if (device < 0 || cudasim_is_opened(p))
		return cudasim_return(cudaErrorInvalidValue);
	finish_device(device);
	cudasim_give(device, p);
	return cudasim_return(sim.error[device]);
}

/* The stream has the memory at once: an order that is never too late. */
cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
	(void)stream;
	return take(out, bytes, false);
}

/* Also on a device with a fault, whose streams queue nothing. */
cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
	guard g(cudasim_lock);
	cudasim_stream *s = cudasim_stream_of(stream);
	item i = {};

	if (cudasim_device_of(p) != s->device || cudasim_is_opened(p))
		return cudasim_return(cudaErrorInvalidValue);
	if (cudasim_forbid_thread() != cudaSuccess)
		return cudaErrorStreamCaptureUnsupported;
	i.kind = item::FREE;
	i.to = p;
	if (sim.error[s->device] != cudaSuccess)
		cudasim_give(s->device, p);
	return cudasim_queue(stream, i);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
	guard g(cudasim_lock);

	*out = fails() ? nullptr : cudasim_take_pinned(bytes);
	return *out ? cudaSuccess : cudasim_return(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *p)
{
	guard g(cudasim_lock);

	if (!p)
		return cudaSuccess;
	finish_device(cudasim_device);
	return cudasim_give_pinned(p) ? cudaSuccess : cudasim_return(cudaErrorInvalidValue);
}

static cudaError_t copy_from_pageable(item *i, cudaStream_t stream)
{
	i->staged = std::shared_ptr<void>(malloc(i->bytes), free);
	if (!i->staged)
		return cudasim_return(cudaErrorMemoryAllocation);
	memcpy(i->staged.get(), i->from, i->bytes);
	return cudasim_queue(stream, *i);
}

static bool overlap(const void *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	return a && (const char *)a < b + b_bytes && b < (const char *)a + a_bytes;
}

bool cudasim_is_used(const void *p, size_t bytes)
{
	for (const cudasim_stream *s = sim.streams; s; s = s->next)
		for (const item *i = s->first; i; i = i->next)
			if (overlap(i->from, i->bytes, (const char *)p, bytes) ||
			    overlap(i->to, i->bytes, (const char *)p, bytes))
				return true;
	return false;
}

/* Whether a copy that is queued reads or writes these bytes of the host, or a function of the host
 * may do so, for which a stream waits. */
static bool is_awaited(const char *host, size_t bytes)
{
	for (const cudasim_stream *s = sim.streams; s; s = s->next)
		for (const item *i = s->first; i; i = i->next)
			if (i->kind == item::WAIT_VALUE ||
			    (i->kind == item::COPY && (overlap(i->from, i->bytes, host, bytes) ||
			                                  overlap(i->to, i->bytes, host, bytes))))
				return true;
	return false;
}

cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	item i = {};
	cudaError_t e;
	guard g(cudasim_lock);

	i.kind = item::COPY;
	i.to = to;
	i.from = from;
	i.bytes = bytes;
	if (!bytes)
		return cudaSuccess;
	if (cudasim_is_device(to, bytes) != (kind != cudaMemcpyDeviceToHost) ||
	    cudasim_is_device(from, bytes) != (kind != cudaMemcpyHostToDevice))
		return cudasim_return(cudaErrorInvalidValue);
	if (kind != cudaMemcpyDeviceToDevice &&
	    !cudasim_is_pinned(kind == cudaMemcpyHostToDevice ? from : to, bytes) &&
	    cudasim_forbid(cudasim_stream_of(stream)) != cudaSuccess)
		return cudaErrorStreamCaptureUnsupported;
	if (kind == cudaMemcpyHostToDevice && !cudasim_is_pinned(from, bytes))
		return copy_from_pageable(&i, stream);
	if (kind != cudaMemcpyDeviceToHost)
		return cudasim_queue(stream, i);
	if (cudasim_is_pinned(to, bytes)) {
		if (!cudasim_stream_of(stream)->capture && !is_awaited((const char *)to, bytes))
			memset(to, 0xff, bytes);
		return cudasim_queue(stream, i);
	}
	e = cudasim_queue(stream, i);
	if (e == cudaSuccess)
		cudasim_finish(cudasim_stream_of(stream));
	return e == cudaSuccess ? cudasim_return(sim.error[cudasim_stream_of(stream)->device]) : e;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	item i = {};
	guard g(cudasim_lock);

	i.kind = item::FILL;
	i.to = p;
	i.value = (unsigned)value;
	i.bytes = bytes;
	if (!bytes)
		return cudaSuccess;
	return cudasim_is_device(p, bytes) ? cudasim_queue(stream, i)
	                                   : cudasim_return(cudaErrorInvalidValue);
}
