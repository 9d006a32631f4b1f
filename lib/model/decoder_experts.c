/* decoder_experts.c - the MLP of a decoder as a mixture of experts. */
#include "lib/model/decoder.h"

/*
 * Jiang et al., "Mixtral of Experts", arXiv 2401.04088; Muennighoff et al., "OLMoE", arXiv
 * 2409.02060. A router gives each token probabilities of all experts. The token has the most
 * probable ones, and the sum of their outputs, times their probabilities.
 *
 * The pairs of a token and one of its experts are rows that are sorted by experts, so that each
 * expert multiplies rows that follow each other. Two tokens with two of three experts:
 *
 *   token                0 0 1 1
 *   expert               2 0 0 1      ids
 *   rows by experts      1 2 3 0      order: pairs of expert 0, of 1, of 2
 *   end of each expert   2 3 4        ends
 *   place of each pair   3 0 1 2      where its row is
 *
 * These numbers are exact in float32 for less than 2^24 pairs.
 */

enum { MOST_PAIRS = 1 << 24 };

struct routes {
	int64_t tokens, pairs;
	struct gt_value *order;   /* int32 [pairs] */
	struct gt_value *ends;    /* int32 [experts] */
	struct gt_value *weights; /* [pairs, 1], of each row */
};

/* Return 0, 1, ... in a tensor. */
static struct gt_value *count_up(struct gt_graph *g, int64_t rows, int64_t columns)
{
	const int64_t n = rows * columns;
	float *numbers = gt_arena_alloc(&g->arena, (size_t)n * sizeof(*numbers), &g->err);

	if (!numbers)
		return NULL;
	for (int64_t i = 0; i < n; i++)
		numbers[i] = (float)i;
	return gt_constant(g, GT_F32, 2, (int64_t[]){ rows, columns }, numbers);
}

static struct gt_value *as_vector(struct gt_graph *g, struct gt_value *x, int64_t n)
{
	return gt_reshape(g, x, 1, &n);
}

/* Return where the rows of each expert end: how many pairs have an expert up to this one. */
static struct gt_value *find_ends(struct gt_graph *g, struct gt_value *ids, int experts)
{
	struct gt_value *up_to = gt_binary(g, GT_F_LE, ids, count_up(g, experts, 1));

	return gt_cast_to(g, gt_sum(g, up_to, 1u << 1, false), GT_I32);
}

/* Choose the experts of tokens x [tokens, width]. */
static bool route(struct routes *r, struct gt_graph *g, const struct gt_arch_config *c,
    struct gt_value *x, struct gt_value *router)
{
	struct gt_value *probable, *ids, *sorted;
	int64_t line[2];

	*r = (struct routes){ .tokens = x->shape[0], .pairs = x->shape[0] * c->active };
	if (r->pairs >= MOST_PAIRS)
		gt_graph_fail(g, GT_ENOTSUP, "%lld tokens at once with %d experts each",
		    (long long)r->tokens, c->active);
	if (g->err.code)
		return false;
	line[0] = 1;
	line[1] = r->pairs;
	x = gt_softmax(g, gt_matmul(g, x, router, NULL, false, true), 1, false);
	probable = gt_topk(g, x, c->active, false, &ids);
	if (!probable)
		return false;
	if (c->renormalize)
		probable = gt_binary(g, GT_F_DIV, probable, gt_sum(g, probable, 1u << 1, true));
	ids = gt_reshape(g, ids, 2, line);
	r->ends = find_ends(g, ids, c->experts);
	ids = gt_apply(
	    g, GT_F_ADD, (struct gt_map_operand[]){ { .value = ids }, { .is_number = true } });
	if (!gt_topk(g, ids, r->pairs, true, &sorted))
		return false;
	r->order = as_vector(g, sorted, r->pairs);
	r->weights = gt_reshape(g, gt_index_gather(g, gt_reshape(g, probable, 2, line), sorted), 2,
	    (int64_t[]){ r->pairs, 1 });
	return r->weights;
}

/* Return the token of each row. */
static struct gt_value *find_tokens(
    struct gt_graph *g, const struct gt_arch_config *c, const struct routes *r)
{
	const struct gt_map_operand share[] = { { .value = r->order },
		{ .is_number = true, .number = c->active } };

	return gt_cast_to(g, gt_unary(g, GT_F_FLOOR, gt_apply(g, GT_F_DIV, share)), GT_I32);
}

/* Return the row of each pair. */
static struct gt_value *find_rows(struct gt_graph *g, const struct routes *r)
{
	const int64_t line[] = { 1, r->pairs };
	struct gt_value *rows = gt_index_scatter(
	    g, count_up(g, 1, r->pairs), gt_reshape(g, r->order, 2, line), r->pairs, true);

	return as_vector(g, gt_cast_to(g, rows, GT_I32), r->pairs);
}

struct gt_value *gt_decoder_experts(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_decoder_experts *e, struct gt_value *x)
{
	const struct gt_value *like = x;
	struct gt_value *up, *y;
	struct routes r;

	if (!x)
		return NULL;
	x = gt_reshape(g, x, 2, (int64_t[]){ x->shape[0] * x->shape[1], c->width });
	if (!x || !route(&r, g, c, x, e->router))
		return NULL;
	x = gt_index_select(g, x, 0, find_tokens(g, c, &r));
	y = gt_grouped_matmul(g, x, e->gates, r.ends, true);
	up = gt_grouped_matmul(g, x, e->ups, r.ends, true);
	y = gt_grouped_matmul(g, gt_swiglu(g, y, up), e->downs, r.ends, true);
	y = gt_index_select(g, gt_binary(g, GT_F_MUL, y, r.weights), 0, find_rows(g, &r));
	y = gt_reshape(g, y, 3, (int64_t[]){ r.tokens, c->active, c->width });
	return gt_reshape(g, gt_sum(g, y, 1u << 1, false), 3, like->shape);
}
