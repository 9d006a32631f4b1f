/* build.c - make gtrain's graph of a network: declare its weights, and go through its nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/patterns/patterns.h"
#include "lib/model/import/fold.h"
#include "lib/model/import/lower.h"
#include "lib/model/import/network.h"

/* ---- weights ---- */

static struct gt_value *declare_weight(struct gt_import *im, const struct gt_network_tensor *t)
{
	struct gt_value *v;

	if (t->tensor->dtype != GT_F32) {
		gt_graph_fail(im->g, GT_ENOTSUP, "'%s': '%s' is %s, and gtrain trains float32",
		    im->network->file, t->name, gt_dtype_name(t->tensor->dtype));
		gt_err_hint(&im->g->err,
		    "export the module after module.float(); {amp} bf16 computes "
		    "in bfloat16");
		return NULL;
	}
	v = gt_parameter(
	    im->g, t->name, GT_F32, t->tensor->ndim, t->tensor->shape, gt_init_zeros, true);
	if (v && !t->tensor->requires_grad) {
		v->role = GT_BUFFER;
		v->frozen = true;
	}
	return v;
}

/* A constant is read when a node needs it. */
static struct gt_value *declare_tensor(struct gt_import *im, const struct gt_network_tensor *t)
{
	if (t->kind == GT_NETWORK_PARAMETER)
		return declare_weight(im, t);
	if (t->kind == GT_NETWORK_BUFFER)
		return gt_buffer(im->g, t->name, t->tensor->dtype, t->tensor->ndim,
		    t->tensor->shape, gt_init_zeros);
	return NULL;
}

struct gt_binding *gt_import_bind(struct gt_import *im, const char *name, struct gt_value *v)
{
	struct gt_binding *b = gt_arena_alloc(&im->g->arena, sizeof(*b), &im->g->err);

	if (!b)
		return NULL;
	*b = (struct gt_binding){ .name = name, .value = v, .next = im->list };
	im->list = b;
	if (gt_index_add(&im->bindings, b, &im->g->err) == b)
		return b;
	return gt_graph_fail(im->g, GT_EFORMAT, "'%s': two inputs of the graph are called '%.200s'",
	    im->network->file, name);
}

static void declare_tensors(struct gt_import *im)
{
	const struct gt_network *n = im->network;

	for (size_t i = 0; i < n->tensor_count && !im->g->err.code; i++) {
		const struct gt_network_tensor *t = &n->tensors[i];
		const struct gt_binding *same =
		    t->same ? gt_index_find(&im->bindings, &t->same->argument) : NULL;
		struct gt_binding *b =
		    gt_import_bind(im, t->argument, same ? same->value : declare_tensor(im, t));

		if (b)
			b->tensor = t;
		if (b && n->is_onnx)
			gt_lower_set_type(im, t->argument, t->tensor->dtype);
	}
}

/* ---- the nodes ---- */

