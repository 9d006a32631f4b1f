/* links.c - the known links between devices. */
#include "lib/plan/links.h"

/*
 * Times of NCCL's collectives in microseconds, of its protocol Simple for large messages (base 8.4)
 * and LL for small ones (base 3.6): a step of a ring takes 0.5 to 3.4 over NVLink, 1.0 to 5.7 over
 * PCIe, 2.7 to 9.6 over a network; a step of a tree over a network takes 5 to 14. Source: NCCL,
 * src/graph/tuning.cc. Here is the protocol LL128, which lies between them. cluster.c sets the
 * rates that rings reach.
 */
const struct gt_cluster_link gt_known_links[GT_LINK_KINDS] = {
	[GT_NVLINK] = { "NVLink", 0, 0, 8e-6, 1.9e-6, 1.9e-6 },
	[GT_PCIE] = { "PCIe", 0, 0, 8e-6, 2.5e-6, 2.5e-6 },
	[GT_NETWORK] = { "network", 0, 0, 8e-6, 4e-6, 8.5e-6 },
	/* shared memory of processes, which each copy with one thread */
	[GT_SHARED_MEMORY] = { "memory", 0, 0, 20e-6, 5e-6, 5e-6 },
};
