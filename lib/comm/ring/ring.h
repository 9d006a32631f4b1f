/* ring.h - ring groups for host memory: each rank sends only to the next rank. */
#ifndef GT_COMM_RING_RING_H
#define GT_COMM_RING_RING_H

#include "lib/comm/group.h"

/*
 * In a ring of n ranks, rank r sends to rank r + 1 and receives from rank r - 1. The last rank
 * sends to rank 0. An all-reduce is a reduce-scatter followed by an all-gather, with one slice of
 * the buffer per rank. Each takes n - 1 steps.
 *
 * In an all-reduce, the smallest amount that each rank can send is 2 (n - 1) / n times its buffer.
 * Two ranks send exactly this amount. More ranks also send additional partial sums (ring/peers.h).
 * The data of a broadcast or a reduce go once around the ring, in chunks. Messages and barriers are
 * run by the group from shm.h, because a ring does not make them faster.
 *
 * If ranks can read each other's buffers, `shm` (shm.h) copies fewer bytes, because it reduces
 * buffers in place. A ring is useful if only neighbours can access each other's memory fast, for
 * example GPUs that are connected in pairs. It needs only copies between neighbours (ring/peers.h).
 * Here, CPU ranks (threads or processes) make these copies in shared memory.
 *
 * Sums are ordered (group.h): ranks send the partial sums of the tree. So the result does not
 * depend on the rank at which the sum begins. Slice j begins at rank j + 1 and ends at rank j. Only
 * the sign of a zero from GT_MAX may differ from other ordered groups.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69(2), 2009; for gradients of neural networks: Gibiansky, "Bringing HPC
 * techniques to deep learning", Baidu Research 2017.
 */

/*
 * Replace *group, a group from shm.h, by a ring of the same ranks: a collective call. The ring owns
 * the old group. Errors name late and dead ranks as in shm.h.
 *
 * Errors: GT_ENOMEM and the errors of group.h, on all ranks. *group is then unchanged.
 */
int gt_ring_of_shm(struct gt_group **group, struct gt_err *err);

#endif
