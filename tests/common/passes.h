/* passes.h - graphs for tests of passes, and passes run on them one by one. */
#ifndef GT_TESTS_COMMON_PASSES_H
#define GT_TESTS_COMMON_PASSES_H

#include "lib/graph/pass.h"

extern const struct gt_init pass_zeros;

/* An empty graph; free it with gt_graph_free(). These functions fail the test on an error. */
struct gt_graph *pass_graph(void);

/* Run one pass. */
void pass_run(struct gt_graph *g, const struct gt_pass *pass, const struct gt_pass_options *o);

/* The graph's text, as gt_graph_print() writes it, is `want`. */
void pass_expect(const struct gt_graph *g, const char *want);

/* Float32: an input [1, channels, 4, 4]; a weight [out, in, 3, 3]; a parameter and a buffer [n]. */
struct gt_value *pass_image(struct gt_graph *g, const char *name, int64_t channels);
struct gt_value *pass_filter(struct gt_graph *g, const char *name, int64_t out, int64_t in);
struct gt_value *pass_vector(struct gt_graph *g, const char *name, int64_t n);
struct gt_value *pass_running(struct gt_graph *g, const char *name, int64_t n);

#endif
