/* evaluate.h - measure a model on every sample of a data set, each counted once. */
#ifndef GT_TRAIN_EVALUATE_H
#define GT_TRAIN_EVALUATE_H

#include "lib/comm/group.h"
#include "lib/train/program.h"

struct gt_metrics {
	double loss;       /* mean cross-entropy, in nats */
	double top1, top5; /* share of right answers, 0..1 */
	double perplexity; /* exp(loss) */
	int64_t n;         /* targets counted: samples, or tokens */
	int64_t right;     /* top-1 hits */
	double seconds;    /* that it took, reading included */
};

/* Which samples this rank of `world` evaluates: every sample belongs to one. */
struct gt_sampler gt_eval_sampler(const struct gt_dataset *data, int batch, int rank, int world);

/* Ranks that evaluate together: this one's number among those that read other samples, how many
 * these are, and the group of all, also of those that hold other parts of the model. */
struct gt_eval_ranks {
	int rank, world;
	struct gt_group *group; /* NULL: one rank */
	int hosted;             /* virtual ranks, a power of two, that each stands for; 0 is 1 */
};

/*
 * Run the pair (purpose GT_MODEL_EVAL, bound) over the whole data set in order, without
 * augmentation, in batches of `batch`, those of each virtual rank by themselves; for `pageable` see
 * gt_feeder_open(). A short batch that the pair has no program for is filled up with samples that
 * count for nothing. Sums are added up over the hosted ranks and over the ranks' group (NULL: one
 * rank), as gradients are, and all get the same: a collective call.
 *
 * So the bits depend on how many ranks there are, unless these stand for as many virtual ones, with
 * the same `batch`, and the pair has a program for that alone.
 */
int gt_evaluate(struct gt_program_pair *pair, struct gt_dataset *data, int batch, int workers,
    bool pageable, const struct gt_eval_ranks *ranks, struct gt_metrics *out, struct gt_err *err);

#endif
