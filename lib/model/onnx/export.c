/* export.c - the graph of a model, node by node, as a model of ONNX. */
#include "lib/model/onnx/export.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/arrangement.h"
#include "lib/graph/ops/infer.h"
#include "lib/model/onnx/inside.h"

/* ---- the graphs ---- */

/* Sizes of the first graph and of the others. Neighbouring numbers of tokens have no common
 * factor, and the batches are prime. */
enum { BATCH = 3, OTHER_BATCH = 5, MIN_TIME = 3 };

/* Return the number of tokens of a text, or the size that fields leave open; 0: there is none, or
 * there are several. */
static int find_time(const struct gt_sample_form *form)
{
	int time = form->kind == GT_SAMPLE_TOKENS ? form->block : 0;

	for (int i = 0; i < form->field_count; i++) {
		const struct gt_sample_field *f = &form->fields[i];

		if (f->type == GT_FIELD_PIXELS || !f->open)
			continue;
		if (f->open != 1 || (time && f->shape[0] != time))
			return 0; /* another dimension than the first, or another size */
		time = f->shape[0];
	}
	return time;
}

static void set_time(struct gt_sample_form *form, int time)
{
	if (form->kind == GT_SAMPLE_TOKENS)
		form->block = time;
	for (int i = 0; i < form->field_count; i++)
		if (form->fields[i].type != GT_FIELD_PIXELS && form->fields[i].open)
			form->fields[i].shape[0] = time;
}

static int build_graph(struct gt_onnx_export *x, enum gt_onnx_variant which, int batch, int time,
    struct gt_model_io *io, struct gt_err *err)
{
	struct gt_model_input in = *x->source->input;
	int rc = gt_graph_new(&x->g[which], err);

	x->batch[which] = batch;
	if (time)
		set_time(&in.form, time);
	x->time[which] = time;
	return rc ? rc
	          : gt_model_build(
	                x->source->model, x->g[which], &in, batch, GT_MODEL_EVAL, io, err);
}

/* Return whether another graph has the same nodes. */
static bool is_twin(const struct gt_graph *a, const struct gt_graph *b)
{
	bool same = a->node_count == b->node_count && a->value_count == b->value_count;

	for (size_t i = 0; same && i < a->node_count; i++)
		same = a->nodes[i]->op == b->nodes[i]->op;
	for (size_t i = 0; same && i < a->value_count; i++)
		same = a->values[i]->ndim == b->values[i]->ndim;
	return same;
}

static void drop_time(struct gt_onnx_export *x)
{
	gt_graph_free(x->g[GT_ONNX_TIME]);
	x->g[GT_ONNX_TIME] = NULL;
}

/* Build the graph with fewer tokens. There is none if the model takes texts of one length alone. */
static int build_other_time(struct gt_onnx_export *x, struct gt_err *err)
{
	struct gt_err fixed = GT_ERR_INIT;
	struct gt_model_io io;
	int block = find_time(&x->source->input->form);

	if (block < MIN_TIME)
		return 0;
	if (build_graph(x, GT_ONNX_TIME, BATCH, block - 1, &io, &fixed)) {
		drop_time(x);
		return fixed.code == GT_ENOMEM ? gt_err_set(err, GT_ENOMEM, "%s", fixed.text) : 0;
	}
	if (!is_twin(x->g[GT_ONNX_BASE], x->g[GT_ONNX_TIME]))
		drop_time(x);
	return 0;
}

static int build_graphs(struct gt_onnx_export *x, bool free_time, struct gt_err *err)
{
	int block = find_time(&x->source->input->form);
	struct gt_model_io io, other;
	int rc = build_graph(x, GT_ONNX_BASE, BATCH, block, &io, err);

	if (!rc)
		rc = build_graph(x, GT_ONNX_BATCH, OTHER_BATCH, block, &other, err);
	if (!rc && !is_twin(x->g[GT_ONNX_BASE], x->g[GT_ONNX_BATCH]))
		rc = gt_err_set(err, GT_ENOTSUP,
		    "the network has other nodes for another batch, so ONNX cannot leave its size "
		    "open");
	if (!rc && free_time)
		rc = build_other_time(x, err);
	if (!rc) {
		x->input = io.input;
		x->output = io.logits;
	}
	return rc;
}

/* ---- the nodes that are written ---- */

static const struct gt_onnx_row *find_row(const struct gt_op *op)
{
	const struct gt_onnx_row *row = gt_onnx_rows;

	while (row->op && row->op != op)
		row++;
	return row->op ? row : NULL;
}

static bool is_needed(const struct gt_onnx_export *x, const struct gt_node *n)
{
	for (int i = 0; i < n->outputs; i++)
		if (n->out[i] && x->needed[n->out[i]->id])
			return true;
	return false;
}

