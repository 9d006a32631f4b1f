/* cut.c - where a model is cut into stages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/parallel/collectives.h"
#include "lib/parallel/pipeline/stage.h"

/* ---- places ---- */

bool gt_pipeline_reads(
    const struct gt_graph *g, size_t first, size_t last, const struct gt_value *v)
{
	for (size_t i = first; i < last; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k] == v)
				return true;
	return false;
}

static bool made_before(const struct gt_graph *g, size_t before, const struct gt_value *v)
{
	for (size_t i = 0; i < before; i++)
		for (int k = 0; k < g->nodes[i]->outputs; k++)
			if (g->nodes[i]->out[k] == v)
				return true;
	return false;
}

/* How many computed values go across the place, and the last of them. */
static int count_crossing(const struct gt_graph *g, size_t before, struct gt_value **out)
{
	int count = 0;

	*out = NULL;
	for (size_t i = before; i < g->node_count; i++) {
		for (int k = 0; k < g->nodes[i]->inputs; k++) {
			struct gt_value *v = g->nodes[i]->in[k];

			if (!v || v == *out || !made_before(g, before, v))
				continue;
			*out = v;
			count++;
		}
	}
	return count;
}

struct gt_value *gt_pipeline_crossing(const struct gt_graph *g, size_t before, struct gt_err *err)
{
	struct gt_value *v;
	int count = count_crossing(g, before, &v);

	if (count == 1)
		return v;
	gt_err_set(err, GT_EINVAL, "%s: %d values go from one stage to the next, not 1",
	    before < g->node_count ? g->nodes[before]->scope : "", count);
	return NULL;
}

static bool is_float(enum gt_dtype dtype)
{
	return dtype == GT_F32 || dtype == GT_F64;
}

/* The weight whose first reader the node is, or NULL. */
static const struct gt_value *first_read(const struct gt_graph *g, size_t at)
{
	const struct gt_node *n = g->nodes[at];

	for (int k = 0; k < n->inputs; k++)
		if (n->in[k] && gt_value_is_weight(n->in[k]) &&
		    !gt_pipeline_reads(g, 0, at, n->in[k]))
			return n->in[k];
	return NULL;
}

/* Where ranks share layers, a layer begins with a copy of its input. */
int gt_pipeline_begin(size_t *out, const struct gt_pipeline_cut *cut, const struct gt_graph *g,
    int stage, struct gt_err *err)
{
	const struct gt_value *v;

	*out = stage ? g->node_count : 0;
	if (!stage || stage == cut->stages)
		return 0;
	v = gt_graph_find_stored(g, cut->first[stage]);
	for (size_t i = 0; v && i < g->node_count; i++)
		if (gt_pipeline_reads(g, i, i + 1, v)) {
			*out = i;
			while (*out && gt_is_copy_to(g->nodes[*out - 1]))
				--*out;
			return 0;
		}
	return gt_err_set(
	    err, GT_EINVAL, "no node reads '%s', where a stage begins", cut->first[stage]);
}

/* ---- the choice ---- */

/* Places where a stage may begin: place[0] is node 0, place[count] the end; work[i] is that of the
 * nodes before place[i]. */
struct places {
	size_t *place;
	const char **name;
	double *work;
	size_t count;
};

static int find_places(struct places *p, const struct gt_graph *g, struct gt_err *err)
{
	double work = 0;
	size_t n = g->node_count;

	p->place = gt_calloc(n + 1, sizeof(*p->place), err);
	p->name = gt_calloc(n + 1, sizeof(*p->name), err);
	p->work = gt_calloc(n + 1, sizeof(*p->work), err);
	if (!p->place || !p->name || !p->work)
		return GT_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct gt_value *first = first_read(g, i);
		struct gt_value *across;
		struct gt_cost cost;

		/* A stage reads a parameter at least, so the value that it sends has a gradient. */
		if (first && !p->count)
			p->name[p->count++] = first->name;
		else if (first && count_crossing(g, i, &across) == 1 && is_float(across->dtype)) {
			p->place[p->count] = i;
			p->work[p->count] = work;
			p->name[p->count++] = first->name;
		}
		gt_node_cost(g->nodes[i], &cost);
		work += cost.flops;
	}
	p->place[p->count] = n;
	p->work[p->count] = work;
	return 0;
}

