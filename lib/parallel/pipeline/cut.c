/* cut.c - where a model is cut into stages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/graph/op.h"
#include "lib/parallel/pipeline/stage.h"

/* ---- the choice ---- */

/* Places where a stage may begin: place[0] is node 0, place[count] the end; work[i] is that of the
 * nodes before place[i], and sent[i] that of sending the values that go across it. */
struct places {
	size_t *place;
	const char **name;
	double *work, *sent;
	size_t count;
};

static void add_place(struct places *p, size_t place, double sent_bytes, const struct gt_value *v)
{
	p->place[p->count] = place;
	p->sent[p->count] = sent_bytes * GT_PIPELINE_FLOPS_PER_BYTE;
	p->name[p->count++] = v->name;
}

/* The FLOPs of the nodes before each place. */
static void count_work(struct places *p, const struct gt_graph *g)
{
	double work = 0;
	size_t next = 0;

	for (size_t i = 0; i <= g->node_count; i++) {
		struct gt_cost cost;

		while (next <= p->count && p->place[next] == i)
			p->work[next++] = work;
		if (i == g->node_count)
			break;
		gt_node_cost(g->nodes[i], &cost);
		work += cost.flops;
	}
}

static int find_places(struct places *p, const struct gt_pipeline_flow *f, struct gt_err *err)
{
	size_t n = f->g->node_count;

	p->place = gt_calloc(n + 1, sizeof(*p->place), err);
	p->name = gt_calloc(n + 1, sizeof(*p->name), err);
	p->work = gt_calloc(n + 1, sizeof(*p->work), err);
	p->sent = gt_calloc(n + 1, sizeof(*p->sent), err);
	if (!p->place || !p->name || !p->work || !p->sent)
		return GT_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		/* A stage reads a parameter at least, so values that it sends have gradients. */
		const struct gt_value *first = gt_pipeline_first_read(f, i);
		size_t place;

		if (first && !p->count)
			add_place(p, 0, 0, first);
		else if (first && gt_pipeline_place(&place, f, i))
			add_place(p, place, (double)f->bytes[place], first);
	}
	p->place[p->count] = n;
	count_work(p, f->g);
	return 0;
}

/* The work of a stage from place i to place j, with that of sending at both ends. */
static double stage_work(const struct places *p, size_t i, size_t j)
{
	return p->work[j] - p->work[i] + p->sent[i] + p->sent[j];
}

/*
 * max_work[s][j]: the most work of a stage when the nodes before place[j] make s stages, at best;
 * from[s][j]: where the last of them begins. Example: two stages, work before the places of 0, 3,
 * 5, and 9 at the end, and nothing for sending.
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
	/* A stage that begins earlier has more work. Where one alone has too much, none of those
	 * that begin before it is better. */
	for (size_t s = 1; s <= stages; s++) {
		for (size_t j = 0; j < width; j++) {
			double least = INFINITY;

			for (size_t i = j; i-- > s - 1 && !(p->work[j] - p->work[i] > least);) {
				double here =
				    fmax(max_work[(s - 1) * width + i], stage_work(p, i, j));

				if (!(here <= least) || isinf(here))
					continue;
				least = here;
				from[s * width + j] = i;
			}
			max_work[s * width + j] = least;
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
 * possible, and the bytes that it receives and sends, which count as FLOPs. So a stage does not
 * begin where a wide value goes across, if that costs more than equal shares of work save. Only the
 * FLOPs of the forward pass are counted, because in each stage the backward pass takes about twice
 * as many, and sends as many bytes. The places of the cuts are stored as names of parameters. So
 * graphs of the model for other batch sizes, or for evaluation, can be cut at the same places. The
 * caller calls gt_pipeline_cut_release() on *out. Errors: GT_EINVAL if the graph has too few places
 * where it can be cut; GT_ENOMEM.
 */
int gt_pipeline_cut(
    struct gt_pipeline_cut *out, const struct gt_graph *g, int stages, struct gt_err *err)
{
	struct places p = { 0 };
	struct gt_pipeline_flow f;
	int rc = gt_pipeline_flow_open(&f, g, err);

	*out = (struct gt_pipeline_cut){ 0 };
	if (!rc)
		rc = find_places(&p, &f, err);
	if (!rc && p.count < (size_t)stages) {
		rc = gt_err_set(err, GT_EINVAL,
		    "{pipeline-parallel}: this model cannot be cut into %d stages, but into %zu",
		    stages, p.count);
		gt_err_hint(err, "stages have parameters, and pass on values of floating point");
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
	free(p.sent);
	gt_pipeline_flow_release(&f);
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
