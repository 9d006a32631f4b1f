/* build.c - a stack of layers as an architecture: its graph, and the data that it takes. */
#include <stdio.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/model/sequence/sequence.h"

/* ---- layers ---- */

static void fail_input_type(const struct gt_sequence_call *c, const struct gt_value *x)
{
	if (x->dtype == GT_I32) {
		gt_graph_fail(c->g, GT_EINVAL, "takes numbers, and its input is ids of tokens");
		gt_err_hint(&c->g->err, "begin with Embedding(num_embeddings, embedding_dim)");
	} else {
		gt_graph_fail(c->g, GT_EINVAL, "takes ids of tokens, and its input is numbers");
	}
}

/* Replace the scope at the front of the graph's error, "3: ", by the layer. */
static void name_layer(const struct gt_sequence_call *c)
{
	struct gt_err *err = &c->g->err;
	char scope[32];
	size_t n = (size_t)snprintf(scope, sizeof(scope), "%zu: ", c->index);

	if (!strncmp(err->text, scope, n))
		memmove(err->text, err->text + n, strlen(err->text + n) + 1);
	gt_err_prefix(err, "model 'seq': layer %zu, %s", c->index, c->layer->row->name);
	if (!*err->hint)
		gt_err_hint(err, "gtrain-models(7) describes the layers of seq");
}

static struct gt_value *emit_layer(const struct gt_sequence_call *c, struct gt_value *x)
{
	enum gt_sequence_input takes = c->layer->row->takes;
	struct gt_value *y = NULL;

	gt_graph_scope(c->g, "%zu", c->index);
	if (takes == GT_TAKES_BOTH || (takes == GT_TAKES_IDS) == (x->dtype == GT_I32))
		y = c->layer->row->emit(c, x);
	else
		fail_input_type(c, x);
	if (c->g->err.code)
		name_layer(c);
	return c->g->err.code ? NULL : y;
}

static struct gt_value *emit_layers(struct gt_graph *g, const struct gt_sequence *s,
    struct gt_value *x, struct gt_value *rng, bool train)
{
	for (size_t i = 0; i < s->count && x; i++) {
		const struct gt_sequence_call call = { g, &s->layers[i], i, rng, train };

		x = emit_layer(&call, x);
	}
	return x;
}

/* ---- the result ---- */

static const char *describe_outputs(const struct gt_model_input *in)
{
	if (in->form.target == GT_SAMPLE_NUMBER)
		return "number to predict";
	if (in->form.target == GT_SAMPLE_LABELS)
		return "labels";
	return in->form.kind == GT_SAMPLE_TOKENS ? "tokens" : "classes";
}

/* The scores of each sample, or of each token: [..., classes], with `ndim` dimensions. */
static struct gt_value *check_outputs(struct gt_graph *g, const struct gt_model_input *in,
    const struct gt_value *x, struct gt_value *y, int ndim)
{
	bool fits = y && y->ndim == ndim && y->shape[ndim - 1] == in->form.classes;

	for (int i = 0; fits && i < ndim - 1; i++)
		fits = y->shape[i] == x->shape[i];
	if (fits || !y)
		return y;
	gt_graph_scope(g, "%s", "");
	gt_graph_fail(g, GT_EINVAL,
	    "model 'seq' gives %s for a batch of %lld, and the data have %d %s", gt_shape_text(y).s,
	    (long long)x->shape[0], in->form.classes, describe_outputs(in));
	if (y->ndim > ndim && in->form.kind != GT_SAMPLE_TOKENS)
		gt_err_hint(&g->err, "put Flatten before the last Linear");
	else
		gt_err_hint(&g->err, "let the last layer have %d outputs", in->form.classes);
	return NULL;
}

static struct gt_value *build_sequence_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	int ndim = in->form.kind == GT_SAMPLE_TOKENS ? 3 : 2;

	return x ? check_outputs(g, in, x, emit_layers(g, c->sequence, x, rng, train), ndim) : NULL;
}

