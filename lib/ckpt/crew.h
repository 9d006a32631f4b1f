/* crew.h - inside ckpt: many small tasks done by several threads. */
#ifndef GT_CKPT_CREW_H
#define GT_CKPT_CREW_H

#include <stddef.h>

#include "lib/base/err.h"

/* The threads that `wanted` means: itself, or for 0 one per processor this process may use, at
 * most 16 (past that, memory is what there is too little of). */
size_t gt_crew_size(size_t wanted);

/*
 * Call work(self, i, err) for every i < tasks, each once, by `threads` threads (the caller is one)
 * that take the next i when done. What a task leaves behind may depend on i alone: then the result
 * is the same for any number of threads. After an error no further task begins; of several errors
 * that of the lowest task is returned. Threads that cannot be started are done without.
 */
int gt_crew_run(size_t threads, size_t tasks,
    int (*work)(void *self, size_t task, struct gt_err *err), void *self, struct gt_err *err);

#endif
