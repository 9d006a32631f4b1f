/* nodes.c - what ops that move or wait, and compute nothing, share. */
#include "lib/parallel/nodes.h"

int gt_nodes_infer_nothing(struct gt_node *node, struct gt_err *err)
{
	(void)node;
	(void)err;
	return 0;
}

double gt_nodes_no_flops(const struct gt_node *node)
{
	(void)node;
	return 0;
}

void gt_nodes_print_bucket(const struct gt_node *node, FILE *f)
{
	fprintf(f, " bucket=%d", node->attrs.bucket.index);
}
