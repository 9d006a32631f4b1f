/* autocast.c - mixed precision: casts to a type of 16 bits and back, as torch.autocast has them. */
#include <stdlib.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/*
 * Models are built in float32. This pass goes through the forward graph in order; where an input's
 * type is not the one that the class of the op asks for (enum gt_autocast), a cast node before it
 * makes that one, and the op's outputs take the types that follow. Parameters stay float32: a
 * product reads a low copy, and the backward pass, which comes later, casts the copy's gradient
 * back. A value is cast once for all its readers, as in the weight cache of torch.autocast. Values
 * of other types, float64 among them, are left alone.
 *
 * A transformer's residual sums begin with an embedding in float32, and a sum with float32 is
 * float32: so torch.autocast has them. With low_sums, as in models whose weights are cast, the
 * embedding is rounded, and a sum of both types is low: the sums take half of the memory traffic.
 *
 * Where the store keeps such copies of its parameters, which updates write along with these, a
 * second pass behind the backward pass lets nodes read them, and takes the casts out.
 */
struct casts {
	struct gt_graph *g;
	struct gt_precision precision;
	/* Arrays indexed by ids of the values that existed before the pass: */
	/* the value in the low, the wide type, once a cast exists */
	struct gt_value **low_of, **wide_of;
	enum gt_dtype *before; /* type of the value before the pass */
};

static bool applies_autocast(const struct gt_pass_options *options)
{
	return options->precision.low != GT_F32;
}

static bool takes_part(const struct casts *c, const struct gt_value *v)
{
	return v && (v->dtype == GT_F32 || v->dtype == c->precision.low);
}

/* Return the type that inputs of different types get, float32 or with low_sums the low type, if an
 * input has this type; else `own`. */
static enum gt_dtype type_of_both(const struct casts *c, const struct gt_node *n, enum gt_dtype own)
{
	enum gt_dtype type = c->precision.low_sums ? c->precision.low : GT_F32;

	for (int i = 0; i < n->inputs; i++)
		if (takes_part(c, n->in[i]) && n->in[i]->dtype == type)
			return type;
	return own;
}

/* Return the type that n needs for input k. */
static enum gt_dtype wanted_type(const struct casts *c, const struct gt_node *n, int k)
{
	switch (n->op->autocast) {
	case GT_AUTOCAST_LOW:
		return c->precision.low;
	case GT_AUTOCAST_HIGH:
		return GT_F32;
	case GT_AUTOCAST_WIDEST:
		return type_of_both(c, n, n->in[k]->dtype);
	case GT_AUTOCAST_LOOKUP: /* positions may be the output of a lookup, which is low */
		return n->in[0]->dtype;
	default:
		return n->in[k]->dtype;
	}
}

/* Return v in the other type. If there is no cast yet, insert one at *index and increment
 * *index. */
static struct gt_value *cast_of(
    struct casts *c, size_t *index, struct gt_value *v, enum gt_dtype to)
{
	struct gt_value **made = to == c->precision.low ? &c->low_of[v->id] : &c->wide_of[v->id];

	if (*made)
		return *made;
	/* A weight that is kept in the low type was widened for the ops of the model. */
	if (to == c->precision.low && v->producer && v->producer->op == &gt_op_cast &&
	    v->producer->in[0]->dtype == to)
		return *made = v->producer->in[0];
	c->g->scope = c->g->nodes[*index]->scope;
	*made = v->producer && v->producer->op == &gt_op_decode
	            ? gt_decode(c->g, v->producer->in[0], to)
	            : gt_cast_to(c->g, v, to);
	if (*made)
		gt_place_last(c->g, (*index)++);
	return *made;
}

static void make_marked_low(const struct casts *c, struct gt_node *n)
{
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && n->out[k]->low && takes_part(c, n->out[k]))
			n->out[k]->dtype = c->precision.low;
}

/* Let an embedding write the type `type`: the low type with low_sums. */
static bool set_lookup_type(const struct casts *c, struct gt_node *n, enum gt_dtype type)
{
	if (n->op->autocast != GT_AUTOCAST_LOOKUP || !c->precision.low_sums ||
	    !takes_part(c, n->in[0]))
		return false;
	n->attrs.embedding.low = type;
	return true;
}

/* Cast the inputs of the node at *index, and infer its outputs again. */
static int cast_node(struct casts *c, size_t *index, struct gt_err *err)
{
	struct gt_node *n = c->g->nodes[*index];
	enum gt_dtype wanted[GT_MAX_INPUTS];
	bool changed = set_lookup_type(c, n, c->precision.low);

	if (n->op->autocast == GT_AUTOCAST_MARKED)
		make_marked_low(c, n);
	for (int k = 0; k < n->inputs; k++)
		if (takes_part(c, n->in[k]))
			wanted[k] = wanted_type(c, n, k);
	for (int k = 0; k < n->inputs; k++) {
		struct gt_value *v = n->in[k];

		if (!takes_part(c, v))
			continue;
		changed = changed || wanted[k] != c->before[v->id];
		if (wanted[k] == v->dtype)
			continue;
		n->in[k] = cast_of(c, index, v, wanted[k]);
		if (!n->in[k])
			return gt_graph_status(c->g, err);
	}
	if (changed && n->op->infer(n, err))
		return gt_node_prefix(n, err);
	return 0;
}