/* No layer keeps anything of earlier tokens, so that `past` does not matter. */
static struct gt_value *build_sequence_next(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *past, struct gt_value *at)
{
	(void)past;
	if (!x)
		return NULL;
	x = check_outputs(g, in, x, emit_layers(g, c->sequence, x, NULL, false), 3);
	return gt_last_position(g, x, at);
}

/* ---- the data that the layers take ---- */

enum { BLOCK = 64, FEATURES = 784 };

/* The number of input channels or features of a layer; 0: it does not tell. That of a convolution
 * over a length says nothing of the data, which an Unflatten has divided. */
static int layer_in(const struct gt_sequence_layer *l)
{
	if (!l->row->in || (l->row->dims == 1 && l->row->in != l->row->out))
		return 0;
	return (int)l->values[l->row->in - 1].ints[0];
}

static int layer_out(const struct gt_sequence_layer *l)
{
	return l->row->out ? (int)l->values[l->row->out - 1].ints[0] : 0;
}

/* Whether the layers take images of a size. */
static bool try_size(const struct gt_sequence *s, int channels, int size)
{
	const int64_t shape[] = { 1, channels, size, size };
	struct gt_graph *g;
	bool fits;

	if (gt_graph_new(&g, GT_ERR_IGNORED))
		return false;
	fits = emit_layers(g, s, gt_input(g, "input", GT_F32, 4, shape), NULL, false) != NULL;
	gt_graph_free(g);
	return fits;
}

/* Linear layers behind images decide the images' size. */
static int find_size(const struct gt_sequence *s, int channels)
{
	static const int sizes[] = { 32, 28, 224, 64, 128, 256, 96, 160, 192, 384, 512, 16, 8 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (try_size(s, channels, sizes[i]))
			return sizes[i];
	return sizes[0];
}

static void describe_images(struct gt_sample_form *form, const struct gt_sequence *s, int channels)
{
	form->kind = GT_SAMPLE_IMAGE;
	form->channels = channels && channels <= GT_MAX_CHANNELS ? channels : 3;
	form->height = form->width = find_size(s, form->channels);
}

/* The number of features that an Unflatten divides; 0: another layer, or it is left open. */
static int64_t unflattened(const struct gt_sequence_layer *l)
{
	const struct gt_argument_value *v = &l->values[1];
	int64_t features = 1;

	if (strcmp(l->row->name, "Unflatten") != 0)
		return 0;
	for (int i = 0; i < v->count; i++)
		if (v->ints[i] < 1 || __builtin_mul_overflow(features, v->ints[i], &features) ||
		    features > INT32_MAX)
			return 0;
	return features;
}

/* The first layer that tells the kind of data. */
static const struct gt_sequence_layer *first_telling(const struct gt_sequence *s)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->layers[i].row->dims == 2 || layer_in(&s->layers[i]) ||
		    unflattened(&s->layers[i]))
			return &s->layers[i];
	return NULL;
}

static void describe_sequence_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	const struct gt_sequence *s = c->sequence;
	const struct gt_sequence_layer *first = first_telling(s);

	out->form.kind = GT_SAMPLE_VECTOR;
	out->form.features = FEATURES;
	if (first && unflattened(first))
		out->form.features = (int)unflattened(first);
	else if (first && layer_in(first))
		out->form.features = layer_in(first);
	if (first && first->row->takes == GT_TAKES_IDS) {
		out->form.kind = GT_SAMPLE_TOKENS;
		out->form.block = BLOCK;
	} else if (first && first->row->dims == 2) {
		describe_images(&out->form, s, layer_in(first));
	}
	for (size_t i = s->count; i-- > 0 && !out->form.classes;)
		out->form.classes = layer_out(&s->layers[i]);
	if (!out->form.classes)
		out->form.classes = 10;
}

const struct gt_arch gt_arch_sequence = {
	.name = "seq",
	.summary = "layers of torch.nn, one after the other",
	.keys = "",
	.preferred_input = describe_sequence_input,
	.logits = build_sequence_logits,
	.next = build_sequence_next,
	.lr_adam = 1e-3,
	.lr_sgd = 0.05,
};
