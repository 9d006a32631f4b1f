/* clean.c - compute common subexpressions once, and drop nodes that no node reads. */
#include <stdlib.h>
#include <string.h>

#include "lib/graph/pass.h"

/* A node may replace an equal one only if nothing outside the graph can tell them apart. */
static bool is_pure(const struct gt_node *n)
{
	if (n->op->writes || n->op->remote)
		return false;
	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && gt_value_changes(n->in[k]))
			return false; /* a node between the two may write it */
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && n->out[k]->role != GT_TEMPORARY)
			return false;
	return true;
}

/* An output that one node lacks cannot replace the other's. */
static bool same_node(const struct gt_node *a, const struct gt_node *b)
{
	for (int k = 0; k < GT_MAX_OUTPUTS; k++)
		if (!a->out[k] != !b->out[k])
			return false;
	return a->op == b->op && a->is_repeat == b->is_repeat &&
	       !memcmp(a->in, b->in, sizeof(a->in)) &&
	       /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): all bytes are set */
	       !memcmp(&a->attrs, &b->attrs, sizeof(a->attrs));
}

static int run_common(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	(void)options;
	(void)err;
	for (size_t i = 0; i < g->node_count; i++) {
		const struct gt_node *first = g->nodes[i];

		if (!is_pure(first))
			continue;
		/* Comparing all pairs is quadratic, but most pairs differ already in their outputs
		 * or op. Equal inputs are the same pointers, because earlier rounds have merged
		 * their producers. */
		for (size_t j = i + 1; j < g->node_count; j++) {
			const struct gt_node *again = g->nodes[j];

			if (!same_node(first, again) || !is_pure(again))
				continue;
			for (int k = 0; k < first->outputs; k++)
				if (first->out[k])
					gt_replace_uses(g, j, again->out[k], first->out[k]);
			gt_remove_node(g, j--);
		}
	}
	return 0;
}

const struct gt_pass gt_pass_common = {
	.name = "common",
	.purpose = "compute equal nodes once",
	.run = run_common,
};

static bool is_alive(const struct gt_node *n, const bool *read)
{
	if (n->op->writes || n->op->remote)
		return true;
	for (int k = 0; k < n->outputs; k++)
		if (n->out[k] && (read[n->out[k]->id] || n->out[k]->role != GT_TEMPORARY))
			return true;
	return false;
}

static int run_dead(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	bool *read = gt_calloc(g->value_count, sizeof(*read), err);

	(void)options;
	if (!read)
		return GT_ENOMEM;
	/* The loop runs from the last node to the first: when it visits a node, the node's readers
	 * have marked those of its outputs that are kept. */
	for (size_t i = g->node_count; i-- > 0;) {
		const struct gt_node *n = g->nodes[i];

		if (!is_alive(n, read)) {
			gt_remove_node(g, i);
			continue;
		}
		for (int k = 0; k < n->inputs; k++)
			if (n->in[k])
				read[n->in[k]->id] = true;
	}
	free(read);
	return 0;
}

const struct gt_pass gt_pass_dead = {
	.name = "dead",
	.purpose = "drop nodes whose results nobody reads",
	.run = run_dead,
};
