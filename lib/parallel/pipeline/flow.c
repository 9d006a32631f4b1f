/* flow.c - the values that go from the nodes before a place of a graph to those behind it. */
#include <stdlib.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/pipeline/stage.h"

/*
 * Values that depend on no weight, such as masks, positions and tables of angles, do not go from
 * stage to stage: each stage that reads one computes it again, with the same bits. Example: `cos`
 * is made once, and read by each layer. The only value that goes across the place before layer 1
 * is h, and stage 1 has a node of its own for `cos`.
 *
 *   cos = cos(angles)   h = layer0(x, cos, w0)  |  y = layer1(h, cos, w1)
 */

static bool is_weight(const struct gt_pipeline_flow *f, const struct gt_value *v)
{
	return gt_value_is_weight(v) || f->written[v->id];
}

/* Set whether nodes write each buffer, such as running statistics. */
static void find_written(struct gt_pipeline_flow *f)
{
	for (size_t i = 0; i < f->g->node_count; i++) {
		const struct gt_node *n = f->g->nodes[i];

		for (int k = 0; k < n->inputs; k++)
			if (n->in[k] && n->op->writes & 1u << k)
				f->written[n->in[k]->id] = true;
	}
}

static bool repeats(const struct gt_pipeline_flow *f, const struct gt_node *n)
{
	if (n->op->remote || n->op->writes)
		return false;
	for (int k = 0; k < n->inputs; k++) {
		const struct gt_value *v = n->in[k];

		if (v && (is_weight(f, v) || (v->producer && !f->repeats[f->made[v->id]])))
			return false;
	}
	return true;
}

/* Find the nodes that make values and read them last, and those that each stage repeats. */
static void find_readers(struct gt_pipeline_flow *f)
{
	for (size_t i = 0; i < f->g->node_count; i++) {
		const struct gt_node *n = f->g->nodes[i];

		f->repeats[i] = repeats(f, n);
		for (int k = 0; k < n->inputs; k++)
			if (n->in[k])
				f->last[n->in[k]->id] = i;
		for (int k = 0; k < n->outputs; k++)
			if (n->out[k])
				f->made[n->out[k]->id] = i;
	}
}

static bool crosses(const struct gt_pipeline_flow *f, const struct gt_value *v, size_t place)
{
	return v->producer && !f->repeats[f->made[v->id]] && f->made[v->id] < place &&
	       f->last[v->id] >= place;
}

/* Count the bytes that go across each place; -1: it is no place for a cut. */
static void count_bytes(struct gt_pipeline_flow *f)
{
	const struct gt_graph *g = f->g;

	for (size_t i = 0; i < g->value_count; i++) {
		const struct gt_value *v = g->values[i];
		bool number = v->dtype == GT_F32 || v->dtype == GT_F64;

		if (!v->producer || f->repeats[f->made[i]])
			continue;
		for (size_t at = f->made[i] + 1; at <= f->last[i]; at++) {
			if (f->bytes[at] >= 0)
				f->bytes[at] += (int64_t)gt_value_bytes(v);
			if (!number)
				f->bytes[at] = -1;
		}
	}
	for (size_t at = 0; at <= g->node_count; at++)
		if (!f->bytes[at])
			f->bytes[at] = -1;
}

int gt_pipeline_flow_open(struct gt_pipeline_flow *f, const struct gt_graph *g, struct gt_err *err)
{
	*f = (struct gt_pipeline_flow){ .g = g };
	f->written = gt_calloc(g->value_count, sizeof(*f->written), err);
	f->repeats = gt_calloc(g->node_count, sizeof(*f->repeats), err);
	f->made = gt_calloc(g->value_count, sizeof(*f->made), err);
	f->last = gt_calloc(g->value_count, sizeof(*f->last), err);
	f->bytes = gt_calloc(g->node_count + 1, sizeof(*f->bytes), err);
	if (!f->written || !f->repeats || !f->made || !f->last || !f->bytes) {
		gt_pipeline_flow_release(f);
		return GT_ENOMEM;
	}
	find_written(f);
	find_readers(f);
	count_bytes(f);
	return 0;
}

