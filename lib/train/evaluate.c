/* evaluate.c - evaluation: sums of the whole data set, divided once. */
#include "lib/train/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/regression.h"
#include "lib/base/text.h"
#include "lib/data/core/description.h"

/* These are the sums that the op classify_stats writes, in its order, which is that of struct
 * gt_batch_stats, too. */
enum { LOSS, COUNT, TOP1, TOP5, STATS };
_Static_assert(sizeof(struct gt_batch_stats) == STATS * sizeof(double), "sums of a batch");
/* The op regress_stats writes these for numbers. COUNT has the same place. TERMS is also that of a
 * loss which the network computes. */
enum { SQUARES, ABSOLUTE = COUNT + 1, TARGETS, TARGET_SQUARES, TERMS };
/* It writes these for labels. */
enum { RIGHT, PREDICTED = COUNT + 1, HOLDING, FOUND };

/* An evaluation of this rank's batches. */
struct evaluation {
	struct gt_program_pair *pair;
	struct gt_dataset *data;
	const struct gt_device *device;
	struct gt_sampler sampler;
	int64_t batches, done;       /* batches of this rank */
	int width;                   /* statistics of a batch */
	double *stats;               /* device: [batches][width] */
	struct gt_predictions *each; /* NULL: they are not asked for */
	float *logits;               /* [batch, classes] for them */
	const struct gt_evaluate_options *o;
};

const char *gt_metrics_top5(
    char text[GT_METRICS_TOP5], const char *before, const struct gt_metrics *m, int classes)
{
	enum { TOP = 5 };

	if (classes > 0 && classes <= TOP)
		*text = '\0';
	else
		snprintf(text, GT_METRICS_TOP5, "%stop-5 %.2f %%", before, 100 * m->top5);
	return text;
}

/* ---- the answer to each sample ---- */

void gt_predictions_release(struct gt_predictions *p)
{
	free(p->target);
	free(p->predicted);
	free(p->probability);
	free(p->margin);
	free(p->value);
	*p = (struct gt_predictions){ 0 };
}

int gt_predictions_digits(const struct gt_predictions *p)
{
	double ratio = fabs(p->target_mean) / p->target_std;
	int digits = 9;

	for (; ratio >= 10 && digits < 17; ratio /= 10)
		digits++;
	return digits;
}

float gt_predictions_label(const struct gt_predictions *p, int64_t sample, int label)
{
	float value;

	memcpy(&value, &p->target[sample * p->labels + label], sizeof(value));
	return value;
}

static int alloc_predictions(struct evaluation *e, struct gt_err *err)
{
	const struct gt_program *program = e->pair->full.batch ? &e->pair->full : &e->pair->tail;
	/* A rank without batches has no program. A model may have more tokens than the data. */
	int64_t logits = program->batch ? program->io.logits->shape[1] : 0;
	int classes = gt_dataset_info(e->data)->form.classes;
	int top = e->o->top < classes ? e->o->top : classes;
	bool labels = gt_dataset_info(e->data)->form.target == GT_SAMPLE_LABELS;
	struct gt_predictions *p = e->each;
	size_t n = (size_t)e->sampler.samples, kept = n * (size_t)top;

	*p = (struct gt_predictions){ .count = e->sampler.samples,
		.top = top,
		.labels = labels ? classes : 0,
		.target = gt_calloc(n, (size_t)(labels ? classes : 1) * sizeof(*p->target), err),
		.predicted = gt_calloc(kept, sizeof(*p->predicted), err),
		.probability = gt_calloc(kept, sizeof(*p->probability), err) };
	if (gt_dataset_info(e->data)->form.target == GT_SAMPLE_NUMBER) {
		struct gt_data_description d;

		gt_data_describe(&d, e->data);
		p->target_mean = d.target.mean;
		p->target_std = d.target.std;
		p->value = gt_calloc(n, sizeof(*p->value), err);
		if (!p->value)
			return GT_ENOMEM;
	}
	if (classes == 2 && !labels) {
		p->margin = gt_calloc(n, sizeof(*p->margin), err);
		if (!p->margin)
			return GT_ENOMEM;
	}
	e->logits =
	    gt_calloc((size_t)e->sampler.batch * (size_t)logits + 1, sizeof(*e->logits), err);
	return p->target && p->predicted && p->probability && e->logits ? 0 : GT_ENOMEM;
}

