/* network.c - open a network of an exported file for a fuzz target, and make graphs of it. */
#include "lib/ckpt/format.h"
#include "lib/graph/graph.h"
#include "lib/model/import/import.h"
#include "tests/fuzz/fuzz.h"

enum { BATCH = 4, OPEN_SIZE = 8, MOST_SIZE = 1 << 12 };

/* Sizes that the network leaves open, and those that are out of the question for data. */
static int64_t size_of(int wish)
{
	return wish > 0 && wish <= MOST_SIZE ? wish : OPEN_SIZE;
}

static struct gt_value *declare_data(struct gt_graph *g, const struct gt_sample_form *form)
{
	const int64_t image[] = { BATCH, size_of(form->channels), size_of(form->height),
		size_of(form->width) };
	const int64_t tokens[] = { BATCH, size_of(form->block) };
	const int64_t features[] = { BATCH, size_of(form->features) };

	if (form->kind == GT_SAMPLE_IMAGE)
		return gt_input(g, "input", GT_F32, 4, image);
	if (form->kind == GT_SAMPLE_TOKENS)
		return gt_input(g, "input", GT_I32, 2, tokens);
	return gt_input(g, "input", GT_F32, 2, features);
}

/* Give the fields sizes that data could have. */
static void take_fields(struct gt_sample_form *form)
{
	for (int i = 0; i < form->field_count; i++)
		for (int k = 0; k < form->fields[i].ndim; k++)
			form->fields[i].shape[k] =
			    k < 2 ? (int)size_of(form->fields[i].shape[k]) % 64 + 1 : 1;
}

static struct gt_value *declare_fields(struct gt_graph *g, const struct gt_sample_form *form)
{
	int64_t bytes = (int64_t)gt_sample_field_at(form, form->field_count);

	return gt_model_field(
	    g, form, gt_input(g, "input", GT_U8, 2, (int64_t[]){ BATCH, bytes }), 0);
}

static void build(struct gt_network *network, bool train)
{
	const struct gt_arch_config config = { .network = network };
	const int64_t rng_shape = GT_RNG_FIELDS;
	struct gt_model_input in = { 0 };
	struct gt_value *logits, *rng, *x;
	struct gt_graph *g;
	struct gt_err err = GT_ERR_INIT;

	if (gt_graph_new(&g, &err))
		return;
	gt_arch_exported.preferred_input(&config, &in);
	rng = gt_input(g, "rng", GT_I64, 1, &rng_shape);
	if (gt_sample_has_fields(&in.form)) {
		take_fields(&in.form);
		x = declare_fields(g, &in.form);
	} else {
		in.form.field_count = 0;
		x = declare_data(g, &in.form);
	}
	logits = gt_arch_exported.logits(g, &config, &in, x, rng, train);
	if (gt_graph_status(g, &err))
		fuzz_check_error(err.code, &err);
	else
		fuzz_require(logits);
	gt_graph_free(g);
}

void fuzz_network(const unsigned char *bytes, size_t size, const char *name)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_network *network;
	struct gt_ckpt *ckpt;
	int rc = gt_ckpt_open_memory(&ckpt, bytes, size, &err);

	if (!rc)
		rc = gt_network_of(&network, ckpt, name, &err);
	if (rc) {
		fuzz_check_error(rc, &err);
		return;
	}
	build(network, true);
	build(network, false);
	gt_network_close(network);
}
