/* pairs.c - pairs of texts, and the loss of direct preference optimization (DPO). */
#include "lib/model/pairs.h"

#include "lib/graph/ops/ops.h"

struct gt_value *gt_pairs_texts(
    struct gt_graph *g, const struct gt_sample_form *form, struct gt_value *input)
{
	const int64_t words = (int64_t)gt_sample_target_words(form);
	struct gt_value *ids;

	if (!input)
		return NULL;
	gt_graph_scope(g, "input");
	ids = gt_slice_dim(g, input, 1, 0, words, 1);
	return gt_reshape(g, ids, 2, (int64_t[]){ 2 * input->shape[0], form->block });
}

/* factor * x */
static struct gt_value *scale(struct gt_graph *g, struct gt_value *x, double factor)
{
	return gt_apply(
	    g, GT_F_MUL, (struct gt_map_operand[]){ { .value = x }, { true, factor, NULL } });
}

static struct gt_value *reference_of(
    struct gt_graph *g, const struct gt_sample_form *form, struct gt_value *input)
{
	const int64_t words = (int64_t)gt_sample_target_words(form);
	struct gt_value *bits = gt_slice_dim(g, input, 1, words, words + 1, 1);

	return gt_view_bytes(g, bits, GT_F32, 1, input->shape);
}

struct gt_value *gt_pairs_margin(
    struct gt_graph *g, struct gt_value *logits, struct gt_value *target)
{
	static const float signs[] = { -1, 1 }; /* a loss is a negative log-probability */
	struct gt_value *losses, *sign;
	int64_t batch;

	if (!logits || !target)
		return NULL;
	batch = target->shape[0];
	losses = gt_cross_entropy_each(g, logits, target);
	losses = gt_reshape(g, losses, 3, (int64_t[]){ batch, 2, target->shape[1] / 2 });
	sign = gt_constant(g, GT_F32, 3, (int64_t[]){ 1, 2, 1 }, signs);
	return gt_sum(g, gt_binary(g, GT_F_MUL, losses, sign), 1u << 1 | 1u << 2, false);
}

struct gt_value *gt_pairs_scores(struct gt_graph *g, const struct gt_sample_form *form,
    const struct gt_loss *loss, struct gt_value *margin, struct gt_value *input)
{
	if (!margin || !input)
		return NULL;
	return scale(g, gt_binary(g, GT_F_SUB, margin, reference_of(g, form, input)), loss->beta);
}

struct gt_value *gt_pairs_loss(struct gt_graph *g, const struct gt_sample_form *form,
    const struct gt_loss *loss, struct gt_value *scores, struct gt_value *weight)
{
	const double targets = (double)gt_sample_target_words(form),
	             swapped = loss->label_smoothing;
	struct gt_value *sum, *other;

	if (!scores)
		return NULL;
	sum = scale(g, gt_log_sigmoid(g, scores), swapped - 1);
	if (swapped > 0) {
		other = gt_log_sigmoid(g, gt_unary(g, GT_F_NEG, scores));
		sum = gt_binary(g, GT_F_SUB, sum, scale(g, other, swapped));
	}
	sum = gt_sum(g, sum, 1u << 0, false);
	return gt_binary(g, GT_F_MUL, scale(g, sum, targets), weight);
}

struct gt_value *gt_pairs_stats(struct gt_graph *g, struct gt_value *scores)
{
	static const struct gt_regression of_labels = { .kind = GT_REGRESSION_BCE };

	if (!scores)
		return NULL;
	return gt_regress_stats(g, &of_labels, scores, gt_fill(g, GT_F32, 1, scores->shape, 1));
}