/* The classes of the `top` largest logits, in descending order. */
static void choose_top_classes(int32_t *best, int top, const float *logits, int64_t classes)
{
	int count = 0;

	for (int64_t i = 0; i < classes; i++) {
		int at = count;

		if (count == top && !(logits[i] > logits[best[top - 1]]))
			continue;
		at = count < top ? count++ : top - 1;
		for (; at > 0 && logits[i] > logits[best[at - 1]]; at--)
			best[at] = best[at - 1];
		best[at] = (int32_t)i;
	}
}

/* Whether a logit is NaN: gt_evaluate() counts such a sample as wrong. */
static bool has_nan(const float *logits, int64_t classes)
{
	for (int64_t i = 0; i < classes; i++)
		if (isnan(logits[i]))
			return true;
	return false;
}

/* Each label has a probability of its own. */
static void note_labels(float *probability, const int32_t *best, int top, const float *logits)
{
	for (int k = 0; k < top; k++)
		probability[k] = (float)(1 / (1 + exp(-(double)logits[best[k]])));
}

/* Note the answer to a sample: its classes, and the softmax of their logits. */
static void note_sample(
    struct gt_predictions *p, int64_t sample, const float *logits, int64_t classes)
{
	int32_t *best = p->predicted + sample * p->top;
	double sum = 0, largest;

	if (p->value) {
		p->value[sample] = (double)*logits * p->target_std + p->target_mean;
		return;
	}
	if (p->margin)
		p->margin[sample] = (double)logits[1] - (double)logits[0];
	if (has_nan(logits, classes)) {
		for (int k = 0; k < p->top; k++) {
			best[k] = -1;
			p->probability[sample * p->top + k] = NAN;
		}
		return;
	}
	choose_top_classes(best, p->top, logits, classes);
	if (p->labels) {
		note_labels(p->probability + sample * p->top, best, p->top, logits);
		return;
	}
	largest = (double)logits[best[0]];
	for (int64_t i = 0; i < classes; i++)
		sum += exp((double)logits[i] - largest);
	for (int k = 0; k < p->top; k++)
		p->probability[sample * p->top + k] =
		    (float)(exp((double)logits[best[k]] - largest) / sum);
}

/* Wait for the logits of this rank's batch number `done`, and note the answers in their places. */
static int note_batch(struct evaluation *e, const struct gt_program *p,
    const struct gt_batch *batch, struct gt_err *err)
{
	const struct gt_value *v = p->io.logits;
	int64_t first = (e->done * e->sampler.world + e->sampler.rank) * e->sampler.batch;
	int64_t words = e->each->labels ? e->each->labels : 1;
	int rc = gt_plan_read(p->plan, v, e->logits, gt_value_bytes(v), err);

	for (int64_t i = 0; !rc && i < batch->count; i++) {
		for (int64_t k = 0; k < words; k++)
			e->each->target[(first + i) * words + k] =
			    p->io.stats ? batch->target[i * words + k] : GT_DATA_IGNORE;
		note_sample(e->each, first + i, e->logits + i * v->shape[1], v->shape[1]);
	}
	return rc;
}

/* Each sample is one rank's, and the others add zeros. */
static int gather_predictions(struct evaluation *e, struct gt_group *group, struct gt_err *err)
{
	const struct gt_predictions *p = e->each;
	int64_t kept = p->count * p->top, targets = p->count * (p->labels ? p->labels : 1);
	int rc = gt_all_reduce(group, p->target, targets, GT_I32, GT_SUM, err);

	if (!rc)
		rc = gt_all_reduce(group, p->predicted, kept, GT_I32, GT_SUM, err);
	if (!rc && p->value)
		rc = gt_all_reduce(group, p->value, p->count, GT_F64, GT_SUM, err);
	if (!rc && p->margin)
		rc = gt_all_reduce(group, p->margin, p->count, GT_F64, GT_SUM, err);
	return rc ? rc : gt_all_reduce(group, p->probability, kept, GT_F32, GT_SUM, err);
}

/* ---- batches ---- */

/* Wait for the scores of the batch number `done`. */
static int read_scores(const struct evaluation *e, const struct gt_program *p, struct gt_err *err)
{
	const struct gt_value *v = p->io.logits;

	return gt_plan_read(p->plan, v, e->o->scores + e->done * e->sampler.batch * (v->shape[1]),
	    gt_value_bytes(v), err);
}

