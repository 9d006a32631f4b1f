/* evaluate.c - evaluation: sums of the whole data set, divided once. */
#include "lib/train/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

enum { LOSS, COUNT, TOP1, TOP5, STATS };

/* Run a batch as large as p's plan, of the `batch` samples there are and of some that count for
 * nothing. */
static int run_padded(struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	size_t input = p->input_bytes / (size_t)p->batch,
	       target = p->target_bytes / (size_t)p->batch;
	struct gt_batch whole = { .count = p->batch };
	char *memory = gt_calloc(1, p->target_bytes + p->input_bytes, err);
	size_t count = (size_t)batch->count;
	int rc;

	if (!memory)
		return GT_ENOMEM;
	whole.target = (int32_t *)(void *)memory;
	whole.input = memory + p->target_bytes;
	memset(whole.target, -1, p->target_bytes); /* negative: not counted */
	if (count) {
		memcpy(whole.input, batch->input, count * input);
		memcpy(whole.target, batch->target, count * target);
	}
	rc = gt_program_feed(p, &whole, err);
	if (!rc)
		rc = gt_plan_run(p->plan, err);
	free(memory);
	return rc;
}

/* An evaluation of some samples: sums add up on the device. */
struct evaluation {
	struct gt_program_pair *pair;
	struct gt_dataset *data;
	const struct gt_device *device;
	double *sums; /* device: [STATS] */
	int workers;
	bool pageable;
};

static int add_batch(
    struct evaluation *e, struct gt_feeder *f, const struct gt_batch *batch, struct gt_err *err)
{
	struct gt_program *p = gt_program_for(e->pair, batch->count);
	int rc;

	if (p) {
		rc = gt_feeder_feed(f, p, batch, err);
		if (!rc)
			rc = gt_plan_run(p->plan, err);
	} else if (e->pair->full.batch > batch->count) {
		p = &e->pair->full;
		rc = run_padded(p, batch, err);
	} else {
		return gt_err_set(err, GT_EINVAL, "no plan for a batch of %d", batch->count);
	}
	return rc ? rc
	          : e->device->backend->ranges()->add_f64(e->device->compute, e->sums,
	                gt_plan_address(p->plan, p->io.stats), STATS, err);
}

/* Take part in so many batches of others. */
static int run_idle(struct gt_program_pair *pair, int64_t batches, struct gt_err *err)
{
	struct gt_program *p = pair->full.batch ? &pair->full : &pair->tail;
	int rc = 0;

	for (; !rc && batches > 0; batches--)
		rc = run_padded(p, &(struct gt_batch){ 0 }, err);
	return rc;
}

struct gt_sampler gt_eval_sampler(const struct gt_dataset *data, int batch, int rank, int world)
{
	return (struct gt_sampler){ .samples = gt_dataset_info(data)->samples,
		.rank = rank,
		.world = world,
		.batch = batch };
}

static int add_all(
    struct evaluation *e, const struct gt_loader_options *options, struct gt_err *err)
{
	const struct gt_batch *b;
	struct gt_feeder f;
	int rc;

	if (!gt_sampler_rank_samples(&options->sampler)) /* more ranks than samples */
		return 0;
	rc = gt_feeder_open(&f, e->device, e->data, options, e->pageable, err);
	if (rc)
		return rc;
	while ((rc = gt_feeder_next(&f, &b, err)) > 0) {
		rc = add_batch(e, &f, b, err);
		if (rc)
			break;
	}
	gt_feeder_close(&f);
	return rc;
}

/* The sums of one rank of the sampler's. */
static int add_rank(
    struct evaluation *e, const struct gt_sampler *sampler, double *sums, struct gt_err *err)
{
	const struct gt_loader_options options = {
		.sampler = *sampler,
		.workers = e->workers,
		.prefetch = 2,
		.epochs = 1,
	};
	const struct gt_device *d = e->device;
	struct gt_sampler most = *sampler;
	int rc = d->backend->zero(d->compute, e->sums, STATS * sizeof(*e->sums), err);

	if (!rc)
		rc = add_all(e, &options, err);
	most.rank = 0; /* no other has more batches */
	if (!rc && e->pair->together)
		rc =
		    run_idle(e->pair, gt_sampler_batches(&most) - gt_sampler_batches(sampler), err);
	return rc ? rc : gt_device_read(d, sums, e->sums, STATS * sizeof(*sums), err);
}

/* The sums of ranks first .. first + count - 1 of the sampler's, summed as ranks sum up
 * (comm/group.h); `count` is a power of two. */
static int add_ranks(
    struct evaluation *e, struct gt_sampler sampler, int count, double *sums, struct gt_err *err)
{
	double rest[STATS] = { 0 };
	int rc;

	if (count == 1)
		return add_rank(e, &sampler, sums, err);
	rc = add_ranks(e, sampler, count / 2, sums, err);
	sampler.rank += count / 2;
	if (!rc)
		rc = add_ranks(e, sampler, count / 2, rest, err);
	for (int i = 0; i < STATS; i++)
		sums[i] += rest[i];
	return rc;
}

/* The sums of all ranks that this one stands for. */
static int add_here(struct evaluation *e, const struct gt_sampler *sampler, int count, double *sums,
    struct gt_err *err)
{
	void *memory;
	int rc = gt_device_alloc(e->device, STATS * sizeof(*sums), &memory, err);

	if (rc)
		return rc;
	e->sums = memory;
	rc = add_ranks(e, *sampler, count, sums, err);
	gt_device_free(e->device, memory, STATS * sizeof(*sums));
	return rc;
}

int gt_evaluate(struct gt_program_pair *pair, struct gt_dataset *data, int batch, int workers,
    bool pageable, const struct gt_eval_ranks *ranks, struct gt_metrics *out, struct gt_err *err)
{
	int hosted = ranks && ranks->hosted > 1 ? ranks->hosted : 1;
	struct gt_sampler sampler = gt_eval_sampler(
	    data, batch, ranks ? ranks->rank * hosted : 0, ranks ? ranks->world * hosted : 1);
	struct evaluation e = { .pair = pair,
		.data = data,
		.device = pair->full.plan ? pair->full.device : pair->tail.device,
		.workers = workers,
		.pageable = pageable };
	double sums[STATS] = { 0 }, began = gt_clock_s();
	/* A rank without samples has no program, and adds nothing. */
	int rc = e.device ? add_here(&e, &sampler, hosted, sums, err) : 0;

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
