/* test_shard.c - an op's row says how tensor parallelism shards the op; the pass knows none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/infer.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/shard.h"

/* ---- an op that the library has never seen ---- */

static int infer_same(struct gt_node *n, struct gt_err *err)
{
	(void)err;
	gt_infer_like(n->out[0], n->in[0]);
	return 0;
}

/* Pairs of columns belong together. */
static struct gt_column_shards take_pairs(
    const struct gt_shard_pass *s, const struct gt_node *n, struct gt_column_shards offered)
{
	(void)s;
	(void)offered;
	return (struct gt_column_shards){ 1, gt_value_last(n->in[0]) / 2 };
}

static int shard_pairs(struct gt_shard_pass *s, struct gt_node *n)
{
	gt_shard_set(s, n->out[0], gt_shard_columns(s, n->in[0]));
	return gt_shard_infer(s, n);
}

/* One that adds the maximum over the ranks, before it and behind it. */
static int shard_with_maxima(struct gt_shard_pass *s, struct gt_node *n)
{
	n->in[0] = gt_shard_max(s, n->in[0]);
	gt_shard_place_after(s);
	gt_shard_replace(s, n->out[0], gt_shard_max(s, n->out[0]));
	return 0;
}

static const struct gt_shard_rule pairs = { .rewrite = shard_pairs, .takes = take_pairs },
                                  maxima = { .rewrite = shard_with_maxima };

/* ---- the nodes of ranks, as ops that compute nothing ---- */

static const struct gt_op op_copied = {
	.name = "copied", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer_same
};
static const struct gt_op op_summed = {
	.name = "summed", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer_same
};
static const struct gt_op op_largest = {
	.name = "largest", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer_same
};

static struct gt_value *copied(struct gt_graph *g, struct gt_value *x)
{
	return gt_emit1(g, &op_copied, NULL, 1, &x);
}

static struct gt_value *summed(struct gt_graph *g, struct gt_value *x)
{
	return gt_emit1(g, &op_summed, NULL, 1, &x);
}

static struct gt_value *largest(struct gt_graph *g, struct gt_value *x)
{
	return gt_emit1(g, &op_largest, NULL, 1, &x);
}

static int note(void *self, const struct gt_sharding *sharding, struct gt_err *err)
{
	(void)sharding;
	(void)err;
	++*(int *)self;
	return 0;
}

/* ---- two products with the op between them, for rank 1 of `ranks` ---- */

static int run(struct gt_graph *g, int ranks, int *noted, struct gt_err *err)
{
	static const struct gt_shard_nodes nodes = { copied, summed, largest };
	struct gt_shard_pass pass = { .g = g,
		.rank = 1,
		.ranks = ranks,
		.nodes = &nodes,
		.note = note,
		.self = noted,
		.err = err };

	*noted = 0;
	return gt_shard_graph(&pass);
}

static void build(struct gt_graph *g, const struct gt_op *between)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 2, 3 });

	gt_graph_scope(g, "net");
	x = gt_matmul(g, x, gt_parameter(g, "a", GT_F32, 2, (int64_t[]){ 3, 12 }, zeros, true),
	    NULL, false, false);
	x = gt_emit1(g, between, NULL, 1, &x);
	x = gt_matmul(g, x, gt_parameter(g, "b", GT_F32, 2, (int64_t[]){ 12, 4 }, zeros, true),
	    gt_parameter(g, "c", GT_F32, 1, (int64_t[]){ 4 }, zeros, true), false, false);
	gt_output(g, x, "y");
}

