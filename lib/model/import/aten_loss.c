/* aten_loss.c - functions of PyTorch that compute losses, for networks that return their own. */
#include <math.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/import/aten.h"

/* ---- formulas ---- */

static struct gt_map_operand number(double x)
{
	return (struct gt_map_operand){ .is_number = true, .number = x };
}

static struct gt_map_operand value(struct gt_value *v)
{
	return (struct gt_map_operand){ .value = v };
}

/* f(a, b), of values and numbers. */
static struct gt_value *apply(
    struct gt_import *im, enum gt_function f, struct gt_map_operand a, struct gt_map_operand b)
{
	return gt_apply(im->g, f, (struct gt_map_operand[]){ a, b });
}

/* a where the condition holds, else b. */
static struct gt_value *choose(struct gt_import *im, struct gt_value *condition,
    struct gt_map_operand a, struct gt_map_operand b)
{
	return gt_apply(im->g, GT_F_WHERE, (struct gt_map_operand[]){ value(condition), a, b });
}

static struct gt_value *minus(struct gt_import *im, struct gt_value *x)
{
	return gt_unary(im->g, GT_F_NEG, x);
}

static struct gt_value *times(struct gt_import *im, struct gt_value *a, struct gt_value *b)
{
	return gt_binary(im->g, GT_F_MUL, a, b);
}

/* ---- reductions ---- */

enum reduction { NONE, MEAN, SUM }; /* as in torch.nn._reduction */

static enum reduction read_reduction(struct gt_import *im)
{
	int64_t reduction = gt_import_int(im, "reduction", MEAN);

	if (reduction < NONE || reduction > SUM)
		gt_import_fail(im, ": the argument 'reduction' is %lld", (long long)reduction);
	return (enum reduction)reduction;
}

static struct gt_value *sum_all(struct gt_import *im, struct gt_value *x)
{
	return x ? gt_sum(im->g, x, (1u << x->ndim) - 1, false) : NULL;
}

/* Bind the result of a loss: its terms, their sum, or their sum divided by `count`. */
static void reduce(struct gt_import *im, struct gt_value *terms, struct gt_map_operand count)
{
	enum reduction reduction = read_reduction(im);

	if (reduction != NONE)
		terms = sum_all(im, terms);
	if (reduction == MEAN)
		terms = apply(im, GT_F_DIV, value(terms), count);
	gt_import_result(im, terms);
}

/* The mean is that of all terms. */
static void reduce_all(struct gt_import *im, struct gt_value *terms)
{
	if (terms)
		reduce(im, terms, number((double)gt_value_elements(terms)));
}

/* The terms have a weight, which may be missing. */
static void reduce_weighted(struct gt_import *im, struct gt_value *terms)
{
	struct gt_value *weight = gt_import_optional(im, "weight");

	reduce_all(im, weight ? times(im, terms, weight) : terms);
}

/* ---- numbers ---- */

static struct gt_value *difference(struct gt_import *im)
{
	return gt_binary(
	    im->g, GT_F_SUB, gt_import_tensor(im, "self"), gt_import_tensor(im, "target"));
}

void gt_aten_mse_loss(struct gt_import *im)
{
	struct gt_value *d = difference(im);

	reduce_all(im, times(im, d, d));
}

void gt_aten_l1_loss(struct gt_import *im)
{
	reduce_all(im, gt_unary(im->g, GT_F_ABS, difference(im)));
}

/* d^2 / 2 up to |d| = delta, then a line. */
static struct gt_value *huber_terms(struct gt_import *im, struct gt_value *d, double delta)
{
	struct gt_value *size = gt_unary(im->g, GT_F_ABS, d);
	struct gt_value *square = apply(im, GT_F_MUL, value(times(im, d, d)), number(0.5));
	struct gt_value *line = apply(im, GT_F_MUL,
	    value(apply(im, GT_F_SUB, value(size), number(delta / 2))), number(delta));

	return choose(
	    im, apply(im, GT_F_LT, value(size), number(delta)), value(square), value(line));
}

void gt_aten_huber_loss(struct gt_import *im)
{
	reduce_all(im, huber_terms(im, difference(im), gt_import_float(im, "delta", 1)));
}

void gt_aten_smooth_l1_loss(struct gt_import *im)
{
	double beta = gt_import_float(im, "beta", 1);
	struct gt_value *d = difference(im);

	if (beta == 0)
		reduce_all(im, gt_unary(im->g, GT_F_ABS, d));
	else
		reduce_all(im, apply(im, GT_F_DIV, value(huber_terms(im, d, beta)), number(beta)));
}