/* Mark all values that the result depends on, from the last node to the first one. */
static void mark_needed(struct gt_onnx_export *x)
{
	const struct gt_graph *g = x->g[GT_ONNX_BASE];

	gt_onnx_need(x, x->output);
	for (size_t i = g->node_count; i-- > 0 && !x->err.code;) {
		const struct gt_node *n = g->nodes[i];
		const struct gt_onnx_row *row = find_row(n->op);

		x->at = i;
		if (!is_needed(x, n))
			continue;
		if (!row)
			gt_onnx_fail(x, "ONNX has no counterpart of this op");
		else if (row->mark)
			row->mark(x, n);
		for (int k = 0; k < n->inputs && row && !row->mark; k++)
			gt_onnx_need(x, n->in[k]);
	}
}

/* ---- inputs, weights, the output ---- */

static const struct gt_tree_tensor *find_weight(
    const struct gt_onnx_source *source, const struct gt_value *v)
{
	const struct gt_model_alias *alias = gt_model_aliases(source->model);
	const struct gt_tree_tensor *t = gt_state_dict_get(source->weights, v->name);

	for (; !t && alias->name; alias++)
		if (alias->own && !strcmp(alias->own, v->name))
			t = gt_state_dict_get(source->weights, alias->name);
	return t;
}

/* Fail for a name that would be twice in the file. */
static void fail_name(struct gt_onnx_export *x, const char *what, const char *name)
{
	if (!x->err.code)
		gt_err_set(&x->err, GT_ENOTSUP,
		    "%s is called '%s', which is a name of the file's own", what, name);
}

static void add_weight(struct gt_onnx_export *x, const struct gt_value *v)
{
	const struct gt_tree_tensor *t = find_weight(x->source, v);
	bool same = t && t->ndim == v->ndim;

	for (int i = 0; same && i < v->ndim; i++)
		same = t->shape[i] == v->shape[i];
	if (!same && !x->err.code)
		gt_err_set(&x->err, GT_EFORMAT, "'%s': '%.200s' %s", x->source->from, v->name,
		    t ? "has another shape than the model's" : "is missing");
	if (same && (!strcmp(v->name, "input") || !strcmp(v->name, "output") ||
	                gt_sample_field_find(&x->source->input->form, v->name) >= 0))
		fail_name(x, "a weight", v->name);
	if (!same || x->err.code)
		return;
	gt_onnx_add_weight(x->m, v->name, v->dtype, t);
	gt_onnx_set(x, v, v->name);
}

static void add_weights(struct gt_onnx_export *x)
{
	const struct gt_graph *g = x->g[GT_ONNX_BASE];

	for (size_t i = 0; i < g->value_count && !x->err.code; i++) {
		const struct gt_value *v = g->values[i];

		if (x->needed[v->id] && (v->role == GT_PARAMETER || v->role == GT_BUFFER))
			add_weight(x, v);
	}
}

/* Describe a shape of the input or the output. A size that is neither a number nor the batch or the
 * number of tokens alone has a name of its own. */
static void describe_dims(struct gt_onnx_dim *out, const struct gt_onnx_shape *shape)
{
	for (int i = 0; i < shape->ndim; i++) {
		struct gt_onnx_size s = shape->dims[i];

		out[i] = (struct gt_onnx_dim){ NULL, s.factor };
		if (gt_onnx_is_fixed(s))
			continue;
		out[i].parameter = s.factor > 1 || s.batch + s.time > 1 ? "rows"
		                   : s.batch                            ? "batch"
		                                                        : "time";
	}
}

/* Return the field that a node takes from the bytes of the samples. */
static int field_of(const struct gt_sample_form *form, const struct gt_node *n)
{
	const struct gt_node *slice = n->in[0]->producer;
	int64_t at = slice ? slice->attrs.arrange.arrangement->pieces[0].from.first : 0;
	int i = 0;

	while (i + 1 < form->field_count && (int64_t)gt_sample_field_at(form, i) != at)
		i++;
	return i;
}

static bool has_time(const struct gt_onnx_export *x, const struct gt_sample_field *f)
{
	return x->g[GT_ONNX_TIME] && f->type != GT_FIELD_PIXELS && f->open;
}

/* Declare a field as an input of its own. Images are normalized, with channels first. */
static void declare_field(struct gt_onnx_export *x, const struct gt_sample_field *f)
{
	static const enum gt_dtype types[] = { [GT_FIELD_FLOAT] = GT_F32,
		[GT_FIELD_INT] = GT_I32,
		[GT_FIELD_BOOL] = GT_BOOL,
		[GT_FIELD_PIXELS] = GT_F32 };
	struct gt_onnx_dim dims[GT_MAX_DIMS] = { { "batch", 1 } };
	int last = f->ndim - 1;

	for (int i = 0; i < f->ndim; i++) {
		int from = f->type != GT_FIELD_PIXELS ? i : i ? i - 1 : last;

		dims[i + 1] = (struct gt_onnx_dim){ NULL, f->shape[from] };
		if (has_time(x, f) && !i)
			dims[1].parameter = "time";
	}
	gt_onnx_add_input(x->m, f->name, types[f->type], f->ndim + 1, dims);
}