/* Wait for the margins of this rank's batch number `done`. In a pipeline, one stage has them. */
static int read_margins(const struct evaluation *e, const struct gt_program *p, struct gt_err *err)
{
	const int64_t first = (e->done * e->sampler.world + e->sampler.rank) * e->sampler.batch;
	const struct gt_value *v = p->io.margin;

	return v ? gt_plan_read(p->plan, v, e->o->margins + first, gt_value_bytes(v), err) : 0;
}

/* Queue a batch that is fed, and a copy of its statistics. */
static int run_batch(
    struct evaluation *e, struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	const struct gt_device *d = e->device;
	int rc = gt_plan_run(p->plan, err);

	if (!rc && p->io.stats)
		rc = d->backend->copy(d->compute, e->stats + e->width * e->done,
		    gt_plan_address(p->plan, p->io.stats), (size_t)e->width * sizeof(*e->stats),
		    err);
	if (!rc && e->each)
		rc = note_batch(e, p, batch, err);
	if (!rc && e->o->scores)
		rc = read_scores(e, p, err);
	if (!rc && e->o->margins)
		rc = read_margins(e, p, err);
	e->done++;
	return rc;
}

/* Samples that all ranks have evaluated by now, as the other ranks are about as fast. */
static void show_progress(const struct evaluation *e, double began)
{
	double seconds = gt_clock_s() - began;
	int64_t done = e->done * e->sampler.batch * e->sampler.world;
	char rate[GT_TEXT_SIZE], text[GT_TEXT_SIZE + 2];
	const struct gt_progress_field fields[] = { { text, 1 }, { 0 } };

	if (!e->o->progress)
		return;
	if (done > e->sampler.samples)
		done = e->sampler.samples;
	snprintf(text, sizeof(text), "%s/s",
	    gt_text_count(rate, seconds > 0 ? (double)done / seconds : 0));
	gt_progress_update(e->o->progress, done, fields);
}

static int run_batches(struct evaluation *e, struct gt_feeder *f, struct gt_err *err)
{
	const struct gt_batch *batch;
	double began = gt_clock_s();
	int rc;

	while ((rc = gt_feeder_next(f, &batch, err)) > 0) {
		struct gt_program *p = gt_program_for(e->pair, batch->count);

		if (!p)
			return gt_err_set(
			    err, GT_EINVAL, "no plan for a batch of %d", batch->count);
		rc = gt_feeder_feed(f, p, batch, err);
		if (!rc)
			rc = run_batch(e, p, batch, err);
		if (rc)
			return rc;
		show_progress(e, began);
	}
	return rc;
}

static int run_all(struct evaluation *e, struct gt_err *err)
{
	const struct gt_loader_options options = {
		.sampler = e->sampler,
		.workers = e->o->workers,
		.prefetch = GT_EVALUATE_PREFETCH,
		.epochs = 1,
	};
	struct gt_progress outer;
	struct gt_feeder f;
	int rc;

	if (!e->batches) /* more ranks than batches */
		return 0;
	rc = gt_feeder_open(&f, e->device, e->data, &options, e->o->pageable, err);
	if (rc)
		return rc;
	outer = gt_progress_enter(e->o->progress, "sample", e->sampler.samples);
	rc = run_batches(e, &f, err);
	gt_progress_leave(e->o->progress, &outer);
	gt_feeder_close(&f);
	return rc;
}

/* Take part in a batch of others, with samples that count for nothing. */
static int run_idle(struct gt_program *p, struct gt_err *err)
{
	char *memory = gt_calloc(1, p->target_bytes + p->input_bytes, err);
	const struct gt_batch nothing = { .count = p->batch,
		.target = (int32_t *)(void *)memory,
		.input = memory + p->target_bytes };
	int rc;

	if (!memory)
		return GT_ENOMEM;
	rc = gt_program_feed(p, &nothing, err);
	if (!rc)
		rc = gt_plan_run(p->plan, err);
	free(memory);
	return rc;
}

