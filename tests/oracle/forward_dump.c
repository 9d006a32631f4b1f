/* forward_dump.c - run a trained network on made-up samples, and write its input and output. */

/*
 * usage: forward_dump FILE.pth RUN BATCH BLOCK
 *
 * FILE.pth holds a dict: input, as the network takes it (images normalized, [batch, channels,
 * height, width]), and output, the scores of evaluation, of the run's latest checkpoint. Texts have
 * BLOCK tokens; 0: as many as the model prefers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/philox.h"
#include "lib/graph/pass.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/export_source.h"
#include "lib/train/session.h"

enum { SEED = 23 };

struct forward {
	struct gt_session s;
	struct gt_export_source source;
	int batch, block;
	struct gt_arena arena;
	struct gt_tree *root;
	void *input; /* the plan reads it */
};

static uint32_t draw(int64_t i)
{
	return (uint32_t)gt_philox_u64(SEED, (uint64_t)i, GT_RNG_DATA, 0);
}

/* ---- the session ---- */

static int describe_input(struct gt_session *s, void *self, struct gt_err *err)
{
	struct forward *f = self;
	int rc = gt_export_open_model(&f->source, err);

	if (!rc)
		rc = gt_export_open_weights(&f->source, err);
	s->input = f->source.input;
	if (f->block)
		s->input.form.block = f->block;
	for (int i = 0; i < s->input.form.channels; i++) {
		s->input.form.mean[i] = 0.4f + 0.05f * (float)i;
		s->input.form.std[i] = 0.25f;
	}
	return rc;
}

static int plan_nothing(struct gt_session *s, void *self, struct gt_err *err)
{
	(void)s;
	(void)self;
	(void)err;
	return 0;
}

static int load_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	struct forward *f = self;
	const struct gt_load_options load =
	    gt_run_ckpt_load(&f->source.run, &(struct gt_load_options){ 0 });
	struct gt_weights_report report = { 0 };
	int rc = gt_session_load(
	    s, f->source.run.file, &load, &(struct gt_weights_options){ 0 }, &report, err);

	gt_weights_report_release(&report);
	return rc;
}

/* ---- samples ---- */

static int set(struct forward *f, const char *key, enum gt_dtype dtype, int ndim,
    const int64_t *shape, const void *elements, struct gt_err *err)
{
	return gt_tree_set(f->root, key,
	    gt_tree_tensor(&f->arena, dtype, ndim, shape, elements, err), &f->arena, err);
}

/* Bytes [B, H, W, C] for the plan, and the same normalized [B, C, H, W] for the file. */
static int make_images(struct forward *f, const struct gt_value *v, struct gt_err *err)
{
	const struct gt_sample_form *form = &f->s.input.form;
	int64_t count = gt_value_elements(v), pixels = (int64_t)form->height * form->width;
	const int64_t shape[] = { f->batch, form->channels, form->height, form->width };
	float *x = gt_arena_alloc(&f->arena, (size_t)count * sizeof(*x), err);
	uint8_t *bytes = f->input;

	if (!x)
		return GT_ENOMEM;
	for (int64_t i = 0; i < count; i++) {
		int64_t c = i % form->channels, pixel = i / form->channels;

		bytes[i] = (uint8_t)draw(i);
		x[(pixel / pixels * form->channels + c) * pixels + pixel % pixels] =
		    ((float)bytes[i] / 255 - form->mean[c]) / form->std[c];
	}
	return set(f, "input", GT_F32, 4, shape, x, err);
}

static int make_input(struct forward *f, const struct gt_value *v, struct gt_err *err)
{
	int64_t count = gt_value_elements(v);

	f->input = gt_arena_alloc(&f->arena, gt_value_bytes(v), err);
	if (!f->input)
		return GT_ENOMEM;
	if (f->s.input.form.kind == GT_SAMPLE_IMAGE)
		return make_images(f, v, err);
	for (int64_t i = 0; i < count; i++)
		if (v->dtype == GT_I32)
			((int32_t *)f->input)[i] =
			    (int32_t)(draw(i) % (uint32_t)f->s.input.form.classes);
		else
			((float *)f->input)[i] = (float)(draw(i) % 2048) / 512 - 2;
	return set(f, "input", v->dtype, v->ndim, v->shape, f->input, err);
}

