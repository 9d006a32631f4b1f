/* target_weights.c - class weights, weights of labels, and the count of targets of a step. */
#include "lib/train/target_weights.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

/*
 * A mean over targets with weights divides by the sum of the weights of all targets of a step, as
 * torch.nn.CrossEntropyLoss does. Each rank needs this sum before its first backward pass. The
 * sampler says which samples all ranks read, and data sets know the classes of samples without
 * reading them. So each rank counts the classes of the whole step itself, and no rank waits for
 * another. The counts are integers, so the sum has the same bits for any number of ranks.
 *
 * Weights are kept with a mean of 1 (gt_cross_entropy_smoothed()). This changes no mean over
 * targets.
 *
 * If some targets are ignored, the targets of the step are counted in the same way, also without
 * class weights. Each token is a target of its own, so each rank reads the texts of the step of all
 * ranks. This takes little time compared with a forward pass.
 */

static bool is_balanced(const char *spec)
{
	return !strcmp(spec, "balanced");
}

/* Parse the weight at *text, which moves behind it and its comma, or becomes NULL at the end. */
static int next_weight(const char **text, double *out, struct gt_err *err)
{
	char *end;

	*out = strtod(*text, &end);
	if (end == *text || (*end && *end != ',') || !(*out >= 0 && *out <= FLT_MAX)) {
		gt_err_set(err, GT_EINVAL, "{class-weights}: '%.*s' is not a weight",
		    (int)strcspn(*text, ","), *text);
		return gt_err_hint(
		    err, "give balanced, or a number from 0 for each class: 1,2.5,1");
	}
	*text = *end ? end + 1 : NULL;
	return 0;
}

int gt_target_weights_check(const char *spec, struct gt_err *err)
{
	double weight, sum = 0;
	int rc = 0;

	if (is_balanced(spec))
		return 0;
	while (!rc && spec) {
		rc = next_weight(&spec, &weight, err);
		sum += rc ? 0 : weight;
	}
	if (rc || (sum > 0 && isfinite(sum)))
		return rc;
	gt_err_set(err, GT_EINVAL, "{class-weights}: the sum of the weights is %g", sum);
	return gt_err_hint(err, "give balanced, or some weights above 0");
}

/* Set the weights, not yet with a mean of 1. */
static int read_weights(
    double *weights, const struct gt_target_weights *w, const char *spec, struct gt_err *err)
{
	int given = 1, i = 0;

	for (const char *p = spec; *p; p++)
		given += *p == ',';
	if (given != w->classes) {
		gt_err_set(err, GT_EINVAL,
		    "{class-weights} has %d weight%s, but the data have %d %s", given,
		    given == 1 ? "" : "s", w->classes, w->labels ? "labels" : "classes");
		return gt_err_hint(
		    err, "give a weight for each %s, or balanced", w->labels ? "label" : "class");
	}
	for (const char *p = spec; p; i++)
		if (next_weight(&p, &weights[i], err))
			return err->code;
	return 0;
}

/* Weight each class by all samples / (classes with samples * its samples), as scikit-learn's
 * compute_class_weight("balanced"). A class without samples gets 0. */
static void balance(
    double *weights, struct gt_target_weights *w, const struct gt_dataset *data, int64_t samples)
{
	int present = 0;

	for (int64_t i = 0; i < samples; i++) {
		int32_t class = gt_dataset_class(data, i);

		if (class >= 0)
			w->counts[class]++;
	}
	for (int c = 0; c < w->classes; c++)
		present += w->counts[c] > 0;
	for (int c = 0; c < w->classes; c++)
		weights[c] = w->counts[c] ? (double)samples / present / (double)w->counts[c] : 0;
}

static int make_weights(struct gt_target_weights *w, const char *spec,
    const struct gt_dataset *data, int64_t samples, struct gt_err *err)
{
	double *weights = gt_calloc((size_t)w->classes, sizeof(*weights), err);
	int rc = weights ? 0 : GT_ENOMEM;

	if (!rc && is_balanced(spec))
		balance(weights, w, data, samples);
	else if (!rc)
		rc = read_weights(weights, w, spec, err);
	for (int c = 0; !rc && c < w->classes; c++)
		w->mean += weights[c] / w->classes;
	for (int c = 0; !rc && c < w->classes; c++)
		w->of_class[c] = (float)(weights[c] / w->mean);
	free(weights);
	return rc;
}

static int check_kind(const struct gt_sample_form *form, struct gt_err *err)
{
	if (form->kind != GT_SAMPLE_TOKENS && form->target != GT_SAMPLE_NUMBER)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "{class-weights} is for samples with a class, but the targets are %s",
	    form->target == GT_SAMPLE_NUMBER ? "numbers" : "tokens");
	return gt_err_hint(err, "leave {class-weights} out");
}

static int alloc_order(
    struct gt_target_weights *w, const struct gt_sampler *sampler, struct gt_err *err)
{
	w->order = gt_calloc((size_t)sampler->samples, sizeof(*w->order), err);
	w->index = gt_calloc((size_t)sampler->batch, sizeof(*w->index), err);
	return w->order && w->index ? 0 : GT_ENOMEM;
}

/* Count the samples with each label, and weight it by those without it. */
static int balance_labels(
    struct gt_target_weights *w, struct gt_dataset *data, int64_t samples, struct gt_err *err)
{
	const struct gt_draw draw = { 0 };
	void *input = gt_calloc(1, gt_dataset_info(data)->input_bytes, err);
	float *labels = gt_calloc((size_t)w->classes, sizeof(*labels), err);
	int rc = input && labels ? 0 : GT_ENOMEM;

