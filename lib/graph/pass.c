/* pass.c - the list of passes. */
#include "lib/graph/pass.h"

/* Fusions that a gradient can see through come before the backward pass, and behind autocast, which
 * decides whether both addends of a sum have one type; the others come after it. One of these,
 * fuse-products, comes behind clean-up and working copies: it reads the graph as it will run. Then
 * layouts, and marks on the products that are left; last the pass that repeats nodes as all others
 * have left them. */
const struct gt_pass *const gt_passes[] = {
	&gt_pass_fold_batch_norm,
	&gt_pass_relax,
	&gt_pass_autocast,
	&gt_pass_fuse_relu,
	&gt_pass_fuse_norm,
	&gt_pass_backward,
	&gt_pass_common,
	&gt_pass_fuse_head,
	&gt_pass_fuse_accumulate,
	&gt_pass_accumulate,
	&gt_pass_dead,
	&gt_pass_working_copies,
	&gt_pass_fuse_products,
	&gt_pass_layout,
	&gt_pass_tf32,
	&gt_pass_recompute,
	NULL,
};

int gt_passes_run(struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	for (int i = 0; gt_passes[i]; i++) {
		const struct gt_pass *p = gt_passes[i];

		if (p->applies && !p->applies(options))
			continue;
		if (p->run(g, options, err))
			return gt_err_prefix(err, "pass '%s'", p->name);
		if (gt_graph_status(g, err))
			return gt_err_prefix(err, "pass '%s'", p->name);
	}
	return 0;
}