void gt_pipeline_flow_release(struct gt_pipeline_flow *f)
{
	free(f->written);
	free(f->repeats);
	free(f->made);
	free(f->last);
	free(f->bytes);
	*f = (struct gt_pipeline_flow){ 0 };
}

/* ---- places ---- */

static bool reads_weight(const struct gt_pipeline_flow *f, size_t node)
{
	const struct gt_node *n = f->g->nodes[node];

	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && is_weight(f, n->in[k]))
			return true;
	return false;
}

static bool is_read_before(const struct gt_pipeline_flow *f, size_t node, const struct gt_value *v)
{
	for (size_t i = 0; i < node; i++)
		for (int k = 0; k < f->g->nodes[i]->inputs; k++)
			if (f->g->nodes[i]->in[k] == v)
				return true;
	return false;
}

const struct gt_value *gt_pipeline_first_read(const struct gt_pipeline_flow *f, size_t node)
{
	const struct gt_node *n = f->g->nodes[node];

	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && gt_value_is_weight(n->in[k]) && !is_read_before(f, node, n->in[k]))
			return n->in[k];
	return NULL;
}

/*
 * A stage begins behind the last reader of a weight before `node`, at the place that the fewest
 * bytes go across; of several such places, the last. Example: a block normalizes x, and adds the
 * result to x. Both go across the place before the node that multiplies by a weight, and x alone
 * goes across the one before it.
 *
 *   x = add(..)  |  n = normalize(x)   y = mul(n, weight)   z = add(x, y)
 */
bool gt_pipeline_place(size_t *out, const struct gt_pipeline_flow *f, size_t node)
{
	size_t best = node;

	for (size_t at = node; at > 0 && !(at < node && reads_weight(f, at)); at--)
		if (f->bytes[at] >= 0 && (f->bytes[best] < 0 || f->bytes[at] < f->bytes[best]))
			best = at;
	/* Where ranks share layers, a layer begins with a copy of its input. */
	while (best > 1 && gt_is_copy_to(f->g->nodes[best - 1]) && f->bytes[best - 1] >= 0)
		best--;
	*out = best;
	return f->bytes[best] >= 0;
}

int gt_pipeline_begin(size_t *out, const struct gt_pipeline_cut *cut,
    const struct gt_pipeline_flow *f, int stage, struct gt_err *err)
{
	const struct gt_value *v;

	*out = stage ? f->g->node_count : 0;
	if (!stage || stage == cut->stages)
		return 0;
	v = gt_graph_find_stored(f->g, cut->first[stage]);
	for (size_t i = 0; v && i < f->g->node_count; i++)
		if (gt_pipeline_first_read(f, i) == v && gt_pipeline_place(out, f, i))
			return 0;
	return gt_err_set(err, GT_EINVAL, "a stage cannot begin at '%s'", cut->first[stage]);
}

int gt_pipeline_crossing(const struct gt_pipeline_flow *f, size_t place, struct gt_value **out)
{
	int count = 0;

	for (size_t i = 0; i < f->g->value_count; i++)
		if (crosses(f, f->g->values[i], place))
			out[count++] = f->g->values[i];
	return count;
}

/* ---- a stage's nodes ---- */

void gt_pipeline_mark_nodes(const struct gt_pipeline_flow *f, size_t first, size_t last, bool *mine)
{
	for (size_t i = f->g->node_count; i-- > 0;) {
		const struct gt_node *n = f->g->nodes[i];

		mine[i] = mine[i] || (i >= first && i < last);
		for (int k = 0; mine[i] && k < n->inputs; k++)
			if (n->in[k] && n->in[k]->producer && f->repeats[f->made[n->in[k]->id]])
				mine[f->made[n->in[k]->id]] = true;
	}
}

bool gt_pipeline_reads(const struct gt_graph *g, const bool *nodes, const struct gt_value *v)
{
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; (!nodes || nodes[i]) && k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == v)
				return true;
	return false;
}
