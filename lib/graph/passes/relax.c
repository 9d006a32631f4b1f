/* relax.c - where no gradient is wanted, kernels may round differently and be faster. */
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/* Training must follow PyTorch's curves to the last digits, and errors of gradients grow from step
 * to step. Results of an evaluation go into no further computation, so only forward-only graphs are
 * relaxed. */
static bool forward_only(const struct gt_pass_options *options)
{
	return !options->loss;
}

static int run_relax(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	(void)options;
	(void)err;
	for (size_t i = 0; i < g->node_count; i++) {
		if (g->nodes[i]->op == &gt_op_conv2d)
			g->nodes[i]->attrs.conv.relaxed = true;
		if (g->nodes[i]->op == &gt_op_matmul)
			g->nodes[i]->attrs.matmul.relaxed = true;
	}
	return 0;
}

const struct gt_pass gt_pass_relax = {
	.name = "relax",
	.purpose = "allow kernels that round differently where no gradient is wanted",
	.applies = forward_only,
	.run = run_relax,
};
