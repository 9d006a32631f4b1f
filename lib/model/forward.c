/* forward.c - the parts around every network: its input, its loss, its statistics. */
#include <string.h>

#include "lib/base/mixed_target.h"
#include "lib/model/arch.h"
#include "lib/model/lora.h"
#include "lib/model/model.h"
#include "lib/model/pairs.h"

static bool generates(enum gt_model_purpose purpose)
{
	return purpose == GT_MODEL_GENERATE || purpose == GT_MODEL_CONTINUE;
}

/* Whether the graph has the logits of the next token after a text alone. */
static bool predicts_next(const struct gt_model_input *in, enum gt_model_purpose purpose)
{
	return generates(purpose) ||
	       (purpose == GT_MODEL_PREDICT && in->form.kind == GT_SAMPLE_TOKENS);
}

static struct gt_value *declare_input(
    struct gt_graph *g, const struct gt_model_input *in, int64_t batch, bool mixed)
{
	if (in->form.field_count)
		return gt_input(g, "input", GT_U8, 2,
		    (int64_t[]){
		        batch, (int64_t)gt_sample_field_at(&in->form, in->form.field_count) });
	switch (in->form.kind) {
	case GT_SAMPLE_IMAGE:
		return gt_input(g, "input", mixed ? GT_F32 : GT_U8, 4,
		    (int64_t[]){ batch, in->form.height, in->form.width, in->form.channels });
	case GT_SAMPLE_VECTOR:
		return gt_input(g, "input", GT_F32, 2, (int64_t[]){ batch, in->form.features });
	case GT_SAMPLE_TOKENS:
		return gt_input(g, "input", GT_I32, 2,
		    (int64_t[]){ batch, (int64_t)gt_sample_input_words(&in->form) });
	}
	return NULL;
}

struct gt_value *gt_model_field(
    struct gt_graph *g, const struct gt_sample_form *form, struct gt_value *input, int i)
{
	static const enum gt_dtype types[] = { [GT_FIELD_FLOAT] = GT_F32,
		[GT_FIELD_INT] = GT_I32,
		[GT_FIELD_BOOL] = GT_F32,
		[GT_FIELD_PIXELS] = GT_U8 };
	const struct gt_sample_field *f = &form->fields[i];
	int64_t shape[GT_MAX_DIMS], at = (int64_t)gt_sample_field_at(form, i);
	const char *scope = g->scope;
	struct gt_value *bytes, *values;

	if (!input)
		return NULL;
	if (f->ndim >= GT_MAX_DIMS)
		return gt_graph_fail(
		    g, GT_ENOTSUP, "the input '%s' has %d dimensions", f->name, f->ndim + 1);
	shape[0] = input->shape[0];
	for (int k = 0; k < f->ndim; k++)
		shape[k + 1] = f->shape[k];
	gt_graph_scope(g, "input");
	bytes = gt_slice_dim(g, input, 1, at, at + (int64_t)gt_field_bytes(f), 1);
	values = gt_view_bytes(g, bytes, types[f->type], f->ndim + 1, shape);
	g->scope = scope;
	return values;
}

struct gt_value *gt_model_find_field(struct gt_graph *g, const struct gt_sample_form *form,
    struct gt_value *first, enum gt_field_meaning meaning)
{
	for (int i = 0; i < form->field_count; i++)
		if (gt_field_meaning(&form->fields[i]) == meaning)
			return i ? gt_model_field(g, form, gt_graph_find(g, "input"), i) : first;
	return NULL;
}

struct gt_value *gt_model_tokens(struct gt_graph *g, const struct gt_sample_form *form,
    struct gt_value *input, struct gt_value **positions)
{
	const char *scope = g->scope;
	struct gt_value *ids = input;

