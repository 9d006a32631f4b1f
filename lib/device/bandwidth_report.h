/* bandwidth_report.h - measure and check copies among GPUs and between GPUs and the host. */
#ifndef GT_DEVICE_BANDWIDTH_REPORT_H
#define GT_DEVICE_BANDWIDTH_REPORT_H

#include "lib/device/bandwidth.h"
#include "lib/device/probe.h"

/* Copies from one GPU to another GPU. A rate that was not measured is 0. */
struct gt_peer_report {
	bool direct; /* the driver says that copies do not go through the host */
	/* words: number of 4-byte words copied. wrong: number of words that had another value after
	 * the copy. */
	int64_t words, wrong;
	/* bytes_per_s: rate of copies in this direction. both_bytes_per_s: total rate of
	 * simultaneous copies in both directions. */
	double bytes_per_s, both_bytes_per_s;
};

struct gt_bandwidth {
	size_t bytes; /* size of each copy that is measured */
	double cpu;   /* rate of copies within host memory, in bytes per second; 0: not measured */
	size_t count; /* number of GPUs: cuda:0 to cuda:count-1 */
	/* [count], or NULL: rate[i][kind] is the rate of copies of the kind `kind` (enum gt_copy)
	 * by GPU i, in bytes per second; 0 if it was not measured. */
	double (*rate)[GT_COPY_WITHIN + 1];
	/* [count * count], or NULL: peer[i * count + k] describes copies from GPU i to GPU k */
	struct gt_peer_report *peer;
	/* the reason why some GPUs could not be measured or checked; "" if there was no problem */
	char problem[GT_REASON_SIZE];
};

/*
 * Check copies between GPUs: copy a test pattern from each GPU to each other GPU, and compare the
 * copy with the pattern. If `rates` is true, also measure the rates of copies. If a GPU or its
 * driver fails, that is not an error: `problem` has the reason. Release *out with
 * gt_bandwidth_release().
 *
 * Errors: GT_ENOMEM, and errors of the CPU's backend; *out is then empty.
 */
int gt_bandwidth_read(struct gt_bandwidth *out, bool rates, struct gt_err *err);
void gt_bandwidth_release(struct gt_bandwidth *b);

#endif
