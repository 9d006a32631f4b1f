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
};

/* Run the pair (purpose GT_MODEL_EVAL, made for the sampler's samples, bound) over the whole data
 * set in order, without augmentation. Sums are added up over the ranks' group (NULL: one rank), and
 * all get the same: a collective call. */
int gt_evaluate(struct gt_program_pair *pair, struct gt_dataset *data, int batch, int workers,
    const struct gt_eval_ranks *ranks, struct gt_metrics *out, struct gt_err *err);

#endif