static const struct {
	const struct gt_shard_rule *rule;
	int ranks, noted;
	const char *graph;
} cases[] = {
	{ &gt_shard_follow, 2, 2,
	    "%7 float32[2,3] = copied(input x)  # net\n"
	    "%2 float32[2,6] = matmul(%7, a)  # net\n"
	    "%3 float32[2,6] = mine(%2)  # net\n"
	    "%6 float32[2,4] = matmul(%3, b)  # net\n"
	    "%8 float32[2,4] = summed(%6)  # net\n"
	    "output y float32[2,4] = bias_add(%8, c)  # net\n" },
	/* Twelve columns are six pairs: one for rank 0, one for rank 1, two for each other. */
	{ &pairs, 4, 2,
	    "%7 float32[2,3] = copied(input x)  # net\n"
	    "%2 float32[2,4] = matmul(%7, a)  # net\n"
	    "%3 float32[2,4] = mine(%2)  # net\n"
	    "%6 float32[2,4] = matmul(%3, b)  # net\n"
	    "%8 float32[2,4] = summed(%6)  # net\n"
	    "output y float32[2,4] = bias_add(%8, c)  # net\n" },
	{ &gt_shard_whole, 2, 0,
	    "%2 float32[2,12] = matmul(input x, a)  # net\n"
	    "%3 float32[2,12] = mine(%2)  # net\n"
	    "output y float32[2,4] = matmul(%3, b, c)  # net\n" },
	{ &maxima, 2, 0,
	    "%2 float32[2,12] = matmul(input x, a)  # net\n"
	    "%7 float32[2,12] = largest(%2)  # net\n"
	    "%3 float32[2,12] = mine(%7)  # net\n"
	    "%8 float32[2,12] = largest(%3)  # net\n"
	    "output y float32[2,4] = matmul(%8, b, c)  # net\n" },
};

static struct gt_op mine(const struct gt_shard_rule *rule)
{
	return (struct gt_op){ .name = "mine",
		.min_inputs = 1,
		.max_inputs = 1,
		.outputs = 1,
		.infer = infer_same,
		.shard = rule };
}

static void the_rule_of_an_op_is_in_its_row(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct gt_op op = mine(cases[i].rule);
		struct gt_err err = GT_ERR_INIT;
		struct gt_graph *g;
		char *text;
		int noted;

		assert_int_equal(gt_graph_new(&g, &err), 0);
		build(g, &op);
		if (run(g, cases[i].ranks, &noted, &err))
			fail_msg("case %zu: %s", i, err.text);
		text = gt_graph_print(g, &err);
		assert_string_equal(text, cases[i].graph);
		assert_int_equal(noted, cases[i].noted);
		free(text);
		gt_graph_free(g);
	}
}

/* All ranks compute an op without a rule, so the products beside it are no pair. A sharded value
 * that reaches an op which takes whole ones is an error. */
static void ops_fail_by_their_own_rules(void **state)
{
	static const struct gt_op none = {
		.name = "mine", .min_inputs = 1, .max_inputs = 1, .outputs = 1, .infer = infer_same
	};
	const struct gt_shard_rule takes_but_stays = { .rewrite = gt_shard_whole.rewrite,
		.takes = take_pairs };
	struct gt_err err = GT_ERR_INIT;
	struct gt_graph *g;
	struct gt_op op;
	int noted;

	(void)state;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	build(g, &none);
	assert_int_equal(run(g, 2, &noted, &err), 0);
	assert_int_equal(noted, 0);
	gt_graph_free(g);

	op = mine(&takes_but_stays);
	err = (struct gt_err)GT_ERR_INIT;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	build(g, &op);
	assert_int_equal(run(g, 2, &noted, &err), GT_ENOTSUP);
	assert_string_equal(err.text, "net: tensor parallelism cannot shard 'mine'");
	gt_graph_free(g);
}

/* The product of two products of x, the first one of relu(x) where `behind`, times b. With `reads`,
 * another node reads the second one. */
static void build_gate(struct gt_graph *g, bool behind, bool reads)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 2, 3 }), *gate, *up;

	gate = gt_matmul(g, behind ? gt_relu(g, x) : x,
	    gt_parameter(g, "a", GT_F32, 2, (int64_t[]){ 3, 12 }, zeros, true), NULL, false, false);
	up = gt_matmul(g, x, gt_parameter(g, "u", GT_F32, 2, (int64_t[]){ 3, 12 }, zeros, true),
	    NULL, false, false);
	if (reads)
		gt_output(g, gt_unary(g, GT_F_TANH, up), "z");
	x = gt_binary(g, GT_F_MUL, gt_unary(g, GT_F_TANH, gate), up);
	x = gt_matmul(g, x, gt_parameter(g, "b", GT_F32, 2, (int64_t[]){ 12, 4 }, zeros, true),
	    NULL, false, false);
	gt_output(g, x, "y");
}

