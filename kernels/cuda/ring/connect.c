/* connect.c - a ring of GPUs: open each other's windows, and close them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/group/ranks.h"
#include "kernels/cuda/ring/ring.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

enum { TOKEN_BYTES = 256 };

/* How long a rank waits for the ranks of other processes to close its window: disconnect_s if the
 * group has not failed, failed_s if it has, because a rank may be dead. If the window is still open
 * then, the end of the process frees it. */
static const double disconnect_s = 2, failed_s = 0.5;

/* ---- windows ---- */

/* Bytes of a slot: of the ring's inbox, and of the others. */
struct slots {
	size_t chunk_bytes, message_bytes;
};

/* `total_bytes`: the memory of the smallest GPU. */
static struct slots slots_of(int ranks, uint64_t total_bytes)
{
	const size_t max = (size_t)GT_CUDA_RING_CHUNK * (size_t)gt_ring_most_partials(ranks);
	size_t part = total_bytes / GT_CUDA_RING_MEMORY_DIVISOR / GT_RING_SLOTS, chunk, message;

	chunk = (part < max ? part : max) / GT_CUDA_RING_LEAST * GT_CUDA_RING_LEAST;
	chunk = chunk ? chunk : GT_CUDA_RING_LEAST;
	message = chunk / GT_CUDA_RING_MESSAGE_DIVISOR;
	return (struct slots){ chunk, message > GT_CUDA_RING_LEAST ? message : GT_CUDA_RING_LEAST };
}

/*
 * Inboxes lie in the order in which a ring passes their ranks, backwards. Example: the window of
 * rank 2 of 4.
 *
 *   sender 1   place 0   GT_RING_SLOTS slots of chunk_bytes      the ring's own inbox
 *   sender 0   place 1   GT_RING_SLOTS slots of message_bytes
 *   sender 3   place 2   the same
 *
 * place is (2 - 1 - sender) modulo 4. A rank has no inbox for itself, which would be place 3.
 */
static int inbox_place(const struct gt_cuda_ring *r, int receiver, int sender)
{
	return (receiver - 1 - sender + 2 * r->seat.size) % r->seat.size;
}

size_t gt_cuda_ring_slot(const struct gt_cuda_ring *r, int receiver, int sender)
{
	return inbox_place(r, receiver, sender) ? r->message_bytes : r->seat.chunk_bytes;
}

size_t gt_cuda_ring_inbox(const struct gt_cuda_ring *r, int receiver, int sender)
{
	int place = inbox_place(r, receiver, sender);

	return place
	           ? GT_RING_SLOTS * (r->seat.chunk_bytes + (size_t)(place - 1) * r->message_bytes)
	           : 0;
}

static size_t window_bytes(int ranks, const struct slots *slots)
{
	return GT_RING_SLOTS * (slots->chunk_bytes + (size_t)(ranks - 2) * slots->message_bytes);
}

static int new_window(struct gt_cuda_ring *r, struct gt_err *err)
{
	const struct slots slots = { r->seat.chunk_bytes, r->message_bytes };
	int index = r->g->device->index;
	void *p = NULL;
	cudaError_t e;

	r->window_bytes = window_bytes(r->seat.size, &slots);
	e = cudaMalloc(&p, r->window_bytes);
	if (e == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		gt_err_set(err, GT_ENOMEM, "cuda:%d: no memory for a ring's window of %zu bytes",
		    index, r->window_bytes);
		err->device_memory = true;
		return gt_err_hint(err, "{backend} shm needs no window");
	}
	r->window = gt_cuda_check(e, index, "cudaMalloc", err) ? NULL : p;
	return err->code;
}

static int open_window(
    struct gt_cuda_ring *r, const struct gt_cuda_ring_info *infos, int other, struct gt_err *err)
{
	struct gt_cuda_ring_connection *l = &r->connections[other];
	const struct gt_cuda_ring_info *mine = &infos[r->seat.rank];
	bool direct = true;
	void *p;

	if (gt_cuda_same_process(&mine->rank, &infos[other].rank)) {
		if (mine->rank.index != infos[other].rank.index &&
		    gt_cuda_peer_open(mine->rank.index, infos[other].rank.index, &direct, err))
			return err->code;
		return direct ? 0
		              : gt_err_set(err, GT_EDEVICE,
		                    "cuda:%d cannot access the memory of cuda:%d", mine->rank.index,
		                    infos[other].rank.index);
	}
	if (gt_cuda_check(
	        cudaIpcOpenMemHandle(&p, infos[other].handle, cudaIpcMemLazyEnablePeerAccess),
	        mine->rank.index, "cudaIpcOpenMemHandle", err))
		return gt_err_prefix(err, "window of rank %d", other);
	l->window = p;
	l->opened = true;
	return 0;
}

static int open_windows(
    struct gt_cuda_ring *r, const struct gt_cuda_ring_info *infos, struct gt_err *err)
{
	void *d_lines;
	int rc = gt_cuda_check(cudaHostGetDevicePointer(&d_lines, r->lines, 0), r->g->device->index,
	    "cudaHostGetDevicePointer", err);

