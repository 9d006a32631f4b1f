/* test_compose.c - random chains of copies, which gt_arrange() makes shorter, beside each step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/graph/arrangement.h"
#include "lib/graph/ops/ops.h"

enum { CHAINS = 3000, STEPS = 4, LARGEST = 4096 };

static uint32_t random_state;

static int draw(int below)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (int)((random_state >> 8) % (uint32_t)below);
}

/* A value of the graph, and its elements. */
struct both {
	struct gt_value *v;
	int64_t x[LARGEST];
};

static void copy_pieces(const struct gt_node *n, int64_t *const *in, int64_t *out)
{
	const struct gt_arrangement *a = n->attrs.arrange.arrangement;

	memset(out, 0, LARGEST * sizeof(*out));
	for (int64_t k = 0; k < a->count; k++) {
		const struct gt_arrange_piece *p = &a->pieces[k];

		for (int64_t i = 0; i < gt_arrange_piece_elements(p); i++) {
			int64_t rest = i, from = p->from.first, to = p->to.first;

			for (int64_t d = p->ndim; d-- > 0; rest /= p->shape[d]) {
				from += rest % p->shape[d] * p->from.strides[d];
				to += rest % p->shape[d] * p->to.strides[d];
			}
			out[to] = in[p->input][from];
		}
	}
}

/* The elements of a value, as its nodes compute them. */
static void run_value(const struct gt_value *v, const struct both *inputs, int64_t *out)
{
	int64_t *in[GT_MAX_INPUTS] = { NULL };
	const struct gt_node *n = v->producer;

	if (!n) {
		memcpy(out, inputs[v == inputs[1].v].x, LARGEST * sizeof(*out));
		return;
	}
	if (n->op == &gt_op_reshape) {
		run_value(n->in[0], inputs, out);
		return;
	}
	for (int k = 0; k < n->inputs && n->in[k]; k++) {
		in[k] = malloc(LARGEST * sizeof(**in));
		assert_non_null(in[k]);
		run_value(n->in[k], inputs, in[k]);
	}
	copy_pieces(n, in, out);
	for (int k = 0; k < GT_MAX_INPUTS; k++)
		free(in[k]);
}

/* Compute one step alone: its graph has inputs in place of what earlier steps made. */
typedef struct gt_value *step(struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed);

static struct gt_value *permute(
    struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed)
{
	int order[GT_MAX_DIMS];

	(void)b;
	for (int i = 0; i < a->ndim; i++)
		order[i] = (i + seed) % a->ndim;
	if (seed % 2 && a->ndim > 1) {
		int t = order[0];

		order[0] = order[1];
		order[1] = t;
	}
	return gt_permute_dims(g, a, order);
}

static struct gt_value *slice(struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed)
{
	int dim = seed % a->ndim;
	int64_t n = a->shape[dim], start = seed % n;

	(void)b;
	return gt_slice_dim(g, a, dim, start, n, 1 + seed / 7 % 2);
}

static struct gt_value *flip(struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed)
{
	(void)b;
	return gt_flip(g, a, (unsigned)seed % (1u << a->ndim));
}

static struct gt_value *roll(struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed)
{
	int64_t shifts[GT_MAX_DIMS] = { 0 };

	(void)b;
	shifts[seed % a->ndim] = seed / 3;
	return gt_roll(g, a, shifts);
}

static struct gt_value *pad(struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed)
{
	int64_t before[GT_MAX_DIMS] = { 0 }, after[GT_MAX_DIMS] = { 0 };

	(void)b;
	before[seed % a->ndim] = 1;
	after[seed / 3 % a->ndim] = a->shape[seed / 3 % a->ndim] > 2 ? -1 : 1;
	return gt_pad(g, a, before, after);
}

static struct gt_value *cat(struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed)
{
	struct gt_value *in[] = { a, a->ndim == b->ndim ? b : a };
	int dim = seed % a->ndim;

	for (int i = 0; i < a->ndim; i++)
		if (i != dim && in[1]->shape[i] != a->shape[i])
			in[1] = a;
	return gt_cat(g, 2, in, dim);
}

/* Other dimensions of the same elements: the first two joined, or the last one divided. */
static struct gt_value *view(struct gt_graph *g, struct gt_value *a, struct gt_value *b, int seed)
{
	int64_t shape[GT_MAX_DIMS + 1];
	int last = a->ndim - 1;

