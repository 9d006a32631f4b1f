/* run_dir.h - the files of a run, and the removal of old checkpoints. */
#ifndef GT_TRAIN_RUN_RUN_DIR_H
#define GT_TRAIN_RUN_RUN_DIR_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/folder.h"

/*
 * A run directory, open. Its path is the user's, and may lead there by symbolic links; its files
 * and the folders checkpoints/, log/ and trace/ must not be links. All are opened relative to these
 * descriptors.
 */
struct gt_run_dir {
	struct gt_folder folder;      /* holds the lock of the run that writes */
	struct gt_folder checkpoints; /* not open where there is none */
};

/* Open a run directory for reading. GT_EIO if it is not a directory, or if its checkpoints/ is a
 * link or a file. */
int gt_run_dir_open(struct gt_run_dir *out, const char *path, struct gt_err *err);

/*
 * Open for writing: create the directory and checkpoints/ in it, and lock it until it is closed,
 * unless the file system has no locks. Remove temporary files of killed runs. Fail at once if the
 * directory is not writable, or if a link, a pipe, a device or a folder has the name of a file of a
 * run.
 */
int gt_run_dir_create(struct gt_run_dir *out, const char *path, struct gt_err *err);

/* This does nothing if it is not open, or the struct is zeroed. */
void gt_run_dir_close(struct gt_run_dir *dir);

/* Make the checks of gt_run_dir_create() that come before data are opened: config.json must be
 * that of a run, and all files of a run must be regular files. */
int gt_run_dir_check_files(const char *path, struct gt_err *err);

/* Check that gt_run_dir_create() would not fail because another process has locked the directory,
 * or because it holds other files than a run's. Creates nothing; a missing directory is fine. */
int gt_run_dir_check(const char *path, struct gt_err *err);

/* Write DIR/config.json; it appears whole or not at all. */
int gt_run_dir_write_config(const struct gt_run_dir *dir, const json_t *config, struct gt_err *err);

/* Read config.json; the caller calls json_decref() on it. NULL if there is none. Errors: GT_EIO for
 * a link or anything else that is not a regular file; GT_EFORMAT for a file that is not JSON. */
int gt_run_dir_read_config(json_t **out, const struct gt_run_dir *dir, struct gt_err *err);

/* Whether this is the config.json of a run. Other programs also keep a config.json beside their
 * weights. */
bool gt_run_dir_is_config(const json_t *config);

/* The path DIR/checkpoints/step-00001000.pth of a file in dir->checkpoints, yours to free(). */
char *gt_run_dir_checkpoint(const struct gt_run_dir *dir, int64_t step, struct gt_err *err);

/* The step of the newest checkpoint; -1 if there is none. */
int gt_run_dir_latest_step(int64_t *step, const struct gt_run_dir *dir, struct gt_err *err);

/* Check that the directory has no checkpoints of steps after `step`. They would be from an earlier
 * run that went further, and pruning and --resume would treat them as this run's. Errors:
 * GT_EINVAL. */
int gt_run_dir_check_unused(const struct gt_run_dir *dir, int64_t step, struct gt_err *err);

/* Remove all but the `keep` newest checkpoints; keep 0: all stay. */
int gt_run_dir_prune(const struct gt_run_dir *dir, int64_t keep, struct gt_err *err);

#endif
