/* run_read.h - read run directories: options, metrics and state; find them below a folder. */
#ifndef GT_TRAIN_RUN_RUN_READ_H
#define GT_TRAIN_RUN_RUN_READ_H

#include <jansson.h>

#include "lib/train/run/run_points.h"

enum gt_run_state {
	GT_RUN_RUNNING,
	GT_RUN_DONE,
	GT_RUN_STOPPED, /* by a signal, or the process ended without a word */
	GT_RUN_FAILED,
	GT_RUN_STATES
};

/* The names of the states: "running", ... */
extern const char *const gt_run_state_names[GT_RUN_STATES];

enum { GT_RUN_REASON = 640, GT_RUN_HOST = 256 };

/* The state of a run. A number that is not known is -1, a text "". */
struct gt_run_status {
	enum gt_run_state state;
	char reason[GT_RUN_REASON]; /* why the run stopped or failed */
	char host[GT_RUN_HOST];
	int64_t pid, exit_status;
	double started, ended; /* seconds since 1970 */
};

/* The best evaluation of a run, or without evaluations its lowest loss in training. */
struct gt_run_best {
	bool known;
	bool val; /* of an evaluation */
	enum gt_run_key key;
	bool highest; /* the highest value is the best; else the lowest */
	double value;
	int64_t step;
};

/* A run, read from its directory. */
struct gt_run {
	char *path;
	/* config.json; NULL: it is missing or damaged, as `damaged` says */
	json_t *config;
	char damaged[GT_RUN_REASON]; /* "" or the fault of config.json */
	struct gt_run_metrics metrics;
	struct gt_run_status status;
	struct gt_run_best best;
	/* steps that are in the metrics; steps of the whole run, -1 if config.json does not tell */
	int64_t step, steps;
	double time_s; /* seconds of training; NaN: not known */
};

/*
 * Read a run directory. Files in it may have any contents: values that cannot be read are left
 * out, and `damaged` and `metrics` tell of them.
 *
 * The state is that of status.json, where the run has written one. A run that still holds the lock
 * of its directory is running, and a status "running" without the lock on this host is that of a
 * process that was killed. Without a status.json, a run is done if it reached its last step, or is
 * in its last epoch and has written model.pth after its metrics; else it is stopped.
 *
 * Errors: GT_EIO if the directory cannot be opened, or is not one of a run; GT_ENOMEM. *out is
 * released after an error.
 */
int gt_run_read(struct gt_run *out, const char *path, struct gt_err *err);
void gt_run_release(struct gt_run *run);

/* Return the text of an option in config.json, or NULL. */
const char *gt_run_option(const struct gt_run *run, const char *name);

/* Paths of run directories. */
struct gt_run_paths {
	size_t count, capacity;
	char **path; /* [count], sorted */
};

/* Find the run directories in a folder and below it, or the folder itself if it is one. Symbolic
 * links, hidden folders and folders in runs are left out. Errors: GT_EIO if the folder cannot be
 * opened; GT_ENOMEM. The caller releases *out, also after an error. */
int gt_run_find(struct gt_run_paths *out, const char *folder, struct gt_err *err);
void gt_run_paths_release(struct gt_run_paths *paths);

#endif
