/* print.h - print the result of `gtrain probe` as text and as JSON. */
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

/* The optional sections of a report. A pointer is NULL if its section was not requested. */
struct gt_probe_more {
	const struct gt_topology *topology;
	const struct gt_bandwidth *bandwidth;
	const struct gt_findings *findings;
	int width; /* columns of the terminal; long lines are wrapped there. 0: no wrapping */
};

/* Print the report as text: the section about GPUs, the section about the CPU, and the optional
 * sections in `more`. With `color`, labels are bold. Errors: GT_ENOMEM; GT_EIO if the stream cannot
 * be written. */
int gt_probe_print_text(FILE *out, bool color, const struct gt_probe *probe,
    const struct gt_probe_more *more, struct gt_err *err);

/* Print the tables in the section about GPUs. There must be at least one GPU. */
void gt_probe_print_gpus(FILE *out, const struct gt_gpus *gpus);

/* Print the report as one JSON document. Unknown values are null, never 0. Errors: GT_ENOMEM;
 * GT_EIO if the stream cannot be written. */
int gt_probe_print_json(
    FILE *out, const struct gt_probe *probe, const struct gt_probe_more *more, struct gt_err *err);

/* Print a line of CSV for each GPU, with the time; if `header`, after a line of names. Unknown
 * values are empty. Defined in cmd/probe/csv.c. Errors: GT_EIO if the stream cannot be written. */
int gt_probe_print_csv(FILE *out, const struct gt_gpus *gpus, bool header, struct gt_err *err);

/* Print the topology as a matrix with a legend, or return it as JSON. The JSON is NULL if memory
 * runs out. Defined in cmd/probe/topology.c. */
void gt_probe_print_topology(FILE *out, const struct gt_topology *t);
json_t *gt_probe_topology_json(const struct gt_topology *t);

/* Print the measured rates as tables, or return them as JSON. The JSON is NULL if memory runs out.
 * Defined in cmd/probe/bandwidth.c. */
void gt_probe_print_bandwidth(FILE *out, bool color, const struct gt_bandwidth *b, int width);
json_t *gt_probe_bandwidth_json(const struct gt_bandwidth *b);

/* Print text that may come from outside gtrain, with '?' for characters that are not printable
 * ASCII. The first line begins at `column`, the position of the cursor. The text is wrapped: lines
 * have at most `width` columns, and all lines but the first are indented by `indent` columns. If
 * `width` is 0, the text is one line. */
void gt_probe_put_text(FILE *out, const char *text, int column, int indent, int width);

/* Print the number of errors and the number of warnings, and then each finding (a problem of the
 * machine) with its fix. The second function returns the findings as JSON, or NULL if memory runs
 * out. Defined in cmd/probe/check.c. */
void gt_probe_print_findings(FILE *out, bool color, const struct gt_findings *findings, int width);
json_t *gt_probe_findings_json(const struct gt_findings *findings);

/* Return a text from outside gtrain as a JSON string, with '?' for characters that are not
 * printable ASCII. NULL if memory runs out. */
json_t *gt_probe_text_json(const char *text);

/* Write the name of a GPU, such as "cuda:1", to `buffer`. Return `buffer`, or NULL if the GPU is
 * hidden from CUDA. */
const char *gt_probe_device(char buffer[GT_DEVICE_NAME_SIZE], const struct gt_gpu *gpu);

/* Write the compute capability of a GPU, such as "9.0", to `buffer`. Return `buffer`, or NULL if
 * the capability is unknown. */
const char *gt_probe_capability(char buffer[16], const struct gt_gpu *gpu);

/* Write the newest version of CUDA that the driver supports, such as "13.0", to `buffer`. Return
 * `buffer`, or NULL if the version is unknown. */
const char *gt_probe_runtime(char buffer[32], const struct gt_gpus *gpus);

/* The text of a note, which is printed if gt_probe.order_unsure is set: the driver and CUDA may
 * number the GPUs in different orders. */
extern const char gt_probe_order_note[];

#endif
