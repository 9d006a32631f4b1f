/* topology.h - the connections between GPUs, and the CPUs and NUMA nodes closest to each GPU. */
#ifndef GT_DEVICE_TOPOLOGY_H
#define GT_DEVICE_TOPOLOGY_H

#include "lib/device/nvml.h"

/* Connections between GPUs, the shortest first, with the names of `nvidia-smi topo -m`. */
enum gt_link {
	GT_LINK_UNKNOWN,
	GT_LINK_SELF,
	GT_LINK_NVLINK, /* NVLink, perhaps through switches */
	GT_LINK_BOARD,  /* on one board */
	GT_LINK_PIX,    /* through at most one PCIe bridge */
	GT_LINK_PXB,    /* through several PCIe bridges */
	GT_LINK_PHB,    /* through the host bridge of a CPU */
	GT_LINK_NODE,   /* through several host bridges of one NUMA node */
	GT_LINK_SYS,    /* through the connection between NUMA nodes */
	GT_LINKS
};

struct gt_gpu_link {
	enum gt_link kind;
	unsigned nvlinks; /* GT_LINK_NVLINK: the lower of both GPUs' numbers */
};

/* Bytes of a list such as "0-15,32-47". A longer one ends with "...". */
#define GT_TOPOLOGY_LIST 128

struct gt_topology {
	size_t count;              /* number of GPUs, in NVML's order */
	struct gt_gpu_link *links; /* [count * count]: from GPU i to GPU j at i * count + j */
	/* [count]: lists of the closest CPUs and NUMA nodes, "" if unknown */
	struct gt_gpu_affinity {
		char cpus[GT_TOPOLOGY_LIST], nodes[GT_TOPOLOGY_LIST];
	} * affinity;
};

/* Read the topology from NVML (`library` as for gt_gpus_read()). Without a GPU, out->count is 0.
 * Errors: only GT_ENOMEM; *out is then empty. Source: NVML API reference. */
int gt_topology_read(struct gt_topology *out, const char *library, struct gt_err *err);
void gt_topology_release(struct gt_topology *t);

/* Write the short name, such as "NV18", "PIX", "X" (the GPU itself) or "?". Returns the buffer. */
const char *gt_link_name(char buffer[16], struct gt_gpu_link link);

#endif
