/* evaluate.c - evaluation: sums of the whole data set, divided once. */
#include "lib/train/evaluate.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/clock.h"

enum { LOSS, COUNT, TOP1, TOP5, STATS };

static int add_batch(
    struct gt_program_pair *pair, const struct gt_batch *batch, double *sums, struct gt_err *err)
{
	struct gt_program *p = gt_program_for(pair, batch->count);
	double stats[STATS];
	int rc;

	if (!p)
		return gt_err_set(err, GT_EINVAL, "no plan for a batch of %d", batch->count);
	rc = gt_program_feed(p, batch, err);
	if (!rc)
		rc = gt_plan_run(p->plan, err);
	if (!rc)
		rc = gt_plan_read(p->plan, p->io.stats, stats, sizeof(stats), err);
	for (int i = 0; !rc && i < STATS; i++)
		sums[i] += stats[i];
	return rc;
}

/* Take part in so many batches of others, with samples that count for nothing. */
static int run_idle(struct gt_program_pair *pair, int64_t batches, struct gt_err *err)
{
	struct gt_program *p = pair->full.batch ? &pair->full : &pair->tail;
	struct gt_batch batch = { .count = p->batch };
	void *zeros;
	int rc = 0;

	if (batches <= 0)
		return 0;
	zeros = gt_calloc(1, p->input_bytes + p->target_bytes, err);
	if (!zeros)
		return GT_ENOMEM;
	batch.input = zeros;
	batch.target = zeros;
	for (; !rc && batches > 0; batches--) {
		rc = gt_program_feed(p, &batch, err);
		if (!rc)
			rc = gt_plan_run(p->plan, err);
	}
	free(zeros);
	return rc;
}

struct gt_sampler gt_eval_sampler(const struct gt_dataset *data, int batch, int rank, int world)
{
	return (struct gt_sampler){ .samples = gt_dataset_info(data)->samples,
		.rank = rank,
		.world = world,
		.batch = batch };
}

/* The sums of this rank's samples. */
static int add_all(struct gt_program_pair *pair, struct gt_dataset *data,
    const struct gt_loader_options *options, double *sums, struct gt_err *err)
{
	const struct gt_batch *b;
	struct gt_loader *loader;
	int rc;

	if (!gt_sampler_rank_samples(&options->sampler)) /* more ranks than samples */
		return 0;
	rc = gt_loader_open(&loader, data, options, err);
	if (rc)
		return rc;
	while ((rc = gt_loader_next(loader, &b, err)) > 0) {
		rc = add_batch(pair, b, sums, err);
		if (rc)
			break;
	}
	gt_loader_close(loader);
	return rc;
}

int gt_evaluate(struct gt_program_pair *pair, struct gt_dataset *data, int batch, int workers,
    const struct gt_eval_ranks *ranks, struct gt_metrics *out, struct gt_err *err)
{
	const struct gt_loader_options options = {
		.sampler =
		    gt_eval_sampler(data, batch, ranks ? ranks->rank : 0, ranks ? ranks->world : 1),
		.workers = workers,
		.prefetch = 2,
		.epochs = 1,
	};
	struct gt_sampler most = options.sampler;
	double sums[STATS] = { 0 }, began = gt_clock_s();
	int rc = add_all(pair, data, &options, sums, err);

	most.rank = 0; /* no other has more batches */
	if (!rc && pair->together)
		rc = run_idle(
		    pair, gt_sampler_batches(&most) - gt_sampler_batches(&options.sampler), err);
	*out = (struct gt_metrics){ 0 };
	if (!rc && ranks && ranks->group)
		rc = gt_all_reduce(ranks->group, sums, STATS, GT_F64, GT_SUM, err);
	if (rc)
		return rc;
	if (sums[COUNT] == 0)
		return gt_err_set(err, GT_EINVAL, "nothing to evaluate: no targets");
	out->n = (int64_t)sums[COUNT];
	out->right = (int64_t)sums[TOP1];
	out->loss = sums[LOSS] / sums[COUNT];
	out->top1 = sums[TOP1] / sums[COUNT];
	out->top5 = sums[TOP5] / sums[COUNT];
	out->perplexity = exp(out->loss);
	out->seconds = gt_clock_s() - began;
	return 0;
}
