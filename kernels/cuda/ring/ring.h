/* ring.h - groups of GPUs on one host; each rank sends chunks to the next rank. */
#ifndef GT_KERNELS_CUDA_RING_RING_H
#define GT_KERNELS_CUDA_RING_RING_H

#include <stdint.h>

#include "kernels/cuda/group/group.h"
#include "kernels/cuda/group/ranks.h"
#include "kernels/cuda/ring/kernels.h"
#include "kernels/cuda/runtime/host_call.h"
#include "lib/comm/ring/peers.h"

/* The ranks are threads or processes of one host, and may share GPUs. ring.c explains how they
 * exchange data, and the words window, inbox, chunk, slot and post. */

/* Counters that all ranks share, lines[size * size]: line r * size + s has those of rank r's inbox
 * for rank s, and line r * size + r has the state of rank r. gt_cuda_ring_line() finds a line. */
struct gt_cuda_ring_line {
	/* chunks that were written into the inbox, and chunks that were read from it */
	uint32_t filled, taken;

	/* state of rank r */
	uint32_t halt;   /* 1: the rank's kernels do nothing */
	uint32_t closed; /* 1: other ranks' windows are closed */
	/* kept by the lowest rank of a process: how many of its ranks have disconnected */
	uint32_t left;
	uint32_t unused[11]; /* padding to 64 bytes */
};

/* A connection with another rank. */
struct gt_cuda_ring_connection {
	unsigned char *window; /* NULL: not open */
	bool far;              /* the other rank is in another process */
	bool opened;           /* the window of a far rank is open */
	/* chunks queued for sending, and for receiving */
	atomic_uint sent, received;
};

/* The links of one rank (group.h). */
struct gt_cuda_ring {
	struct gt_cuda_group *g;
	struct gt_ring_seat seat; /* the position in the ring */
	/* the sizes of a slot for messages and of this rank's window, in bytes */
	size_t message_bytes, window_bytes;
	unsigned char *window;
	void *token;                                 /* one element, for barriers */
	struct gt_cuda_ring_connection *connections; /* [size] */
	struct gt_cuda_ring_line *lines;             /* [size * size], host memory */
	uintptr_t d_lines;                           /* `lines` for this GPU */
	/* ranks of this process, and the lowest of them, which registers `lines` with CUDA */
	int process_ranks, first_process_rank;
	bool registered;
	gt_cuda_wait_value_fn *wait_value;
	unsigned wait_flags;
	/* the acts (thread_peers.h) of the current collective that are queued, and whether the last
	 * one sends */
	uint32_t acts;
	bool sends;
	/* this rank has set `halt`; the caller's thread is queuing a collective */
	atomic_bool halted, calling;
};

extern const struct gt_cuda_links gt_cuda_ring_links;

/* Return the line of an inbox, or of a rank's state if both ranks are the same. */
static inline struct gt_cuda_ring_line *gt_cuda_ring_line(
    const struct gt_cuda_ring *r, int receiver, int sender)
{
	return &r->lines[receiver * r->seat.size + sender];
}

/* ---- check.c ---- */

/* A rank's process, GPU and window, or the memory with which check.c tries. */
struct gt_cuda_ring_info {
	struct gt_cuda_rank_info rank;
	cudaIpcMemHandle_t handle;
	unsigned char *window; /* for threads of the same process */
};

/* check_alone() and check() of gt_cuda_ring_groups. */
int gt_cuda_ring_check_alone(const struct gt_device *device, struct gt_err *err);
int gt_cuda_ring_check(struct gt_group *world, const struct gt_device *device, struct gt_err *err);

/* Return the error of the first of `size` ranks that has one, on rank `mine`. */
int gt_cuda_ring_check_infos(
    const struct gt_cuda_ring_info *infos, int size, int mine, struct gt_err *err);

/* ---- connect.c ---- */

/* Sizes of slots, in bytes. */
enum {
	/* largest slot for collectives, times gt_ring_most_partials(): its copy takes longer than
	 * starting a kernel */
	GT_CUDA_RING_CHUNK = 2 << 20,
	/* the slots for collectives take at most this part of the smallest GPU's memory */
	GT_CUDA_RING_MEMORY_DIVISOR = 4096,
	/* a slot for messages has this part of one for collectives */
	GT_CUDA_RING_MESSAGE_DIVISOR = 8,
	/* the smallest slot */
	GT_CUDA_RING_LEAST = 4096
};

/* connect() of the links: choose the sizes of slots, and connect. */
int gt_cuda_ring_connect(struct gt_cuda_group *g, struct gt_err *err);

/* Connect with slots for collectives and for messages of these sizes, which are the same on all
 * ranks. */
int gt_cuda_ring_connect_by(
    struct gt_cuda_group *g, size_t slot_bytes, size_t message_bytes, struct gt_err *err);

/* disconnect() of the links. */
void gt_cuda_ring_disconnect(struct gt_cuda_group *g);

/* The offset of an inbox in the receiver's window, in bytes. */
size_t gt_cuda_ring_inbox(const struct gt_cuda_ring *r, int receiver, int sender);

/* The size of an inbox's slots, in bytes. */
size_t gt_cuda_ring_slot(const struct gt_cuda_ring *r, int receiver, int sender);

/* ---- ring.c ---- */

extern const struct gt_ring_peers gt_cuda_ring_peers;

/* End all waits of the group's stream and wait until it is idle, if `halt` is set. */
void gt_cuda_ring_drain(struct gt_cuda_ring *r);

#endif
