/* clean.c - compute common subexpressions once, and drop nodes that no node reads. */
#include <stdint.h>
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

/* Return 0 for nodes that compute the same. An output that one node lacks cannot replace the
 * other's. */
static int compare_nodes(const void *x, const void *y)
{
	const struct gt_node *a = x, *b = y;
	int order;

	if (a->op != b->op)
		return (uintptr_t)a->op < (uintptr_t)b->op ? -1 : 1;
	if (a->is_repeat != b->is_repeat)
		return a->is_repeat - b->is_repeat;
	for (int k = 0; k < GT_MAX_OUTPUTS; k++)
		if (!a->out[k] != !b->out[k])
			return a->out[k] ? 1 : -1;
	order = memcmp(a->in, b->in, sizeof(a->in));
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): all bytes are set */
	return order ? order : memcmp(&a->attrs, &b->attrs, sizeof(a->attrs));
}

/* Equal inputs are the same pointers, because the producers of a node's inputs come before it. */
static int run_common(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	struct gt_index seen = { .compare = compare_nodes };
	struct gt_value **replacement = gt_calloc(g->value_count, sizeof(struct gt_value *), err);
	size_t count = g->node_count;
	int rc = replacement ? 0 : GT_ENOMEM;

	(void)options;
	g->node_count = 0;
	for (size_t i = 0; i < count; i++) {
		struct gt_node *n = g->nodes[i], *first = n;

		for (int k = 0; !rc && k < n->inputs; k++)
			if (n->in[k] && replacement[n->in[k]->id])
				n->in[k] = replacement[n->in[k]->id];
		if (!rc && is_pure(n))
			first = gt_index_add(&seen, n, err);
		rc = first ? rc : GT_ENOMEM;
		for (int k = 0; !rc && first != n && k < n->outputs; k++)
			if (n->out[k])
				replacement[n->out[k]->id] = first->out[k];
		if (rc || first == n)
			g->nodes[g->node_count++] = n;
	}
	gt_index_release(&seen);
	free(replacement);
	return rc;
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
	size_t kept = 0;

	(void)options;
	if (!read)
		return GT_ENOMEM;
	/* The loop runs from the last node to the first: when it visits a node, the node's readers
	 * have marked those of its outputs that are kept. */
	for (size_t i = g->node_count; i-- > 0;) {
		const struct gt_node *n = g->nodes[i];

		if (!is_alive(n, read))
			g->nodes[i] = NULL;
		for (int k = 0; g->nodes[i] && k < n->inputs; k++)
			if (n->in[k])
				read[n->in[k]->id] = true;
	}
	for (size_t i = 0; i < g->node_count; i++)
		if (g->nodes[i])
			g->nodes[kept++] = g->nodes[i];
	g->node_count = kept;
	free(read);
	return 0;
}

const struct gt_pass gt_pass_dead = {
	.name = "dead",
	.purpose = "drop nodes whose results nobody reads",
	.run = run_dead,
};