/* Truth values are numbers in gtrain's graph. */
static void add_fields(struct gt_onnx_export *x)
{
	const struct gt_sample_form *form = &x->source->input->form;
	const struct gt_graph *g = x->g[GT_ONNX_BASE];

	for (int i = 0; i < form->field_count; i++) {
		if (!strcmp(form->fields[i].name, "output"))
			fail_name(x, "an input", "output");
		declare_field(x, &form->fields[i]);
	}
	for (size_t k = 0; k < g->node_count; k++) {
		const struct gt_node *n = g->nodes[k];
		const struct gt_sample_field *f;
		const char *name;

		if (n->op != &gt_op_view_bytes)
			continue;
		f = &form->fields[field_of(form, n)];
		name = f->name;
		if (f->type == GT_FIELD_BOOL)
			name = gt_onnx_cast(x, name, GT_F32);
		gt_onnx_set(x, n->out[0], name);
		if (x->input->role == GT_INPUT || has_time(x, f))
			x->input = n->out[0];
	}
}

static void add_input(struct gt_onnx_export *x)
{
	struct gt_onnx_shape shape = gt_onnx_shape_of(x, x->input);
	struct gt_onnx_dim dims[GT_MAX_DIMS];
	bool image = x->source->input->form.kind == GT_SAMPLE_IMAGE;

	gt_onnx_set(x, x->input, "input");
	if (image) /* the graph of gtrain normalizes [batch, height, width, channels] */
		shape = (struct gt_onnx_shape){ 4,
			{ shape.dims[0], shape.dims[3], shape.dims[1], shape.dims[2] } };
	describe_dims(dims, &shape);
	gt_onnx_add_input(x->m, "input", image ? GT_F32 : x->input->dtype, shape.ndim, dims);
}

static void add_output(struct gt_onnx_export *x)
{
	const struct gt_onnx_shape shape = gt_onnx_shape_of(x, x->output);
	const char *name = gt_onnx_name(x, x->output), *output = "output";
	struct gt_onnx_dim dims[GT_MAX_DIMS];

	describe_dims(dims, &shape);
	if (name && !x->err.code)
		gt_onnx_add_node(
		    x->m, &(struct gt_onnx_node){ "", "Identity", NULL, 1, 1, &name, &output });
	gt_onnx_add_output(x->m, output, x->output->dtype, shape.ndim, dims);
}

/* ---- the model ---- */

/* Write the nodes of the graphs. */
static int write_graph(struct gt_onnx_export *x, struct gt_err *err)
{
	const struct gt_graph *g = x->g[GT_ONNX_BASE];

	x->once.compare = gt_index_by_name;
	x->needed = gt_arena_alloc(&x->arena, g->value_count * sizeof(*x->needed), err);
	x->names = gt_arena_alloc(&x->arena, g->value_count * sizeof(*x->names), err);
	if (!x->needed || !x->names || gt_onnx_new(&x->m, err))
		return GT_ENOMEM;
	mark_needed(x);
	if (x->source->input->form.field_count)
		add_fields(x);
	else
		add_input(x);
	add_weights(x);
	for (size_t i = 0; i < g->node_count && !x->err.code; i++) {
		x->at = i;
		if (is_needed(x, g->nodes[i]))
			find_row(g->nodes[i]->op)->write(x, g->nodes[i]);
	}
	if (!x->err.code)
		add_output(x);
	if (x->err.code)
		*err = x->err;
	return x->err.code;
}

static void release_export(struct gt_onnx_export *x)
{
	for (int k = 0; k < GT_ONNX_VARIANTS; k++)
		gt_graph_free(x->g[k]);
	gt_index_release(&x->once);
	gt_arena_release(&x->arena);
}

/* Make the model, for any number of tokens if `free_time`. *fixed is set to whether it takes one
 * number of tokens alone. */
static int export_once(struct gt_onnx **out, const struct gt_onnx_source *source, bool free_time,
    bool *fixed, struct gt_err *err)
{
	struct gt_onnx_export x = { .source = source };
	int rc = build_graphs(&x, free_time, err);

	if (!rc)
		rc = write_graph(&x, err);
	*fixed = (rc && x.fixes_time) || !x.g[GT_ONNX_TIME];
	release_export(&x);
	*out = x.m;
	return rc;
}

int gt_onnx_export(struct gt_onnx **out, const struct gt_onnx_source *source, struct gt_buf *note,
    struct gt_err *err)
{
	struct gt_err first = GT_ERR_INIT;
	bool fixed;
	int rc;

	*out = NULL;
	if (source->input->loss.output) {
		gt_err_set(err, GT_ENOTSUP,
		    "'%s': the network returns its loss, and ONNX files here give scores",
		    source->from);
		return gt_err_hint(err, "convert it to .pt2, which keeps the network as it is");
	}
	rc = export_once(out, source, true, &fixed, &first);

	if (rc && fixed && first.code == GT_ENOTSUP) {
		gt_onnx_free(*out);
		rc = export_once(out, source, false, &fixed, err);
	} else if (rc) {
		*err = first;
	}
	if (!rc && fixed && find_time(&source->input->form))
		gt_buf_printf(note, "the network takes texts of %d tokens alone%s%s\n",
		    find_time(&source->input->form), *first.text ? ": " : "", first.text);
	return rc;
}
