/* logs.h - the logs of the ranks that `gtrain train` starts, in the folder log/ of the run. */
#ifndef GT_CMD_TRAIN_LOGS_H
#define GT_CMD_TRAIN_LOGS_H

#include <sys/types.h>

#include "lib/base/folder.h"

/* The run directory and its folder log/. */
struct gt_cmd_logs {
	struct gt_folder run, folder;
	int64_t nproc;
	off_t *sizes; /* [nproc] of the logs that were there before; -1: there was none */
	ino_t config; /* inode of config.json that was there before; 0: there was none */
};

/* Open DIR/log for `nproc` ranks; make both folders if they are missing. Call gt_cmd_logs_close()
 * even after an error. Errors: GT_EIO, GT_ENOMEM. */
int gt_cmd_logs_open(struct gt_cmd_logs *out, const char *dir, int64_t nproc, struct gt_err *err);
void gt_cmd_logs_close(struct gt_cmd_logs *logs);

/* Return whether the ranks' new lines stay in the logs, because the run has begun. `logs` is a
 * struct gt_cmd_logs. */
bool gt_cmd_logs_stay(void *logs);

/* Remove the new lines, which have been shown, and files and folders that were not there before.
 * Do nothing if another process has locked the run by now. */
void gt_cmd_logs_forget(const struct gt_cmd_logs *logs);

#endif
