/* print.h - print the result of gtrain probe as text and as JSON. */
#ifndef GT_CMD_PROBE_PRINT_H
#define GT_CMD_PROBE_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/device/bandwidth_report.h"
#include "lib/device/check.h"
#include "lib/device/name.h"
#include "lib/device/probe.h"
#include "lib/device/topology.h"

/* Optional sections; NULL: the section was not requested. */
struct gt_probe_more {
	const struct gt_topology *topology;
	const struct gt_bandwidth *bandwidth;
	const struct gt_findings *findings;
	int width; /* columns of the terminal at which text is wrapped; 0: it is not wrapped */
};

/* Two sections, GPUs and CPU, each line a label and a text; headings in bold if `color`. Errors:
 * GT_ENOMEM; GT_EIO if the stream cannot be written. */
int gt_probe_print_text(FILE *out, bool color, const struct gt_probe *probe,
    const struct gt_probe_more *more, struct gt_err *err);

/* Print only the tables of GPUs. There must be at least one GPU. */
void gt_probe_print_gpus(FILE *out, const struct gt_gpus *gpus);

/* One JSON document; unknown is null, never 0. Errors: as above. */
int gt_probe_print_json(
    FILE *out, const struct gt_probe *probe, const struct gt_probe_more *more, struct gt_err *err);

/* probe/topology.c: print a matrix with a legend; or return it as JSON, NULL: out of memory. */
void gt_probe_print_topology(FILE *out, const struct gt_topology *t);
json_t *gt_probe_topology_json(const struct gt_topology *t);

/* probe/bandwidth.c: print tables of rates; or return them as JSON, NULL: out of memory. */
void gt_probe_print_bandwidth(FILE *out, bool color, const struct gt_bandwidth *b, int width);
json_t *gt_probe_bandwidth_json(const struct gt_bandwidth *b);

/* Print text that comes from outside gtrain, from `column` on. Following lines begin at `indent`,
 * and have at most `width` columns. If width is 0, the text is one line. */
void gt_probe_put_text(FILE *out, const char *text, int column, int indent, int width);

/* probe/check.c: print the number of findings, then each finding with its fix. */
void gt_probe_print_findings(FILE *out, bool color, const struct gt_findings *findings, int width);
json_t *gt_probe_findings_json(const struct gt_findings *findings);

/* A text from outside gtrain as JSON, with '?' for characters that are not printable ASCII; NULL:
 * out of memory. */
json_t *gt_probe_text_json(const char *text);

/* "cuda:1", "9.0", "13.0", written to the buffer; NULL for a hidden GPU or an unknown figure. */
const char *gt_probe_device(char buffer[GT_DEVICE_NAME_SIZE], const struct gt_gpu *gpu);
const char *gt_probe_capability(char buffer[16], const struct gt_gpu *gpu);
const char *gt_probe_runtime(char buffer[32], const struct gt_gpus *gpus);

/* The message for gt_probe.order_unsure. */
extern const char gt_probe_order_note[];

#endif
