/* merge_steps.h - private: the tensors that gt_merge_combine() combines, and their values. */
#ifndef GT_CKPT_TOOLS_MERGE_STEPS_H
#define GT_CKPT_TOOLS_MERGE_STEPS_H

#include <stdatomic.h>

#include "lib/base/meter.h"
#include "lib/ckpt/tools/merge.h"
#include "lib/ckpt/tree/cursor.h"

enum { GT_MERGE_PIECE = 64 << 10 }; /* elements that are computed at a time */

/* A tensor of the result, and the tensors that it is computed from. */
struct gt_merge_target {
	struct gt_tree_tensor *result;
	const struct gt_tree_tensor **from; /* [parts] */
	uint64_t offset;                    /* in the file of results */
	struct gt_merge_target *tied;       /* the target of which this is another name; or NULL */
	/* SLERP: the factors of both tensors, and whether they are so nearly parallel that the
	 * factors are those of the line between them */
	double factors[2];
	bool linear;
	double *least;         /* [count], TIES: smaller differences are left out */
	atomic_bool differs;   /* integers that are not the same everywhere */
	atomic_bool nonfinite; /* some of its numbers are NaN or infinite */
};

struct gt_merge_work {
	struct gt_merge_input *inputs; /* [parts] */
	size_t count;                  /* the number of checkpoints */
	size_t parts;                  /* and the base behind them, if there is one */
	const struct gt_merge_how *how;
	double divisor; /* the sum is divided by it */
	struct gt_merge_target *targets;
	size_t target_count;
	struct gt_pieces pieces; /* of targets */
	double (*products)[3];   /* [pieces], SLERP: the sums of x x, y y and x y */
	struct gt_meter meter;
	int fd; /* the file of results */
};

/* Return a cursor over the elements from `at` on, `max` at a time. */
struct gt_cursor gt_merge_cursor(const struct gt_tree_tensor *t, uint64_t at, size_t max);

/* Compute the numbers of whole tensors that their elements depend on: the factors of SLERP, and the
 * least differences of TIES. */
int gt_merge_measure(struct gt_merge_work *m, size_t threads, struct gt_err *err);

/* Compute a piece of the results, and write it to the file. `self` is the struct gt_merge_work. */
int gt_merge_piece(void *self, size_t task, struct gt_err *err);

#endif