	*positions = NULL;
	if (!form->packed)
		return input;
	gt_graph_scope(g, "input");
	ids = gt_slice_dim(g, input, 1, 0, form->block, 1);
	*positions = gt_slice_dim(g, input, 1, form->block, 2 * (int64_t)form->block, 1);
	g->scope = scope;
	return ids;
}

/* If the model predicts the token after a text, the target is the index of the text's last
 * token. */
static struct gt_value *declare_target(
    struct gt_graph *g, const struct gt_model_input *in, int64_t batch, bool mixed, bool follows)
{
	int64_t each = in->form.target == GT_SAMPLE_LABELS
	                   ? in->form.classes
	                   : (int64_t)gt_sample_target_words(&in->form);
	bool tokens = in->form.kind == GT_SAMPLE_TOKENS && !follows;

	if (mixed)
		return gt_input(
		    g, "target", GT_I32, 2, (int64_t[]){ batch, GT_MIXED_TARGET_WORDS });
	return gt_input(g, "target", in->form.target == GT_SAMPLE_CLASS ? GT_I32 : GT_F32,
	    tokens || in->form.target == GT_SAMPLE_LABELS ? 2 : 1, (int64_t[]){ batch, each });
}

static struct gt_value *loss_of(
    struct gt_graph *g, const struct gt_model_input *in, const struct gt_model_io *io)
{
	if (in->form.target != GT_SAMPLE_CLASS)
		return gt_regression_loss(
		    g, &in->loss.regression, io->logits, io->target, io->weight, io->class_weight);
	return gt_cross_entropy_smoothed(
	    g, io->logits, io->target, io->weight, io->class_weight, in->loss.label_smoothing);
}

static struct gt_value *stats_of(
    struct gt_graph *g, const struct gt_model_input *in, const struct gt_model_io *io)
{
	return in->form.target != GT_SAMPLE_CLASS
	           ? gt_regress_stats(g, &in->loss.regression, io->logits, io->target)
	           : gt_classify_stats(g, io->logits, io->target);
}

static void emit_pair_results(struct gt_graph *g, const struct gt_model_input *in,
    enum gt_model_purpose purpose, struct gt_model_io *io)
{
	struct gt_value *margin, *scores;

	gt_graph_scope(g, "loss");
	margin = gt_pairs_margin(g, io->logits, io->target);
	scores = gt_pairs_scores(g, &in->form, &in->loss, margin, io->input);
	if (purpose == GT_MODEL_TRAIN) {
		io->weight = gt_input(g, "weight", GT_F32, 0, NULL);
		io->loss = gt_output(
		    g, gt_pairs_loss(g, &in->form, &in->loss, scores, io->weight), "loss");
	} else if (purpose == GT_MODEL_EVAL) {
		io->margin = gt_output(g, margin, "margin");
		io->stats = gt_output(g, gt_pairs_stats(g, scores), "stats");
	} else {
		gt_graph_fail(g, GT_EINVAL, "pairs of texts are for training");
	}
}

static void emit_results(struct gt_graph *g, const struct gt_model_input *in,
    enum gt_model_purpose purpose, struct gt_model_io *io)
{
	gt_graph_scope(g, "loss");
	switch (purpose) {
	case GT_MODEL_TRAIN:
		io->weight = gt_input(g, "weight", GT_F32, 0, NULL);
		if (in->class_weights)
			io->class_weight =
			    gt_input(g, "class_weight", GT_F32, 1, (int64_t[]){ in->form.classes });
		io->loss = gt_output(g, loss_of(g, in, io), "loss");
		break;
	case GT_MODEL_EVAL:
		io->stats = gt_output(g, stats_of(g, in, io), "stats");
		break;
	case GT_MODEL_PREDICT:
		if (in->form.kind != GT_SAMPLE_TOKENS)
			io->stats = gt_output(g, stats_of(g, in, io), "stats");
		gt_output(g, io->logits, "logits");
		break;
	case GT_MODEL_GENERATE:
	case GT_MODEL_CONTINUE:
		gt_output(g, io->logits, "logits");
		break;
	}
}

