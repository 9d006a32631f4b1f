/* ring.h - groups on one host: ranks that share memory, threads or processes. */
#ifndef GT_COMM_RING_H
#define GT_COMM_RING_H

#include "lib/comm/group.h"

/*
 * A ring is bandwidth-optimal: every element leaves a rank's memory 2 (n - 1) / n times. On one
 * host no byte needs to go around: each rank reduces its part of the buffer by reading the others'
 * directly, and writes the result directly, too. Buffers from gt_group_alloc() are reduced where
 * they are, at whatever place; others go through staging, in pieces, one being filled while the one
 * before is reduced. Small ones take one meeting of the ranks.
 *
 * Waiting spins for some microseconds, or lets others run where ranks outnumber processors, then
 * sleeps on a futex. A process that dies is noticed within a fraction of a second, one that is
 * late after the time-out.
 */

struct gt_ring_options {
	double timeout_s;     /* a peer that is later than this is lost; 0: 600 */
	size_t staging_bytes; /* per rank, and the same on all; 0: a good default */
};

/* How processes tell each other where their memory is: everybody's `bytes` bytes (at most 256) in
 * the order of the ranks, as gt_rendezvous_exchange(). Used while a group is made, and no more. */
struct gt_exchange {
	int (*run)(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err);
	void *self;
};

enum { GT_RING_MAX_RANKS = 64 };

/* This process's seat in a group of processes of one host and user: a collective call.
 * Memory is a memfd of rank 0's, which no kill leaves behind. */
int gt_ring_of_processes(struct gt_group **out, int rank, int size,
    const struct gt_exchange *exchange, const struct gt_ring_options *options, struct gt_err *err);

/* All seats of a group of threads of this process: groups[size], each then used by its thread, and
 * each freed. */
int gt_ring_of_threads(
    struct gt_group **groups, int size, const struct gt_ring_options *options, struct gt_err *err);

#endif