/* The host reads outputs in their original type, so a cast back becomes the output of that name. */
static void restore_outputs(struct casts *c, size_t values)
{
	for (size_t i = 0; i < values && !c->g->err.code; i++) {
		struct gt_value *v = c->g->values[i], *back;

		if (v->role != GT_OUTPUT || v->dtype == c->before[i])
			continue;
		c->g->scope = v->producer->scope;
		back = c->before[i] == GT_F32 ? c->wide_of[i] : c->low_of[i];
		if (!back)
			back = gt_cast_to(c->g, v, c->before[i]);
		if (!back)
			return;
		gt_value_take_name(c->g, back, v);
	}
}

/* Set the outputs of n to the types that they have after the pass. Its inputs are set already. */
static int infer_types(const struct casts *c, struct gt_node *n, struct gt_err *err)
{
	enum gt_dtype wanted[GT_MAX_INPUTS], own[GT_MAX_INPUTS];
	int rc;

	set_lookup_type(c, n, c->precision.low);
	for (int k = 0; k < n->inputs; k++) {
		own[k] = n->in[k] ? n->in[k]->dtype : c->precision.low;
		wanted[k] = takes_part(c, n->in[k]) ? wanted_type(c, n, k) : own[k];
	}
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k])
			n->in[k]->dtype = wanted[k];
	rc = n->op->infer(n, err);
	set_lookup_type(c, n, GT_F32);
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k])
			n->in[k]->dtype = own[k];
	return rc ? gt_node_prefix(n, err) : 0;
}

int gt_autocast_type(enum gt_dtype *out, struct gt_graph *g, const struct gt_value *v,
    const struct gt_precision *precision, struct gt_err *err)
{
	struct casts c = { .g = g, .precision = *precision };
	int rc = 0;

	*out = v->dtype;
	if (c.precision.low == GT_F32)
		return 0;
	c.before = gt_calloc(g->value_count, sizeof(*c.before), err);
	if (!c.before)
		return GT_ENOMEM;
	for (size_t i = 0; i < g->value_count; i++)
		c.before[i] = g->values[i]->dtype;
	for (size_t i = 0; !rc && i < g->node_count; i++)
		rc = infer_types(&c, g->nodes[i], err);
	*out = v->dtype;
	for (size_t i = 0; i < g->value_count; i++)
		g->values[i]->dtype = c.before[i];
	free(c.before);
	return rc;
}

static int run_autocast(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	size_t values = g->value_count;
	struct casts c = { .g = g, .precision = options->precision };
	int rc = GT_ENOMEM;

	if (gt_dtype_wide(c.precision.low) == c.precision.low)
		return gt_err_set(
		    err, GT_EINVAL, "%s is not a type of 16 bits", gt_dtype_name(c.precision.low));
	c.low_of = gt_calloc(values, sizeof(struct gt_value *), err);
	c.wide_of = gt_calloc(values, sizeof(struct gt_value *), err);
	c.before = gt_calloc(values, sizeof(*c.before), err);
	if (!c.low_of || !c.wide_of || !c.before)
		goto out;
	for (size_t i = 0; i < values; i++)
		c.before[i] = g->values[i]->dtype;
	rc = 0;
	for (size_t i = 0; !rc && i < g->node_count; i++)
		rc = cast_node(&c, &i, err);
	if (!rc) {
		restore_outputs(&c, values);
		rc = gt_graph_status(g, err);
	}
out:
	free(c.low_of);
	free(c.wide_of);
	free(c.before);
	return rc;
}

static bool has_copies(const struct gt_pass_options *options)
{
	return options->copies;
}

/* The result of the cast becomes the store's working copy, which no node writes. */
static int use_copies(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	(void)err;
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *n = g->nodes[i];
		struct gt_value *copy = n->out[0];

		if (n->op != &gt_op_cast || n->in[0]->role != GT_PARAMETER ||
		    copy->role != GT_TEMPORARY || copy->dtype != options->precision.low)
			continue;
		copy->role = GT_WORKING_COPY;
		copy->parameter = n->in[0];
		copy->producer = NULL;
		gt_remove_node(g, i--);
	}
	return 0;
}

const struct gt_pass gt_pass_working_copies = {
	.name = "working-copies",
	.purpose = "read parameters in a type of 16 bits where updates have written them so",
	.applies = has_copies,
	.run = use_copies,
};

const struct gt_pass gt_pass_autocast = {
	.name = "autocast",
	.purpose = "compute products and convolutions in a type of 16 bits",
	.applies = applies_autocast,
	.run = run_autocast,
};
