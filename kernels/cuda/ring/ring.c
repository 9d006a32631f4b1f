/* ring.c - collectives and messages of a ring of GPUs, queued on streams. */
#include "kernels/cuda/ring/ring.h"

#include <stdlib.h>

#include "kernels/cuda/group/thread_peers.h"

/*
 * The ranks are threads or processes of one host, and may share GPUs. These words are used here:
 *
 *   window   a block of one rank's device memory. The other ranks write to this block. Other
 *            processes open the block with cudaIpcOpenMemHandle(); threads of the same process use
 *            its address.
 *   inbox    the part of a window that one other rank writes to. A window has one inbox for each
 *            other rank. Collectives use the inbox for the previous rank in the ring. The other
 *            inboxes are only for messages (GT_SEND), and have shorter slots.
 *   chunk    a part of a buffer or of a message. Each chunk is sent as one piece.
 *   slot     space for one chunk. An inbox has GT_RING_SLOTS slots. Chunk k uses slot
 *            k modulo GT_RING_SLOTS.
 *   post     set a counter that another rank waits for.
 *
 * Rank 0 sends chunk k to rank 1 with these operations on the streams of the two ranks:
 *
 *   rank 0   wait for the slot | write the slot | post `filled`
 *   rank 1   wait for `filled`                                  | read the slot | post `taken`
 *
 * Rank 0 waits until rank 1 has taken (read) chunk k - GT_RING_SLOTS, which used the same slot. The
 * counters `filled` and `taken` count the chunks of an inbox. They are in host memory that all
 * ranks share and have registered with CUDA. Kernels write, read and post, and the stream itself
 * waits. So the host can queue a whole collective without waiting.
 *
 * lib/comm/ring/peers.h describes the algorithm, its steps and the numbers of bytes. Each sum is
 * added up in a fixed order (an "ordered" group: lib/comm/group.h). Messages are sent directly to
 * the receiver. The sender waits while all slots of the inbox are full.
 *
 * Aborting. A rank that has an error sets its word `halt`. Then it ends the waits of its own
 * stream: it sets every counter that this stream may wait for to a value far above the awaited one.
 * The rank repeats this until its stream is idle. The rank's kernels find `halt` set, and from then
 * on neither write data nor post. So no other rank reads an unfinished result: each other rank
 * waits until it learns of the error, too.
 *
 * The ring relies on these guarantees of CUDA:
 * - A wait is over when (int32_t)(value - wanted) >= 0, so counters may wrap around (CUDA Driver
 *   API, "Stream Memory Operations", CU_STREAM_WAIT_VALUE_GEQ).
 * - A thread of a kernel calls __threadfence_system() and then writes a counter. If the host or
 *   another GPU sees the new value of the counter, it also sees the writes of earlier kernels of
 *   the same stream (CUDA C++ Programming Guide, "Memory Fence Functions"; PTX ISA, "Memory
 *   Consistency Model": causality order is cumulative).
 * - Other processes can open memory of cudaMalloc(), and must close it before its owner frees it. A
 *   process cannot open its own memory (CUDA Runtime API, cudaIpcOpenMemHandle()).
 * - Processes that share a GPU take turns on it, in time slices. A stream that waits for a counter
 *   does not occupy the GPU. Streams of one process may share a hardware queue of the GPU, and then
 *   wait for each other: see kernels/cuda/runtime/host_call.c.
 */

/*
 * Far ahead of all chunks that can be on their way. A stream waits until (int32_t)(value -
 * wanted) >= 0, so the distance must stay below 2^31: a counter that is 2^30 ahead ends all waits
 * queued so far, and does not seem to be behind.
 */
static const uint32_t ahead = 1u << 30;

static struct gt_stream *stream_of(const struct gt_cuda_ring *r)
{
	return r->g->stream;
}

/* The address that the GPU has for memory in r->lines. */
static void *on_gpu(const struct gt_cuda_ring *r, const uint32_t *word)
{
	return (void *)(r->d_lines + ((uintptr_t)word - (uintptr_t)r->lines));
}

static uint32_t *halt_of(const struct gt_cuda_ring *r)
{
	return &gt_cuda_ring_line(r, r->seat.rank, r->seat.rank)->halt;
}

/* ---- counters ---- */

/* The error of a group that has failed: nothing is queued any more. */
static int wait_for(
    const struct gt_cuda_ring *r, const uint32_t *counter, uint32_t value, struct gt_err *err)
{
	CUdeviceptr at = (CUdeviceptr)(uintptr_t)on_gpu(r, counter);

	if (r->halted)
		return gt_cuda_group_failed(r->g, err);
	return gt_cuda_check(
	    (cudaError_t)r->wait_value(stream_of(r)->queue, at, value, r->wait_flags),
	    stream_of(r)->index, "cuStreamWaitValue32", err);
}

static int post(const struct gt_cuda_ring *r, uint32_t *counter, uint32_t value, struct gt_err *err)
{
	return gt_cuda_ring_post(
	    stream_of(r), on_gpu(r, halt_of(r)), on_gpu(r, counter), value, err);
}