	for (int64_t i = 0; !rc && i < samples; i++) {
		rc = gt_dataset_read(data, i, &draw, input, (int32_t *)(void *)labels, err);
		for (int c = 0; !rc && c < w->classes; c++)
			w->counts[c] += labels[c] == 1;
	}
	for (int c = 0; c < w->classes; c++)
		w->of_class[c] =
		    w->counts[c] ? (float)(samples - w->counts[c]) / (float)w->counts[c] : 1;
	free(input);
	free(labels);
	return rc;
}

static int weigh_labels(struct gt_target_weights *w, const char *spec, struct gt_dataset *data,
    int64_t samples, struct gt_err *err)
{
	double *weights;
	int rc;

	if (is_balanced(spec))
		return balance_labels(w, data, samples, err);
	weights = gt_calloc((size_t)w->classes, sizeof(*weights), err);
	rc = weights ? read_weights(weights, w, spec, err) : GT_ENOMEM;
	for (int c = 0; !rc && c < w->classes; c++)
		w->of_class[c] = (float)weights[c];
	free(weights);
	return rc;
}

int gt_target_weights_open(struct gt_target_weights *out, const char *spec, struct gt_dataset *data,
    const struct gt_sampler *sampler, struct gt_err *err)
{
	const struct gt_sample_form *form = &gt_dataset_info(data)->form;
	bool labels = form->target == GT_SAMPLE_LABELS;
	int rc = gt_target_weights_check(spec, err);

	*out =
	    (struct gt_target_weights){ .classes = form->classes, .labels = labels, .epoch = -1 };
	if (!rc)
		rc = check_kind(form, err);
	if (!rc && !labels)
		rc = alloc_order(out, sampler, err);
	if (rc)
		return rc;
	out->of_class = gt_calloc((size_t)form->classes, sizeof(*out->of_class), err);
	out->counts = gt_calloc((size_t)form->classes, sizeof(*out->counts), err);
	if (!out->of_class || !out->counts)
		return GT_ENOMEM;
	return labels ? weigh_labels(out, spec, data, sampler->samples, err)
	              : make_weights(out, spec, data, sampler->samples, err);
}

int gt_target_weights_open_count(struct gt_target_weights *out, const struct gt_dataset *data,
    const struct gt_sampler *sampler, struct gt_err *err)
{
	const struct gt_data_info *info = gt_dataset_info(data);

	*out = (struct gt_target_weights){ .epoch = -1 };
	if (info->form.kind == GT_SAMPLE_TOKENS) {
		out->input = gt_calloc(1, info->input_bytes, err);
		out->target = gt_calloc(info->targets, sizeof(*out->target), err);
		if (!out->input || !out->target)
			return GT_ENOMEM;
	}
	return alloc_order(out, sampler, err);
}

void gt_target_weights_release(struct gt_target_weights *w)
{
	free(w->of_class);
	free(w->counts);
	free(w->order);
	free(w->index);
	free(w->input);
	free(w->target);
	*w = (struct gt_target_weights){ 0 };
}

/* Count the targets of a text that are not ignored. */
static int count_tokens(struct gt_target_weights *w, struct gt_dataset *data, int64_t sample,
    const struct gt_draw *draw, struct gt_err *err)
{
	size_t targets = gt_dataset_info(data)->targets;
	int rc = gt_dataset_read(data, sample, draw, w->input, w->target, err);

	for (size_t i = 0; !rc && i < targets; i++)
		w->count += w->target[i] >= 0;
	return rc;
}

static void count_class(struct gt_target_weights *w, const struct gt_dataset *data, int64_t sample)
{
	int32_t class = gt_dataset_class(data, sample);

	if (class < 0)
		return;
	w->count++;
	if (w->counts)
		w->counts[class]++;
}

static int count_batch(struct gt_target_weights *w, struct gt_dataset *data,
    const struct gt_sampler *sampler, int64_t number, struct gt_err *err)
{
	const struct gt_draw draw = {
		.train = true, .seed = sampler->seed, .epoch = (uint32_t)w->epoch
	};
	int count = gt_sampler_batch(sampler, w->order, number, w->index), rc = 0;

	for (int i = 0; !rc && i < count; i++) {
		if (w->target)
			rc = count_tokens(w, data, w->index[i], &draw, err);
		else
			count_class(w, data, w->index[i]);
	}
	return rc;
}

/* The sum of the weights of the targets that were counted. */
static double add_weights(const struct gt_target_weights *w)
{
	double sum = 0;

	if (!w->of_class)
		return (double)w->count;
	for (int c = 0; c < w->classes; c++)
		sum += (double)w->counts[c] * (double)w->of_class[c];
	return sum;
}

int gt_target_weights_step(float *out, struct gt_target_weights *w, struct gt_dataset *data,
    const struct gt_sampler *sampler, int64_t epoch, int64_t first, int64_t last,
    struct gt_err *err)
{
	int each = sampler->virtual_ranks > 1 ? sampler->virtual_ranks : 1, rc = 0;
	struct gt_sampler of_rank = *sampler;
	double sum;

	if (epoch != w->epoch)
		gt_sampler_permutation(sampler, (uint32_t)epoch, w->order);
	w->epoch = epoch;
	w->count = 0;
	if (w->counts)
		memset(w->counts, 0, (size_t)w->classes * sizeof(*w->counts));
	for (of_rank.rank = 0; of_rank.rank < sampler->world; of_rank.rank += each)
		for (int64_t i = first; !rc && i < last; i++)
			rc = count_batch(w, data, &of_rank, i, err);
	sum = add_weights(w);
	*out = sum > 0 ? (float)(1 / sum) : 0;
	return rc;
}
