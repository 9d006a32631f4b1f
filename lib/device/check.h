/* check.h - find problems of a machine that would disturb a run, and say how to fix them. */
#ifndef GT_DEVICE_CHECK_H
#define GT_DEVICE_CHECK_H

#include "lib/device/bandwidth_report.h"
#include "lib/device/cuda_driver.h"
#include "lib/device/probe.h"

enum gt_severity {
	GT_SEVERITY_WARNING, /* a run works, but may be slow or not use all devices */
	GT_SEVERITY_ERROR    /* a run that needs the faulty part fails or computes wrong results */
};

/* One problem. */
struct gt_finding {
	enum gt_severity severity;
	const char *id; /* a fixed name of the problem, for programs: "gpu-full" */
	char text[GT_REASON_SIZE], fix[240]; /* the problem and its fix, one line each */
};

/* All problems. */
struct gt_findings {
	struct gt_finding *item; /* [count], in the order of the checks */
	/* count: number of findings. errors: number of findings with GT_SEVERITY_ERROR. */
	size_t count, errors;
};

/* Facts that checks need in addition to struct gt_probe. An unknown number causes no finding. */
struct gt_check_facts {
	bool nvidia_card; /* there is an NVIDIA display or compute card on the PCI bus */
	bool nccl;        /* libnccl.so.2 can be opened */
	bool cudnn;       /* libcudnn.so.9 can be opened */
	/* the answer of CUDA, which is asked only if NVML lists a visible GPU that it could use */
	struct gt_cuda_driver cuda;
	char closed_file[32]; /* a device file of NVIDIA's that this user may not open; "": none */
	const struct gt_bandwidth *copies; /* borrowed; NULL: copies were not tested */
	struct gt_maybe shm_bytes;         /* size of /dev/shm */
	/* Limits of this process. An unknown number means that there is no limit. */
	struct gt_maybe open_files;    /* maximum number of open files */
	struct gt_maybe address_bytes; /* maximum bytes of address space */
	struct gt_maybe locked_bytes;  /* maximum bytes of locked memory */
};

/*
 * Read all facts, except `copies`, which is set to NULL. `root` is a prefix for the paths /dev and
 * /sys; NULL: no prefix. NCCL and cuDNN are large libraries, so NCCL is opened only if at least two
 * GPUs are visible, and cuDNN only if at least one GPU is visible. A library that was not opened
 * counts as missing: `nccl` or `cudnn` is false.
 */
void gt_check_facts_read(
    struct gt_check_facts *out, const struct gt_probe *probe, const char *root);

/* Find all problems that the probe and the facts show. Release *out with gt_findings_release().
 * Errors: GT_ENOMEM; *out is then empty. */
int gt_check(struct gt_findings *out, const struct gt_probe *probe,
    const struct gt_check_facts *facts, struct gt_err *err);
void gt_findings_release(struct gt_findings *findings);

#endif
