/* recurrent.c - LSTM and GRU of several layers and directions, of the ops of recurrent_ops.c. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"

enum { DIRECTIONS = 2, STATES = 2 };

/* The layers that are being emitted. last[0] has the last state of each layer and direction, and
 * last[1] of an LSTM the last cell. */
struct layers {
	struct gt_graph *g;
	const struct gt_op *op;
	const struct gt_recurrent *r;
	int directions, states;
	struct gt_value **last[STATES];
};

static int count_directions(const struct gt_recurrent *r)
{
	return r->bidirectional ? DIRECTIONS : 1;
}

static int weights_of_direction(const struct gt_recurrent *r)
{
	return r->biases ? 4 : 2;
}

int gt_recurrent_weights(const struct gt_recurrent *r)
{
	return r->layers * count_directions(r) * weights_of_direction(r);
}

/* Emit a direction of a layer, number `at` of all, over x [B, T, ...]. */
static struct gt_value *emit_direction(struct layers *l, struct gt_value *x, int at)
{
	const struct gt_recurrent *r = l->r;
	struct gt_value *const *w = r->weights + at * weights_of_direction(r), *in[5];
	struct gt_value *initial[STATES] = { r->h0, r->c0 };
	union gt_attrs attrs = { 0 };
	struct gt_node *n;

	attrs.recurrent.reverse = at % l->directions > 0;
	in[0] = gt_matmul(l->g, x, w[0], r->biases ? w[2] : NULL, false, true);
	in[1] = w[1];
	in[2] = r->biases ? w[3] : NULL;
	for (int i = 0; i < STATES; i++)
		in[3 + i] = initial[i] ? gt_select(l->g, initial[i], 0, at) : NULL;
	n = gt_emit(l->g, l->op, &attrs, 3 + l->states, in);
	for (int i = 0; n && i < l->states; i++)
		l->last[i][at] = gt_select(
		    l->g, n->out[i], 1, attrs.recurrent.reverse ? 0 : n->out[i]->shape[1] - 1);
	return n ? n->out[0] : NULL;
}

/* Return the output of the last layer, [B, T, ...]. */
static struct gt_value *emit_layers(struct layers *l, struct gt_value *x)
{
	struct gt_value *y[DIRECTIONS];

	for (int layer = 0; layer < l->r->layers && x; layer++) {
		if (layer && l->r->dropout > 0 && l->r->rng)
			x = gt_dropout(l->g, x, l->r->rng, l->r->dropout);
		for (int d = 0; d < l->directions; d++)
			y[d] = emit_direction(l, x, layer * l->directions + d);
		x = l->g->err.code ? NULL : gt_cat(l->g, l->directions, y, 2);
	}
	return x;
}

/* Check the sizes that no op checks, and allocate lists for the last states. */
static bool open_layers(struct layers *l, const struct gt_value *x)
{
	const struct gt_value *initial[] = { l->r->h0, l->r->c0 };
	int count = l->r->layers * l->directions;

	if (!x || l->g->err.code)
		return false;
	if (x->ndim != 3 || count < 1)
		gt_graph_fail(l->g, GT_EINVAL, "%s: %d layers over an input %s", l->op->name,
		    l->r->layers, gt_shape_text(x).s);
	for (int i = 0; i < l->states && !l->g->err.code; i++) {
		if (initial[i] && (initial[i]->ndim != 3 || initial[i]->shape[0] != count))
			gt_graph_fail(l->g, GT_EINVAL,
			    "%s: initial states %s, [%d, batch, hidden] wanted", l->op->name,
			    gt_shape_text(initial[i]).s, count);
		else
			l->last[i] = gt_arena_alloc(
			    &l->g->arena, (size_t)count * sizeof(struct gt_value *), &l->g->err);
	}
	return !l->g->err.code;
}

/* Swap time and batch. */
static struct gt_value *swap_time(struct gt_graph *g, struct gt_value *x)
{
	return gt_permute_dims(g, x, (int[]){ 1, 0, 2 });
}

static void emit_recurrent(struct gt_graph *g, const struct gt_op *op, const struct gt_recurrent *r,
    int states, struct gt_value **out)
{
	struct layers l = {
		.g = g, .op = op, .r = r, .directions = count_directions(r), .states = states
	};
	struct gt_value *y = NULL;

	if (open_layers(&l, r->x))
		y = emit_layers(&l, r->batch_first ? r->x : swap_time(g, r->x));
	out[0] = r->batch_first ? y : swap_time(g, y);
	for (int i = 0; i < states; i++)
		out[1 + i] = y ? gt_stack(g, r->layers * l.directions, l.last[i], 0) : NULL;
}

void gt_lstm(struct gt_graph *g, const struct gt_recurrent *r, struct gt_value *out[3])
{
	emit_recurrent(g, &gt_op_lstm, r, 2, out);
}

void gt_gru(struct gt_graph *g, const struct gt_recurrent *r, struct gt_value *out[2])
{
	emit_recurrent(g, &gt_op_gru, r, 1, out);
}