/* Where a forward pass is a collective call, all ranks run as many as rank 0, which has most. */
static int run_with_others(struct evaluation *e, struct gt_err *err)
{
	struct gt_program_pair *pair = e->pair;
	struct gt_program *p = pair->full.batch ? &pair->full : &pair->tail;
	struct gt_sampler rank_0 = e->sampler;
	int rc = 0;

	rank_0.rank = 0;
	for (int64_t n = gt_sampler_batches(&rank_0); !rc && pair->together && n > e->batches; n--)
		rc = run_idle(p, err);
	return rc;
}

/* The statistics of this rank's batches, where they belong among those of all. */
static int run_here(struct evaluation *e, double *all, struct gt_err *err)
{
	size_t bytes = (size_t)((e->batches + 1) * e->width) * sizeof(*e->stats);
	double *mine = gt_calloc(1, bytes, err);
	void *memory = NULL;
	int rc = mine ? gt_device_alloc(e->device, bytes, &memory, err) : GT_ENOMEM;

	e->stats = memory;
	if (!rc)
		rc = run_all(e, err);
	if (!rc)
		rc = run_with_others(e, err);
	if (!rc)
		rc = gt_device_read(e->device, mine, e->stats, bytes, err);
	for (int64_t i = 0; !rc && i < e->batches; i++)
		memcpy(all + (i * e->sampler.world + e->sampler.rank) * e->width,
		    mine + i * e->width, (size_t)e->width * sizeof(*all));
	if (rc && memory) /* batches before the error are still under way */
		(void)gt_device_sync(e->device, GT_ERR_IGNORED);
	gt_device_free(e->device, memory, bytes);
	free(mine);
	return rc;
}

/* Each batch is one rank's, and the others add zeros: sums over ranks are exact. */
static int add_up(struct evaluation *e, struct gt_group *group, double *sums, struct gt_err *err)
{
	int64_t batches = (e->sampler.samples + e->sampler.batch - 1) / e->sampler.batch;
	double *all = gt_calloc((size_t)batches + 1, (size_t)e->width * sizeof(*all), err);
	int rc = all ? 0 : GT_ENOMEM;

	if (!rc)
		rc = run_here(e, all, err);
	if (!rc)
		rc = gt_all_reduce(group, all, batches * e->width, GT_F64, GT_SUM, err);
	for (int64_t i = 0; !rc && i < batches * e->width; i++)
		sums[i % e->width] += all[i];
	if (!rc && e->o->batch_stats && e->width == STATS)
		memcpy(e->o->batch_stats, all, (size_t)batches * sizeof(*e->o->batch_stats));
	free(all);
	return rc;
}

/* Every batch is one rank's. */
static struct gt_sampler sampler_of(
    const struct gt_session *s, const struct gt_dataset *data, int batch)
{
	return (struct gt_sampler){ .samples = gt_dataset_info(data)->samples,
		.rank = gt_session_data_rank(s),
		.world = gt_session_data_world(s),
		.batch = batch,
		.by_batch = true };
}

int gt_evaluate_plan(struct gt_program_pair *pair, const struct gt_session *s,
    const struct gt_dataset *data, const struct gt_evaluate_options *o, struct gt_err *err)
{
	struct gt_program_options options = gt_session_program_options(
	    s, o->top || o->plan_scores ? GT_MODEL_PREDICT : GT_MODEL_EVAL);
	struct gt_model_input input = s->input;
	const struct gt_sampler sampler = sampler_of(s, data, o->batch);

	/* A run may train on packed samples, and evaluate on others. */
	input.form.packed = gt_dataset_info(data)->form.packed;
	options.input = &input;
	return gt_program_pair_init(
	    pair, &options, gt_sampler_rank_samples(&sampler), o->batch, false, err);
}

/* On the target's own scale. R2 of targets that do not vary is not defined. */
static void measure_errors(
    struct gt_metrics *out, const double *sums, const struct gt_dataset *data)
{
	struct gt_data_description d;
	double n = sums[COUNT], std,
	       varies = sums[TARGET_SQUARES] - sums[TARGETS] * sums[TARGETS] / n;

	gt_data_describe(&d, data);
	std = d.target.std;
	out->mse = std * std * sums[SQUARES] / n;
	out->mae = std * sums[ABSOLUTE] / n;
	out->r2 = varies > 0 ? 1 - sums[SQUARES] / varies : NAN;
}

