/* ring.h - groups of GPUs on one host; each rank sends chunks to the next rank. */
#ifndef GT_KERNELS_CUDA_RING_RING_H
#define GT_KERNELS_CUDA_RING_RING_H

#include <stdint.h>

#include "kernels/cuda/group/group.h"
#include "kernels/cuda/ring/kernels.h"
#include "kernels/cuda/runtime/host_call.h"
#include "lib/comm/ring/peers.h"

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
 * A line is a struct of 64 bytes. All ranks share the array lines[size * size]. If r and s are
 * different ranks, line r * size + s holds the counters of the inbox that rank r has for rank s.
 * The state of rank r is in line r * size + r.
 */
struct gt_cuda_ring_line {
	/* counters of an inbox. filled: number of chunks that were written into the inbox. taken:
	 * number of chunks that were read from the inbox. */
	uint32_t filled, taken;

	/* state of rank r */
	uint32_t halt;   /* 1: kernels of the rank must do nothing */
	uint32_t closed; /* 1: the rank has closed the windows of other ranks */
	/* only used if rank r is the lowest rank of its process: number of ranks of this process
	 * that have called gt_cuda_ring_disconnect() */
	uint32_t left;
	uint32_t unused[11]; /* make a line 64 bytes long */
};

/* A rank's connection with one other rank. */
struct gt_cuda_ring_lane {
	unsigned char *window; /* the other rank's window; NULL: not open */
	bool far;              /* the other rank is in another process */
	bool opened;           /* `window` is the window of a far rank, and is open */
	/* sent: number of chunks that were queued for sending to the other rank. received: number
	 * of chunks that were queued for receiving from the other rank. */
	atomic_uint sent, received;
};

/* The state of the links of one rank: g->link points to it (kernels/cuda/group/group.h). */
struct gt_cuda_ring {
	struct gt_cuda_group *g;
	struct gt_ring_seat seat; /* this rank's position in the ring */
	/* message_bytes: size of a slot in an inbox for messages. window_bytes: size of this rank's
	 * window. */
	size_t message_bytes, window_bytes;
	unsigned char *window; /* this rank's window */
	void *token;           /* one element in device memory; a barrier all-reduces it */
	struct gt_cuda_ring_lane *lanes; /* [size]; element r: the connection with rank r */
	struct gt_cuda_ring_line *lines; /* [size * size], in host memory */
	uintptr_t d_lines;               /* address of `lines` on this GPU */
	/* mates: number of ranks of the group that are in this process. first_mate: the lowest of
	 * these ranks; it registers `lines` with CUDA. */
	int mates, first_mate;
	bool registered;                   /* `lines` is registered with CUDA */
	gt_cuda_wait_value_fn *wait_value; /* the driver's cuStreamWaitValue32() */
	unsigned wait_flags;               /* the flags to pass to wait_value() */
	/* The collective that is being queued. It consists of acts: an act is the work on one chunk
	 * (kernels/cuda/group/mates.h). acts: number of acts queued so far; sends: the current act
	 * sends a chunk. */
	uint32_t acts;
	bool sends;
	/* halted: this rank has set its word `halt`. calling: the caller's thread is queuing a
	 * collective. */
	atomic_bool halted, calling;
};

extern const struct gt_cuda_links gt_cuda_ring_links;

/* Return the line with the counters of the inbox that `receiver` has for `sender`. If both are the
 * same rank, return the line with the state of this rank. */
static inline struct gt_cuda_ring_line *gt_cuda_ring_line(
    const struct gt_cuda_ring *r, int receiver, int sender)
{
	return &r->lines[receiver * r->seat.size + sender];
}

/* ---- connect.c ---- */

/* Sizes of slots. */
enum {
	/* The largest size of a slot for collectives is this number of bytes, times the largest
	 * number of partial sums that a rank sends (gt_ring_most_partials(),
	 * lib/comm/ring/peers.h). Copying so many bytes takes longer than starting the kernels. */
	GT_CUDA_RING_CHUNK = 2 << 20,
	/* all slots of the inbox for collectives together take at most 1 / 4096 of the memory of
	 * the smallest GPU */
	GT_CUDA_RING_MEMORY_DIVISOR = 4096,
	/* a slot for messages has 1 / 8 of the size of a slot for collectives */
	GT_CUDA_RING_MESSAGE_DIVISOR = 8,
	/* smallest size of any slot, in bytes */
	GT_CUDA_RING_LEAST = 4096
};

/* Implements connect() of struct gt_cuda_links: choose the sizes of the slots, then call
 * gt_cuda_ring_connect_by(). */
int gt_cuda_ring_connect(struct gt_cuda_group *g, struct gt_err *err);

/* Connect this GPU with the GPUs of the other ranks. slot_bytes is the size of a slot for
 * collectives, message_bytes the size of a slot for messages. The sizes must be the same on all
 * ranks. */
int gt_cuda_ring_connect_by(
    struct gt_cuda_group *g, size_t slot_bytes, size_t message_bytes, struct gt_err *err);

/* Implements disconnect() of struct gt_cuda_links. */
void gt_cuda_ring_disconnect(struct gt_cuda_group *g);

/* Return the offset, in bytes, of an inbox in the receiver's window. */
size_t gt_cuda_ring_inbox(const struct gt_cuda_ring *r, int receiver, int sender);

/* Return the size, in bytes, of the slots of an inbox. */
size_t gt_cuda_ring_slot(const struct gt_cuda_ring *r, int receiver, int sender);

/* ---- ring.c ---- */

extern const struct gt_ring_peers gt_cuda_ring_peers;

/* End every wait of the group's stream, and return when the stream is idle. If this rank has not
 * set its word `halt`, return at once. */
void gt_cuda_ring_drain(struct gt_cuda_ring *r);

#endif