/* ---- one chunk, to a rank or from it ---- */

static unsigned char *slot_of(
    const struct gt_cuda_ring *r, int receiver, int sender, uint32_t chunk)
{
	unsigned char *window =
	    receiver == r->seat.rank ? r->window : r->connections[receiver].window;

	return window + gt_cuda_ring_inbox(r, receiver, sender) +
	       chunk % GT_RING_SLOTS * gt_cuda_ring_slot(r, receiver, sender);
}

/*
 * The first chunks find their slots empty: chunk k waits until k + 1 - GT_RING_SLOTS chunks are
 * taken, which for the first GT_RING_SLOTS of them is at most 0. `sent` counts chunks that are
 * queued, not those that the GPU has sent, so the host may be far ahead of the GPU.
 */
static int free_slot_at(struct gt_cuda_ring *r, int peer, void **slot, struct gt_err *err)
{
	const struct gt_cuda_ring_connection *l = &r->connections[peer];

	*slot = slot_of(r, peer, r->seat.rank, l->sent);
	return wait_for(
	    r, &gt_cuda_ring_line(r, peer, r->seat.rank)->taken, l->sent + 1 - GT_RING_SLOTS, err);
}

static int signal_to(struct gt_cuda_ring *r, int peer, struct gt_err *err)
{
	return post(
	    r, &gt_cuda_ring_line(r, peer, r->seat.rank)->filled, ++r->connections[peer].sent, err);
}

static int arrived_from(struct gt_cuda_ring *r, int peer, const void **slot, struct gt_err *err)
{
	const struct gt_cuda_ring_connection *l = &r->connections[peer];

	*slot = slot_of(r, r->seat.rank, peer, l->received);
	return wait_for(r, &gt_cuda_ring_line(r, r->seat.rank, peer)->filled, l->received + 1, err);
}

static int consume_from(struct gt_cuda_ring *r, int peer, struct gt_err *err)
{
	return post(r, &gt_cuda_ring_line(r, r->seat.rank, peer)->taken,
	    ++r->connections[peer].received, err);
}

/* ---- peer copies (lib/comm/ring/peers.h) ---- */

static int next_of(const struct gt_cuda_ring *r)
{
	return (r->seat.rank + 1) % r->seat.size;
}

static int before(const struct gt_cuda_ring *r)
{
	return (r->seat.rank + r->seat.size - 1) % r->seat.size;
}

/* The watch compares the ranks' calls. */
static int enter_ring_call(void *self, const struct gt_collective *c, struct gt_err *err)
{
	(void)self;
	(void)c;
	(void)err;
	return 0;
}

static int free_slot(void *self, void **slot, struct gt_err *err)
{
	struct gt_cuda_ring *r = self;

	r->sends = true;
	return free_slot_at(r, next_of(r), slot, err);
}

/* An act is queued: consume() ends it if nothing is sent, and signal() if something is. */
static int end_act(struct gt_cuda_ring *r, struct gt_err *err)
{
	r->sends = false;
	return gt_cuda_thread_peers_within(r->g, ++r->acts, err);
}

static int signal_next(void *self, struct gt_err *err)
{
	return signal_to(self, next_of(self), err) ? err->code : end_act(self, err);
}

static int arrived(void *self, const void **slot, struct gt_err *err)
{
	return arrived_from(self, before(self), slot, err);
}

static int consume(void *self, struct gt_err *err)
{
	struct gt_cuda_ring *r = self;

	return consume_from(r, before(r), err) ? err->code : r->sends ? 0 : end_act(r, err);
}

static int copy_to_ring_peers(
    void *self, void *const *dst, int dsts, const void *src, size_t bytes, struct gt_err *err)
{
	const struct gt_cuda_ring *r = self;

	if (dsts == 1 && dst[0] == src)
		return 0;
	return gt_cuda_ring_copy(stream_of(r), on_gpu(r, halt_of(r)), dst, dsts, src, bytes, err);
}

static int reduce(void *self, const struct gt_reduce_step *step, struct gt_err *err)
{
	const struct gt_cuda_ring *r = self;

	return gt_cuda_ring_reduce(stream_of(r), on_gpu(r, halt_of(r)), step, err);
}

const struct gt_ring_peers gt_cuda_ring_peers = {
	.enter = enter_ring_call,
	.free_slot = free_slot,
	.signal = signal_next,
	.arrived = arrived,
	.consume = consume,
	.copy = copy_to_ring_peers,
	.reduce = reduce,
};

/* ---- messages ---- */

static int send_chunk(
    struct gt_cuda_ring *r, int peer, const void *from, size_t bytes, struct gt_err *err)
{
	void *slot;

	if (free_slot_at(r, peer, &slot, err) || copy_to_ring_peers(r, &slot, 1, from, bytes, err))
		return err->code;
	return signal_to(r, peer, err);
}

static int receive_chunk(
    struct gt_cuda_ring *r, int peer, void *to, size_t bytes, struct gt_err *err)
{
	const void *slot;

