/* bandwidth_report.h - the copies of a machine: how fast, and whether GPUs reach each other. */
#ifndef GT_DEVICE_BANDWIDTH_REPORT_H
#define GT_DEVICE_BANDWIDTH_REPORT_H

#include "lib/device/bandwidth.h"
#include "lib/device/probe.h"

/* From one GPU to another. Rates are 0 where they were not measured. */
struct gt_peer_report {
	bool direct;                          /* the driver says that copies go straight */
	int64_t words, wrong;                 /* 4-byte words: copied, and arrived changed */
	double bytes_per_s, both_bytes_per_s; /* both: in both directions at once, added up */
};

struct gt_bandwidth {
	size_t bytes; /* of each copy between GPUs and host */
	double cpu;   /* bytes per second of copies in the host's memory; 0: not measured */
	size_t count; /* GPUs: cuda:0 to cuda:count-1 */
	double (*rate)[GT_COPY_WITHIN + 1]; /* [count]: bytes per second of gt_copy_names */
	struct gt_peer_report *peer;        /* [count * count], rows of the source */
	char problem[GT_REASON_SIZE];       /* why GPUs were not measured; "" if they were */
};

/*
 * With `rates`, measure copies. Always copy patterns between GPUs and compare them. If a GPU or its
 * driver fails, `problem` says why. Errors: GT_ENOMEM, or those of
 * the CPU's device; *out is then empty.
 */
int gt_bandwidth_read(struct gt_bandwidth *out, bool rates, struct gt_err *err);
void gt_bandwidth_release(struct gt_bandwidth *b);

#endif
