/* ops_dump.c - run every case of the op table and write its inputs and outputs. */

/*
 * usage: ops_dump FILE.pth [bfloat16|float16]
 *
 * In float32, or in that type: the cases that have a kernel for it, of numbers that it holds
 * exactly.
 *
 * FILE.pth holds a list of dicts: op, label, attrs (a dict), in (tensors or None), out (tensors;
 * None where not floating point), projection and grad (tensors or None), if the case
 * differentiates; buffers (tensors or None: the buffers among in[], after the run).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/ckpt.h"
#include "lib/graph/expr.h"
#include "tests/common/op_table.h"

struct dump {
	struct gt_arena arena;
	struct gt_err err;
};

/* ---- attributes ---- */

/* Where a number of an attribute is, by the ops that have it. */
struct attr {
	const char *ops, *name;
	enum { INT, PAIR, LONG, REAL, BOOL, LAYOUT } type;
	size_t offset;
};

#define AT(member) offsetof(union gt_attrs, member)

static const struct attr attrs[] = {
	{ "matmul batched_matmul", "trans_a", BOOL, AT(matmul.trans_a) },
	{ "matmul batched_matmul", "trans_b", BOOL, AT(matmul.trans_b) },
	{ "softmax", "log", BOOL, AT(softmax.log) },
	{ "topk index_scatter", "size", LONG, AT(index.size) },
	{ "topk", "smallest", BOOL, AT(index.smallest) },
	{ "conv2d conv2d_input_grad", "stride", PAIR, AT(conv.window.stride) },
	{ "conv2d conv2d_input_grad", "pad", PAIR, AT(conv.window.pad) },
	{ "conv2d conv2d_input_grad", "dilation", PAIR, AT(conv.window.dilation) },
	{ "conv2d conv2d_input_grad", "groups", INT, AT(conv.groups) },
	{ "conv2d_input_grad", "height", LONG, AT(conv.in_height) },
	{ "conv2d_input_grad", "width", LONG, AT(conv.in_width) },
	{ "conv2d", "relu", BOOL, AT(conv.relu) },
	{ "layer_norm add_layer_norm batch_norm batch_norm_eval batch_norm_fold batch_norm_combine",
	    "eps", REAL, AT(norm.eps) },
	{ "rms_norm", "eps", REAL, AT(norm.eps) },
	{ "batch_norm batch_norm_combine", "momentum", REAL, AT(norm.momentum) },
	{ "batch_norm batch_norm_apply", "relu", BOOL, AT(norm.relu) },
	{ "gelu", "erf", INT, AT(gelu.kind) },
	{ "dropout", "p", REAL, AT(dropout.p) },
	{ "dropout", "stream", INT, AT(dropout.stream) },
	{ "attention attention_cached", "heads", INT, AT(attention.heads) },
	{ "attention", "p", REAL, AT(attention.p) },
	{ "attention", "stream", INT, AT(attention.stream) },
	{ "attention", "first_head", INT, AT(attention.first_head) },
	{ "attention", "all_heads", INT, AT(attention.all_heads) },
	{ "attention attention_cached", "kv_heads", INT, AT(attention.kv_heads) },
	{ "attention", "full", BOOL, AT(attention.full) },
	{ "rope", "heads", INT, AT(rope.heads) },
	{ "rope", "kv_heads", INT, AT(rope.kv_heads) },
	{ "rope", "theta", REAL, AT(rope.theta) },
	{ "embedding_grad", "rows", LONG, AT(embedding.rows) },
	{ "embedding embedding_grad", "first", LONG, AT(embedding.first) },
	{ "embedding embedding_grad", "whole", LONG, AT(embedding.whole) },
	{ "cross_entropy_sharded pick count_before", "first", LONG, AT(loss.first) },
	{ "cross_entropy_sharded pick count_before", "whole", LONG, AT(loss.whole) },
	{ "regression_loss regress_stats", "kind", INT, AT(regression.kind) },
	{ "regression_loss regress_stats", "delta", REAL, AT(regression.delta) },
	{ "cross_entropy cross_entropy_sharded pick", "smoothing", REAL, AT(loss.smoothing) },
	{ "cross_entropy cross_entropy_sharded", "each", BOOL, AT(loss.each) },
	{ "subsample", "stride", INT, AT(subsample.stride) },
	{ "subsample", "front", LONG, AT(subsample.front) },
	{ "subsample", "back", LONG, AT(subsample.back) },
	{ "max_pool2d avg_pool2d", "kernel", PAIR, AT(pool.window.kernel) },
	{ "max_pool2d avg_pool2d", "stride", PAIR, AT(pool.window.stride) },
	{ "max_pool2d avg_pool2d", "pad", PAIR, AT(pool.window.pad) },
	{ "max_pool2d", "dilation", PAIR, AT(pool.window.dilation) },
	{ "max_pool2d avg_pool2d", "ceil_mode", BOOL, AT(pool.ceil_mode) },
	{ "avg_pool2d", "exclude_pad", BOOL, AT(pool.exclude_pad) },
	{ "max_pool2d avg_pool2d", "parts", PAIR, AT(pool.parts) },
	{ "fill", "value", REAL, AT(fill.value) },
	{ "lstm gru", "reverse", BOOL, AT(recurrent.reverse) },
	{ "sum", "dims", INT, AT(sum.dims) },
	{ "sum", "keep", BOOL, AT(sum.keep) },
};

