/* network_run.c - train an exported network, whatever its result is, for tests/zoo/zoo.py. */

/*
 * usage: network_run NETWORK.pt2 DATA.pth RESULT.pth STEPS LR
 *
 * DATA.pth holds a dict: inputs, targets (lists of batches, used in turn). The loss is the mean
 * cross-entropy where targets are int32: [batch] for scores [batch, classes], [batch, block] for
 * scores of tokens. Where targets are float32, they have the shape of the network's result, and the
 * loss is the mean squared error. Every step is one of SGD without momentum, decay or clipping.
 *
 * RESULT.pth holds a dict: losses, gradients (of the first step, before its update), final (weights
 * and buffers). After it is written, each line on standard input is answered by one more step, and
 * by its time in milliseconds on standard output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/torch/export.h"
#include "lib/graph/pass.h"
#include "lib/graph/plan.h"
#include "lib/model/import/import.h"
#include "lib/optim/optim.h"
#include "tests/common/device.h"

struct run {
	struct gt_network *network;
	struct gt_ckpt *weights, *data;
	struct gt_graph *g;
	struct gt_store *store;
	struct gt_plan *plan;
	void *memory; /* the plan's arena */
	struct gt_optim *optim;
	struct gt_arena tree;
	struct gt_tree *root;
	size_t batches;
	void **inputs, **targets; /* [batches] */
	const struct gt_value *input, *target, *loss;
	double lr;
};

/* ---- data ---- */

static const struct gt_tree *list_of(const struct run *r, const char *key, struct gt_err *err)
{
	const struct gt_tree *list = gt_tree_get(gt_ckpt_root(r->data), key);

	if (list && list->kind == GT_TREE_LIST && list->seq.count &&
	    list->seq.items[0].value->kind == GT_TREE_TENSOR)
		return list;
	gt_err_set(err, GT_EFORMAT, "the data have no list of tensors '%s'", key);
	return NULL;
}

static void **read_batches(
    struct run *r, const char *key, const struct gt_value *v, struct gt_err *err)
{
	const struct gt_tree *list = list_of(r, key, err);
	void **out = list ? gt_arena_alloc(&r->tree, list->seq.count * sizeof(*out), err) : NULL;

	for (size_t i = 0; out && i < list->seq.count; i++) {
		out[i] = gt_arena_alloc(&r->tree, gt_value_bytes(v), err);
		if (!out[i] ||
		    gt_ckpt_tensor_read(&list->seq.items[i].value->tensor, v->dtype, out[i], err))
			return NULL;
		r->batches = i + 1;
	}
	return out;
}

/* Declare an input like the first batch of a list. */
static struct gt_value *declare_batch(
    struct run *r, const char *name, const char *key, struct gt_err *err)
{
	const struct gt_tree *list = list_of(r, key, err);
	const struct gt_tree_tensor *t = list ? &list->seq.items[0].value->tensor : NULL;

	return t ? gt_input(r->g, name, t->dtype, t->ndim, t->shape) : NULL;
}

/* ---- the graph ---- */

static struct gt_value *mean_square_error(
    struct gt_graph *g, struct gt_value *y, struct gt_value *t)
{
	struct gt_value *d = gt_binary(g, GT_F_SUB, y, t);
	struct gt_value *sum = gt_sum(g, gt_binary(g, GT_F_MUL, d, d), (1u << y->ndim) - 1, false);
	const double weight = 1 / (double)gt_value_elements(y);

	return gt_apply(
	    g, GT_F_MUL, (struct gt_map_operand[]){ { .value = sum }, { true, weight, NULL } });
}

static bool same_shape(const struct gt_value *a, const struct gt_value *b)
{
	return a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape));
}

static struct gt_value *emit_loss(struct gt_graph *g, struct gt_value *y, struct gt_value *t)
{
	gt_graph_scope(g, "loss");
	if (!y || !t)
		return NULL;
	if (t->dtype != GT_F32)
		return gt_cross_entropy(g, y, t, gt_input(g, "weight", GT_F32, 0, NULL));
	/* The difference would be broadcast. */
	if (!same_shape(y, t))
		return gt_graph_fail(
		    g, GT_EINVAL, "the targets have another shape than the network's result");
	return mean_square_error(g, y, t);
}

