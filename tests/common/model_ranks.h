/* model_ranks.h - ranks as threads of a test that train a model on samples made up. */
#ifndef GT_TESTS_COMMON_MODEL_RANKS_H
#define GT_TESTS_COMMON_MODEL_RANKS_H

#include "lib/optim/optim.h"
#include "lib/parallel/parallel.h"
#include "lib/train/program.h"

/* One rank: what it is told, what it opens, how it ended. */
struct model_rank {
	const char *spec;
	struct gt_parallel_options options;
	int samples;            /* of the whole batch; a rank's are every ranks-th one */
	bool accumulate;        /* see struct gt_program_options */
	struct gt_group *group; /* NULL: one rank alone, with all samples */
	struct gt_model *model;
	struct gt_model_input in;
	struct gt_store *store;
	struct gt_parallel *parallel; /* NULL: alone */
	struct gt_program program;
	struct gt_optim *optim; /* plain sgd */
	void *arena;
	struct gt_err err;
};

/* Forward and backward of the whole batch; `scale` multiplies the loss. */
int model_rank_step(struct model_rank *r, float scale);

/* sgd with this learning rate. */
int model_rank_update(struct model_rank *r, double lr);

/*
 * Open `count` ranks that are all told what `like` is told, and let each call `then`, in threads of
 * their own. Fails the test if one of them cannot be opened. Weights of rank 0 are those that one
 * rank alone (count 0) has. What `then` returns is an error that r->err tells, the test's to judge.
 */
void model_ranks_run(struct model_rank *ranks, int count, const struct model_rank *like,
    int (*then)(struct model_rank *r));

/* Close them, groups too. */
void model_ranks_close(struct model_rank *ranks, int count);

/* Fail the test unless all ended well. */
void model_ranks_expect_well(const struct model_rank *ranks, int count);

/* The largest difference of two flat buffers of float32, of the largest number in b. */
double model_ranks_apart(const void *a, const void *b, int64_t count);

#endif
