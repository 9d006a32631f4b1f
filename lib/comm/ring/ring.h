/* ring.h - ring groups for host memory: each rank sends only to the next rank. */
#ifndef GT_COMM_RING_RING_H
#define GT_COMM_RING_RING_H

#include "lib/comm/group.h"

/*
 * In a ring of n ranks, rank r sends to rank r + 1 and receives from rank r - 1. The last rank
 * sends to rank 0. An all-reduce is a reduce-scatter followed by an all-gather, with one slice of
 * the buffer per rank. Each of these two parts takes n - 1 steps.
 *
 * In an all-reduce, the smallest number of bytes that each rank can send is 2 * (n - 1) / n times
 * the bytes of its buffer. With two ranks, each rank sends exactly this number. With more ranks, a
 * rank also sends additional partial sums (ring/peers.h). The data of a broadcast or a reduce go
 * once around the ring, in chunks. A ring is made on top of a group from shm/shm.h. That group runs
 * messages and barriers, because a ring does not make them faster.
 *
 * If all ranks can read each other's buffers, a group from shm/shm.h copies fewer bytes than a
 * ring, because it reduces buffers in place. A ring is useful if only neighbors can access each
 * other's memory fast, for example GPUs that are connected in pairs. A ring needs only copies
 * between neighbors (ring/peers.h). In the rings of this header, CPU ranks (threads or processes)
 * make these copies in shared memory.
 *
 * A ring is an ordered group: each element is summed as one fixed tree over the ranks (group.h).
 * Ranks send partial sums of this tree, so a sum does not depend on the rank at which it begins.
 * The reduction of slice j begins at rank j + 1 and ends at rank j. Results have the same bits as
 * in other ordered groups, with one exception: if the result of GT_MAX is zero, its sign may
 * differ.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69(2), 2009; for gradients of neural networks: Gibiansky, "Bringing HPC
 * techniques to deep learning", Baidu Research 2017.
 */

/*
 * Replace *group, a group from shm/shm.h, by a ring of the same ranks: a collective call. The ring
 * owns the old group. The text of an error names the ranks that are late or dead.
 *
 * Errors: GT_ENOMEM and the errors of group.h, on all ranks. *group is then unchanged.
 */
int gt_ring_of_shm(struct gt_group **group, struct gt_err *err);

#endif
