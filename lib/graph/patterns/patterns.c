/* patterns.c - the table of patterns, and their search. */
#include "lib/graph/patterns/patterns.h"

#include <stdlib.h>
#include <string.h>

#include "lib/graph/pass.h"
#include "lib/graph/patterns/pattern.h"

#define DEVIATION  "(x - mean(x))"
#define TWO_PASSES DEVIATION " * rsqrt(mean(" DEVIATION " * " DEVIATION ") + E)"
#define ONE_PASS   DEVIATION " * rsqrt(mean(x * x) - mean(x) * mean(x) + E)"
#define ROOT_MEAN  "x * rsqrt(mean(x * x) + E)"
#define SCORES     "matmul(q * K, k * L) * M"
#define ATTEND(s)  "matmul(dropout(softmax(" s ")), v)"

/* A formula stands before those that describe a part of it. */
const struct gt_pattern gt_patterns[] = {
	{ NULL, NULL, &gt_op_map, gt_pattern_same },
	{ "layer norm", TWO_PASSES " * w + b", NULL, gt_pattern_layer_norm },
	{ "layer norm", TWO_PASSES " * w", NULL, gt_pattern_layer_norm },
	{ "layer norm", TWO_PASSES, NULL, gt_pattern_layer_norm },
	{ "layer norm", ONE_PASS " * w + b", NULL, gt_pattern_layer_norm },
	{ "layer norm", ONE_PASS " * w", NULL, gt_pattern_layer_norm },
	{ "layer norm", ONE_PASS, NULL, gt_pattern_layer_norm },
	{ "rms norm", ROOT_MEAN " * w", NULL, gt_pattern_rms_norm },
	{ "rms norm", ROOT_MEAN, NULL, gt_pattern_rms_norm },
	{ "gelu", "0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))", NULL,
	    gt_pattern_gelu_tanh },
	{ "gelu", "0.5 * x * (1 + tanh(0.7978845608 * x * (1 + 0.044715 * x * x)))", NULL,
	    gt_pattern_gelu_tanh },
	{ "gelu", "0.5 * x * (1 + erf(0.7071067812 * x))", NULL, gt_pattern_gelu_erf },
	{ "silu", "x * sigmoid(x)", NULL, gt_pattern_silu },
	{ "silu", "x / (1 + exp(-x))", NULL, gt_pattern_silu },
	{ "swiglu", "silu(a) * b", NULL, gt_pattern_swiglu },
	{ "linear", NULL, &gt_op_matmul, gt_pattern_transposed_weight },
	{ "linear", NULL, &gt_op_grouped_matmul, gt_pattern_transposed_weights },
	{ "linear", "matmul(x, w) + b", NULL, gt_pattern_bias },
	{ "attention", ATTEND(SCORES), NULL, gt_pattern_attention },
	{ "attention", ATTEND("where(m, N, " SCORES ")"), NULL, gt_pattern_attention_hidden },
	{ "attention", ATTEND("where(m, " SCORES ", N)"), NULL, gt_pattern_attention_seen },
	{ "attention", ATTEND(SCORES " + m"), NULL, gt_pattern_attention_added },
	{ "shared heads", NULL, &gt_op_attention, gt_pattern_shared_heads },
	{ "rope", NULL, &gt_op_attention, gt_pattern_rope },
	{ "permuted rows", NULL, &gt_op_matmul, gt_pattern_moved_rows },
	{ NULL, NULL, &gt_op_arrange, gt_pattern_copy },
	{ NULL, NULL, &gt_op_reshape, gt_pattern_view },
	{ "class token", "a + b", NULL, gt_pattern_patch_tokens },
	{ "positions", "a + b", NULL, gt_pattern_positions },
	{ 0 },
};

enum { PATTERNS = sizeof(gt_patterns) / sizeof(*gt_patterns) - 1 };

/* The state of the search. */
struct finder {
	struct gt_graph *g;
	struct gt_value **result;
	int *uses;
	int found[PATTERNS];
	struct gt_formula formula[PATTERNS];
};

/* Drop nodes that the result does not need, and count uses. */
static int clean_graph(struct finder *s, struct gt_err *err)
{
	struct gt_value *result = *s->result;
	enum gt_role role = result->role;
	int rc;

	free(s->uses);
	s->uses = NULL;
	if (role == GT_TEMPORARY)
		result->role = GT_OUTPUT;
	rc = gt_pass_dead.run(s->g, NULL, err);
	if (!rc)
		s->uses = gt_count_uses(s->g, err);
	result->role = role;
	return s->uses ? 0 : GT_ENOMEM;
}