/* target (log target - x); 0 for a target of 0. With log_target the target is a logarithm. */
void gt_aten_kl_div(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *t = gt_import_tensor(im, "target");
	struct gt_value *own;

	if (gt_import_bool(im, "log_target", false)) {
		reduce_all(
		    im, times(im, gt_unary(im->g, GT_F_EXP, t), gt_binary(im->g, GT_F_SUB, t, x)));
		return;
	}
	own = choose(im, apply(im, GT_F_LT, number(0), value(t)),
	    value(times(im, t, gt_unary(im->g, GT_F_LOG, t))), number(0));
	reduce_all(im, gt_binary(im->g, GT_F_SUB, own, times(im, t, x)));
}

/* ---- labels ---- */

/* (1 - target) x - (1 + (pos_weight - 1) target) log_sigmoid(x) */
void gt_aten_binary_cross_entropy_with_logits(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *t = gt_import_tensor(im, "target");
	struct gt_value *holds = gt_import_optional(im, "pos_weight"), *log, *rest;

	log = gt_log_sigmoid(im->g, x);
	rest = times(im, apply(im, GT_F_SUB, number(1), value(t)), x);
	if (holds) {
		holds = times(im, apply(im, GT_F_SUB, value(holds), number(1)), t);
		log = times(im, apply(im, GT_F_ADD, value(holds), number(1)), log);
	}
	reduce_weighted(im, gt_binary(im->g, GT_F_SUB, rest, log));
}

/* The logarithm f of x, of at least -100. At `end`, where it is -inf, it is not computed: a
 * gradient of 0 would become NaN by its slope. */
static struct gt_value *bounded_log(
    struct gt_import *im, enum gt_function f, struct gt_value *x, double end)
{
	struct gt_value *at_end = apply(im, GT_F_EQ, value(x), number(end));
	struct gt_value *log = gt_unary(im->g, f, choose(im, at_end, number(end + 1), value(x)));

	return choose(im, at_end, number(-100), value(gt_clamp(im->g, log, -100, INFINITY)));
}

/* -target log(x) - (1 - target) log(1 - x), with logarithms of at least -100. */
void gt_aten_binary_cross_entropy(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *t = gt_import_tensor(im, "target");
	struct gt_value *log = bounded_log(im, GT_F_LOG, x, 0);
	struct gt_value *rest = bounded_log(im, GT_F_LOG1P, minus(im, x), -1);
	struct gt_value *not_t = apply(im, GT_F_SUB, number(1), value(t));

	reduce_weighted(
	    im, minus(im, gt_binary(im->g, GT_F_ADD, times(im, t, log), times(im, not_t, rest))));
}

/* ---- classes ---- */

/* View x [batch, classes, ...] with the classes as its last dimension. */
static struct gt_value *classes_last(struct gt_import *im, struct gt_value *x)
{
	int order[GT_MAX_DIMS];

	if (!x || x->ndim < 3)
		return x;
	order[0] = 0;
	for (int i = 1; i < x->ndim; i++)
		order[i] = i + 1 < x->ndim ? i + 1 : 1;
	return gt_permute_dims(im->g, x, order);
}

/* Read the classes of the targets. Those that are ignored are negative, as PyTorch's -100. */
static struct gt_value *read_classes(struct gt_import *im)
{
	struct gt_value *t = gt_import_ids(im, "target");
	int64_t ignored = gt_import_int(im, "ignore_index", -100);

	if (!t || ignored < 0)
		return t;
	t = choose(
	    im, apply(im, GT_F_EQ, value(t), number((double)ignored)), number(-100), value(t));
	return t ? gt_cast_to(im->g, t, GT_I32) : NULL;
}

/* 1 for each target that is not ignored, else 0. */
static struct gt_value *mark_counted(struct gt_import *im, struct gt_value *classes)
{
	return apply(im, GT_F_LE, number(0), value(classes));
}

/* The entry of `table` [classes] for each target, 0 for those that are ignored. */
static struct gt_value *look_up(
    struct gt_import *im, struct gt_value *table, struct gt_value *classes)
{
	struct gt_value *at = apply(im, GT_F_MAX, value(classes), number(0));

	if (!at)
		return NULL;
	return times(im, gt_index_select(im->g, table, 0, gt_cast_to(im->g, at, GT_I32)),
	    mark_counted(im, classes));
}

/* The element of x [..., classes] for the class of each target; 0 for those that are ignored. */
static struct gt_value *pick_classes(
    struct gt_import *im, struct gt_value *x, struct gt_value *classes)
{
	int64_t count = gt_value_last(x), shape[GT_MAX_DIMS];
	int32_t *numbers =
	    gt_arena_alloc(&im->g->arena, (size_t)count * sizeof(*numbers), &im->g->err);
	struct gt_value *is_class, *all;

