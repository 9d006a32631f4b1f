/* model_ranks.h - ranks as threads of a test that train a model on samples made up. */
#ifndef GT_TESTS_COMMON_MODEL_RANKS_H
#define GT_TESTS_COMMON_MODEL_RANKS_H

#include "lib/optim/optim.h"
#include "lib/parallel/parallel.h"
#include "lib/train/program.h"

/* Results of a rank that a test may collect: gradients, weights, states of an optimizer. */
enum { MODEL_RANK_WHOLES = 5, MODEL_RANK_STATS = 4 };

/*
 * One rank: its options, the objects it opens, its result. Samples are as the model wishes, but for
 * ResNets images of 8 x 8.
 */
struct model_rank {
	const char *spec;
	struct gt_parallel_options options;
	int samples; /* of a step of all ranks; of n seats of the data axis, s has s, s + n, ... */
	int micro_batches; /* that these come in; 0 is 1 */
	bool accumulate;   /* see struct gt_program_options; so it is with several micro-batches */
	bool goes_on;   /* more micro-batches are to come: no gradients are added up over ranks */
	bool evaluates; /* the program counts, and has no gradients */
	/* NULL: plain sgd. With a scaler the loss is scaled. */
	const struct gt_optim_options *optimizer;
	struct gt_group *group; /* NULL: one rank alone, with all samples */
	struct gt_model *model;
	struct gt_model_input in;
	struct gt_store *store;
	struct gt_parallel *parallel;
	struct gt_program program;
	struct gt_optim *optim;
	void *arena;
	struct gt_step_scalars *scalars;      /* device: for losses */
	double loss, stats[MODEL_RANK_STATS]; /* of the last step */
	float norm;                           /* of the gradients, in the last update */
	struct gt_step_result result;         /* of the last update of several ranks */
	void **whole[MODEL_RANK_WHOLES];      /* model_rank_collect() */
	void *user;                           /* the test's own */
	void (*enter)(struct model_rank *r);  /* called first in the rank's thread; NULL: nothing */
	struct gt_err err;
};

/* Forward and backward of the whole batch, or forward alone; `scale` multiplies the loss. */
int model_rank_step(struct model_rank *r, float scale);

/* An update with this learning rate. */
int model_rank_update(struct model_rank *r, double lr);

/* Let r->whole[which] be all whole tensors of a plane, [slot_count][slot->count], NULL for slots
 * that it lacks, and for all of them on ranks other than 0. A collective call. */
int model_rank_collect(struct model_rank *r, int which, const struct gt_plane *plane);

/* The plane of a parameter's state number `state`, from 0 on, or NULL. */
const struct gt_plane *model_rank_state(
    const struct model_rank *r, const struct gt_slot *slot, int state);

/* Likewise a state of the optimizer; NULL for parameters without it. */
int model_rank_collect_state(struct model_rank *r, int which, int state);

/*
 * Open `count` ranks with the options of `like`, and let each call `then`, which may be NULL, in
 * threads of their own that compute alone. Fails the test if one of them cannot be opened; skips
 * it, and all later runs of the program, if a GPU has too few queues for the ranks. Weights are
 * those that one rank alone (count 0) has; where rank 0 is to give them to the others, it alone has
 * them at first. An error of `then` is in r->err, for the test to check.
 */
void model_ranks_run(struct model_rank *ranks, int count, const struct model_rank *like,
    int (*then)(struct model_rank *r));

/* Close them, groups too. */
void model_ranks_close(struct model_rank *ranks, int count);

/* Fail the test unless all ended well. */
void model_ranks_expect_well(const struct model_rank *ranks, int count);

/* A copy of memory of the rank's device on the host, yours to free. */
void *model_rank_copy(const struct model_rank *r, const void *p, size_t bytes);

/* Fail the test unless the memory of the two ranks' devices has the same bytes. */
void model_ranks_expect_same(const struct model_rank *x, const void *a, const struct model_rank *y,
    const void *b, size_t bytes);

/* The largest difference of two flat buffers of float32, each in the memory of its rank's
 * device, of the largest number in b. */
double model_ranks_apart(const struct model_rank *x, const void *a, const struct model_rank *y,
    const void *b, int64_t count);

#endif
