/* copies.h - the folder of the copies of rank 0's files, on a host that lacks them. */
#ifndef GT_CMD_TRAIN_COPIES_H
#define GT_CMD_TRAIN_COPIES_H

#include "lib/base/err.h"

enum { GT_CMD_COPIES_NAME = 40 };

/* Write a new name of a folder to name[GT_CMD_COPIES_NAME]. */
int gt_cmd_copies_name(char name[GT_CMD_COPIES_NAME], struct gt_err *err);

/* Make the folder `path` in the folder `parent`, and lock it: the caller closes *fd (-1 is fine) at
 * the end. Folders of this user whose processes were killed are removed from `parent` first; these
 * have no lock. */
int gt_cmd_copies_make(int *fd, const char *parent, const char *path, struct gt_err *err);

#endif