static int build_network(struct run *r, struct gt_err *err)
{
	const struct gt_backend *backend = test_device(0)->backend;
	struct gt_value *x = declare_batch(r, "input", "inputs", err);
	struct gt_value *t = declare_batch(r, "target", "targets", err);
	struct gt_value *y = x && t ? gt_network_emit(r->g, r->network,
	                                  &(struct gt_model_input){ 0 }, x, NULL, NULL, true)
	                            : NULL;
	struct gt_pass_options passes = { .images = backend->image_layout,
		.kernels = backend->kernels(),
		.logits_bytes = backend->logits_bytes,
		.logits_align = backend->logits_align };

	passes.loss = gt_output(r->g, emit_loss(r->g, y, t), "loss");
	if (err->code || gt_graph_status(r->g, err) || gt_passes_run(r->g, &passes, err))
		return err->code;
	r->input = gt_graph_find(r->g, "input");
	r->target = gt_graph_find(r->g, "target");
	r->loss = gt_graph_find(r->g, "loss");
	return 0;
}

/* ---- weights ---- */

static int load_slot(struct run *r, const struct gt_slot *slot, struct gt_err *err)
{
	const struct gt_tree *t = gt_tree_get(gt_ckpt_root(r->weights), slot->name);
	void *host;
	int rc;

	if (!t)
		t = gt_tree_get(gt_ckpt_exported(r->weights)->constants, slot->name);
	if (!t)
		return 0; /* a value of gtrain's own, which it has initialized */
	host = gt_calloc(1, gt_slot_bytes(slot), err);
	if (!host)
		return GT_ENOMEM;
	rc = gt_ckpt_tensor_read(&t->tensor, slot->dtype, host, err);
	if (!rc)
		rc = gt_device_write(r->store->device, gt_store_data(r->store, slot), host,
		    gt_slot_bytes(slot), err);
	free(host);
	return rc;
}

static int load_weights(struct run *r, struct gt_err *err)
{
	int rc = gt_store_init(r->store, 1, err);

	for (size_t i = 0; !rc && i < r->store->slot_count; i++)
		rc = load_slot(r, &r->store->slots[i], err);
	return rc;
}

/* ---- the result ---- */

static int set_result(struct run *r, const char *key, struct gt_tree *value, struct gt_err *err)
{
	return gt_tree_set(r->root, key, value, &r->tree, err);
}

/* A copy of a slot's elements at a device address, since training goes on. */
static struct gt_tree *copy_slot(
    struct run *r, const struct gt_slot *s, const void *device, struct gt_err *err)
{
	void *copy = gt_arena_alloc(&r->tree, gt_slot_bytes(s), err);

	if (!copy || gt_device_read(r->store->device, copy, device, gt_slot_bytes(s), err))
		return NULL;
	return gt_tree_tensor(&r->tree, s->dtype, s->ndim, s->shape, copy, err);
}

static struct gt_tree *copy_slots(struct run *r, bool gradients, struct gt_err *err)
{
	struct gt_tree *dict = gt_tree_dict(&r->tree, err);

	for (size_t i = 0; dict && i < r->store->slot_count; i++) {
		const struct gt_slot *s = &r->store->slots[i];
		const void *device;

		if (gradients && s->role != GT_PARAMETER)
			continue;
		device = gradients ? gt_slot_address(r->store->gradients, s)
		                   : gt_store_data(r->store, s);
		if (gt_tree_set(dict, s->name, copy_slot(r, s, device, err), &r->tree, err))
			return NULL;
	}
	return dict;
}

/* ---- training ---- */

static int write_inputs(struct run *r, size_t batch, struct gt_err *err)
{
	const struct gt_value *w = gt_graph_find(r->g, "weight");
	const float weight = 1.0f / (float)gt_value_elements(r->target);
	int rc = 0;

	/* A pass removes an input that no node needs. */
	if (r->input)
		rc = gt_plan_write(
		    r->plan, r->input, r->inputs[batch], gt_value_bytes(r->input), err);
	if (!rc)
		rc = gt_plan_write(
		    r->plan, r->target, r->targets[batch], gt_value_bytes(r->target), err);
	return rc || !w ? rc : gt_plan_write(r->plan, w, &weight, sizeof(weight), err);
}

/* Take one step; *ms (or NULL) gets its time. `gradients` asks for those before the update. */
static int take_step(
    struct run *r, size_t batch, float *loss, bool gradients, double *ms, struct gt_err *err)
{
	double began = gt_clock_s();