	if (arrived_from(r, peer, &slot, err) || copy_to_ring_peers(r, &to, 1, slot, bytes, err))
		return err->code;
	return consume_from(r, peer, err);
}

/*
 * Both ends cut a message by the same length, that of the receiver's slot for this sender, so
 * chunks agree without a header.
 */
static int pass_message(struct gt_cuda_ring *r, const struct gt_collective *c, struct gt_err *err)
{
	const bool sends = c->kind == GT_SEND;
	const size_t bytes = (size_t)c->count * gt_dtype_size(c->dtype);
	const size_t max = sends ? gt_cuda_ring_slot(r, c->peer, r->seat.rank)
	                         : gt_cuda_ring_slot(r, r->seat.rank, c->peer);
	uint32_t chunks = 0;
	int rc = 0;

	for (size_t at = 0; !rc && at < bytes; at += max) {
		size_t n = bytes - at < max ? bytes - at : max;

		rc = sends ? send_chunk(r, c->peer, (const char *)c->in + at, n, err)
		           : receive_chunk(r, c->peer, (char *)c->out + at, n, err);
		if (!rc)
			rc = gt_cuda_thread_peers_along(r->g, c, ++chunks, err);
	}
	return rc;
}

/* ---- struct gt_cuda_links ---- */

static int queue_ring_call(
    struct gt_cuda_ring *r, const struct gt_collective *c, struct gt_err *err)
{
	const struct gt_collective barrier = { .kind = GT_ALL_REDUCE,
		.in = r->token,
		.out = r->token,
		.count = 1,
		.dtype = GT_I32,
		.reduction = GT_MAX };

	if (c->kind == GT_SEND || c->kind == GT_RECV)
		return pass_message(r, c, err);
	return gt_ring_collect(&r->seat, c->kind == GT_BARRIER ? &barrier : c, err);
}

/* `count` is 1: a ring has no exchanges. */
static int run_ring_call(
    struct gt_cuda_group *g, const struct gt_collective *c, int count, struct gt_err *err)
{
	struct gt_cuda_ring *r = g->link;
	int rc;

	(void)count;
	r->sends = false;
	r->acts = 0;
	atomic_store(&r->calling, true);
	rc = queue_ring_call(r, c, err);
	atomic_store(&r->calling, false);
	return rc;
}

/* A device's error is that of any call for it. */
static int background(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err)
{
	(void)g;
	(void)c;
	(void)err;
	return 0;
}

/* Set all counters that this rank waits for far ahead. No other rank waits for them. The caller's
 * thread may be counting chunks just now: `ahead` leaves room for those. */
static void write_ahead(struct gt_cuda_ring *r)
{
	for (int peer = 0; peer < r->seat.size; peer++) {
		const struct gt_cuda_ring_connection *l = &r->connections[peer];
		struct gt_cuda_ring_line *in = gt_cuda_ring_line(r, r->seat.rank, peer);
		struct gt_cuda_ring_line *out = gt_cuda_ring_line(r, peer, r->seat.rank);

		if (peer == r->seat.rank)
			continue;
		__atomic_store_n(&in->filled, l->received + ahead, __ATOMIC_SEQ_CST);
		__atomic_store_n(&out->taken, l->sent + ahead, __ATOMIC_SEQ_CST);
	}
}

/* `halt` before the counters: a kernel that a counter lets go finds it set. */
static void abort_calls(struct gt_cuda_group *g)
{
	struct gt_cuda_ring *r = g->link;

	if (!r->lines)
		return;
	__atomic_store_n(halt_of(r), 1, __ATOMIC_SEQ_CST);
	atomic_store(&r->halted, true);
	write_ahead(r);
}

/*
 * Ranks that have not heard of the error yet may write counters, too: a post of theirs sets a
 * counter back to its true number, and a stream that looks just then goes on waiting. So the
 * counters are written again and again. Example, where rank 0 aborts while its stream waits for
 * `filled` of rank 3 to be 5:
 *
 *   rank 0   halt = 1 | filled far ahead | stream: the wait is over, the kernel finds halt
 *   rank 3   posts filled = 4            | perhaps before the stream has looked
 *   rank 0   filled far ahead once more  | until the stream is idle
 *
 * `calling` is checked as well, because a thread may still be queuing waits.
 */
void gt_cuda_ring_drain(struct gt_cuda_ring *r)
{
	double pause_s = 0;

	if (!r->halted)
		return;
	do {
		write_ahead(r);
		gt_cuda_group_pause(&pause_s);
	} while (r->calling || cudaStreamQuery(stream_of(r)->queue) == cudaErrorNotReady);
	cudaGetLastError();
}

static void drain(struct gt_cuda_group *g)
{
	gt_cuda_ring_drain(g->link);
}

const struct gt_cuda_links gt_cuda_ring_links = {
	.groups = &gt_cuda_ring_groups,
	.connect = gt_cuda_ring_connect,
	.call = run_ring_call,
	.background = background,
	.abort = abort_calls,
	.drain = drain,
	.disconnect = gt_cuda_ring_disconnect,
	.hint = "",
};
