/* topology.h - how GPUs are linked with each other, and which CPUs are near them. */
#ifndef GT_DEVICE_TOPOLOGY_H
#define GT_DEVICE_TOPOLOGY_H

#include "lib/device/nvml.h"

/* The way between two GPUs, from near to far. The names are those of `nvidia-smi topo -m`. */
enum gt_link {
	GT_LINK_UNKNOWN,
	GT_LINK_SELF,   /* the GPU itself */
	GT_LINK_NVLINK, /* NVLink, perhaps through switches */
	GT_LINK_BOARD,  /* one board */
	GT_LINK_PIX,    /* at most one PCIe bridge */
	GT_LINK_PXB,    /* several PCIe bridges */
	GT_LINK_PHB,    /* the host bridge of a CPU */
	GT_LINK_NODE,   /* several host bridges of one NUMA node */
	GT_LINK_SYS,    /* the connection between NUMA nodes */
	GT_LINKS
};

struct gt_link_way {
	enum gt_link kind;
	/* For GT_LINK_NVLINK: the number of NVLinks. If the two ends report different numbers,
	 * it is the lower one. */
	unsigned nvlinks;
};

/* CPUs or NUMA nodes, as the kernel writes lists: "0-15,32-47"; "" where unknown. */
#define GT_TOPOLOGY_LIST 128

struct gt_topology {
	size_t count;            /* GPUs, in NVML's order */
	struct gt_link_way *way; /* way[i * count + j] is from GPU i to GPU j */
	struct gt_gpu_near {
		char cpus[GT_TOPOLOGY_LIST], nodes[GT_TOPOLOGY_LIST];
	} * near; /* [count] */
};

/*
 * Ask NVML, as gt_gpus_read() does. Without a driver, or a GPU, the count is 0; figures that the
 * driver does not report are unknown. Errors: only GT_ENOMEM; *out is then empty.
 * Source: NVML API reference, nvmlGpuTopologyLevel_t; nvidia-smi(1), "topo".
 */
int gt_topology_read(struct gt_topology *out, const char *library, struct gt_err *err);
void gt_topology_release(struct gt_topology *t);

/* "NV18", "PIX", "X" for the GPU itself, "?" where unknown, written to the buffer. */
const char *gt_link_name(char buffer[16], struct gt_link_way way);

#endif