	if (write_inputs(r, batch, err) || gt_plan_run(r->plan, err) ||
	    gt_plan_read(r->plan, r->loss, loss, sizeof(*loss), err))
		return err->code;
	if (gradients && set_result(r, "gradients", copy_slots(r, true, err), err))
		return err->code;
	if (gt_optim_step(r->optim, r->lr, NULL, err) || gt_device_sync(r->store->device, err))
		return err->code;
	if (ms)
		*ms = 1e3 * (gt_clock_s() - began);
	return 0;
}

static int train_network(struct run *r, int steps, struct gt_err *err)
{
	struct gt_tree *losses = gt_tree_list(&r->tree, err);
	float loss;

	for (int i = 0; losses && i < steps; i++)
		if (take_step(r, (size_t)i % r->batches, &loss, !i, NULL, err) ||
		    gt_tree_append(losses, gt_tree_float(&r->tree, loss, err), &r->tree, err))
			return err->code;
	if (set_result(r, "losses", losses, err))
		return err->code;
	return set_result(r, "final", copy_slots(r, false, err), err);
}

static int answer_lines(struct run *r, struct gt_err *err)
{
	double ms;
	float loss;

	for (int c; (c = getchar()) != EOF;) {
		if (c != '\n')
			continue;
		if (take_step(r, 0, &loss, false, &ms, err))
			return err->code;
		printf("%.3f\n", ms);
		fflush(stdout);
	}
	return 0;
}

/* ---- from the files to the plan ---- */

static int open_files(struct run *r, char **argv, struct gt_err *err)
{
	if (gt_network_open(&r->network, argv[1], err) || gt_ckpt_open(&r->weights, argv[1], err) ||
	    gt_ckpt_open(&r->data, argv[2], err))
		return err->code;
	r->lr = atof(argv[5]);
	r->root = gt_tree_dict(&r->tree, err);
	return r->root ? gt_graph_new(&r->g, err) : err->code;
}

static int make_plan(struct run *r, struct gt_err *err)
{
	const struct gt_device *device = test_device(0);

	if (gt_store_new(&r->store, r->g, device, true, err) ||
	    gt_plan_new(&r->plan, r->g, r->store, NULL, err) || gt_store_alloc(r->store, err) ||
	    gt_device_alloc(device, gt_plan_arena_bytes(r->plan), &r->memory, err) ||
	    gt_plan_bind(r->plan, r->memory, err))
		return err->code;
	return gt_optim_new(&r->optim, r->store,
	    &(struct gt_optim_options){ .kind = GT_SGD, .fallback_lr_factor = 1 }, err);
}

static int prepare_run(struct run *r, char **argv, struct gt_err *err)
{
	if (open_files(r, argv, err) || build_network(r, err) || make_plan(r, err) ||
	    load_weights(r, err))
		return err->code;
	r->inputs = r->input ? read_batches(r, "inputs", r->input, err) : NULL;
	r->targets = read_batches(r, "targets", r->target, err);
	return err->code;
}

static void release_run(struct run *r)
{
	gt_optim_free(r->optim);
	if (r->memory)
		gt_device_free(test_device(0), r->memory, gt_plan_arena_bytes(r->plan));
	gt_plan_free(r->plan);
	gt_store_free(r->store);
	gt_graph_free(r->g);
	gt_network_close(r->network);
	gt_ckpt_close(r->weights);
	gt_ckpt_close(r->data);
	gt_arena_release(&r->tree);
}

int main(int argc, char **argv)
{
	struct gt_err err = GT_ERR_INIT;
	struct run r = { 0 };
	int rc;

	if (argc != 6) {
		fprintf(stderr, "usage: network_run NETWORK.pt2 DATA.pth RESULT.pth STEPS LR\n");
		return 2;
	}
	rc = prepare_run(&r, argv, &err);
	if (!rc)
		rc = train_network(&r, atoi(argv[4]), &err);
	if (!rc)
		rc = gt_torch_save((struct gt_file_name){ .path = argv[3] }, r.root, &err);
	if (!rc)
		rc = answer_lines(&r, &err);
	if (rc)
		fprintf(stderr, "network_run: %s\n", err.text);
	release_run(&r);
	return rc ? 1 : 0;
}