/*
 * A network that computes the loss itself gives the mean over its batch. The loss of a step is the
 * mean over all its targets, so such a mean counts as often as its batch has targets, also in a
 * micro-batch that is shorter than the others. Its statistics count samples.
 */
static void emit_own_loss(struct gt_graph *g, enum gt_model_purpose purpose, struct gt_value *loss,
    struct gt_model_io *io)
{
	static const struct gt_regression value = { .kind = GT_REGRESSION_VALUE };
	double targets = io->target ? (double)gt_value_elements(io->target) : 0;
	struct gt_value *each;

	if (!loss)
		return;
	gt_graph_scope(g, "loss");
	if (purpose == GT_MODEL_TRAIN) {
		io->weight = gt_input(g, "weight", GT_F32, 0, NULL);
		loss = gt_apply(g, GT_F_MUL,
		    (struct gt_map_operand[]){
		        { .value = gt_binary(g, GT_F_MUL, loss, io->weight) },
		        { .is_number = true, .number = targets } });
		io->loss = gt_output(g, loss, "loss");
	} else if (purpose == GT_MODEL_EVAL) {
		each = gt_expand(g, loss, 1, io->target->shape);
		io->stats = gt_output(g,
		    gt_regress_stats(g, &value, each, gt_fill(g, GT_F32, 1, each->shape, 0)),
		    "stats");
	} else {
		gt_graph_fail(g, GT_EINVAL, "the network returns its loss, and no scores");
	}
}

static bool is_matrix(const struct gt_value *v)
{
	return v && v->role == GT_PARAMETER && v->ndim >= 2;
}

/* Unmark the weights of the last layers before a result: going back from it, those of the first
 * nodes that read some. `before` is for values that such a layer follows. */
static void unmark_last(struct gt_graph *g, const struct gt_value *result, bool *before)
{
	before[result->id] = true;
	for (size_t i = g->node_count; i-- > 0;) {
		const struct gt_node *n = g->nodes[i];
		bool on_way = false, layer = false;

		for (int k = 0; k < n->outputs; k++)
			on_way = on_way || (n->out[k] && before[n->out[k]->id]);
		for (int k = 0; k < n->inputs; k++)
			layer = layer || is_matrix(n->in[k]);
		for (int k = 0; on_way && k < n->inputs; k++) {
			if (layer && is_matrix(n->in[k]))
				n->in[k]->hidden = false;
			else if (!layer && n->in[k])
				before[n->in[k]->id] = true;
		}
	}
}

/* Mark the weights between hidden features (gt_value.hidden): those with two dimensions or more,
 * unless their rows are looked up or they compute the result. */
static void mark_hidden(struct gt_graph *g, const struct gt_value *result)
{
	bool *before = gt_arena_alloc(&g->arena, g->value_count * sizeof(*before), &g->err);

	if (!before)
		return;
	memset(before, 0, g->value_count * sizeof(*before));
	for (size_t i = 0; i < g->value_count; i++)
		g->values[i]->hidden = is_matrix(g->values[i]);
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] && g->nodes[i]->op->lookups >> k & 1)
				g->nodes[i]->in[k]->hidden = false;
	unmark_last(g, result, before);
}

static void note_head(struct gt_model_io *io)
{
	const struct gt_node *last = io->logits->producer;

	for (int k = 0; k < last->inputs && io->head_count < GT_MODEL_HEAD; k++)
		if (last->in[k] && last->in[k]->role == GT_PARAMETER)
			io->head[io->head_count++] = last->in[k]->name;
}

/* Return whether activations of the network are dropped, besides those of adapters. */
static bool has_dropout(const struct gt_model *m)
{
	return m->config.dropout > 0 || m->config.head_dropout > 0;
}

