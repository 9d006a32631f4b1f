/* run_dir.h - a run directory: its files, its lock, and the removal of old checkpoints. */
#ifndef GT_TRAIN_RUN_RUN_DIR_H
#define GT_TRAIN_RUN_RUN_DIR_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/folder.h"

/*
 * An open run directory. The user gives its path; symbolic links in this path are followed. The
 * files of a run and the folders checkpoints/, log/ and trace/ must not be links. They are opened
 * relative to the descriptors of the two folders below.
 */
struct gt_run_dir {
	struct gt_folder folder;      /* its descriptor holds the lock of a run that writes */
	struct gt_folder checkpoints; /* not open if it does not exist */
};

/* Open a run directory for reading. Errors: GT_EIO if it is not a directory, or if checkpoints/ in
 * it is a link or a file. */
int gt_run_dir_open(struct gt_run_dir *out, const char *path, struct gt_err *err);

/*
 * Open a run directory for writing. Create the directory and checkpoints/ in it if they are
 * missing. Lock the directory until it is closed, and remove temporary files of killed runs. If the
 * file system has no locks, the directory is not locked, and temporary files are not removed.
 *
 * Errors: GT_EIO in three cases: the directory is not writable or is locked by another process; its
 * config.json does not belong to a run; a link, a pipe, a device or a folder has the name of a file
 * of a run.
 */
int gt_run_dir_create(struct gt_run_dir *out, const char *path, struct gt_err *err);

/* Close the directory. This does nothing if it is not open, or if the struct is zeroed. */
void gt_run_dir_close(struct gt_run_dir *dir);

/* Check that config.json in the directory, if any, belongs to a run, and that all files of a run
 * are regular files. gt_run_dir_create() makes the same checks; a run calls this function earlier,
 * before the run opens its data. A missing directory is fine. Errors: GT_EIO. */
int gt_run_dir_check_files(const char *path, struct gt_err *err);

/* Make the checks of gt_run_dir_check_files(), and check that no other process has locked the
 * directory. Nothing is created. A missing directory is fine. Errors: GT_EIO. */
int gt_run_dir_check(const char *path, struct gt_err *err);

/* Write config.json in the directory. The file appears complete or not at all. */
int gt_run_dir_write_config(const struct gt_run_dir *dir, const json_t *config, struct gt_err *err);

/* Read config.json. The caller calls json_decref() on *out. *out is NULL if there is no such file.
 * Errors: GT_EIO for a link or anything else that is not a regular file; GT_EFORMAT for a file that
 * is not JSON. */
int gt_run_dir_read_config(json_t **out, const struct gt_run_dir *dir, struct gt_err *err);

/* Return whether `file` is the path of a file of the run: the last part of the path is the name of
 * a file that runs write, in the folder where runs write this file. The file need not exist. If a
 * file of the run exists, the result is also true for any other path to this file, such as a link.
 */
bool gt_run_dir_owns(const struct gt_run_dir *dir, const char *file);

/* Return whether `config` is the config.json of a run. Other programs also write a file of this
 * name beside their weights. If `config` is NULL, return false. */
bool gt_run_dir_is_config(const json_t *config);

/* Set *found to whether the directory `path` has the file best.pth. If a run is resumed in a new
 * directory, this directory has no best.pth until an evaluation is better than the best one in the
 * checkpoint. Errors: those of gt_run_dir_open(). */
int gt_run_dir_has_best(bool *found, const char *path, struct gt_err *err);

/* Return the path of the checkpoint of a step, such as DIR/checkpoints/step-00001000.pth. To open
 * the checkpoint, put this path and the folder dir->checkpoints into a struct gt_file_name
 * (lib/base/folder.h). The caller frees the path. */
char *gt_run_dir_checkpoint(const struct gt_run_dir *dir, int64_t step, struct gt_err *err);

/* Set *step to the step of the newest checkpoint, or to -1 if there is no checkpoint. */
int gt_run_dir_latest_step(int64_t *step, const struct gt_run_dir *dir, struct gt_err *err);

/*
 * Check that the directory has no checkpoints of steps after `step`, the number of steps done when
 * this run begins. Checkpoints of later steps are from an earlier run, but gt_run_dir_prune() and
 * --resume would treat them as checkpoints of this run.
 *
 * If there are no checkpoints at all, also check that the run would not overwrite results of
 * another run, or files that are not from a run. Empty files may be overwritten. If `again` is
 * true, the run in config.json is started again: best.pth, the metrics and the traces may be
 * overwritten, but not model.pth and model_ema.pth.
 *
 * Errors: GT_EINVAL if there are later checkpoints; GT_EIO if a file would be overwritten.
 */
int gt_run_dir_check_unused(
    const struct gt_run_dir *dir, int64_t step, bool again, struct gt_err *err);

/* Remove all checkpoints except the `keep` newest ones. If `keep` is 0, remove none. */
int gt_run_dir_prune(const struct gt_run_dir *dir, int64_t keep, struct gt_err *err);

#endif