	(void)b;
	memcpy(shape, a->shape, sizeof(a->shape));
	if (seed % 2 && a->ndim > 1) {
		shape[1] *= shape[0];
		return gt_reshape(g, a, last, shape + 1);
	}
	if (shape[last] % 2 || a->ndim == 4)
		return a;
	shape[last + 1] = 2;
	shape[last] /= 2;
	return gt_reshape(g, a, a->ndim + 1, shape);
}

static struct gt_graph *new_graph(void)
{
	struct gt_graph *g;

	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	return g;
}

/* The result of a step whose inputs are computed: no arrangement makes them. */
static void run_alone(step *f, const struct both *a, const struct both *b, int seed, int64_t *out)
{
	struct gt_graph *g = new_graph();
	struct both in[2] = { *a, *b };
	struct gt_value *y;

	in[0].v = gt_input(g, "a", GT_I64, a->v->ndim, a->v->shape);
	in[1].v = gt_input(g, "b", GT_I64, b->v->ndim, b->v->shape);
	y = f(g, in[0].v, in[1].v, seed);
	assert_non_null(y);
	run_value(y, in, out);
	gt_graph_free(g);
}

static size_t count_arrangements(const struct gt_value *v)
{
	size_t n = v->producer && v->producer->op == &gt_op_arrange;

	return v->producer ? n + count_arrangements(v->producer->in[0]) : 0;
}

/* Return the number of arrangements that the chain was spared along its first inputs. */
static size_t run_chain(void)
{
	static step *const steps[] = { permute, slice, flip, roll, pad, cat, view };
	static struct both inputs[2], at, before;
	static int64_t got[LARGEST];
	struct gt_graph *g = new_graph();
	size_t copies = 0, left;

	for (int k = 0; k < 2; k++) {
		int64_t shape[] = { 2 + draw(2), 2, 2 + draw(3) };

		inputs[k].v = gt_input(g, k ? "b" : "a", GT_I64, 3, shape);
		for (int i = 0; i < LARGEST; i++)
			inputs[k].x[i] = 1 + i + 10000 * k;
	}
	at = inputs[0];
	for (int i = 0; i < STEPS; i++) {
		step *f = steps[draw(sizeof(steps) / sizeof(*steps))];
		int seed = draw(60);
		struct gt_value *made = f(g, at.v, inputs[1].v, seed);

		if (!made || gt_value_elements(made) > LARGEST)
			break;
		before = at;
		run_alone(f, &before, &inputs[1], seed, at.x);
		copies += f != view && made != at.v;
		at.v = made;
	}
	assert_int_equal(gt_graph_status(g, GT_ERR_IGNORED), 0);
	run_value(at.v, inputs, got);
	assert_memory_equal(got, at.x, (size_t)gt_value_elements(at.v) * sizeof(*got));
	left = count_arrangements(at.v);
	gt_graph_free(g);
	return copies - (left < copies ? left : copies);
}

static void test_chains(void **state)
{
	const char *seed = getenv("SEED");
	size_t spared = 0;

	(void)state;
	random_state = seed ? (uint32_t)strtoul(seed, NULL, 0) : (uint32_t)time(NULL);
	print_message("SEED=%u\n", random_state);
	for (int i = 0; i < CHAINS; i++)
		spared += run_chain();
	assert_true(spared > CHAINS);
}

/* The parts of a tensor of queries, keys and values, joined again, are the tensor. */
static void test_parts_joined(void **state)
{
	struct gt_graph *g = new_graph();
	struct gt_value *x = gt_input(g, "x", GT_F32, 3, (int64_t[]){ 2, 7, 24 }), *part[3], *y;

	(void)state;
	y = gt_reshape(g, x, 5, (int64_t[]){ 2, 7, 3, 2, 4 });
	y = gt_permute_dims(g, y, (int[]){ 2, 0, 3, 1, 4 });
	for (int i = 0; i < 3; i++) {
		part[i] = gt_permute_dims(g, gt_select(g, y, 0, i), (int[]){ 0, 2, 1, 3 });
		part[i] = gt_reshape(g, part[i], 3, (int64_t[]){ 2, 7, 8 });
	}
	y = gt_cat(g, 3, part, 2);
	assert_ptr_equal(y, x);
	y = gt_arrange_sum(g, gt_pad(g, part[0], (int64_t[]){ 0, 0, 0 }, (int64_t[]){ 0, 0, 16 }),
	    gt_pad(g, part[2], (int64_t[]){ 0, 0, 16 }, (int64_t[]){ 0, 0, 0 }));
	assert_non_null(y);
	assert_int_equal(y->producer->attrs.arrange.arrangement->count, 2);
	assert_null(gt_arrange_sum(g, part[0], part[1]));
	assert_null(gt_arrange_sum(g, part[0], x));
	gt_graph_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_parts_joined),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