/*
 * max_work[s][j]: the most work of a stage when the nodes before place[j] make s stages, at best;
 * from[s][j]: where the last of them begins. Example: two stages, and work before the places of
 * 0, 3, 5, and 9 at the end.
 *
 *   max_work[1]      0: -   1: 3   2: 5   3: 9            one stage has all nodes before the place
 *   max_work[2][3]   begins at 1: max(3, 9 - 3) = 6
 *                    begins at 2: max(5, 9 - 5) = 5       the best, so from[2][3] = 2
 */
static int choose_stage_cuts(
    struct gt_pipeline_cut *cut, const struct places *p, struct gt_err *err)
{
	size_t width = p->count + 1, stages = (size_t)cut->stages;
	double *max_work = gt_calloc((stages + 1) * width, sizeof(*max_work), err);
	size_t *from = gt_calloc((stages + 1) * width, sizeof(*from), err);
	int rc = 0;

	if (!max_work || !from) {
		free(max_work);
		free(from);
		return GT_ENOMEM;
	}
	for (size_t j = 1; j < width; j++)
		max_work[j] = INFINITY;
	for (size_t s = 1; s <= stages; s++) {
		for (size_t j = 0; j < width; j++) {
			max_work[s * width + j] = INFINITY;
			for (size_t i = s - 1; i < j; i++) {
				double here =
				    fmax(max_work[(s - 1) * width + i], p->work[j] - p->work[i]);

				if (here >= max_work[s * width + j])
					continue;
				max_work[s * width + j] = here;
				from[s * width + j] = i;
			}
		}
	}
	/* Names outlive the graph. */
	for (size_t s = stages, j = p->count; s > 0; s--) {
		size_t i = from[s * width + j];

		cut->first[s - 1] = gt_strdup(p->name[i], err);
		rc = cut->first[s - 1] ? rc : GT_ENOMEM;
		cut->flops[s - 1] = p->work[j] - p->work[i];
		j = i;
	}
	free(max_work);
	free(from);
	return rc;
}

/*
 * Divide a forward graph into stages, so that the FLOPs of the largest stage are as few as
 * possible. Only the FLOPs of the forward pass are counted, because in each stage the backward pass
 * takes about twice as many. The places of the cuts are stored as names of parameters. So graphs of
 * the model for other batch sizes, or for evaluation, can be cut at the same places. The caller
 * calls gt_pipeline_cut_release() on *out. Errors: GT_EINVAL if the graph has too few places where
 * it can be cut; GT_ENOMEM.
 */
int gt_pipeline_cut(
    struct gt_pipeline_cut *out, const struct gt_graph *g, int stages, struct gt_err *err)
{
	struct places p = { 0 };
	int rc = find_places(&p, g, err);

	*out = (struct gt_pipeline_cut){ 0 };
	if (!rc && p.count < (size_t)stages) {
		rc = gt_err_set(err, GT_EINVAL,
		    "{pipeline-parallel}: this model cannot be cut into %d stages, but into %zu",
		    stages, p.count);
		gt_err_hint(err, "stages have parameters, and pass on one value each");
	}
	if (!rc) {
		out->first = gt_calloc((size_t)stages, sizeof(*out->first), err);
		out->flops = gt_calloc((size_t)stages, sizeof(*out->flops), err);
		rc = out->first && out->flops ? 0 : GT_ENOMEM;
	}
	if (!rc) {
		out->stages = stages;
		rc = choose_stage_cuts(out, &p, err);
	}
	free(p.place);
	free(p.name);
	free(p.work);
	if (rc)
		gt_pipeline_cut_release(out);
	return rc;
}

void gt_pipeline_cut_release(struct gt_pipeline_cut *cut)
{
	for (int s = 0; cut->first && s < cut->stages; s++)
		free((char *)cut->first[s]);
	free(cut->first);
	free(cut->flops);
	*cut = (struct gt_pipeline_cut){ 0 };
}
