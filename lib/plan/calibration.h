/* calibration.h - measured rates of a machine, as a file of `gtrain bench calibrate` has them. */
#ifndef GT_PLAN_CALIBRATION_H
#define GT_PLAN_CALIBRATION_H

#include "lib/plan/cluster.h"

/* The value of "format" in a file. */
#define GT_CALIBRATION_FORMAT "gtrain calibration 1"

enum { GT_MACHINE_SIZE = 200 };

/* Describe this machine's CPU: model and processors. Errors: GT_ENOMEM. */
int gt_calibration_machine(char text[GT_MACHINE_SIZE], struct gt_err *err);

/*
 * Replace rates of a cluster by measured ones, before gt_cluster_use_threads(). `name` is that of
 * the file, for errors. *machine is the machine of the file, borrowed from `json`.
 *
 *   format    GT_CALIBRATION_FORMAT
 *   machine   gt_calibration_machine(), or the description of a GPU
 *   device    "cpu" or "cuda"
 *   processors, threads    of a CPU
 *   products  for each type, pairs of FLOPs of a product and FLOP/s: {"f32":[[5e5,1e9],...]}
 *   copies    pairs of bytes that are read and written, and bytes/s
 *   link      ranks, base_s, bytes_per_s, copied_per_s (struct gt_cluster_link); or null
 *   ops       the factor of each op's time
 *   busy      ranks, and ops: the factors while so many ranks compute; or null
 *   steps     model, batch, accumulate, measured_s, planned_s of each measured model; not read
 *
 * Errors: GT_EFORMAT; GT_EINVAL if the cluster has another kind of device.
 */
int gt_calibration_apply(struct gt_cluster *cluster, const char **machine, const json_t *json,
    const char *name, struct gt_err *err);

/* Fit time = base + bytes / rate to measured times, so that relative errors are small. At least two
 * sizes. base_s is not negative. */
void gt_calibration_fit(
    double *base_s, double *bytes_per_s, const double *bytes, const double *time_s, int count);

#endif