static double divide(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static void measure_labels(struct gt_metrics *out, const double *sums)
{
	out->right = (int64_t)sums[RIGHT];
	out->accuracy = sums[RIGHT] / sums[COUNT];
	out->precision = divide(sums[FOUND], sums[PREDICTED]);
	out->recall = divide(sums[FOUND], sums[HOLDING]);
	out->f1 = divide(2 * sums[FOUND], sums[PREDICTED] + sums[HOLDING]);
}

static void measure_classes(struct gt_metrics *out, const double *sums)
{
	out->loss = sums[LOSS] / sums[COUNT];
	out->right = (int64_t)sums[TOP1];
	out->top1 = sums[TOP1] / sums[COUNT];
	out->top5 = sums[TOP5] / sums[COUNT];
	out->perplexity = exp(out->loss);
}

static void measure(
    struct gt_metrics *out, const double *sums, const struct gt_dataset *data, bool only_loss)
{
	out->n = (int64_t)sums[COUNT];
	out->target = gt_dataset_info(data)->form.target;
	out->loss = sums[TERMS] / sums[COUNT];
	out->only_loss = only_loss;
	out->pairs = gt_dataset_info(data)->form.paired;
	if (only_loss)
		return;
	if (out->pairs)
		measure_labels(out, sums);
	else if (out->target == GT_SAMPLE_NUMBER)
		measure_errors(out, sums, data);
	else if (out->target == GT_SAMPLE_LABELS)
		measure_labels(out, sums);
	else
		measure_classes(out, sums);
}

static int fail_without_targets(struct gt_err *err)
{
	gt_err_set(err, GT_EFORMAT, "nothing to evaluate: no sample of the data has a target");
	return gt_err_hint(err, "are they all those that the training ignores, by ignore-index?");
}

/* Whether the statistics are those of classify_stats. */
static bool counts_classes(const struct gt_session *s, const struct gt_dataset *data)
{
	const struct gt_sample_form *form = &gt_dataset_info(data)->form;

	return form->target == GT_SAMPLE_CLASS && !form->paired && !s->input.loss.output;
}

/*
 * Evaluate the whole data set in order, without augmentation. A collective call. `pair` comes from
 * gt_evaluate_plan() with the same data and options. The ranks of the data axis
 * (lib/parallel/axis.h) read different samples: if there are N of them, rank i % N evaluates batch
 * i. Then each rank sums the statistics of all batches in the order of the data set. So all ranks
 * get the same result, bit by bit, for any number of ranks.
 *
 * If options->top is not 0, all ranks get the predictions of all samples in *each. The caller
 * releases *each, even after an error. If options->top is 0, `each` may be NULL.
 *
 * Samples without a target do not count in *out. Errors: GT_EFORMAT if no sample has a target,
 * unless options->no_targets.
 *
 * Memory: 32 bytes of statistics for each batch, or 48 bytes for numbers and labels. The host holds
 * the statistics of all batches of the data set. The device holds the statistics of this rank's
 * batches.
 */
int gt_evaluate(const struct gt_session *s, struct gt_program_pair *pair, struct gt_dataset *data,
    const struct gt_evaluate_options *o, struct gt_metrics *out, struct gt_predictions *each,
    struct gt_err *err)
{
	struct evaluation e = { .each = o->top ? each : NULL,
		.pair = pair,
		.data = data,
		.device = s->device,
		.sampler = sampler_of(s, data, o->batch),
		.width = counts_classes(s, data) ? STATS : GT_REGRESS_STATS,
		.o = o };
	struct gt_group *group = gt_parallel_results(s->parallel);
	double sums[GT_REGRESS_STATS] = { 0 }, began = gt_clock_s();
	int rc = 0;

	*out = (struct gt_metrics){ 0 };
	e.batches = gt_sampler_batches(&e.sampler);
	if (e.each)
		rc = alloc_predictions(&e, err);
	if (!rc)
		rc = add_up(&e, group, sums, err);
	if (!rc && e.each)
		rc = gather_predictions(&e, group, err);
	if (!rc && o->margins)
		rc = gt_all_reduce(group, o->margins, e.sampler.samples, GT_F32, GT_SUM, err);
	free(e.logits);
	if (rc)
		return rc;
	out->seconds = gt_clock_s() - began;
	if (sums[COUNT] == 0)
		return o->no_targets ? 0 : fail_without_targets(err);
	measure(out, sums, data, s->input.loss.output);
	return 0;
}