/* Targets that compute numbers from sizes, which the file has as expressions, or check them. */
static bool is_about_sizes(const char *target)
{
	static const char *const starts[] = { "torch.ops.aten.sym_", "torch.ops.aten._assert",
		"_operator.", "math.", "torch.sym_" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (!strncmp(target, starts[i], strlen(starts[i])))
			return true;
	return false;
}

/* Set the scope of the next nodes: the path of the innermost module in nn_module_stack, as
 * "layer1.0" in "L__self__,,net.Net;L__self__layer1.0,layer1.0,net.Block". */
static void set_scope(struct gt_import *im)
{
	const char *stack = json_string_value(
	    json_object_get(json_object_get(im->node, "metadata"), "nn_module_stack"));
	const char *last = stack ? strrchr(stack, ';') : NULL;
	const char *path = strchr(last ? last : stack ? stack : "", ',');

	if (path)
		gt_graph_scope(im->g, "%.*s", (int)strcspn(path + 1, ","), path + 1);
	else
		gt_graph_scope(im->g, "%s", "");
}

/* Fail, and hint at the forms that gtrain has of the same function: "max.other" for "max.dim". */
static void fail_target(struct gt_import *im, const char *target)
{
	const char *aten = "torch.ops.aten.";
	char forms[160] = "";
	size_t length, used = 0;

	if (!strncmp(target, aten, strlen(aten)))
		target += strlen(aten);
	length = strcspn(target, ".");
	for (const struct gt_aten *row = gt_aten_rows; row->name; row++)
		if (!strncmp(row->name, target, length) && row->name[length] == '.' &&
		    used < sizeof(forms))
			used += (size_t)snprintf(forms + used, sizeof(forms) - used, "%s%s",
			    used ? ", " : "", row->name);
	gt_import_fail(im, "is a function that gtrain does not have");
	if (used)
		gt_err_hint(&im->g->err, "it has %s", forms);
}

/* Compute a node of constants now; return false for another one. */
static bool fold_node(struct gt_import *im, const char *target)
{
	const size_t reads[] = {
		[GT_FOLD_ALL] = SIZE_MAX, [GT_FOLD_FIRST] = 1, [GT_FOLD_NONE] = 0
	};

	im->fold = gt_fold_find(target);
	if (!im->fold || !gt_import_all_constant(im, reads[im->fold->reads]))
		return false;
	im->fold->fold(im);
	return true;
}

void gt_import_call(struct gt_import *im, const char *target)
{
	im->row = gt_aten_find(target);
	if (fold_node(im, target))
		return;
	if (im->row)
		im->row->emit(im);
	else
		fail_target(im, target);
}

void gt_import_blame_file(struct gt_import *im)
{
	if (im->g->err.code != GT_EINVAL)
		return;
	gt_err_prefix(&im->g->err, "'%s'", im->network->file);
	im->g->err.code = GT_EFORMAT;
}

static void emit_node(struct gt_import *im, const char *target)
{
	set_scope(im);
	if (im->network->is_onnx)
		gt_lower_node(im, target);
	else
		gt_import_call(im, target);
	gt_import_blame_file(im);
}

static void emit_nodes(struct gt_import *im)
{
	size_t i;

	json_array_foreach(im->network->nodes, i, im->node)
	{
		const char *target = json_string_value(json_object_get(im->node, "target"));

		if (!target)
			gt_graph_fail(im->g, GT_EFORMAT, "'%s': node %zu has no target",
			    im->network->file, i);
		else if (!is_about_sizes(target))
			emit_node(im, target);
		if (im->g->err.code)
			return;
	}
}

/* ---- the result ---- */

static const char *describe_scores(const struct gt_model_input *in)
{
	if (in->form.target == GT_SAMPLE_NUMBER)
		return "number to predict";
	if (in->form.target == GT_SAMPLE_LABELS)
		return "labels";
	return in->form.kind == GT_SAMPLE_TOKENS ? "tokens" : "classes";
}

/* The scores of each sample, or of each token: [batch, classes] or [batch, block, classes]. */
static struct gt_value *check_scores(struct gt_graph *g, const struct gt_network *n,
    const struct gt_model_input *in, int64_t batch, struct gt_value *y)
{
	bool tokens = in->form.kind == GT_SAMPLE_TOKENS;
	int dims = tokens ? 3 : 2;

	if (y && in->form.target != GT_SAMPLE_CLASS && in->form.classes == 1 && y->ndim == 1)
		y = gt_reshape(g, y, 2, (int64_t[]){ y->shape[0], 1 });
	if (!y)
		return NULL;
	if (y->ndim == dims && y->shape[0] == batch && (!tokens || y->shape[1] == in->form.block) &&
	    y->shape[y->ndim - 1] == in->form.classes)
		return y;
	gt_graph_scope(g, "%s", "");
	gt_graph_fail(g, GT_EINVAL, "'%s' gives %s for a batch of %lld, and the data have %d %s",
	    n->file, gt_shape_text(y).s, (long long)batch, in->form.classes, describe_scores(in));
	if (y->ndim == dims)
		gt_err_hint(&g->err, "export it with %d output%s", in->form.classes,
		    in->form.classes == 1 ? "" : "s");
	else
		gt_err_hint(&g->err, "export a module whose forward() returns the scores as %s",
		    tokens ? "[batch, tokens, vocabulary]" : "[batch, classes]");
	return NULL;
}

struct gt_value *gt_network_emit(struct gt_graph *g, const struct gt_network *n,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *target,
    struct gt_value *rng, bool train)
{
	struct gt_import im = { .network = n,
		.g = g,
		.rng = rng,
		.train = train,
		.bindings = { .compare = gt_index_by_name },
		.constants.err = &g->err };
	struct gt_binding *result = NULL;
	struct gt_value *y;

	if (!x)
		return NULL;
	gt_graph_scope(g, "%s", "");
	gt_constants_limit(&im.constants, x->shape[0], in->form.block);
	if (n->is_onnx)
		gt_lower_begin(&im);
	declare_tensors(&im);
	if (!g->err.code && gt_import_bind_inputs(&im, in, x, target)) {
		emit_nodes(&im);
		result = gt_index_find(&im.bindings, target ? &n->loss : &n->output);
		if (result && !g->err.code && !gt_import_refresh(&im, result))
			result = NULL;
	}
	gt_index_release(&im.bindings);
	gt_arena_release(&im.constants.arena);
	json_decref(im.types);
	json_decref(im.calls);
	if (g->err.code)
		return NULL;
	if (!result || !result->value) {
		gt_graph_scope(g, "%s", "");
		return gt_graph_fail(g, GT_EFORMAT, "'%s': no node computes the result", n->file);
	}
	y = result->value;
	return n->keep_patterns || !gt_patterns_apply(g, &y, &g->err) ? y : NULL;
}

/* The first tensor that a network returns has to be scores, and the only one. */
static bool check_outputs(struct gt_graph *g, const struct gt_network *n)
{
	if (n->loss) {
		gt_graph_fail(g, GT_EINVAL, "'%s' returns its loss, which is no score", n->file);
		gt_err_hint(&g->err,
		    "{loss} output trains with it; else export a module whose forward() returns "
		    "the scores alone");
	} else if (n->output_count > 1) {
		gt_graph_fail(g, GT_ENOTSUP, "'%s' returns several tensors", n->file);
		gt_err_hint(&g->err, "export a module whose forward() returns the scores alone");
	}
	return !g->err.code;
}

static struct gt_value *build_exported_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	struct gt_value *y = NULL;

	if (check_outputs(g, c->network))
		y = gt_network_emit(g, c->network, in, x, NULL, rng, train);
	return y ? check_scores(g, c->network, in, x->shape[0], y) : NULL;
}

