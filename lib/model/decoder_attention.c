/* decoder_attention.c - positions, windows and scores of a decoder's attention. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/expr.h"
#include "lib/model/decoder.h"

/* ---- a layer's settings ---- */

/* Return the letter of layer i in a pattern, which repeats; `all` is for an empty one. */
static bool layer_has(const char *pattern, int i, bool all)
{
	return *pattern ? pattern[(size_t)i % strlen(pattern)] == 'y' : all;
}

struct gt_decoder_attention gt_decoder_attention_of(const struct gt_arch_config *c, int i)
{
	const bool windowed = c->window && layer_has(c->windowed, i, true);
	const bool local = windowed && c->local_theta > 0;

	return (struct gt_decoder_attention){
		.size = c->head_dim ? c->head_dim : c->width / c->heads,
		.window = windowed ? c->window : 0,
		.rotated = layer_has(c->positions, i, true),
		.theta = local ? c->local_theta : c->theta,
		.scaled = !local,
	};
}

int64_t gt_decoder_pairs(const struct gt_arch_config *c)
{
	const int64_t size = c->head_dim ? c->head_dim : c->width / c->heads;

	return (int64_t)((double)size * c->rotated) / 2;
}

/* ---- angles ---- */

/* Llama 3.1: waves longer than `original` / low are stretched by the factor, those shorter than
 * `original` / high stay, and those between are in between. */
static double stretch_llama3(const double *number, double frequency)
{
	const double factor = number[0], low = number[1], high = number[2], original = number[3];
	const double waves = original * frequency / (2 * M_PI);

	if (waves < low)
		return frequency / factor;
	if (waves > high)
		return frequency;
	return frequency *
	       ((1 - (waves - low) / (high - low)) / factor + (waves - low) / (high - low));
}

double gt_decoder_stretch(const struct gt_arch_config *c, int64_t j)
{
	const double frequency = pow(c->theta, -(double)j / (double)gt_decoder_pairs(c));

	return frequency / stretch_llama3(c->rope.number, frequency);
}

/* Return the index, a real number, of the pair that turns so many times in the original block. */
static double pair_that_turns(double times, double original, int64_t pairs, double theta)
{
	return (double)pairs * log(original / (times * 2 * M_PI)) / log(theta);
}

/* YaRN (Peng et al., arXiv 2309.00071): pairs up to one stay, those from another on are stretched,
 * with a ramp between. */
static double stretch_yarn(
    const double *number, double frequency, int64_t j, int64_t pairs, double theta)
{
	double low = pair_that_turns(number[2], number[1], pairs, theta);
	double high = pair_that_turns(number[3], number[1], pairs, theta), ramp;

	if (number[5] != 0) {
		low = floor(low);
		high = ceil(high);
	}
	low = fmax(low, 0);
	high = fmin(high, (double)(2 * pairs - 1));
	if (low == high)
		high += 0.001;
	ramp = fmin(fmax(((double)j - low) / (high - low), 0), 1);
	return frequency * (ramp / number[0] + 1 - ramp);
}

/* The setting `rope` has the kind and its numbers; dynamic angles are plain ones up to the length
 * that the model is for, which `block` is at most. */
static void find_angles(struct gt_rope_angles *out, const struct gt_arch_config *c,
    const struct gt_decoder_attention *a)
{
	const enum gt_rope_kind kind = a->scaled ? c->rope.kind : GT_ROPE_PLAIN;
	const double *number = c->rope.number;

	*out = (struct gt_rope_angles){ .scale = kind == GT_ROPE_YARN ? number[4] : 1 };
	out->pairs = a->rotated ? gt_decoder_pairs(c) : 0;
	for (int64_t j = 0; j < out->pairs; j++) {
		double frequency = pow(a->theta, -(double)j / (double)out->pairs);

		if (kind == GT_ROPE_LINEAR)
			frequency /= number[0];
		else if (kind == GT_ROPE_LLAMA3)
			frequency = stretch_llama3(number, frequency);
		else if (kind == GT_ROPE_YARN)
			frequency = stretch_yarn(number, frequency, j, out->pairs, a->theta);
		out->frequency[j] = (float)frequency;
	}
}

