/* encoder.c - what encoders of texts share: their input, and attention that hides padding. */
#include "lib/model/encoder.h"

#include <math.h>
#include <stdio.h>

const struct gt_init gt_encoder_init = { GT_INIT_NORMAL, 0.02 };

enum { EXAMPLE = 128, CLASSES = 2 }; /* of random data */

/* The score of padding: nothing beside any other, and all the same in a row of nothing else, whose
 * features are then finite. */
static const double HIDDEN = -1e30;

static void add_field(struct gt_sample_form *form, const char *name, int length)
{
	struct gt_sample_field *f = &form->fields[form->field_count++];

	*f = (struct gt_sample_field){
		.type = GT_FIELD_INT, .ndim = 1, .shape = { length }, .open = 1
	};
	snprintf(f->name, sizeof(f->name), "%s", name);
}

int gt_encoder_longest_text(const struct gt_arch_config *c)
{
	int longest = c->block - c->encoder->unused_positions;

	return longest > 1 ? longest : 1;
}

void gt_encoder_input(const struct gt_arch_config *c, struct gt_model_input *out)
{
	int length = gt_encoder_longest_text(c) < EXAMPLE ? gt_encoder_longest_text(c) : EXAMPLE;

	if (c->masks) {
		out->form = (struct gt_sample_form){ .kind = GT_SAMPLE_TOKENS,
			.block = length,
			.masks = true,
			.classes = c->vocab };
		return;
	}
	out->form.kind = GT_SAMPLE_VECTOR;
	out->form.block = gt_encoder_longest_text(c);
	out->form.classes = CLASSES;
	add_field(&out->form, "input_ids", length);
	add_field(&out->form, "attention_mask", length);
	if (c->encoder->types)
		add_field(&out->form, "token_type_ids", length);
}

/* Check that the other inputs have a number for each token. */
static void check_fields(
    struct gt_graph *g, const struct gt_model_input *in, const struct gt_value *ids)
{
	for (int i = 0; ids && i < in->form.field_count; i++) {
		const struct gt_sample_field *f = &in->form.fields[i];
		char text[GT_FIELD_SHAPE];

		if (f->ndim == 1 && f->shape[0] == ids->shape[1])
			continue;
		gt_graph_fail(g, GT_EINVAL, "texts of %lld tokens, but '%s' has the shape %s",
		    (long long)ids->shape[1], f->name, gt_field_shape_text(text, f));
		return;
	}
}

static void check_texts(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, const struct gt_value *ids)
{
	const char *title = c->encoder->title;

	if (!ids || ids->dtype != GT_I32 || ids->ndim != 2) {
		gt_model_fail_input(
		    g, in, false, "%s takes texts with a class each, or with hidden tokens", title);
		if (g->err.code == GT_EINVAL)
			gt_err_hint(
			    &g->err, "labelled:FILE.jsonl and masked:FILE.jsonl read such texts");
	} else if (in->form.masks && in->form.classes > c->vocab) {
		gt_graph_fail(g, GT_EINVAL, "a tokenizer of %d tokens for %s of %d",
		    in->form.classes, title, c->vocab);
	} else if (ids->shape[1] > gt_encoder_longest_text(c)) {
		gt_graph_fail(g, GT_EINVAL, "texts of %lld tokens, but %s has %d positions",
		    (long long)ids->shape[1], title, gt_encoder_longest_text(c));
		gt_err_hint(&g->err, "block=%d of labelled texts cuts longer ones",
		    gt_encoder_longest_text(c));
	} else if (c->width % c->heads) {
		gt_model_fail_heads(g, c, 1);
	}
	check_fields(g, in, ids);
}

int gt_encoder_begin(struct gt_encoder_pass *p, struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train)
{
	*p = (struct gt_encoder_pass){
		.ids = in->form.masks ? x : gt_model_find_field(g, &in->form, x, GT_FIELD_DATA),
		.types = gt_model_find_field(g, &in->form, x, GT_FIELD_TYPES),
		.mask = gt_model_find_field(g, &in->form, x, GT_FIELD_MASK),
		.rng = rng,
		.dropout = train ? c->dropout : 0,
		.head_dropout = train ? c->head_dropout : 0
	};
	check_texts(g, c, in, p->ids);
	return gt_graph_status(g, NULL);
}

struct gt_value *gt_encoder_dense(struct gt_graph *g, const char *prefix, const char *leaf,
    struct gt_value *x, int64_t out, bool bias)
{
	char name[128];

	snprintf(name, sizeof(name), "%s%s", prefix, leaf);
	return gt_layer_dense(g, name, x, out, gt_encoder_init, bias ? &gt_init_zeros : NULL);
}

struct gt_value *gt_encoder_decoder_bias(struct gt_graph *g, const struct gt_arch_config *c)
{
	const int64_t vocab = c->vocab;

	return gt_parameter(g, c->encoder->decoder_bias, GT_F32, 1, &vocab, gt_init_zeros, false);
}

struct gt_value *gt_encoder_heads(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x)
{
	if (!x)
		return NULL;
	x = gt_reshape(
	    g, x, 4, (int64_t[]){ x->shape[0], x->shape[1], c->heads, c->width / c->heads });
	return gt_permute_dims(g, x, (const int[]){ 0, 2, 1, 3 });
}

struct gt_value *gt_encoder_attention(struct gt_graph *g, const struct gt_arch_config *c,
    struct gt_value *const heads[3], struct gt_value *mask, const struct gt_encoder_pass *p)
{
	const struct gt_masked_attention a = { .scale = 1 / sqrt((double)c->width / c->heads),
		.mask = mask,
		.boolean = true,
		.hidden = HIDDEN,
		.rng = p->rng,
		.p = p->dropout };
	struct gt_value *y = gt_layer_attention(g, heads, &a);

	y = gt_permute_dims(g, y, (const int[]){ 0, 2, 1, 3 });
	if (!y)
		return NULL;
	return gt_reshape(g, y, 3, (int64_t[]){ y->shape[0], y->shape[1], c->width });
}