/* Emit the nodes of the network. Return io->logits, or the loss if the network computes it. */
static struct gt_value *emit_network(const struct gt_model *m, struct gt_graph *g,
    const struct gt_model_input *in, struct gt_value *x, enum gt_model_purpose purpose,
    struct gt_model_io *io)
{
	bool train = purpose == GT_MODEL_TRAIN;
	struct gt_value *rng = has_dropout(m) ? io->rng : NULL;

	gt_graph_scope(g, "%s", "");
	if (in->loss.output)
		return gt_model_check_loss(m, &in->loss, &g->err)
		           ? NULL
		           : m->arch->loss(g, &m->config, in, x, io->target, rng, train);
	if (!predicts_next(in, purpose))
		io->logits = m->arch->logits(g, &m->config, in, x, rng, train);
	else if (m->arch->next)
		io->logits = m->arch->next(g, &m->config, in, x, io->past, io->target);
	else
		gt_graph_fail(g, GT_EINVAL, "model '%s' writes no text", m->arch->name);
	return io->logits;
}

/* Return what takes the place of `result`. */
static struct gt_value *add_adapters(
    const struct gt_model *m, struct gt_graph *g, struct gt_value *result, struct gt_model_io *io)
{
	struct gt_value *sum = gt_lora_apply(m->lora, g, result, io->rng);

	if (io->logits)
		io->logits = sum;
	return sum;
}

int gt_model_build(const struct gt_model *m, struct gt_graph *g, const struct gt_model_input *in,
    int batch, enum gt_model_purpose purpose, struct gt_model_io *io, struct gt_err *err)
{
	const int64_t rng_shape = GT_RNG_FIELDS;
	bool train = purpose == GT_MODEL_TRAIN, mixed = train && in->mixed;
	struct gt_value *x, *result;

	*io = (struct gt_model_io){ 0 };
	x = io->input = declare_input(g, in, batch, mixed);
	if (in->form.field_count && !m->arch->fields)
		gt_graph_fail(g, GT_EINVAL, "model '%s' takes one input, and the data have %d",
		    m->arch->name, in->form.field_count);
	if (in->form.masks && !m->config.masks) {
		gt_graph_fail(
		    g, GT_EINVAL, "model '%s' does not find hidden tokens", m->arch->name);
		gt_err_hint(&g->err, "bert, roberta, distilbert and modernbert do");
	}
	if (in->form.packed && (!m->arch->packs || predicts_next(in, purpose)))
		gt_graph_fail(g, GT_ENOTSUP,
		    "model '%s' does not take several documents in a sample", m->arch->name);
	if (in->form.field_count)
		x = gt_model_field(g, &in->form, x, 0);
	if (in->form.paired)
		x = gt_pairs_texts(g, &in->form, x);
	if (!generates(purpose))
		io->target = declare_target(g, in, batch, mixed, predicts_next(in, purpose));
	if (train && (has_dropout(m) || (m->lora && m->lora->dropout > 0)))
		io->rng = gt_input(g, "rng", GT_I64, 1, &rng_shape);
	if (in->form.kind == GT_SAMPLE_IMAGE) {
		gt_graph_scope(g, "input");
		x = gt_image_normalize(g, x, in->form.mean, in->form.std);
	}
	if (purpose == GT_MODEL_CONTINUE)
		io->past = gt_input(g, "past", GT_I32, 0, NULL);
	result = emit_network(m, g, in, x, purpose, io);
	if (result)
		mark_hidden(g, result);
	if (io->logits)
		note_head(io);
	if (m->lora && result)
		result = add_adapters(m, g, result, io);
	gt_tuning_apply(m->tuning, g);
	if (m->block)
		gt_pack_weights(m->block, g);
	if (in->loss.output)
		emit_own_loss(g, purpose, result, io);
	else if (in->form.paired)
		emit_pair_results(g, in, purpose, io);
	else
		emit_results(g, in, purpose, io);
	if (!gt_graph_status(g, err))
		return 0;
	return err->code;
}