/* Rotate queries and keys, and pack them with the values. */
static struct gt_value *rotate(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_decoder_attention *a, struct gt_value *const qkv[3],
    const struct gt_decoder_place *at)
{
	const bool scaled = a->scaled && c->rope.kind && c->rope.kind != GT_ROPE_DYNAMIC;
	struct gt_rope_angles angles;

	if (a->rotated && !scaled && c->rotated >= 1)
		return gt_rope(g, qkv, at->past, at->positions, c->heads, c->kv_heads, a->theta);
	find_angles(&angles, c, a);
	return gt_rope_by(g, qkv, at->past, at->positions, c->heads, c->kv_heads, &angles);
}

/* ---- attention by products ---- */

/* Return a mask [T, T]: whether a token, a row, attends to another one, a column. */
static struct gt_value *make_mask(struct gt_graph *g, int64_t T, int64_t window)
{
	bool *sees = gt_calloc((size_t)(T * T), sizeof(*sees), &g->err);
	struct gt_value *mask = NULL;

	for (int64_t i = 0; sees && i < T; i++)
		for (int64_t j = 0; j <= i; j++)
			sees[i * T + j] = !window || j > i - window;
	if (sees)
		mask = gt_constant(g, GT_BOOL, 2, (int64_t[]){ T, T }, sees);
	free(sees);
	return mask;
}

/* Return distances [T, T]: how far a column is before a row, or T where it is hidden in each
 * document. */
static struct gt_value *make_distances(struct gt_graph *g, int64_t T, int64_t window)
{
	int32_t *distance = gt_calloc((size_t)(T * T), sizeof(*distance), &g->err);
	struct gt_value *v = NULL;

	for (int64_t i = 0; distance && i < T; i++)
		for (int64_t j = 0; j < T; j++) {
			bool hidden = j > i || (window && j <= i - window);

			distance[i * T + j] = (int32_t)(hidden ? T : i - j);
		}
	if (distance)
		v = gt_constant(g, GT_I32, 2, (int64_t[]){ T, T }, distance);
	free(distance);
	return v;
}

/* Hide tokens of other documents: a token at place p attends to those at most p before it. */
static struct gt_value *hide_documents(
    struct gt_graph *g, struct gt_value *scores, struct gt_value *positions, int64_t window)
{
	const int64_t B = positions->shape[0], T = positions->shape[1];
	struct gt_value *in[3] = { make_distances(g, T, window),
		gt_reshape(g, positions, 5, (int64_t[]){ B, 1, 1, T, 1 }), scores };
	struct gt_expr e = { 0 };
	int distance = gt_expr_input(&e, 0), place = gt_expr_input(&e, 1),
	    score = gt_expr_input(&e, 2);

	gt_expr_output(
	    &e, gt_expr_apply3(&e, GT_F_WHERE, gt_expr_apply2(&e, GT_F_LE, distance, place), score,
	            gt_expr_number(&e, -INFINITY)));
	return g->err.code ? NULL : gt_map_expr(g, &e, 3, in);
}

static struct gt_value *multiply(struct gt_graph *g, struct gt_value *x, double number)
{
	return gt_apply(
	    g, GT_F_MUL, (struct gt_map_operand[]){ { .value = x }, { true, number, NULL } });
}

/* Return probabilities of the scores [B, kv_heads, group, T, T]. */
static struct gt_value *weigh_scores(struct gt_graph *g, struct gt_value *scores, double cap,
    int64_t window, struct gt_value *positions)
{
	struct gt_map_operand hidden[] = { { .value = NULL }, { .value = NULL },
		{ .is_number = true, .number = -INFINITY } };

	if (!scores)
		return NULL;
	if (cap > 0)
		scores = multiply(g, gt_unary(g, GT_F_TANH, multiply(g, scores, 1 / cap)), cap);
	if (positions)
		return gt_softmax(g, hide_documents(g, scores, positions, window), 4, false);
	hidden[0].value = make_mask(g, scores ? scores->shape[4] : 0, window);
	hidden[1].value = scores;
	return gt_softmax(g, gt_apply(g, GT_F_WHERE, hidden), 4, false);
}

