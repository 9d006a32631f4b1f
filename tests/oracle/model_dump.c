/* model_dump.c - train a model for some steps and write the data by which PyTorch does the same. */

/*
 * usage: model_dump FILE.pth MODEL OPTIMIZER LR WEIGHT_DECAY CLIP BATCH STEPS OTHERS_LR [AMP]
 *
 * FILE.pth holds a dict: state (before), final (after), inputs, targets (lists of batches, used in
 * turn), mean, std (images), decay (names of decayed parameters), losses, norms (of gradients,
 * before clipping), scales (of the loss behind each step, 0 where it is not scaled), logits (of
 * evaluation, of the final weights for the first batch). MODEL_FREEZE and MODEL_LR_SCALE in the
 * environment are a rule each of gt_model_tune(). Data is made up so that it can be
 * learned. AMP is bf16 or fp16: mixed precision. The environment's MODEL_DEVICE is where it trains
 * (default: cpu); with MODEL_KEEP_PATTERNS, an exported network is not made faster
 * (gt_model_keep_patterns()).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/philox.h"
#include "lib/graph/pass.h"
#include "lib/optim/optim.h"
#include "lib/train/session.h"

enum { BATCHES = 5, SEED = 11, NOISE = 48 };

struct run {
	struct gt_session s;
	struct gt_program program;
	struct gt_optim *optim;
	struct gt_optim_options optimizer;
	int batch;
	enum gt_amp amp;
	struct gt_arena tree;
	struct gt_tree *root;
	void *inputs[BATCHES];
	int32_t *targets[BATCHES];
	int64_t counted; /* targets in a batch */
	int steps;
	double lr;
};

static uint32_t bits(int stream, int64_t i)
{
	return (uint32_t)gt_philox_u64(SEED, (uint64_t)i, GT_RNG_DATA, (uint32_t)stream);
}

/* ---- made-up data ---- */

/* Images and vectors: a pattern for each class, and noise. */
static void fill_samples(struct run *r, int batch, int64_t features)
{
	for (int64_t i = 0; i < r->program.batch; i++) {
		int32_t class = (int32_t)(bits(1 + batch, i) % (uint32_t)r->s.input.form.classes);

		r->targets[batch][i] = class;
		for (int64_t k = 0; k < features; k++) {
			int level = (int)(bits(100 + class, k) % 200);
			int noise = (int)(bits(200 + batch, i * features + k) % NOISE);

			if (r->s.input.form.kind == GT_SAMPLE_IMAGE)
				((uint8_t *)r->inputs[batch])[i * features + k] =
				    (uint8_t)(level + noise);
			else
				((float *)r->inputs[batch])[i * features + k] =
				    (float)(level + noise) / 64 - 2;
		}
	}
}

/* Tokens: each follows from the one before, with a little noise; one target in nine is ignored. */
static void fill_tokens(struct run *r, int batch)
{
	int32_t *ids = r->inputs[batch];

	for (int64_t i = 0; i < r->program.batch; i++) {
		uint32_t token = bits(300 + batch, i);

		for (int64_t t = 0; t < r->s.input.form.block; t++) {
			int64_t at = i * r->s.input.form.block + t;

			ids[at] = (int32_t)(token % (uint32_t)r->s.input.form.classes);
			token = (uint32_t)ids[at] * 5 + 1 + bits(400 + batch, at) % 2;
			r->targets[batch][at] =
			    at % 9 == 8 ? -100
			                : (int32_t)(token % (uint32_t)r->s.input.form.classes);
		}
	}
}

static int make_data(struct run *r, struct gt_err *err)
{
	const struct gt_value *input = r->program.io.input;

	r->counted = 0;
	for (int b = 0; b < BATCHES; b++) {
		r->inputs[b] = gt_arena_alloc(&r->tree, r->program.input_bytes, err);
		r->targets[b] = gt_arena_alloc(&r->tree, r->program.target_bytes, err);
		if (!r->inputs[b] || !r->targets[b])
			return err->code;
		if (r->s.input.form.kind == GT_SAMPLE_TOKENS)
			fill_tokens(r, b);
		else
			fill_samples(r, b, gt_value_elements(input) / input->shape[0]);
	}
	for (int64_t i = 0; i < gt_value_elements(r->program.io.target); i++)
		r->counted += r->targets[0][i] >= 0;
	return 0;
}