	if (!classes || !numbers || classes->ndim + 1 != x->ndim)
		return gt_import_fail(im, ": the shapes do not fit");
	for (int64_t i = 0; i < count; i++)
		numbers[i] = (int32_t)i;
	all = gt_constant(im->g, GT_I32, 1, &count, numbers);
	memcpy(shape, classes->shape, sizeof(shape));
	shape[classes->ndim] = 1;
	is_class =
	    gt_binary(im->g, GT_F_EQ, gt_reshape(im->g, classes, classes->ndim + 1, shape), all);
	return gt_sum(im->g, choose(im, is_class, value(x), number(0)), 1u << (x->ndim - 1), false);
}

/* Bind the loss -scores[class]: the mean is over the weights of the classes that count. */
static void emit_likelihood(struct gt_import *im, struct gt_value *scores, struct gt_value *classes)
{
	struct gt_value *weight = gt_import_optional(im, "weight"), *terms, *counts;

	if (!scores || !classes || im->g->err.code)
		return;
	terms = minus(im, pick_classes(im, scores, classes));
	counts = weight ? look_up(im, weight, classes) : mark_counted(im, classes);
	reduce(im, weight ? times(im, terms, counts) : terms, value(sum_all(im, counts)));
}

void gt_aten_nll_loss(struct gt_import *im)
{
	emit_likelihood(im, classes_last(im, gt_import_tensor(im, "self")), read_classes(im));
}

/* Targets that are probabilities of all classes, in the form of the scores. */
static void emit_soft_cross_entropy(struct gt_import *im, struct gt_value *x, double smoothing)
{
	struct gt_value *t = classes_last(im, gt_import_tensor(im, "target"));
	struct gt_value *weight = gt_import_optional(im, "weight"), *terms;

	if (!t || !gt_import_same_shape(x, t)) {
		gt_import_fail(im, ": the targets are no probabilities in the form of the scores");
		return;
	}
	if (smoothing > 0) {
		t = apply(im, GT_F_MUL, value(t), number(1 - smoothing));
		t = apply(im, GT_F_ADD, value(t), number(smoothing / (double)gt_value_last(x)));
	}
	terms = times(im, t, gt_softmax(im->g, x, x->ndim - 1, true));
	if (weight)
		terms = times(im, terms, weight);
	reduce_all(im, minus(im, gt_sum(im->g, terms, 1u << (x->ndim - 1), false)));
}

/*
 * A sum or mean over targets that are classes is gtrain's own op, which other passes know. Its
 * weights of classes have a mean of 1, so for weights w with the mean m:
 *
 *   sum    m * the sum with the weights w / m
 *   mean   the sum with the weights w / m, divided by the sum of w / m over the targets
 */
static void emit_cross_entropy(
    struct gt_import *im, struct gt_value *x, struct gt_value *classes, double smoothing)
{
	struct gt_value *weight = gt_import_optional(im, "weight"), *factor = NULL, *counts, *mean;
	bool sums = read_reduction(im) == SUM;

	if (weight) {
		mean = apply(im, GT_F_DIV, value(sum_all(im, weight)),
		    number((double)gt_value_elements(weight)));
		weight = gt_binary(im->g, GT_F_DIV, weight, mean);
		factor = mean;
	} else if (sums) {
		factor = gt_fill(im->g, GT_F32, 0, NULL, 1);
	}
	if (!sums) {
		counts = weight ? look_up(im, weight, classes) : mark_counted(im, classes);
		factor = apply(im, GT_F_DIV, number(1), value(sum_all(im, counts)));
	}
	gt_import_result(
	    im, gt_cross_entropy_smoothed(im->g, x, classes, factor, weight, smoothing));
}

void gt_aten_cross_entropy_loss(struct gt_import *im)
{
	double smoothing = gt_import_float(im, "label_smoothing", 0);
	struct gt_value *x = classes_last(im, gt_import_tensor(im, "self")), *classes;

	if (!x || im->g->err.code)
		return;
	if (gt_dtype_is_float(gt_import_type(im, "target"))) {
		emit_soft_cross_entropy(im, x, smoothing);
		return;
	}
	classes = read_classes(im);
	if (!classes || im->g->err.code)
		return;
	if (read_reduction(im) != NONE)
		emit_cross_entropy(im, x, classes, smoothing);
	else if (smoothing > 0)
		gt_import_fail(im, "with label_smoothing, but without a sum or a mean");
	else
		emit_likelihood(im, gt_softmax(im->g, x, x->ndim - 1, true), classes);
}