/* ---- the forward graph ---- */

static int build_graph(struct forward *f, struct gt_graph *g, struct gt_err *err)
{
	const struct gt_backend *backend = f->s.device->backend;
	const struct gt_pass_options passes = { .images = backend->image_layout,
		.kernels = backend->kernels() };
	struct gt_model_io io;
	int rc = gt_model_build(f->s.model, g, &f->s.input, f->batch, GT_MODEL_EVAL, &io, err);

	if (rc)
		return rc;
	gt_output(g, io.logits, "logits");
	return gt_passes_run(g, &passes, err);
}

static int run_plan(
    struct forward *f, struct gt_plan *plan, const struct gt_graph *g, struct gt_err *err)
{
	const struct gt_value *x = gt_graph_find(g, "input"), *y = gt_graph_find(g, "logits");
	void *out = gt_arena_alloc(&f->arena, gt_value_bytes(y), err), *memory = NULL;
	size_t bytes = gt_plan_arena_bytes(plan);
	int rc = out ? gt_device_alloc(f->s.device, bytes, &memory, err) : GT_ENOMEM;

	if (!rc)
		rc = make_input(f, x, err);
	if (!rc)
		rc = gt_plan_bind(plan, memory, err);
	if (!rc)
		rc = gt_plan_write(plan, x, f->input, gt_value_bytes(x), err);
	if (!rc)
		rc = gt_plan_run(plan, err);
	if (!rc)
		rc = gt_plan_read(plan, y, out, gt_value_bytes(y), err);
	if (memory)
		gt_device_free(f->s.device, memory, bytes);
	return rc ? rc : set(f, "output", y->dtype, y->ndim, y->shape, out, err);
}

static int run_graph(struct forward *f, struct gt_err *err)
{
	struct gt_graph *g = NULL;
	struct gt_plan *plan = NULL;
	int rc = gt_graph_new(&g, err);

	if (!rc)
		rc = build_graph(f, g, err);
	if (!rc)
		rc = gt_plan_new(&plan, g, f->s.store, NULL, err);
	if (!rc)
		rc = run_plan(f, plan, g, err);
	gt_plan_free(plan);
	gt_graph_free(g);
	return rc;
}

static int open_run(struct forward *f, char **argv, struct gt_err *err)
{
	static const struct gt_session_purpose forward = {
		.input = describe_input, .plan = plan_nothing, .weights = load_weights
	};
	const char *model;

	f->batch = atoi(argv[3]);
	f->block = atoi(argv[4]);
	f->root = gt_tree_dict(&f->arena, err);
	if (!f->root || gt_run_ckpt_open(&f->source.run, argv[2], GT_RUN_LATEST, err))
		return err->code;
	model = gt_run_ckpt_model(&f->source.run, NULL, err);
	return model ? gt_session_open(
	                   &f->s, &(struct gt_session_options){ .model = model }, &forward, f, err)
	             : err->code;
}

int main(int argc, char **argv)
{
	struct gt_err err = GT_ERR_INIT;
	struct forward f = { 0 };
	int rc;

	if (argc != 5) {
		fprintf(stderr, "usage: forward_dump FILE.pth RUN BATCH BLOCK\n");
		return 2;
	}
	rc = open_run(&f, argv, &err);
	if (!rc)
		rc = run_graph(&f, &err);
	if (!rc)
		rc = gt_torch_save((struct gt_file_name){ .path = argv[1] }, f.root, &err);
	if (rc)
		fprintf(stderr, "forward_dump: %s\n", err.text);
	gt_session_close(&f.s);
	gt_export_close(&f.source);
	gt_arena_release(&f.arena);
	return rc ? 1 : 0;
}