/* The loss has to be one number, as the file says. */
static struct gt_value *check_loss(
    struct gt_graph *g, const struct gt_network *n, struct gt_value *y)
{
	if (!y->ndim && gt_dtype_is_real(y->dtype))
		return y;
	gt_graph_scope(g, "%s", "");
	return gt_graph_fail(g, GT_EFORMAT,
	    "'%s': the file says that the loss '%.200s' is one number, but it is %s %s", n->file,
	    n->loss, gt_dtype_name(y->dtype), gt_shape_text(y).s);
}

static struct gt_value *build_exported_loss(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *target,
    struct gt_value *rng, bool train)
{
	struct gt_value *y = gt_network_emit(g, c->network, in, x, target, rng, train);

	return y ? check_loss(g, c->network, y) : NULL;
}

/* Logits of the next token are those of the text's last one. */
static struct gt_value *build_exported_next(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *past, struct gt_value *at)
{
	(void)past;
	return gt_last_position(g, build_exported_logits(g, c, in, x, NULL, false), at);
}

static void describe_exported_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	gt_network_describe_inputs(c->network, &out->form);
}

const struct gt_arch gt_arch_exported = {
	.name = "exported",
	.summary = "a network that torch.export.save() or torch.onnx.export() wrote",
	.keys = "",
	.preferred_input = describe_exported_input,
	.logits = build_exported_logits,
	.loss = build_exported_loss,
	.next = build_exported_next,
	.fields = true,
	.lr_adam = 1e-3,
	.lr_sgd = 0.05,
};
