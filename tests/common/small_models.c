/* small_models.c - specs of small models, made from the settings that each model has. */
#include "tests/common/small_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/model/arch.h"
#include "lib/model/model.h"

enum { MOST = 32 };

/* Small values of settings that have a size. */
static const struct {
	const char *key;
	int value;
} small[] = { { "layers", 2 }, { "heads", 4 }, { "kv_heads", 2 }, { "width", 32 }, { "block", 8 },
	{ "vocab", 51 }, { "patch", 4 }, { "classes", 5 } };

static void add_setting(char *spec, size_t size, const char *key, int value)
{
	size_t used = strlen(spec);

	snprintf(spec + used, size - used, "%c%s=%d", strchr(spec, ':') ? ',' : ':', key, value);
}

/* A list of sizes has no key. Images are as small as the network takes them. */
static void write_spec(struct small_model *out, const struct gt_arch *arch)
{
	char value[GT_MODEL_VALUE];
	struct gt_err err = GT_ERR_INIT;
	struct gt_setting setting;
	struct gt_model *model;
	bool patches = strstr(arch->keys, "patch");

	snprintf(out->spec, sizeof(out->spec), "%s", arch->name);
	assert_int_equal(gt_model_open(&model, arch->name, &err), 0);
	for (int i = 0; gt_model_setting(model, i, &setting, value); i++) {
		if (!setting.key) {
			snprintf(out->spec, sizeof(out->spec), "%s:20,32,16,24,10", arch->name);
			break;
		}
		for (size_t k = 0; k < sizeof(small) / sizeof(*small); k++)
			if (!strcmp(setting.key, small[k].key))
				add_setting(
				    out->spec, sizeof(out->spec), setting.key, small[k].value);
		if (!strcmp(setting.key, "image"))
			add_setting(out->spec, sizeof(out->spec), "image", patches ? 8 : 32);
	}
	gt_model_close(model);
}

static void find_traits(struct small_model *out)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input in;
	struct gt_model_io io;
	struct gt_model *model;
	struct gt_graph *g;
	int convolutions = 0;

	assert_int_equal(gt_model_open(&model, out->spec, &err), 0);
	gt_model_preferred_input(model, &in);
	for (int i = 0; i < in.form.channels; i++)
		in.form.std[i] = 1;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	if (gt_model_build(model, g, &in, 1, GT_MODEL_TRAIN, &io, &err))
		fail_msg("%s: %s", out->spec, err.text);
	out->text = in.form.kind == GT_SAMPLE_TOKENS;
	for (size_t i = 0; i < g->value_count; i++)
		out->norms |= g->values[i]->role == GT_BUFFER;
	for (size_t i = 0; i < g->node_count; i++)
		convolutions += g->nodes[i]->op == &gt_op_conv2d;
	out->convolves = convolutions > 1;
	gt_graph_free(g);
	gt_model_close(model);
}

const struct small_model *small_models(void)
{
	static struct small_model models[MOST + 1];
	int count = 0;

	for (int i = 0; gt_archs[i] && !*models[count].spec; i++) {
		int k = 0;

		while (k < i && gt_archs[k]->logits != gt_archs[i]->logits)
			k++;
		if (k < i)
			continue;
		assert_true(count < MOST);
		write_spec(&models[count], gt_archs[i]);
		find_traits(&models[count++]);
	}
	return models;
}
