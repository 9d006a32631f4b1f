/* check.h - problems of a machine that a run would meet, each with its fix. */
#ifndef GT_DEVICE_CHECK_H
#define GT_DEVICE_CHECK_H

#include "lib/device/bandwidth_report.h"
#include "lib/device/probe.h"

enum gt_severity {
	GT_SEVERITY_WARNING, /* a run works, perhaps slowly, or not with all devices */
	GT_SEVERITY_ERROR    /* a run on these devices fails */
};

struct gt_finding {
	enum gt_severity severity;
	const char *id;                      /* stable, for programs: "gpu-full" */
	char text[GT_REASON_SIZE], fix[240]; /* one line each */
};

struct gt_findings {
	struct gt_finding *item; /* [count], in the order of the checks */
	size_t count, errors;
};

/* Facts that checks need beside the probe. Unknown figures cause no finding. */
struct gt_check_facts {
	bool nvidia_card; /* the PCI bus has a display or compute card of NVIDIA's */
	bool nccl;        /* libnccl.so.2 can be opened */
	bool cudnn;       /* libcudnn.so.9 can be opened */
	const struct gt_bandwidth *copies; /* borrowed; NULL: not tested */
	struct gt_maybe shm_bytes;         /* size of /dev/shm */
	/* number of open files that this process may have; unknown: no limit */
	struct gt_maybe open_files;
	/* bytes of address space that it may map; unknown: no limit */
	struct gt_maybe address_bytes;
	struct gt_maybe locked_bytes; /* bytes of memory that it may lock; unknown: no limit */
};

/* Read these facts. `root` is the prefix of /dev and /sys; NULL: the real ones. The large libraries
 * are opened only if enough GPUs are visible to use them. */
void gt_check_facts_read(
    struct gt_check_facts *out, const struct gt_probe *probe, const char *root);

/* All problems that the facts show. Errors: GT_ENOMEM; *out is then empty. */
int gt_check(struct gt_findings *out, const struct gt_probe *probe,
    const struct gt_check_facts *facts, struct gt_err *err);
void gt_findings_release(struct gt_findings *findings);

#endif
