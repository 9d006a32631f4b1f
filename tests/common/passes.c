/* passes.c - graphs for tests of passes. */
#include "tests/common/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>

const struct gt_init pass_zeros = { GT_INIT_ZEROS, 0 };

struct gt_graph *pass_graph(void)
{
	struct gt_graph *g;

	assert_int_equal(gt_graph_new(&g, GT_ERR_IGNORED), 0);
	return g;
}

void pass_run(struct gt_graph *g, const struct gt_pass *pass, const struct gt_pass_options *o)
{
	struct gt_err err = GT_ERR_INIT;

	if (pass->run(g, o, &err))
		fail_msg("pass %s: %s", pass->name, err.text);
}

void pass_expect(const struct gt_graph *g, const char *want)
{
	char *text;

	assert_string_equal(g->err.text, "");
	text = gt_graph_print(g, NULL);
	assert_string_equal(text, want);
	free(text);
}

struct gt_value *pass_image(struct gt_graph *g, const char *name, int64_t channels)
{
	return gt_input(g, name, GT_F32, 4, (int64_t[]){ 1, channels, 4, 4 });
}

struct gt_value *pass_filter(struct gt_graph *g, const char *name, int64_t out, int64_t in)
{
	return gt_parameter(g, name, GT_F32, 4, (int64_t[]){ out, in, 3, 3 }, pass_zeros, true);
}

struct gt_value *pass_vector(struct gt_graph *g, const char *name, int64_t n)
{
	return gt_parameter(g, name, GT_F32, 1, &n, pass_zeros, true);
}

struct gt_value *pass_running(struct gt_graph *g, const char *name, int64_t n)
{
	return gt_buffer(g, name, GT_F32, 1, &n, pass_zeros);
}
