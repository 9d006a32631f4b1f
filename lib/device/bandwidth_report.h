/* bandwidth_report.h - measure and check copies among GPUs and between GPUs and the host. */
#ifndef GT_DEVICE_BANDWIDTH_REPORT_H
#define GT_DEVICE_BANDWIDTH_REPORT_H

#include "lib/device/bandwidth.h"
#include "lib/device/probe.h"

/* Copies from one GPU to another. A rate that was not measured is 0. */
struct gt_peer_report {
	bool direct;          /* the driver says that copies bypass the host */
	int64_t words, wrong; /* copied 4-byte words, and those with another value afterwards */
	double bytes_per_s, both_bytes_per_s; /* rate in this direction, and in both at once */
};

struct gt_bandwidth {
	size_t bytes; /* size of each copy */
	double cpu;   /* bytes per second within host memory; 0: not measured */
	size_t count; /* number of GPUs */
	/* [count] or NULL: bytes per second of each kind (enum gt_copy); 0: not measured */
	double (*rate)[GT_COPY_WITHIN + 1];
	/* [count * count] or NULL: from GPU i to GPU k at i * count + k */
	struct gt_peer_report *peer;
	char problem[GT_REASON_SIZE]; /* why GPUs were not measured or checked, or "" */
};

/* Copy a test pattern between all GPUs and compare it; with `rates`, measure copies, too. A failure
 * of a GPU is a `problem`, not an error. Errors: GT_ENOMEM, and those of the CPU's backend; *out is
 * then empty. */
int gt_bandwidth_read(struct gt_bandwidth *out, bool rates, struct gt_err *err);
void gt_bandwidth_release(struct gt_bandwidth *b);

#endif
