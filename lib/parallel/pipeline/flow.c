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

/* Find the nodes that make values, and read them first and last, and those that each stage
 * repeats. */
static void find_readers(struct gt_pipeline_flow *f)
{
	for (size_t i = 0; i < f->g->value_count; i++)
		f->first[i] = f->g->node_count;
	for (size_t i = 0; i < f->g->node_count; i++) {
		const struct gt_node *n = f->g->nodes[i];

		f->repeats[i] = repeats(f, n);
		for (int k = 0; k < n->inputs; k++) {
			if (!n->in[k])
				continue;
			if (f->first[n->in[k]->id] > i)
				f->first[n->in[k]->id] = i;
			f->last[n->in[k]->id] = i;
		}
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

/* Count the bytes that go across each place; -1: it is no place for a cut. The first loop notes at
 * the places where values begin and end to go across how many bytes more do, and how many values
 * more do that are no numbers. */
static int count_bytes(struct gt_pipeline_flow *f, struct gt_err *err)
{
	const struct gt_graph *g = f->g;
	int64_t *others = gt_calloc(g->node_count + 1, sizeof(*others), err);
	int64_t bytes = 0, other = 0;

	if (!others)
		return GT_ENOMEM;

	for (size_t i = 0; i < g->value_count; i++) {
		const struct gt_value *v = g->values[i];
		bool number = v->dtype == GT_F32 || v->dtype == GT_F64;

		if (!v->producer || f->repeats[f->made[i]] || f->last[i] <= f->made[i])
			continue;
		f->bytes[f->made[i] + 1] += (int64_t)gt_value_bytes(v);
		f->bytes[f->last[i] + 1] -= (int64_t)gt_value_bytes(v);
		others[f->made[i] + 1] += !number;
		others[f->last[i] + 1] -= !number;
	}
	for (size_t at = 0; at <= g->node_count; at++) {
		bytes += f->bytes[at];
		other += others[at];
		f->bytes[at] = bytes && !other ? bytes : -1;
	}
	free(others);
	return 0;
}

int gt_pipeline_flow_open(struct gt_pipeline_flow *f, const struct gt_graph *g, struct gt_err *err)
{
	*f = (struct gt_pipeline_flow){ .g = g };
	f->written = gt_calloc(g->value_count, sizeof(*f->written), err);
	f->repeats = gt_calloc(g->node_count, sizeof(*f->repeats), err);
	f->made = gt_calloc(g->value_count, sizeof(*f->made), err);
	f->first = gt_calloc(g->value_count, sizeof(*f->first), err);
	f->last = gt_calloc(g->value_count, sizeof(*f->last), err);
	f->bytes = gt_calloc(g->node_count + 1, sizeof(*f->bytes), err);
	if (f->written && f->repeats && f->made && f->first && f->last && f->bytes) {
		find_written(f);
		find_readers(f);
		if (!count_bytes(f, err))
			return 0;
	}
	gt_pipeline_flow_release(f);
	return GT_ENOMEM;
}

void gt_pipeline_flow_release(struct gt_pipeline_flow *f)
{
	free(f->written);
	free(f->repeats);
	free(f->made);
	free(f->first);
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

const struct gt_value *gt_pipeline_first_read(const struct gt_pipeline_flow *f, size_t node)
{
	const struct gt_node *n = f->g->nodes[node];

	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && gt_value_is_weight(n->in[k]) && f->first[n->in[k]->id] == node)
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

void gt_pipeline_mark_read(const struct gt_graph *g, const bool *nodes, bool *read)
{
	for (size_t i = 0; i < g->node_count; i++)
		for (int k = 0; nodes[i] && k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k])
				read[g->nodes[i]->in[k]->id] = true;
}
