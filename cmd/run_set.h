/* run_set.h - the runs that a command line names, and texts about a run. */
#ifndef GT_CMD_RUN_SET_H
#define GT_CMD_RUN_SET_H

#include "cmd/cmd.h"
#include "lib/train/run/run_differ.h"

struct gt_run_set {
	size_t count, capacity;
	struct gt_run *run; /* [count] */
	/* The bytes at the start of the runs' paths that their names leave out: the folder, if only
	 * one was named. */
	size_t prefix;
};

/*
 * Read all runs in and below folders. `listing`: there may be many, so the points of the metrics,
 * which need much memory, are released, and a run that cannot be read is left out with a warning;
 * otherwise it is an error. The caller releases *out, also after an error. Errors: GT_EIO,
 * GT_ENOMEM.
 */
int gt_run_set_read(struct gt_run_set *out, char *const *folders, int count, bool listing,
    struct gt_log *log, struct gt_err *err);
void gt_run_set_release(struct gt_run_set *set);

/* Return the name of a run: its path, without the folder that was named. */
const char *gt_run_set_name(const struct gt_run_set *set, size_t i);

enum { GT_RUN_TEXT = 64, GT_RUN_STATE_TEXT = GT_RUN_REASON + 64 };

/* Each of these writes a text about a run and returns it: "1200/2000", steps done and of the whole
 * run; "top-1 98.20 %" or "val loss 1.4697", the best score; "failed: the loss is NaN". "-" stands
 * for something unknown. */
const char *gt_run_steps_text(char out[GT_RUN_TEXT], const struct gt_run *run);
const char *gt_run_best_text(char out[GT_RUN_TEXT], const struct gt_run *run);
const char *gt_run_state_text(char out[GT_RUN_STATE_TEXT], const struct gt_run *run);

/* The flags with which gt_cmd_print_json() prints runs: a time of day has more than 9 digits. */
#define GT_RUN_SET_JSON (JSON_INDENT(2) | JSON_REAL_PRECISION(15))

/* Return a list with a JSON object about each run, for json_decref(); NULL if memory runs out. */
json_t *gt_run_set_describe(const struct gt_run_set *set);

#endif
