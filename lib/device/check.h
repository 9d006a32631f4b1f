/* check.h - find problems of a machine that would disturb a run, and say how to fix them. */
#ifndef GT_DEVICE_CHECK_H
#define GT_DEVICE_CHECK_H

#include "lib/device/bandwidth_report.h"
#include "lib/device/cuda_driver.h"
#include "lib/device/probe.h"
#include "lib/device/topology.h"

enum gt_severity {
	GT_SEVERITY_WARNING, /* a run may be slow or not use all devices */
	GT_SEVERITY_ERROR    /* a run fails or computes wrong results */
};

struct gt_finding {
	enum gt_severity severity;
	const char *id;                      /* fixed name, for programs: "gpu-full" */
	char text[GT_REASON_SIZE], fix[240]; /* one line each */
};

struct gt_findings {
	struct gt_finding *item; /* [count], in the order of the checks */
	size_t count, errors;    /* errors: those with GT_SEVERITY_ERROR */
};

/* Facts besides struct gt_probe. An unknown number causes no finding. */
struct gt_check_facts {
	bool nvidia_card;           /* an NVIDIA display or compute device is on the PCI bus */
	bool nccl;                  /* libnccl.so.2 can be opened */
	bool cudnn;                 /* libcudnn.so.9 can be opened */
	struct gt_cuda_driver cuda; /* asked only if NVML lists a visible GPU that CUDA could use */
	/* the lowest compute capability with kernels (gt_cuda_oldest_gpu); 0: no kernels */
	int oldest_gpu;
	char closed_file[32];               /* device file that this user may not open, or "" */
	const struct gt_bandwidth *copies;  /* borrowed; NULL: not tested */
	const struct gt_topology *topology; /* borrowed; NULL: not known */
	struct gt_maybe shm_bytes;          /* size of /dev/shm */
	struct gt_maybe open_files;
	struct gt_maybe address_bytes;
	struct gt_maybe locked_bytes;
};

/* Read all facts but `copies` and `topology`, with `root` (or NULL) before /dev and /sys. NCCL is
 * only opened, and then found, if two GPUs are visible, cuDNN if one is. */
void gt_check_facts_read(
    struct gt_check_facts *out, const struct gt_probe *probe, const char *root);

/* Find all problems. Errors: GT_ENOMEM; *out is then empty. */
int gt_check(struct gt_findings *out, const struct gt_probe *probe,
    const struct gt_check_facts *facts, struct gt_err *err);
void gt_findings_release(struct gt_findings *findings);

#endif
