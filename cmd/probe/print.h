/* print.h - the result of gtrain probe as text and as JSON, and the words both use. */
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

/* Sections that are printed where they were asked for; else NULL. */
struct gt_probe_more {
	const struct gt_topology *topology;
	const struct gt_bandwidth *bandwidth;
	const struct gt_findings *findings;
	int width; /* columns of the terminal, where lines of text end; 0: they do not */
};

/* Two sections, GPUs and CPU, each line a label and a text; headings in bold if `color`. Errors:
 * GT_ENOMEM; GT_EIO where the stream refuses. */
int gt_probe_print_text(FILE *out, bool color, const struct gt_probe *probe,
    const struct gt_probe_more *more, struct gt_err *err);

/* A part of it: the tables of GPUs, which there are. */
void gt_probe_print_gpus(FILE *out, const struct gt_gpus *gpus);

/* One JSON document; unknown is null, never 0. Errors: as above. */
int gt_probe_print_json(
    FILE *out, const struct gt_probe *probe, const struct gt_probe_more *more, struct gt_err *err);

/* probe/topology.c: a matrix with a legend; a value, NULL: out of memory. */
void gt_probe_print_topology(FILE *out, const struct gt_topology *t);
json_t *gt_probe_topology_json(const struct gt_topology *t);

/* probe/bandwidth.c: tables of rates; a value, NULL: out of memory. */
void gt_probe_print_bandwidth(FILE *out, bool color, const struct gt_bandwidth *b, int width);
json_t *gt_probe_bandwidth_json(const struct gt_bandwidth *b);

/* Text from outside. It begins in `column`, and goes on in `indent` on lines of at most `width`
 * columns, or on the same line where that is 0. */
void gt_probe_put_text(FILE *out, const char *text, int column, int indent, int width);

/* probe/check.c: how many there are, then each with its fix. */
void gt_probe_print_findings(FILE *out, bool color, const struct gt_findings *findings, int width);
json_t *gt_probe_findings_json(const struct gt_findings *findings);

/* A text from outside as a value, with a '?' for all that is not plain ASCII; NULL: no memory. */
json_t *gt_probe_text_json(const char *text);

/* "cuda:1", "9.0", "13.0", written to the buffer; NULL for a hidden GPU or an unknown figure. */
const char *gt_probe_device(char buffer[GT_DEVICE_NAME_SIZE], const struct gt_gpu *gpu);
const char *gt_probe_capability(char buffer[16], const struct gt_gpu *gpu);
const char *gt_probe_runtime(char buffer[32], const struct gt_gpus *gpus);

/* The message for gt_probe.order_unsure. */
extern const char gt_probe_order_note[];

#endif
