/* mlp.c - torch.nn.Sequential of Linear and ReLU: 0.weight, 0.bias, 2.weight, ... */
#include <stdio.h>
#include <string.h>

#include "lib/model/arch.h"

enum { HIDDEN = 256 };

static void describe_mlp_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	out->form.kind = GT_SAMPLE_VECTOR;
	out->form.features = c->size_count ? c->sizes[0] : 784;
	out->form.classes = c->size_count ? c->sizes[c->size_count - 1] : 10;
}

/* Set the graph's error, with a hint about sizes that fit the data. If both sizes are wrong, they
 * are assumed to be those of hidden layers. */
static struct gt_value *fail_sizes(struct gt_graph *g, const int *sizes, int count,
    const struct gt_model_input *in, int64_t features)
{
	char hidden[GT_MODEL_VALUE] = "";
	bool all = count == 2 && sizes[0] != features && sizes[1] != in->form.classes;
	size_t used = 0;

	gt_graph_fail(g, GT_EINVAL,
	    "model 'mlp' goes from %d to %d, the data has %lld feature%s and %d class%s", sizes[0],
	    sizes[count - 1], (long long)features, features == 1 ? "" : "s", in->form.classes,
	    in->form.classes == 1 ? "" : "es");
	for (int i = all ? 0 : 1; i < (all ? count : count - 1) && used < sizeof(hidden); i++)
		used += (size_t)snprintf(hidden + used, sizeof(hidden) - used, "%d,", sizes[i]);
	if (used < sizeof(hidden))
		gt_err_hint(&g->err, "{model} mlp:%lld,%s%d fits the data, and mlp alone fits any",
		    (long long)features, hidden, in->form.classes);
	return NULL;
}

/* Without sizes there is one hidden layer between the data's inputs and its classes. */
static struct gt_value *build_mlp_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	int sizes[GT_MODEL_MAX_LAYERS] = { 0, HIDDEN, in->form.classes }, count = 3;

	(void)rng;
	(void)train;
	if (!x)
		return NULL;
	if (in->form.kind == GT_SAMPLE_TOKENS)
		return gt_model_fail_input(g, in, false, "model 'mlp' does not take text");
	x = gt_reshape(g, x, 2, (int64_t[]){ x->shape[0], gt_value_elements(x) / x->shape[0] });
	if (!x)
		return NULL;
	sizes[0] = (int)x->shape[1];
	if (c->size_count) {
		count = c->size_count;
		for (int i = 0; i < count; i++)
			sizes[i] = c->sizes[i];
	}
	if (sizes[0] != x->shape[1] || sizes[count - 1] != in->form.classes)
		return fail_sizes(g, sizes, count, in, x->shape[1]);
	for (int i = 1; i < count; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%d", 2 * (i - 1));
		x = gt_layer_linear(g, name, x, sizes[i], gt_init_torch(sizes[i - 1]));
		if (i + 1 < count)
			x = gt_relu(g, x);
	}
	return x;
}

const struct gt_arch gt_arch_mlp = {
	.name = "mlp",
	.summary = "linear layers with ReLU between them",
	.keys = "sizes",
	.preferred_input = describe_mlp_input,
	.logits = build_mlp_logits,
	.lr_adam = 1e-3,
	.lr_sgd = 0.05,
};
