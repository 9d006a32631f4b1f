/* run_points.h - the numbers of a run over its steps, read from metrics.jsonl. */
#ifndef GT_TRAIN_RUN_RUN_POINTS_H
#define GT_TRAIN_RUN_RUN_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/folder.h"

enum { GT_RUN_LINE_BYTES = 1 << 20 }; /* of the longest line of metrics.jsonl that is read */

/* The numbers that a line of metrics.jsonl may have: train/report/metrics.c writes them. */
enum gt_run_key {
	GT_RUN_LOSS,
	GT_RUN_LR,
	GT_RUN_GRAD_NORM,
	GT_RUN_LOSS_SCALE,
	GT_RUN_SAMPLES_PER_S,
	GT_RUN_TOKENS_PER_S,
	GT_RUN_DATA_WAIT,    /* fraction of the time, from 0 to 1 */
	GT_RUN_MEMORY_BYTES, /* older runs have none */
	GT_RUN_MFU,          /* fraction of the device's peak rate */
	GT_RUN_LATE,         /* fraction of the time that other ranks waited for GT_RUN_LATE_RANK */
	GT_RUN_LATE_RANK,
	GT_RUN_TOP1,
	GT_RUN_TOP5,
	GT_RUN_PERPLEXITY,
	GT_RUN_MSE,
	GT_RUN_MAE,
	GT_RUN_R2,
	GT_RUN_ACCURACY,
	GT_RUN_PRECISION,
	GT_RUN_RECALL,
	GT_RUN_F1,
	GT_RUN_EPOCH,
	GT_RUN_TIME_S,    /* seconds of training, also over resumes */
	GT_RUN_WALL_TIME, /* seconds since 1970; older runs have none */
	GT_RUN_KEYS
};

/* The names of the keys in the file. */
extern const char *const gt_run_key_names[GT_RUN_KEYS];

/* The lines of one kind, in ascending order of their steps. */
struct gt_run_points {
	size_t count;
	int64_t *step; /* [count] */
	/* [count]; NULL: no line has a number of this key. NaN: this line has none. */
	double *value[GT_RUN_KEYS];
	/* number of lines in which the key is null: the number was NaN or infinite */
	size_t nulls[GT_RUN_KEYS];
	size_t capacity; /* private */
};

/* The contents of metrics.jsonl. */
struct gt_run_metrics {
	struct gt_run_points train, val;
	/* lines that are not JSON, or have a value of another type, or too many bytes */
	size_t bad_lines;
	bool torn;    /* the last line has no end: the run writes it, or was killed */
	bool too_big; /* lines beyond the largest number that is read are left out */
};

/*
 * Read metrics.jsonl in a folder; a missing file has no lines. Anything may stand in the file:
 * lines that gtrain did not write are skipped, and of lines whose steps do not ascend, as of a run
 * that went back, the later ones count. Errors: GT_EIO, GT_ENOMEM. *out is released after an error.
 */
int gt_run_metrics_read(
    struct gt_run_metrics *out, const struct gt_folder *folder, struct gt_err *err);
void gt_run_metrics_release(struct gt_run_metrics *m);

/* Return the value of a key in a row, or NaN if it has none. */
double gt_run_value(const struct gt_run_points *p, enum gt_run_key key, size_t row);

/* Return whether a row has a finite value of the key. */
bool gt_run_has(const struct gt_run_points *p, enum gt_run_key key);

#endif