/* Return columns of the packed values as [B, kv_heads, group * T, size]. */
static struct gt_value *take_heads(struct gt_graph *g, struct gt_value *packed, int64_t first,
    int64_t kv_heads, int64_t group, int64_t size)
{
	const int64_t B = packed->shape[0], T = packed->shape[1];
	struct gt_value *x = gt_slice_dim(g, packed, 2, first, first + kv_heads * group * size, 1);

	x = gt_reshape(g, x, 5, (int64_t[]){ B, T, kv_heads, group, size });
	x = gt_permute_dims(g, x, (const int[]){ 0, 2, 3, 1, 4 });
	return gt_reshape(g, x, 4, (int64_t[]){ B, kv_heads, group * T, size });
}

/* Windows and caps of scores: by products, with the matrix of scores in memory. */
static struct gt_value *attend_by_products(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_decoder_attention *a, struct gt_value *packed, struct gt_value *positions)
{
	const int64_t kv = c->kv_heads, group = c->heads / kv, size = a->size, q = c->heads * size;
	struct gt_value *query, *key, *value, *y;
	int64_t B, T;

	if (!packed)
		return NULL;
	B = packed->shape[0];
	T = packed->shape[1];
	query = multiply(g, take_heads(g, packed, 0, kv, group, size), 1 / sqrt((double)size));
	key = take_heads(g, packed, q, kv, 1, size);
	value = take_heads(g, packed, q + kv * size, kv, 1, size);
	y = gt_batched_matmul(g, query, key, false, true);
	y = gt_reshape(g, y, 5, (int64_t[]){ B, kv, group, T, T });
	y = weigh_scores(g, y, c->score_cap, a->window, positions);
	y = gt_reshape(g, y, 4, (int64_t[]){ B, kv, group * T, T });
	y = gt_batched_matmul(g, y, value, false, false);
	y = gt_reshape(g, y, 5, (int64_t[]){ B, kv, group, T, size });
	y = gt_permute_dims(g, y, (const int[]){ 0, 3, 1, 2, 4 });
	return gt_reshape(g, y, 3, (int64_t[]){ B, T, q });
}

/* ---- attention ---- */

/* Declare the cache of a layer's keys or values: [B, kv_heads, block, size]. */
static struct gt_value *declare_cache(struct gt_graph *g, const struct gt_arch_config *c,
    int64_t size, const char *scope, const char *leaf, const struct gt_value *x)
{
	char name[128];

	if (!x)
		return NULL;
	snprintf(name, sizeof(name), "%s.%s", scope, leaf);
	return gt_cache(
	    g, name, GT_F32, 4, (int64_t[]){ x->shape[0], c->kv_heads, c->block, size });
}

struct gt_value *gt_decoder_attend(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_decoder_attention *a, const char *scope, struct gt_value *const qkv[3],
    const struct gt_decoder_place *at)
{
	struct gt_value *x = rotate(g, c, a, qkv, at), *keys, *values;
	union gt_attrs more = { 0 };

	if (at->past) {
		keys = declare_cache(g, c, a->size, scope, "keys", x);
		values = declare_cache(g, c, a->size, scope, "values", x);
		more.attention.window = a->window < c->block ? a->window : 0;
		more.attention.cap = c->score_cap;
		return gt_attention_cached(
		    g, x, at->past, keys, values, c->heads, c->kv_heads, &more);
	}
	if (c->score_cap > 0 || (x && a->window && a->window < x->shape[1]))
		return attend_by_products(g, c, a, x, at->positions);
	return gt_attention_grouped(g, x, at->positions, c->heads, c->kv_heads);
}