/* ---- the file ---- */

/* The weights as they are now: copies, since training goes on. */
static struct gt_tree *weights(struct run *r, struct gt_err *err)
{
	struct gt_tree *dict = gt_tree_dict(&r->tree, err);

	for (size_t i = 0; dict && i < r->s.store->slot_count; i++) {
		const struct gt_slot *s = &r->s.store->slots[i];
		void *copy = gt_arena_alloc(&r->tree, gt_slot_bytes(s), err);

		if (!copy || gt_device_read(r->s.device, copy, gt_store_data(r->s.store, s),
		                 gt_slot_bytes(s), err))
			return NULL;
		if (gt_tree_set(dict, s->name,
		        gt_tree_tensor(&r->tree, s->dtype, s->ndim, s->shape, copy, err), &r->tree,
		        err))
			return NULL;
	}
	return dict;
}

static struct gt_tree *batches(
    struct run *r, const struct gt_value *v, void *const *data, struct gt_err *err)
{
	struct gt_tree *list = gt_tree_list(&r->tree, err);

	for (int b = 0; list && b < BATCHES; b++)
		if (gt_tree_append(list,
		        gt_tree_tensor(&r->tree, v->dtype, v->ndim, v->shape, data[b], err),
		        &r->tree, err))
			return NULL;
	return list;
}

static struct gt_tree *decayed(struct run *r, struct gt_err *err)
{
	struct gt_tree *list = gt_tree_list(&r->tree, err);

	for (size_t i = 0; list && i < r->s.store->slot_count; i++)
		if (r->s.store->slots[i].role == GT_PARAMETER && r->s.store->slots[i].decay &&
		    gt_tree_append(list, gt_tree_string(&r->tree, r->s.store->slots[i].name, err),
		        &r->tree, err))
			return NULL;
	return list;
}

static struct gt_tree *floats(struct run *r, const float *x, int n, struct gt_err *err)
{
	struct gt_tree *list = gt_tree_list(&r->tree, err);

	for (int i = 0; list && i < n; i++)
		if (gt_tree_append(list, gt_tree_float(&r->tree, x[i], err), &r->tree, err))
			return NULL;
	return list;
}

static int set(struct run *r, const char *key, struct gt_tree *value, struct gt_err *err)
{
	return gt_tree_set(r->root, key, value, &r->tree, err);
}

static int describe(struct run *r, struct gt_err *err)
{
	void *const targets[] = { r->targets[0], r->targets[1], r->targets[2], r->targets[3],
		r->targets[4] };

	r->root = gt_tree_dict(&r->tree, err);
	if (!r->root || set(r, "state", weights(r, err), err) ||
	    set(r, "inputs", batches(r, r->program.io.input, r->inputs, err), err) ||
	    set(r, "targets", batches(r, r->program.io.target, targets, err), err) ||
	    set(r, "mean", floats(r, r->s.input.form.mean, r->s.input.form.channels, err), err) ||
	    set(r, "std", floats(r, r->s.input.form.std, r->s.input.form.channels, err), err))
		return err->code;
	return set(r, "decay", decayed(r, err), err);
}

/* ---- training ---- */

static int step(struct run *r, int at, float *loss, float *norm, struct gt_err *err)
{
	struct gt_program *p = &r->program;
	const float weight = 1.0f / (float)r->counted;

	if (gt_plan_write(p->plan, p->io.input, r->inputs[at % BATCHES], p->input_bytes, err) ||
	    gt_plan_write(p->plan, p->io.target, r->targets[at % BATCHES], p->target_bytes, err) ||
	    gt_plan_write(p->plan, p->io.weight, &weight, sizeof(weight), err) ||
	    gt_program_set_scale(p, gt_optim_scalars(r->optim), err) || gt_plan_run(p->plan, err) ||
	    gt_plan_read(p->plan, p->io.loss, loss, sizeof(*loss), err))
		return err->code;
	return gt_optim_step(r->optim, r->lr, norm, err);
}

