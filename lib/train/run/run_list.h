/* run_list.h - list the run directories in a folder, for hints. */
#ifndef GT_TRAIN_RUN_RUN_LIST_H
#define GT_TRAIN_RUN_RUN_LIST_H

#include <stddef.h>

/* A size that is enough for the paths that gt_run_list() writes, unless they are long. */
enum { GT_RUN_LIST_SIZE = 320 };

/*
 * Write the paths of the run directories in `folder`, such as "'runs/a', 'runs/b' and 3 more", to
 * `out`, in the order of their names. `size` is the size of `out` in bytes. A run directory has
 * metrics.jsonl or checkpoints/. Return the number of run directories. If there are none, or the
 * folder has checkpoint files of its own, return 0 and write an empty text.
 */
int gt_run_list(char *out, size_t size, const char *folder);

#endif
