/* run_dir.h - the files of a run: where they are, which checkpoint is the latest, which ones go. */
#ifndef GT_TRAIN_RUN_DIR_H
#define GT_TRAIN_RUN_DIR_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/err.h"

/*
 * Make the directory, with checkpoints/ in it, and take it: *lock is a descriptor that keeps
 * other processes out until it is closed, or -1 where the file system knows no locks. Temporary
 * files of killed runs go. An unwritable directory is found here, before any work.
 */
int gt_run_dir_create(const char *dir, int *lock, struct gt_err *err);

/* Whether another process keeps a directory, or has files there that are no run's: so much of what
 * gt_run_dir_create() refuses. Makes nothing; a directory that is not there is free. */
int gt_run_dir_check(const char *dir, struct gt_err *err);

/* DIR/config.json, whole or not at all. */
int gt_run_dir_write_config(const char *dir, const json_t *config, struct gt_err *err);

/* DIR/checkpoints/step-00001000.pth, yours to free(). */
char *gt_run_dir_checkpoint(const char *dir, int64_t step, struct gt_err *err);

/* The checkpoint with the highest step, yours to free(); *out NULL if there is none. */
int gt_run_dir_latest(char **out, const char *dir, struct gt_err *err);

/* Its step; -1 if there is none. */
int gt_run_dir_latest_step(int64_t *step, const char *dir, struct gt_err *err);

/* Remove all but the `keep` newest checkpoints; keep 0: all stay. */
int gt_run_dir_prune(const char *dir, int64_t keep, struct gt_err *err);

/*
 * The file that a checkpoint argument means: itself if it is a file; in a run directory its latest
 * checkpoint, or model.pth where there is none. Yours to free(). *dir (may be NULL) is the run
 * directory it belongs to or NULL, yours too.
 */
int gt_run_dir_resolve(char **file, char **dir, const char *argument, struct gt_err *err);

#endif
