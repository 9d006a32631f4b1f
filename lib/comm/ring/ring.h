/* ring.h - groups whose collectives go from neighbour to neighbour, in chunks. */
#ifndef GT_COMM_RING_RING_H
#define GT_COMM_RING_RING_H

#include "lib/comm/group.h"

/*
 * Each rank sends to the next one and receives from the one before, the last one sends to the
 * first. An all-reduce is a reduce-scatter and an all-gather of one slice per rank: n - 1 steps
 * each, in which every rank sends to its neighbour alone. Two ranks send 2 (n - 1) / n times their
 * buffers, the least that an all-reduce can do; more ranks send partial sums besides
 * (ring/peers.h). Broadcast and reduce go once around, chunk behind chunk. Messages and barriers
 * are left to the group below, because a ring does not make them faster.
 *
 * Where ranks can read each other's buffers, `shm` (shm.h) moves fewer bytes: it reduces buffers
 * where they are. A ring is useful if only neighbours can access each other's memory fast, as GPUs
 * that are connected in pairs. It needs only peer copies between neighbours (ring/peers.h). Here
 * these are copies in memory that CPU ranks, threads or processes, share.
 *
 * Ordered (group.h), although slice j is summed along the ring from rank j + 1 to rank j: ranks
 * hand on partial sums of the tree. Only the sign of a zero from GT_MAX may differ.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69(2), 2009; for gradients of neural networks: Gibiansky, "Bringing HPC
 * techniques to deep learning", Baidu Research 2017.
 */

/*
 * Make a ring of the ranks of a group that is from shm.h: a collective call. *group becomes the
 * ring, which owns the seat that *group was. Late and dead ranks are named as in shm.h.
 *
 * Errors: GT_ENOMEM, and those of collectives, on all ranks; *group is then the seat that it was.
 */
int gt_ring_of_shm(struct gt_group **group, struct gt_err *err);

#endif