static bool belongs(const char *ops, const char *op)
{
	size_t n = strlen(op);

	for (const char *p = ops; (p = strstr(p, op)); p += n)
		if ((p == ops || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

/* A list of two numbers. */
static struct gt_tree *pair_tree(struct dump *d, const int *pair)
{
	struct gt_tree *list = gt_tree_list(&d->arena, &d->err);

	for (int i = 0; list && i < 2; i++)
		if (gt_tree_append(
		        list, gt_tree_int(&d->arena, pair[i], &d->err), &d->arena, &d->err))
			return NULL;
	return list;
}

static struct gt_tree *attr_tree(struct dump *d, const struct attr *a, const union gt_attrs *from)
{
	const char *at = (const char *)from + a->offset;

	switch (a->type) {
	case INT:
		return gt_tree_int(&d->arena, *(const int *)at, &d->err);
	case PAIR:
		return pair_tree(d, (const int *)at);
	case LONG:
		return gt_tree_int(&d->arena, *(const int64_t *)at, &d->err);
	case REAL:
		return gt_tree_float(&d->arena, *(const double *)at, &d->err);
	default:
		return gt_tree_bool(&d->arena, *(const bool *)at, &d->err);
	}
}

/* The steps of a program of map, which the PyTorch script reads. */
static struct gt_tree *program_tree(struct dump *d, const struct gt_map_program *program)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct gt_tree *t;

	if (!f)
		return NULL;
	gt_map_program_print(program, f);
	fclose(f);
	t = gt_tree_string(&d->arena, text, &d->err);
	free(text);
	return t;
}

static struct gt_tree *attrs_tree(struct dump *d, const struct op_case *c)
{
	struct gt_tree *dict = gt_tree_dict(&d->arena, &d->err);

	for (size_t i = 0; dict && i < sizeof(attrs) / sizeof(attrs[0]); i++)
		if (belongs(attrs[i].ops, c->op) &&
		    gt_tree_set(dict, attrs[i].name, attr_tree(d, &attrs[i], &c->attrs), &d->arena,
		        &d->err))
			return NULL;
	if (dict && !strcmp(c->op, "map") &&
	    gt_tree_set(dict, "program", program_tree(d, c->attrs.map.program), &d->arena, &d->err))
		return NULL;
	if (dict && !strcmp(c->op, "image_normalize")) {
		const int64_t channels = c->in[0].shape[3];

		if (gt_tree_set(dict, "mean",
		        gt_tree_tensor(
		            &d->arena, GT_F32, 1, &channels, c->attrs.normalize.mean, &d->err),
		        &d->arena, &d->err) ||
		    gt_tree_set(dict, "std",
		        gt_tree_tensor(
		            &d->arena, GT_F32, 1, &channels, c->attrs.normalize.std, &d->err),
		        &d->arena, &d->err))
			return NULL;
	}
	return dict;
}

/* ---- numbers ---- */

/* Doubles, taken over by the arena (NULL: None). */
static struct gt_tree *numbers(struct dump *d, const double *x, int ndim, const int64_t *shape)
{
	size_t n = 1;
	double *copy;

	if (!x)
		return gt_tree_none(&d->arena, &d->err);
	for (int i = 0; i < ndim; i++)
		n *= (size_t)shape[i];
	copy = gt_arena_alloc(&d->arena, n * sizeof(*copy), &d->err);
	if (!copy)
		return NULL;
	memcpy(copy, x, n * sizeof(*copy));
	return gt_tree_tensor(&d->arena, GT_F64, ndim, shape, copy, &d->err);
}

static struct gt_tree *inputs_tree(struct dump *d, struct op_run *r)
{
	struct gt_tree *list = gt_tree_list(&d->arena, &d->err);

	for (int i = 0; list && i < GT_MAX_INPUTS; i++)
		if (gt_tree_append(list,
		        numbers(d, r->host[i], r->c->in[i].ndim, r->c->in[i].shape), &d->arena,
		        &d->err))
			return NULL;
	return list;
}

static struct gt_tree *outputs_tree(struct dump *d, struct op_run *r)
{
	struct gt_tree *list = gt_tree_list(&d->arena, &d->err);

	for (int i = 0; list && i < r->outputs; i++) {
		char name[16];
		const struct gt_value *v;
		double *x;
		int64_t n;
		int rc;

		snprintf(name, sizeof(name), "out%d", i);
		v = gt_graph_find(r->graph, name);
		x = op_run_output(r, name, &n);
		rc = gt_tree_append(
		    list, numbers(d, x, v ? v->ndim : 0, v ? v->shape : NULL), &d->arena, &d->err);
		free(x);
		if (rc)
			return NULL;
	}
	return list;
}

static struct gt_tree *gradients_tree(struct dump *d, struct op_run *r)
{
	struct gt_tree *list = gt_tree_list(&d->arena, &d->err);

	for (int i = 0; list && i < GT_MAX_INPUTS; i++) {
		const struct op_arg *a = &r->c->in[i];
		bool real = a->kind == ARG_REAL || a->kind == ARG_APART;
		int64_t n;
		double *x = real ? op_run_gradient(r, i, &n) : NULL;
		int rc = gt_tree_append(list, numbers(d, x, a->ndim, a->shape), &d->arena, &d->err);

		free(x);
		if (rc)
			return NULL;
	}
	return list;
}

/* Running statistics after the run. */
static struct gt_tree *buffers_tree(struct dump *d, struct op_run *r)
{
	struct gt_tree *list = gt_tree_list(&d->arena, &d->err);

	for (int i = 0; list && i < GT_MAX_INPUTS; i++) {
		const struct gt_slot *s = r->in[i] && r->in[i]->role == GT_BUFFER
		                              ? gt_store_find(r->store, r->in[i]->name)
		                              : NULL;
		struct gt_tree *t = gt_tree_none(&d->arena, &d->err);

		if (s) {
			void *copy = gt_arena_alloc(&d->arena, gt_slot_bytes(s), &d->err);

			if (!copy)
				return NULL;
			memcpy(copy, gt_store_data(r->store, s), gt_slot_bytes(s));
			t = gt_tree_tensor(&d->arena, s->dtype, s->ndim, s->shape, copy, &d->err);
		}
		if (gt_tree_append(list, t, &d->arena, &d->err))
			return NULL;
	}
	return list;
}

static struct gt_tree *case_tree(struct dump *d, struct op_run *r)
{
	struct gt_tree *dict = gt_tree_dict(&d->arena, &d->err);
	const struct gt_value *p = r->projection;
	struct gt_arena *a = &d->arena;
	struct gt_err *err = &d->err;

	if (!dict || gt_tree_set(dict, "op", gt_tree_string(a, r->c->op, err), a, err) ||
	    gt_tree_set(dict, "label", gt_tree_string(a, r->c->label, err), a, err) ||
	    gt_tree_set(dict, "attrs", attrs_tree(d, r->c), a, err) ||
	    gt_tree_set(dict, "in", inputs_tree(d, r), a, err) ||
	    gt_tree_set(dict, "out", outputs_tree(d, r), a, err) ||
	    gt_tree_set(dict, "grad", gradients_tree(d, r), a, err) ||
	    gt_tree_set(dict, "buffers", buffers_tree(d, r), a, err) ||
	    gt_tree_set(dict, "tolerance", gt_tree_float(a, op_tolerance(r->c->op, r->dtype), err),
	        a, err) ||
	    gt_tree_set(dict, "projection",
	        numbers(d, r->projection_host, p ? p->ndim : 0, p ? p->shape : NULL), a, err))
		return NULL;
	return dict;
}

static int add_case(struct dump *d, struct gt_tree *list, const struct op_case *c,
    enum gt_dtype dtype, struct gt_err *err)
{
	struct op_run r;
	int rc = op_run_open(&r, c, dtype, 0, err);

	if (rc == GT_ENOTSUP && dtype != GT_F32)
		return 0;
	if (rc)
		return rc;
	rc = op_run_go(&r, err);
	if (!rc)
		rc = gt_tree_append(list, case_tree(d, &r), &d->arena, err);
	op_run_close(&r);
	return rc;
}

int main(int argc, char **argv)
{
	struct dump d = { 0 };
	enum gt_dtype dtype = GT_F32;
	struct gt_tree *list;
	int rc = 0;

	if (argc == 3)
		dtype = strcmp(argv[2], "bfloat16") ? GT_F16 : GT_BF16;
	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: ops_dump FILE.pth [bfloat16|float16]\n");
		return 2;
	}
	list = gt_tree_list(&d.arena, &d.err);
	rc = list ? 0 : d.err.code;
	for (const struct op_case *c = op_cases; c->op && !rc; c++)
		rc = add_case(&d, list, c, dtype, &d.err);
	if (!rc)
		rc = gt_torch_save((struct gt_file_name){ .path = argv[1] }, list, &d.err);
	if (rc)
		fprintf(stderr, "ops_dump: %s\n", d.err.text);
	gt_arena_release(&d.arena);
	return rc ? 1 : 0;
}
