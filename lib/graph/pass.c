/* pass.c - the list of passes. */
#include "lib/graph/pass.h"

/* The order of passes. Fusions of ops that have gradients come after autocast, because autocast
 * decides whether both addends of a sum have the same type, and before the backward pass. Other
 * fusions come after the backward pass. fuse-products comes after clean-up and working copies,
 * because it needs the graph as it will run; so does fuse-map. Next, passes choose layouts, and
 * mark the remaining products for TF32. The last two passes repeat nodes, so they need them in
 * their final form. */
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
	&gt_pass_fuse_map,
	&gt_pass_layout,
	&gt_pass_tf32,
	&gt_pass_reread,
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