static int train(struct run *r, struct gt_err *err)
{
	float *losses = gt_arena_alloc(&r->tree, (size_t)r->steps * sizeof(*losses), err);
	float *norms = gt_arena_alloc(&r->tree, (size_t)r->steps * sizeof(*norms), err);
	float *scales = gt_arena_alloc(&r->tree, (size_t)r->steps * sizeof(*scales), err);

	if (!losses || !norms || !scales)
		return err->code;
	for (int i = 0; i < r->steps; i++) {
		if (step(r, i, &losses[i], &norms[i], err))
			return err->code;
		scales[i] = (float)gt_optim_scaler(r->optim)->scale;
	}
	if (set(r, "losses", floats(r, losses, r->steps, err), err) ||
	    set(r, "norms", floats(r, norms, r->steps, err), err) ||
	    set(r, "scales", floats(r, scales, r->steps, err), err))
		return err->code;
	return set(r, "final", weights(r, err), err);
}

/* ---- logits ---- */

/* The forward graph of evaluation, whose logits the host may read. */
static int build_forward(
    struct run *r, struct gt_graph *g, struct gt_model_io *io, struct gt_err *err)
{
	const struct gt_backend *backend = r->s.device->backend;
	const struct gt_pass_options passes = { .images = backend->image_layout,
		.kernels = backend->kernels() };
	int rc = gt_model_build(r->s.model, g, &r->s.input, r->batch, GT_MODEL_EVAL, io, err);

	if (rc)
		return rc;
	gt_output(g, io->logits, "logits");
	return gt_passes_run(g, &passes, err);
}

static int run_forward(
    struct run *r, struct gt_plan *plan, const struct gt_graph *g, void *arena, struct gt_err *err)
{
	const struct gt_value *v = gt_graph_find(g, "logits");
	void *host = gt_arena_alloc(&r->tree, gt_value_bytes(v), err);

	if (!host || gt_plan_bind(plan, arena, err) ||
	    gt_plan_write(
	        plan, gt_graph_find(g, "input"), r->inputs[0], r->program.input_bytes, err) ||
	    gt_plan_write(
	        plan, gt_graph_find(g, "target"), r->targets[0], r->program.target_bytes, err) ||
	    gt_plan_run(plan, err) || gt_plan_read(plan, v, host, gt_value_bytes(v), err))
		return err->code;
	return set(
	    r, "logits", gt_tree_tensor(&r->tree, v->dtype, v->ndim, v->shape, host, err), err);
}

static int dump_logits(struct run *r, struct gt_err *err)
{
	struct gt_graph *g = NULL;
	struct gt_plan *plan = NULL;
	struct gt_model_io io;
	void *arena = NULL;
	int rc = gt_graph_new(&g, err);

	if (!rc)
		rc = build_forward(r, g, &io, err);
	if (!rc)
		rc = gt_plan_new(&plan, g, r->s.store, NULL, err);
	if (!rc)
		rc = gt_device_alloc(r->s.device, gt_plan_arena_bytes(plan), &arena, err);
	if (!rc)
		rc = run_forward(r, plan, g, arena, err);
	if (arena)
		gt_device_free(r->s.device, arena, gt_plan_arena_bytes(plan));
	gt_plan_free(plan);
	gt_graph_free(g);
	return rc;
}

/* GT_OPTIM_KINDS for a word that names none. */
static enum gt_optim_kind kind_of(const char *word)
{
	int kind = 0;

	while (kind < GT_OPTIM_KINDS && strcmp(gt_optim_names[kind], word))
		kind++;
	return (enum gt_optim_kind)kind;
}

static enum gt_amp amp_of(const char *word)
{
	int amp = 0;

	while (word && amp + 1 < GT_AMPS && strcmp(gt_amp_names[amp], word))
		amp++;
	return (enum gt_amp)amp;
}

/* ---- the session ---- */

static int describe_input(struct gt_session *s, void *self, struct gt_err *err)
{
	(void)self;
	(void)err;
	if (getenv("MODEL_KEEP_PATTERNS"))
		gt_model_keep_patterns(s->model);
	gt_model_preferred_input(s->model, &s->input);
	if (!s->input.form.classes)
		s->input.form.classes = 61; /* a model that leaves its vocabulary to the data */
	for (int i = 0; i < s->input.form.channels; i++) {
		s->input.form.mean[i] = 0.4f + 0.05f * (float)i;
		s->input.form.std[i] = 0.25f;
	}
	return 0;
}