/* Both products that a map multiplies are sharded, or none is. */
static void gates_are_sharded_with_what_they_multiply(void **state)
{
	static const struct {
		bool behind, reads;
		int noted;
	} rows[] = { { false, false, 3 }, { false, true, 0 }, { true, false, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_graph *g;
		int noted;

		assert_int_equal(gt_graph_new(&g, &err), 0);
		build_gate(g, rows[i].behind, rows[i].reads);
		if (run(g, 2, &noted, &err))
			fail_msg("row %zu: %s", i, err.text);
		assert_int_equal(noted, rows[i].noted);
		gt_graph_free(g);
	}
}

/* x a, times a value in a map, times b. */
static void build_map(struct gt_graph *g, struct gt_value *factor)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	struct gt_value *x = gt_input(g, "x", GT_F32, 2, (int64_t[]){ 2, 3 });

	gt_graph_scope(g, "net");
	x = gt_matmul(g, x, gt_parameter(g, "a", GT_F32, 2, (int64_t[]){ 3, 12 }, zeros, true),
	    NULL, false, false);
	x = gt_binary(g, GT_F_MUL, x, factor);
	x = gt_matmul(g, x, gt_parameter(g, "b", GT_F32, 2, (int64_t[]){ 12, 4 }, zeros, true),
	    NULL, false, false);
	gt_output(g, x, "y");
}

/* A parameter with a number for each column is sharded with them; a value for each row is not. A
 * matrix that another node makes keeps the columns whole. */
static void maps_follow_their_inputs(void **state)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	static const struct {
		int64_t rows, cols;
		bool trained;
		int noted;
		const char *map;
	} factors[] = {
		{ 1, 12, true, 3, "float32[2,6] = map(%3, f) y0=mul(x0,x1)" },
		{ 2, 1, false, 2, "float32[2,6] = map(%3, input f) y0=mul(x0,x1)" },
		{ 2, 12, false, 0, "float32[2,12] = map(%3, input f) y0=mul(x0,x1)" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(factors) / sizeof(*factors); i++) {
		const int64_t shape[] = { factors[i].rows, factors[i].cols };
		struct gt_err err = GT_ERR_INIT;
		struct gt_graph *g;
		char *text;
		int noted;

		assert_int_equal(gt_graph_new(&g, &err), 0);
		build_map(g, factors[i].trained
		                 ? gt_parameter(g, "f", GT_F32, 2, shape, zeros, true)
		                 : gt_input(g, "f", GT_F32, 2, shape));
		if (run(g, 2, &noted, &err))
			fail_msg("factor %zu: %s", i, err.text);
		text = gt_graph_print(g, &err);
		assert_non_null(text);
		if (!strstr(text, factors[i].map))
			fail_msg("no '%s' in\n%s", factors[i].map, text);
		assert_int_equal(noted, factors[i].noted);
		free(text);
		gt_graph_free(g);
	}
}

/* Return how many parameters the pass shards if rows of this table [5, 3] are looked up. */
static int count_sharded_tables(struct gt_graph *g, struct gt_value *table)
{
	struct gt_value *ids = gt_input(g, "ids", GT_I32, 2, (int64_t[]){ 1, 4 });
	struct gt_err err = GT_ERR_INIT;
	int noted;

	gt_output(g, gt_index_select(g, table, 0, ids), "y");
	if (run(g, 2, &noted, &err))
		fail_msg("%s", err.text);
	gt_graph_free(g);
	return noted;
}

/* Each rank looks up all rows of a computed table, but those of its shard of a weight. */
static void only_weights_are_sharded_tables(void **state)
{
	static const struct gt_init zeros = { GT_INIT_ZEROS, 0 };
	const int64_t shape[] = { 5, 3 };
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	assert_int_equal(
	    count_sharded_tables(g, gt_parameter(g, "table", GT_F32, 2, shape, zeros, true)), 1);
	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	assert_int_equal(
	    count_sharded_tables(g, gt_relu(g, gt_input(g, "x", GT_F32, 2, shape))), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rule_of_an_op_is_in_its_row),
		cmocka_unit_test(ops_fail_by_their_own_rules),
		cmocka_unit_test(gates_are_sharded_with_what_they_multiply),
		cmocka_unit_test(maps_follow_their_inputs),
		cmocka_unit_test(only_weights_are_sharded_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