	r->d_lines = (uintptr_t)d_lines;
	for (int other = 0; !rc && other < r->seat.size; other++)
		if (other != r->seat.rank)
			rc = open_window(r, infos, other, err);
	return rc;
}

/* ---- connecting ---- */

static size_t lines_bytes(const struct gt_cuda_ring *r)
{
	return (size_t)(r->seat.size * r->seat.size) * sizeof(*r->lines);
}

/*
 * Other GPUs write chunks into this GPU's window, and the counters of these chunks into memory of
 * the host. The stream may see a counter before a chunk that came over PCIe has reached the window.
 * CU_STREAM_WAIT_VALUE_FLUSH makes it visible to the work behind the wait, on platforms that need
 * it (CUDA Driver API, CUstreamWaitValue_flags).
 */
static unsigned wait_flags_of(int index)
{
	int flushes = 0;

	if (cudaDeviceGetAttribute(&flushes, cudaDevAttrCanFlushRemoteWrites, index) != cudaSuccess)
		cudaGetLastError();
	return CU_STREAM_WAIT_VALUE_GEQ | (flushes ? CU_STREAM_WAIT_VALUE_FLUSH : 0);
}

/* All that a rank makes alone, and its info. */
static struct gt_cuda_ring_info make_own(struct gt_cuda_ring *r, struct gt_err *err)
{
	const struct gt_device *device = r->g->device;
	struct gt_cuda_ring_info info = { .window = NULL };

	r->wait_flags = wait_flags_of(device->index);
	if (!err->code && !gt_cuda_find_wait_value(&r->wait_value, device->index, err) &&
	    !gt_device_alloc(device, TOKEN_BYTES, &r->token, err) && !new_window(r, err))
		gt_cuda_check(cudaIpcGetMemHandle(&info.handle, r->window), device->index,
		    "cudaIpcGetMemHandle", err);
	info.window = r->window;
	info.rank = gt_cuda_rank_info_of(device, err);
	return info;
}

/* Even if a window cannot be opened later, disconnecting needs to know all ranks: those that may
 * have opened this rank's window, and the windows of this process, which its last rank frees. */
static void find_process_ranks(struct gt_cuda_ring *r, const struct gt_cuda_ring_info *infos)
{
	r->first_process_rank = -1;
	for (int rank = 0; rank < r->seat.size; rank++) {
		r->connections[rank].far =
		    !gt_cuda_same_process(&infos[rank].rank, &infos[r->seat.rank].rank);
		if (r->connections[rank].far)
			continue;
		if (rank != r->seat.rank)
			r->connections[rank].window = infos[rank].window;
		if (r->first_process_rank < 0)
			r->first_process_rank = rank;
		r->process_ranks++;
	}
}

/* Memory of the host is registered once in a process, for all its GPUs. */
static void register_lines(struct gt_cuda_ring *r, struct gt_err *err)
{
	if (r->first_process_rank == r->seat.rank)
		gt_cuda_check(cudaHostRegister(r->lines, lines_bytes(r),
		                  cudaHostRegisterPortable | cudaHostRegisterMapped),
		    r->g->device->index, "cudaHostRegister", err);
}

/*
 * A rank that fails goes on to the next exchange and reports its error there, so that no rank
 * waits for it:
 *
 *   share lines | make_own | exchange infos | register lines | agree | open windows | agree
 *
 * Lines are registered before any rank opens windows, because open_windows() asks for the GPU's
 * address of them, and one rank of a process registers for all of its ranks.
 */
static int connect_ranks(struct gt_cuda_ring *r, struct gt_err *err)
{
	struct gt_group *host = r->g->host;
	struct gt_err own = GT_ERR_INIT;
	struct gt_cuda_ring_info mine, *infos = NULL;
	void *lines, *gathered = NULL;
	int rc;

	if (gt_group_share(host, lines_bytes(r), &lines, err))
		return err->code;
	r->lines = lines;
	r->connections = gt_calloc((size_t)r->seat.size, sizeof(*r->connections), &own);
	mine = make_own(r, &own);
	rc = gt_cuda_gather_new(host, &mine, sizeof(mine), &gathered, err);
	infos = gathered;
	if (!rc)
		rc = gt_cuda_ring_check_infos(infos, r->seat.size, r->seat.rank, err);
	if (!rc) {
		find_process_ranks(r, infos);
		register_lines(r, &own);
		r->registered = !own.code;
		rc = gt_cuda_agree(host, &own, err);
	}
	if (!rc) {
		open_windows(r, infos, &own);
		rc = gt_cuda_agree(host, &own, err);
	}
	free(infos);
	return rc;
}

int gt_cuda_ring_connect_by(
    struct gt_cuda_group *g, size_t slot_bytes, size_t message_bytes, struct gt_err *err)
{
	struct gt_cuda_ring *r = gt_calloc(1, sizeof(*r), err);

	if (!r)
		return err->code;
	r->g = g;
	r->message_bytes = message_bytes;
	r->seat = (struct gt_ring_seat){ g->group.rank, g->group.size, &gt_cuda_ring_peers, r,
		slot_bytes, gt_ring_most_partials(g->group.size) };
	g->link = r;
	if (connect_ranks(r, err))
		gt_cuda_ring_disconnect(g);
	return err->code;
}

