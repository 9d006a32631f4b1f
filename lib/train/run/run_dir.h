/* run_dir.h - a run directory: its files, its lock, and the removal of old checkpoints. */
#ifndef GT_TRAIN_RUN_RUN_DIR_H
#define GT_TRAIN_RUN_RUN_DIR_H

#include <jansson.h>
#include <stdint.h>

#include "lib/base/folder.h"

/* The copy that a run directory has of an exported network (gt_model_is_file()). It is the model's
 * spec in config.json and in checkpoints, so that the directory can be moved. */
#define GT_RUN_NETWORK "network.pt2"
#define GT_RUN_ONNX    "network.onnx"

/* Return the name of the copy for the path of a network: GT_RUN_NETWORK or GT_RUN_ONNX. */
const char *gt_run_network_name(const char *path);

/* Return whether a model's spec is such a name. */
bool gt_run_is_network(const char *model);

/* The names of other files in a run directory. */
#define GT_RUN_CONFIG    "config.json"
#define GT_RUN_METRICS   "metrics.jsonl"
#define GT_RUN_STATUS    "status.json"
#define GT_RUN_DETAILS   "details.json"
#define GT_RUN_REFERENCE "reference.safetensors" /* lib/train/reference.h */

/* An open run directory. Links in its path are followed, but the files and folders in it must not
 * be links; they are opened relative to the descriptors below. */
struct gt_run_dir {
	struct gt_folder folder; /* its descriptor holds the lock of a run that writes */
	struct gt_folder checkpoints;
};

/* Open a run directory for reading. Errors: GT_EIO, also if checkpoints/ is a link or a file. */
int gt_run_dir_open(struct gt_run_dir *out, const char *path, struct gt_err *err);

/* Open a run directory for writing: create what is missing, lock it if the file system can, and
 * remove temporary files of killed runs. Errors: GT_EIO, also if it is locked, or has other files
 * with names of a run. */
int gt_run_dir_create(struct gt_run_dir *out, const char *path, struct gt_err *err);

/* Close a run directory; nothing happens if it is not open or zeroed. */
void gt_run_dir_close(struct gt_run_dir *dir);

/* Check config.json and the types of the files, as gt_run_dir_create() does. A missing directory is
 * fine. */
int gt_run_dir_check_files(const char *path, struct gt_err *err);

/* Do the same, and check that no process has locked the directory. */
int gt_run_dir_check(const char *path, struct gt_err *err);

/* Return whether a process holds the lock of the directory, so that a run writes into it. False if
 * the file system has no locks. */
bool gt_run_dir_is_locked(const struct gt_folder *folder);

/* Write config.json: it appears complete or not at all. */
int gt_run_dir_write_config(const struct gt_run_dir *dir, const json_t *config, struct gt_err *err);

/* Read config.json, for json_decref(); *out is NULL if there is none. Errors: GT_EFORMAT if it is
 * no JSON, or too large; GT_EIO, GT_ENOMEM. */
int gt_run_dir_read_config(json_t **out, const struct gt_run_dir *dir, struct gt_err *err);

/* Read another file of JSON in the same way. */
int gt_run_dir_read_json(
    json_t **out, const struct gt_folder *folder, const char *name, struct gt_err *err);

/* Return whether the folder has a metrics.jsonl, which only runs write beside their config.json. */
bool gt_run_dir_has_metrics(const struct gt_folder *folder);

/* Return whether `name` in the open folder is a run, by the files that only a run has: metrics, or
 * the configuration beside a folder of checkpoints. */
bool gt_run_dir_is_run(int folder, const char *name);

/* Return whether `file`, which may be missing, is the path of a file of the run, or another path to
 * one. */
bool gt_run_dir_owns(const struct gt_run_dir *dir, const char *file);

/* Return whether `config` (may be NULL) is that of a run: other programs have such a file, too. */
bool gt_run_dir_is_config(const json_t *config);

/* Set *found to whether `path` has best.pth. A resumed run in a new directory has none at first. */
int gt_run_dir_has_best(bool *found, const char *path, struct gt_err *err);

/* The forms of a checkpoint in checkpoints/. */
enum gt_run_form {
	GT_RUN_FILE, /* step-N.pth */
	GT_RUN_SET,  /* step-N.dcp: a folder with a file of each rank (lib/ckpt/dcp_set.h) */
	GT_RUN_FORMS
};

/* Return the path of the checkpoint of a step, for struct gt_file_name with dir->checkpoints. The
 * caller frees it. */
char *gt_run_dir_checkpoint(
    const struct gt_run_dir *dir, int64_t step, enum gt_run_form form, struct gt_err *err);

/* Return the form of the checkpoint of a step; GT_RUN_FILE if it has both. */
enum gt_run_form gt_run_dir_form(const struct gt_run_dir *dir, int64_t step);

/* Set *step to the step of the newest checkpoint; -1: there is none. */
int gt_run_dir_latest_step(int64_t *step, const struct gt_run_dir *dir, struct gt_err *err);

/* Check that there are no checkpoints of steps after `step`, where this run begins. If there are
 * none at all, check that no results would be overwritten, except those of a run that is started
 * `again`. Errors: GT_EINVAL for later checkpoints; GT_EIO. */
int gt_run_dir_check_unused(
    const struct gt_run_dir *dir, int64_t step, bool again, struct gt_err *err);

/* Remove the checkpoint of a step in one form, if there is one. */
int gt_run_dir_remove(
    const struct gt_run_dir *dir, int64_t step, enum gt_run_form form, struct gt_err *err);

/* Remove all checkpoints but the `keep` newest; 0: none. */
int gt_run_dir_prune(const struct gt_run_dir *dir, int64_t keep, struct gt_err *err);

#endif
