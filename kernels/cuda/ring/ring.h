/* ring.h - groups of GPUs of one host; each rank hands chunks to its neighbour. */
#ifndef GT_KERNELS_CUDA_RING_RING_H
#define GT_KERNELS_CUDA_RING_RING_H

#include <stdint.h>

#include "kernels/cuda/group/group.h"
#include "kernels/cuda/host_call.h"
#include "kernels/cuda/ring/kernels.h"
#include "lib/comm/ring/peers.h"

/*
 * The ranks are threads or processes of one host, and may share GPUs. Each rank has a window of
 * device memory, which the other ranks open (cudaIpcOpenMemHandle(); threads of one process use it
 * directly). A window holds an inbox for each other rank. An inbox has GT_RING_SLOTS slots, which
 * are used in turn. Collectives use the inbox for the previous rank. The other inboxes have shorter
 * slots, and are only for messages.
 *
 * A chunk goes from rank 0 to rank 1, each with its own stream, like this:
 *
 *   rank 0   wait until rank 1 has taken a chunk | kernel: writes slot | post `filled`
 *   rank 1                        wait for `filled` | kernel: reads slot | post `taken`
 *
 * `filled` and `taken` count the chunks of an inbox. They lie in memory of the host that all ranks
 * share and have registered with CUDA, one line per inbox. A kernel of one thread posts, and the
 * stream waits, so the host can queue a whole collective at once.
 *
 * Sums, steps and bytes are those of ring/peers.h: sums are ordered (group.h). Messages are sent
 * directly to the receiver. The sender waits if the GT_RING_SLOTS slots are full.
 *
 * Aborting: a rank that fails sets its `halt`, and then writes the counters that its own stream
 * waits for ahead, again and again until the stream is idle. Its kernels find `halt` set, and from
 * then on neither write nor post. So no other rank reads an unfinished result: it waits until
 * it hears of the error, too.
 *
 * The ring relies on these promises of CUDA:
 * - A wait is over when (int32_t)(value - wanted) >= 0, so counters may wrap around (CUDA Driver
 *   API, "Stream Memory Operations", CU_STREAM_WAIT_VALUE_GEQ).
 * - A thread that writes after __threadfence_system() is seen to do so after the writes of earlier
 *   kernels of its stream, by the host and by other GPUs (CUDA C++ Programming Guide, "Memory Fence
 *   Functions"; PTX ISA, "Memory Consistency Model": causality order is cumulative).
 * - Memory of cudaMalloc() can be opened by other processes, and is to be closed there before it is
 *   freed; a process cannot open its own (CUDA Runtime API, cudaIpcOpenMemHandle()).
 * - Processes that share a GPU take turns; a stream that waits for a number takes no turn. Streams
 *   of one process may share a queue of the GPU, and wait for each other in it then: host_call.c.
 */
struct gt_cuda_ring_line {
	/* Line r * size + s: the inbox that rank r has for rank s. */
	uint32_t filled, taken;

	/* Line r * size + r: the state of rank r. */
	uint32_t halt;   /* its kernels must do nothing */
	uint32_t closed; /* it has closed the windows of other ranks */
	uint32_t left;   /* ranks of a process that have left, where r is the first of them */
	uint32_t unused[11];
};

struct gt_cuda_ring_lane {
	unsigned char *window;   /* the other rank's window; NULL: not open */
	bool opened;             /* it belongs to another process, and was opened */
	uint32_t sent, received; /* chunks that were queued */
};

/* g->link */
struct gt_cuda_ring {
	struct gt_cuda_group *g;
	struct gt_ring_seat seat;
	size_t message_bytes, window_bytes; /* size of a slot for messages; size of a window */
	unsigned char *window;              /* this rank's */
	void *token;                        /* device memory that a barrier all-reduces */
	struct gt_cuda_ring_lane *lanes;    /* [size], by the other rank */
	struct gt_cuda_ring_line *lines;    /* [size * size], in host memory */
	uintptr_t d_lines;                  /* their address for this GPU */
	int mates, first_mate; /* ranks of this process; lines are registered by the first */
	bool registered;
	gt_cuda_wait_value_fn *wait_value;
	atomic_bool halted, calling; /* a collective is being queued */
};

extern const struct gt_cuda_links gt_cuda_ring_links;

static inline struct gt_cuda_ring_line *gt_cuda_ring_line(
    const struct gt_cuda_ring *r, int receiver, int sender)
{
	return &r->lines[receiver * r->seat.size + sender];
}

/* ---- connect.c ---- */

/*
 * A slot has 2 MiB for each partial sum: then copying a chunk takes longer than starting its
 * kernels. All slots of the ring's inbox together take at most 1 / GT_CUDA_RING_PART of the
 * smallest GPU's memory. Slots of the other inboxes have 1 / GT_CUDA_RING_MESSAGES of this length.
 * No slot is shorter than GT_CUDA_RING_LEAST bytes.
 */
enum {
	GT_CUDA_RING_CHUNK = 2 << 20,
	GT_CUDA_RING_PART = 4096,
	GT_CUDA_RING_MESSAGES = 8,
	GT_CUDA_RING_LEAST = 4096
};

/* The function of struct gt_cuda_links; and the same with given sizes of slots, which must be equal
 * on all ranks. */
int gt_cuda_ring_connect(struct gt_cuda_group *g, struct gt_err *err);
int gt_cuda_ring_connect_by(
    struct gt_cuda_group *g, size_t slot_bytes, size_t message_bytes, struct gt_err *err);
void gt_cuda_ring_disconnect(struct gt_cuda_group *g);

/* The offset of an inbox in the receiver's window, and the bytes of its slots. */
size_t gt_cuda_ring_inbox(const struct gt_cuda_ring *r, int receiver, int sender);
size_t gt_cuda_ring_slot(const struct gt_cuda_ring *r, int receiver, int sender);

/* ---- ring.c ---- */

extern const struct gt_ring_peers gt_cuda_ring_peers;

/* End all waits of the stream until it is idle. The ring must be halted. */
void gt_cuda_ring_drain(struct gt_cuda_ring *r);

#endif
