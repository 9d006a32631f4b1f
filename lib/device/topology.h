/* topology.h - the connections between GPUs, and the CPUs and NUMA nodes closest to each GPU. */
#ifndef GT_DEVICE_TOPOLOGY_H
#define GT_DEVICE_TOPOLOGY_H

#include "lib/device/nvml.h"

/* The kind of connection between two GPUs. After GT_LINK_UNKNOWN, the kinds are in the order of
 * distance, the shortest one first. The names are from the output of `nvidia-smi topo -m`. */
enum gt_link {
	GT_LINK_UNKNOWN,
	GT_LINK_SELF,   /* the GPU itself */
	GT_LINK_NVLINK, /* through NVLink, perhaps through NVLink switches */
	GT_LINK_BOARD,  /* both GPUs are on one board */
	GT_LINK_PIX,    /* through at most one PCIe bridge */
	GT_LINK_PXB,    /* through several PCIe bridges */
	GT_LINK_PHB,    /* through the host bridge of a CPU */
	GT_LINK_NODE,   /* through several host bridges of one NUMA node */
	GT_LINK_SYS,    /* through the connection between NUMA nodes */
	GT_LINKS        /* number of kinds */
};

/* The connection between two GPUs. */
struct gt_gpu_link {
	enum gt_link kind;
	/* For GT_LINK_NVLINK: the number of NVLinks. If the two GPUs report different numbers, it
	 * is the lower number. */
	unsigned nvlinks;
};

/* The size, in bytes, of a buffer for a list of numbers such as "0-15,32-47". If a list does not
 * fit, it is cut off and ends with "...". */
#define GT_TOPOLOGY_LIST 128

struct gt_topology {
	size_t count; /* number of GPUs, in NVML's order */
	/* [count * count]: links[i * count + j] is from GPU i to GPU j */
	struct gt_gpu_link *links;
	/* [count]: for each GPU, the CPUs and the NUMA nodes that are closest to it, as lists of
	 * numbers. A list is "" if it is unknown. */
	struct gt_gpu_affinity {
		char cpus[GT_TOPOLOGY_LIST], nodes[GT_TOPOLOGY_LIST];
	} * affinity;
};

/*
 * Read the topology from NVML. `library` is the path or soname of NVML's library; NULL or "" is
 * "libnvidia-ml.so.1". If there is no driver or no GPU, out->count is 0. If the driver does not
 * report a fact, the fact is unknown: GT_LINK_UNKNOWN or "". Release *out with
 * gt_topology_release().
 *
 * Errors: only GT_ENOMEM; *out is then empty.
 * Source: NVML API reference, nvmlGpuTopologyLevel_t; nvidia-smi(1), "topo".
 */
int gt_topology_read(struct gt_topology *out, const char *library, struct gt_err *err);
void gt_topology_release(struct gt_topology *t);

/* Write the short name of a connection to the buffer and return the buffer. Examples: "NV18" for 18
 * NVLinks, "PIX", "X" for the GPU itself, "?" if the connection is unknown. */
const char *gt_link_name(char buffer[16], struct gt_gpu_link link);

#endif
