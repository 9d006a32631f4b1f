/* run_list.h - list the run directories in a folder, for hints. */
#ifndef GT_TRAIN_RUN_RUN_LIST_H
#define GT_TRAIN_RUN_RUN_LIST_H

#include <stddef.h>

/* a size that is enough for most lists */
enum { GT_RUN_LIST_SIZE = 320 };

/* Write the run directories in `folder` to out[size], as "'runs/a', 'runs/b' and 3 more", and
 * return their number. 0 if there are none, or the folder has checkpoint files of its own. */
int gt_run_list(char *out, size_t size, const char *folder);

#endif
