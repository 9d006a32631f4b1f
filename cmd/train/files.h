/* files.h - ranks of other hosts get the files that rank 0 reads. */
#ifndef GT_CMD_TRAIN_FILES_H
#define GT_CMD_TRAIN_FILES_H

#include "cmd/train/options.h"
#include "lib/comm/comm.h"

/* Files that options name, except those of --data and --val, and copies of them on this host. */
struct gt_cmd_files {
	json_t *list; /* of rank 0's files */
	char *folder; /* of the copies; NULL: there are none */
	bool made;    /* this rank has made the folder */
	int lock_fd;  /* if made: its lock, or -1 */
};

/*
 * A collective call, before options are read from files. Where a file of rank 0 is missing, or is
 * another one by its size or its time, it is sent, and the options of this rank name the copy.
 * Release *out even after an error. Errors: GT_EIO, GT_ENOMEM, and those of the group.
 */
int gt_cmd_files_share(struct gt_cmd_files *out, struct gt_cmd_env *env, struct gt_train_cli *cli,
    const struct gt_comm *comm, struct gt_err *err);

/* After options were read from files: resume from rank 0's latest checkpoint where --resume auto,
 * or a restart by the launcher, asks for it. */
int gt_cmd_files_resume(const struct gt_cmd_files *files, struct gt_cmd_env *env,
    struct gt_train_cli *cli, const struct gt_comm *comm, struct gt_err *err);

/* A collective call, once all ranks have read the files: remove the copies. */
int gt_cmd_files_done(struct gt_cmd_files *files, const struct gt_comm *comm, struct gt_err *err);

/* Remove the copies of this rank, and free the list. */
void gt_cmd_files_release(struct gt_cmd_files *files);

#endif
