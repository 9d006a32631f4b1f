/* saver.h - private: save snapshots, as a file or as a set of files, at once or in a thread. */
#ifndef GT_TRAIN_CHECKPOINT_SAVER_H
#define GT_TRAIN_CHECKPOINT_SAVER_H

#include "lib/train/checkpoint/snapshot.h"
#include "lib/train/run/run_dir.h"

struct gt_saver_options {
	/* false: a file, which rank 0 writes. true: a set, of which each rank writes a file
	 * (lib/ckpt/dcp_set.h) */
	bool sharded;
	/* a thread writes a copy of the tensors, while training goes on */
	bool async;
	const struct gt_store *store;
	struct gt_parallel *parallel;
	struct gt_group *group;       /* all ranks; NULL: there is one */
	const char *out;              /* path of the run directory, the same on all ranks */
	const struct gt_run_dir *dir; /* the same, open on rank 0 */
	int64_t keep;                 /* gt_run_dir_prune() */
};

struct gt_saver;

/* Create a saver. A collective call, after rank 0 has created the run directory. Errors: GT_EIO if
 * a rank would write to a set and does not see the directory of rank 0; GT_ENOMEM. */
int gt_saver_open(
    struct gt_saver **out, const struct gt_saver_options *options, struct gt_err *err);

/* Wait for the thread, and free the saver. A set that is not complete is removed. NULL is fine. */
void gt_saver_close(struct gt_saver *saver);

/* Save a snapshot, s->is_set aside. A collective call. A save in the background that has not ended
 * is waited for. With `async`, this returns when the tensors are copied. */
int gt_saver_save(struct gt_saver *saver, const struct gt_snapshot *s, struct gt_err *err);

/* Go on with a save in the background, if a part of it has ended; with `wait`, wait for its end. A
 * collective call. Errors: those of the save. */
int gt_saver_poll(struct gt_saver *saver, bool wait, struct gt_err *err);

/* On rank 0, return the path of a checkpoint that has been completed since the last call, and set
 * *step to its step; NULL: there is none. The caller frees the path. */
char *gt_saver_take(struct gt_saver *saver, int64_t *step);

/* Return about the bytes of the copy on this rank; exact unless replicated tensors are divided. */
uint64_t gt_saver_copy_bytes(
    const struct gt_store *store, struct gt_parallel *parallel, bool sharded);

#endif
