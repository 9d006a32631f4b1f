/* status.h - status.json in the run directory: whether the run goes on, and how it ended. */
#ifndef GT_CMD_TRAIN_STATUS_H
#define GT_CMD_TRAIN_STATUS_H

#include "cmd/stop.h"
#include "lib/train/train.h"

/* The caller sets the fields before `folder`. */
struct gt_cmd_status {
	struct gt_log *log;
	const struct gt_stop *stop;
	/* the result and the error of gt_train_run() */
	const struct gt_train_result *result;
	const struct gt_err *failure;
	int64_t patience; /* --patience */
	/* The fields below are the observer's state. */
	const struct gt_folder *folder;
	double started; /* seconds since 1970 */
};

/*
 * Return an observer that writes status.json when the run starts, and again when it ends. Each time
 * the file is replaced as a whole. The observer must be the last one, so that it hears of errors of
 * the others. If the file cannot be written at the end, it logs a warning.
 */
struct gt_observer gt_cmd_status_observer(struct gt_cmd_status *s);

#endif
