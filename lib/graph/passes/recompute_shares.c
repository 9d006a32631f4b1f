/* recompute_shares.c - blocks for recomputation: shares of the forward part between narrow cuts. */
#include "lib/graph/passes/recompute_shares.h"

#include <math.h>
#include <stdlib.h>

#include "lib/graph/op.h"

/*
 * While a block is computed again, two kinds of values take memory: those that the block computes
 * for its backward part, and those that go across the cuts between blocks, which are kept. With
 * more cuts blocks are smaller, but more is kept. So the blocks are those for which the sum of the
 * bytes across all cuts and of the bytes of the largest block is least, or nearly so: for each of
 * several limits on the bytes of a block, the cuts with the fewest bytes across are found.
 *
 * Example: six nodes whose values have 8 bytes each, places with so many bytes across, and a limit
 * of 16 bytes.
 *
 *   node     0     1     2     3     4     5
 *   across      8     24    8     24    8         the places behind nodes 0 to 4
 *   blocks   [0 .. 0] [1 .. 2] [3 .. 4] [5]       24 bytes across; [0,1] [2,3] [4,5] would have 48
 */

/* Blocks of at least 1 / LIMITS of all bytes are tried. */
enum { LIMITS = 48 };

struct shares {
	size_t middle;
	double *across; /* [middle + 1] bytes that go across the place before the node */
	double *sum;    /* [middle + 1] bytes of candidates that nodes before the place compute */
	double *best;   /* [middle + 1] fewest bytes across the cuts before the place */
	size_t *from;   /* [middle + 1] where the last block before the place begins, at best */
	size_t *queue;  /* [middle + 1] memory for find_cuts() */
};

static const struct gt_value *base_of(const struct gt_value *v)
{
	while (v->producer && v->producer->op->view)
		v = v->producer->in[0];
	return v;
}

/* Fill in `across` and `sum`. A view takes no memory of its own. A value first changes `across` at
 * the two ends of its life. */
static int measure_places(
    struct shares *s, const struct gt_graph *g, const bool *candidate, struct gt_err *err)
{
	size_t *last = gt_calloc(g->value_count, sizeof(*last), err);

	if (!last)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->middle; i++)
		for (int k = 0; k < g->nodes[i]->inputs; k++)
			if (g->nodes[i]->in[k])
				last[base_of(g->nodes[i]->in[k])->id] = i;
	for (size_t i = 0; i < s->middle; i++) {
		const struct gt_node *n = g->nodes[i];

		s->sum[i + 1] = s->sum[i];
		for (int k = 0; k < n->outputs && !n->op->view; k++) {
			const struct gt_value *v = n->out[k];
			double bytes = v ? (double)gt_value_bytes(v) : 0;

			if (!v || v->role != GT_TEMPORARY)
				continue;
			s->sum[i + 1] += candidate[v->id] ? bytes : 0;
			if (last[v->id] <= i)
				continue;
			s->across[i + 1] += bytes;
			s->across[last[v->id] + 1] -= bytes;
		}
	}
	for (size_t i = 0; i < s->middle; i++)
		s->across[i + 1] += s->across[i];
	free(last);
	return 0;
}

/* Return the bytes across all cuts if the last one is at i. */
static double cut_at(const struct shares *s, size_t i)
{
	return s->best[i] + s->across[i];
}

/*
 * Find the cuts with the fewest bytes across for blocks of at most `limit` bytes. Return the bytes
 * across and of the largest block, or INFINITY if a single node has more than the limit.
 *
 * The block before j begins at the best i among those near enough. The queue holds these i, without
 * those for which a later one is as good: so the first one in it is the best.
 */
static double find_cuts(struct shares *s, double limit)
{
	size_t head = 0, tail = 0;
	double largest = 0;

	for (size_t j = 1; j <= s->middle; j++) {
		while (tail > head && cut_at(s, s->queue[tail - 1]) >= cut_at(s, j - 1))
			tail--;
		s->queue[tail++] = j - 1;
		while (head < tail && s->sum[j] - s->sum[s->queue[head]] > limit)
			head++;
		s->from[j] = head < tail ? s->queue[head] : 0;
		s->best[j] = head < tail ? cut_at(s, s->queue[head]) : INFINITY;
	}
	if (isinf(s->best[s->middle]))
		return INFINITY;
	for (size_t j = s->middle; j > 0; j = s->from[j])
		largest = fmax(largest, s->sum[j] - s->sum[s->from[j]]);
	return s->best[s->middle] + largest;
}

static int number_blocks(const struct shares *s, int *block_of)
{
	int count = 0;

	for (size_t j = s->middle; j > 0; j = s->from[j])
		count++;
	for (size_t j = s->middle, block = (size_t)count; j > 0; j = s->from[j]) {
		block--;
		for (size_t i = s->from[j]; i < j; i++)
			block_of[i] = (int)block;
	}
	return count;
}

static int choose_shares(struct shares *s, int *block_of)
{
	double best = INFINITY, limit = s->sum[s->middle];

	for (int i = 1; i <= LIMITS; i++) {
		double total = find_cuts(s, s->sum[s->middle] / i);

		if (total >= best)
			continue;
		best = total;
		limit = s->sum[s->middle] / i;
	}
	find_cuts(s, limit);
	return number_blocks(s, block_of);
}

int gt_recompute_shares(const struct gt_graph *g, size_t middle, const bool *candidate,
    int *block_of, struct gt_err *err)
{
	struct shares s = { .middle = middle };
	int rc = GT_ENOMEM;

	s.across = gt_calloc(middle + 1, sizeof(*s.across), err);
	s.sum = gt_calloc(middle + 1, sizeof(*s.sum), err);
	s.best = gt_calloc(middle + 1, sizeof(*s.best), err);
	s.from = gt_calloc(middle + 1, sizeof(*s.from), err);
	s.queue = gt_calloc(middle + 1, sizeof(*s.queue), err);
	if (s.across && s.sum && s.best && s.from && s.queue)
		rc = measure_places(&s, g, candidate, err);
	if (!rc)
		rc = choose_shares(&s, block_of);
	free(s.across);
	free(s.sum);
	free(s.best);
	free(s.from);
	free(s.queue);
	return rc;
}