int gt_cuda_ring_connect(struct gt_cuda_group *g, struct gt_err *err)
{
	size_t available, total = 0;
	struct slots slots;
	int64_t less;

	if (cudaMemGetInfo(&available, &total) != cudaSuccess)
		/* clear the error of a device that has failed; make_own() reports it */
		cudaGetLastError();
	/*
	 * The smallest of all: GPUs may differ, and slots must not. A maximum of negative numbers
	 * finds it, as collectives have no minimum.
	 */
	less = -(int64_t)total;
	if (gt_all_reduce(g->host, &less, 1, GT_I64, GT_MAX, err))
		return err->code;
	slots = slots_of(g->group.size, (uint64_t)-less);
	return gt_cuda_ring_connect_by(g, slots.chunk_bytes, slots.message_bytes, err);
}

/* ---- disconnecting ---- */

static bool all_closed(const struct gt_cuda_ring *r)
{
	for (int rank = 0; rank < r->seat.size; rank++)
		if (r->connections[rank].far &&
		    !__atomic_load_n(&gt_cuda_ring_line(r, rank, rank)->closed, __ATOMIC_ACQUIRE))
			return false;
	return true;
}

/* Whether no other process has a window of this one any more. */
static bool await_others(const struct gt_cuda_ring *r)
{
	double until = gt_clock_s() + (r->halted ? failed_s : disconnect_s), pause_s = 0;
	bool closed;

	while (!(closed = all_closed(r)) && gt_clock_s() < until)
		gt_cuda_group_pause(&pause_s);
	return closed;
}

static void close_windows(struct gt_cuda_ring *r)
{
	for (int other = 0; r->connections && other < r->seat.size; other++)
		if (r->connections[other].opened &&
		    cudaIpcCloseMemHandle(r->connections[other].window) != cudaSuccess)
			cudaGetLastError();
	__atomic_store_n(
	    &gt_cuda_ring_line(r, r->seat.rank, r->seat.rank)->closed, 1, __ATOMIC_RELEASE);
}

static void free_window(void *window)
{
	if (window && cudaFree(window) != cudaSuccess)
		cudaGetLastError();
}

/*
 * The last rank of the process that leaves frees the windows of all its ranks, and unregisters the
 * lines: no stream of it reads or writes them any more. One that leaves before waits for nobody:
 * cudaFree() would wait for the streams of a rank that shares its GPU, and these perhaps for it.
 */
static void leave_process(struct gt_cuda_ring *r)
{
	uint32_t *left = &gt_cuda_ring_line(r, r->first_process_rank, r->first_process_rank)->left;

	if ((int)__atomic_add_fetch(left, 1, __ATOMIC_ACQ_REL) < r->process_ranks)
		return;
	if (r->registered && cudaHostUnregister(r->lines) != cudaSuccess)
		cudaGetLastError();
	if (!await_others(r))
		return;
	free_window(r->window);
	for (int rank = 0; rank < r->seat.size; rank++)
		if (!r->connections[rank].far)
			free_window(r->connections[rank].window);
}

/*
 * All work ends first; nobody starts more. Memory must be closed by other processes before it is
 * freed, and a rank may die before it closes. Two processes, A and B, of one rank each:
 *
 *   A   stream is idle | closes B's window | A.closed = 1 | waits for B.closed  | frees its window
 *   B   stream is idle | closes A's window | B.closed = 1 | waits for A.closed  | frees its window
 *
 * If B has died, A waits for failed_s or disconnect_s and leaves its window to the end of the
 * process.
 */
void gt_cuda_ring_disconnect(struct gt_cuda_group *g)
{
	struct gt_cuda_ring *r = g->link;

	gt_cuda_ring_drain(r);
	if (cudaStreamSynchronize(g->stream->queue) != cudaSuccess)
		cudaGetLastError();
	if (r->lines)
		close_windows(r);
	if (r->process_ranks)
		leave_process(r);
	else /* the ranks never connected */
		free_window(r->window);
	gt_device_free(g->device, r->token, TOKEN_BYTES);
	free(r->connections);
	free(r);
	g->link = NULL;
}

/* ---- groups ---- */

static int make_ring_group(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err)
{
	return gt_cuda_group_new(group, device, &gt_cuda_ring_links, way->messages, err);
}

static uint64_t memory(const struct gt_device *device, int ranks)
{
	uint64_t available, total = 0;
	struct slots slots;

	(void)device->backend->memory(device->index, &available, &total, GT_ERR_IGNORED);
	slots = slots_of(ranks, total);
	return window_bytes(ranks, &slots) + TOKEN_BYTES;
}

const struct gt_device_groups gt_cuda_ring_groups = {
	.name = "ring",
	.ordered = true,
	.shares = true,
	.check_alone = gt_cuda_ring_check_alone,
	.check = gt_cuda_ring_check,
	.make = make_ring_group,
	.memory = memory,
};