static int plan(struct gt_session *s, void *self, struct gt_err *err)
{
	struct gt_program_options options = gt_session_program_options(s, GT_MODEL_TRAIN);
	struct run *r = self;

	options.precision = gt_amp_precision(r->amp, false);
	options.precision.scaled = r->optimizer.scaler.growth_interval;
	gt_session_add(s, &r->program);
	return gt_program_init(&r->program, &options, r->batch, err);
}

/* An exported network starts from the weights in its file. */
static int load_exported(struct gt_session *s, struct gt_err *err)
{
	char *path = gt_model_spec(s->model, err);
	struct gt_weights_report report = { 0 };
	int rc = path ? 0 : GT_ENOMEM;

	if (!rc && gt_model_is_file(path))
		rc = gt_session_load(s, (struct gt_file_name){ .path = path },
		    &(struct gt_load_options){ 0 }, &(struct gt_weights_options){ 0 }, &report,
		    err);
	gt_weights_report_release(&report);
	free(path);
	return rc;
}

static int set_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	struct run *r = self;
	int rc = gt_parallel_init(s->parallel, SEED, err);

	if (!rc)
		rc = load_exported(s, err);

	return rc ? rc : gt_optim_new(&r->optim, s->store, &r->optimizer, err);
}

static int prepare(struct run *r, char **argv, struct gt_err *err)
{
	const char *const freeze[] = { getenv("MODEL_FREEZE") };
	const char *const lr_scale[] = { getenv("MODEL_LR_SCALE") };
	static const struct gt_session_purpose training = {
		.trains = true, .input = describe_input, .plan = plan, .weights = set_weights
	};
	struct gt_optim_options o = { .kind = kind_of(argv[3]),
		.fallback_lr_factor = atof(argv[9]) / atof(argv[4]),
		.beta1 = 0.9,
		.beta2 = 0.999,
		.eps = 1e-8,
		.weight_decay = atof(argv[5]),
		.clip = atof(argv[6]) };

	if (amp_of(argv[10]) == GT_AMP_FP16)
		o.scaler = gt_scaler_default;
	if (o.kind == GT_OPTIM_KINDS)
		return gt_err_set(err, GT_EINVAL, "no optimizer is called '%s'", argv[3]);
	o.momentum = gt_optim_rule(o.kind)->momentum;
	r->optimizer = o;
	r->lr = atof(argv[4]);
	r->batch = atoi(argv[7]);
	r->steps = atoi(argv[8]);
	r->amp = amp_of(argv[10]);
	if (gt_session_open(&r->s,
	        &(struct gt_session_options){ .model = argv[2],
	            .where.devices = getenv("MODEL_DEVICE"),
	            .freeze = { freeze, freeze[0] != NULL },
	            .lr_scale = { lr_scale, lr_scale[0] != NULL } },
	        &training, r, err))
		return err->code;
	return make_data(r, err);
}

static void release(struct run *r)
{
	gt_optim_free(r->optim);
	gt_session_close(&r->s);
	gt_arena_release(&r->tree);
}

int main(int argc, char **argv)
{
	struct gt_err err = GT_ERR_INIT;
	struct run r = { 0 };
	int rc;

	if (argc != 10 && argc != 11) {
		fprintf(stderr, "usage: model_dump FILE.pth MODEL OPTIMIZER LR WEIGHT_DECAY CLIP "
		                "BATCH STEPS OTHERS_LR [AMP]\n");
		return 2;
	}
	rc = prepare(&r, argv, &err);
	if (!rc)
		rc = describe(&r, &err);
	if (!rc)
		rc = train(&r, &err);
	if (!rc)
		rc = dump_logits(&r, &err);
	if (!rc)
		rc = gt_torch_save((struct gt_file_name){ .path = argv[1] }, r.root, &err);
	if (rc)
		fprintf(stderr, "model_dump: %s\n", err.text);
	release(&r);
	return rc ? 1 : 0;
}