/* Put `by`, which nodes from index `emitted` on compute, in the place of the node at `index`. */
static void replace_node(struct finder *s, size_t index, size_t emitted, struct gt_value *by)
{
	struct gt_graph *g = s->g;
	struct gt_value *old = g->nodes[index]->out[0];

	for (size_t i = emitted; i < g->node_count; i++)
		gt_place_last(g, index);
	gt_replace_uses(g, index, old, by);
	if (*s->result == old)
		*s->result = by;
}

/* Let a pattern replace the node at `index`. Return the new result, or NULL. A pattern whose ops do
 * not take the values that it found does not apply. */
static struct gt_value *try_pattern(struct finder *s, int pattern, size_t index)
{
	const struct gt_pattern *p = &gt_patterns[pattern];
	struct gt_graph *g = s->g;
	const struct gt_node *n = g->nodes[index];
	struct gt_match m = { .g = g, .root = n->out[0], .uses = s->uses };
	size_t emitted = g->node_count;
	struct gt_value *by;

	if (!m.root || m.root->role != GT_TEMPORARY || (p->op && n->op != p->op) ||
	    (p->formula && !gt_match_find(&m, g, &s->formula[pattern], m.root, s->uses)))
		return NULL;
	g->scope = n->scope;
	by = p->write(&m);
	if (g->err.code == GT_ENOMEM)
		return NULL;
	if (g->err.code || !by || by == m.root || by->dtype != m.root->dtype ||
	    !gt_value_same_shape(by, m.root)) {
		g->err = GT_ERR_INIT;
		g->node_count = emitted;
		return NULL;
	}
	replace_node(s, index, emitted, by);
	s->found[pattern]++;
	return by;
}

/* Try a pattern at each node. */
static int search_pattern(struct finder *s, int pattern, bool *changed, struct gt_err *err)
{
	struct gt_graph *g = s->g;

	for (size_t i = 0; i < g->node_count && !g->err.code; i++) {
		const struct gt_value *made = try_pattern(s, pattern, i);

		if (!made)
			continue;
		*changed = true;
		if (clean_graph(s, err))
			return err->code;
		/* The clean-up removes nodes before this one. */
		while (i && (i >= g->node_count || g->nodes[i] != made->producer))
			i--;
	}
	return gt_graph_status(g, err);
}

/* Set g->recognized from the counts; rows of one name are counted together. */
static int list_found(struct finder *s, struct gt_err *err)
{
	struct gt_recognized list[PATTERNS];
	int count = 0;

	for (int i = 0; i < PATTERNS; i++) {
		const char *name = gt_patterns[i].name;

		if (!name || !s->found[i])
			continue;
		if (!count || strcmp(list[count - 1].name, name) != 0)
			list[count++] = (struct gt_recognized){ .name = name };
		list[count - 1].count += s->found[i];
	}
	s->g->recognized_count = count;
	if (count)
		s->g->recognized = gt_graph_intern(s->g, list, (size_t)count * sizeof(*list));
	return gt_graph_status(s->g, err);
}

static int search_patterns(struct finder *s, struct gt_err *err)
{
	bool changed = true;
	int rc = gt_pass_common.run(s->g, NULL, err);

	if (!rc)
		rc = clean_graph(s, err);
	while (!rc && changed) {
		changed = false;
		for (int i = 0; !rc && i < PATTERNS; i++)
			rc = search_pattern(s, i, &changed, err);
	}
	return rc ? rc : list_found(s, err);
}

int gt_patterns_apply(struct gt_graph *g, struct gt_value **result, struct gt_err *err)
{
	struct finder *s;
	int rc;

	if (gt_graph_status(g, err))
		return g->err.code;
	s = gt_calloc(1, sizeof(*s), err);
	if (!s)
		return GT_ENOMEM;
	s->g = g;
	s->result = result;
	for (int i = 0; i < PATTERNS; i++)
		if (gt_patterns[i].formula &&
		    !gt_formula_parse(&s->formula[i], gt_patterns[i].formula))
			assert(!"a formula of the table");
	rc = search_patterns(s, err);
	free(s->uses);
	free(s);
	return rc;
}
