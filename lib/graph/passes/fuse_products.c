/* fuse_products.c - fuse products with GELU, its gradient, bias gradients and casts. */
#include <stdlib.h>
#include <string.h>

#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"

/*
 * After the backward pass, this pass replaces the nodes on the left by those on the right:
 *
 *   p = matmul(x, w, b)   y = gelu(p)            y, p = matmul_gelu(x, w, b)
 *   d = matmul(dy, w)   e = gelu_grad(d, p)      e = matmul_gelu_grad(dy, w, p)
 *   g = matmul(x^T, dy)   h = cast(g)
 *   s = bias_grad(dy)   t = cast(s)              h, t = weight_grad(x, dy)
 *
 * GELU must have its tanh form, because libraries fuse no other form with a product.
 */
struct pass {
	struct gt_graph *g;
	const struct gt_kernel *const *kernels;
	int *uses;
};

static bool applies_product_fusion(const struct gt_pass_options *options)
{
	return options->kernels;
}

/* Return the product that writes v, or NULL. */
static struct gt_node *product_of(
    const struct pass *p, const struct gt_value *v, const struct gt_op *to)
{
	if (v->role != GT_TEMPORARY || !v->producer || v->producer->op != &gt_op_matmul ||
	    !gt_has_kernel(p->kernels, to, v->dtype))
		return NULL;
	return v->producer;
}

static bool is_tanh(const struct gt_node *n, const struct gt_op *op)
{
	return n->op == op && n->attrs.gelu.kind == GT_GELU_TANH;
}

static void set_inputs(struct gt_node *n, int count, struct gt_value *const *in)
{
	n->inputs = count;
	for (int k = 0; k < GT_MAX_INPUTS; k++)
		n->in[k] = k < count ? in[k] : NULL;
}

/* ---- activations ---- */

/* Fuse the gelu at `index` with the product that it reads. */
static bool fuse_gelu(struct pass *p, size_t index)
{
	struct gt_node *gelu = p->g->nodes[index], *product;
	struct gt_value *before = gelu->in[0];

	product = product_of(p, before, &gt_op_matmul_gelu);
	if (!product || product->attrs.matmul.trans_a)
		return false;
	product->op = &gt_op_matmul_gelu;
	product->outputs = gt_op_matmul_gelu.outputs;
	gt_make_output(product, 0, gelu->out[0]);
	gt_make_output(product, 1, p->uses[before->id] > 1 ? before : NULL);
	gt_remove_node(p->g, index);
	return true;
}

/* Fuse the gelu_grad at `index` with the product that it reads, which moves there. */
static bool fuse_gelu_grad(struct pass *p, size_t index)
{
	struct gt_node *grad = p->g->nodes[index], *product;

	product = product_of(p, grad->in[0], &gt_op_matmul_gelu_grad);
	if (!product || p->uses[grad->in[0]->id] != 1 || product->in[2] ||
	    product->attrs.matmul.trans_a || grad->in[0]->ndim != grad->in[1]->ndim)
		return false;
	grad->op = &gt_op_matmul_gelu_grad;
	grad->attrs = product->attrs;
	set_inputs(grad, 3, (struct gt_value *[]){ product->in[0], product->in[1], grad->in[1] });
	gt_remove_node(p->g, gt_node_index(p->g, product));
	return true;
}

/* ---- gradients of weights ---- */

/* Return v if it has the wide type, or the result of *cast, the only reader of v, or NULL. */
static struct gt_value *widened(const struct pass *p, struct gt_value *v, struct gt_node **cast)
{
	enum gt_dtype wide = gt_dtype_wide(v->dtype);

	*cast = NULL;
	if (v->dtype == wide)
		return v;
	*cast = gt_sole_cast(p->g, v, wide, p->uses);
	return *cast ? (*cast)->out[0] : NULL;
}

/* Find, after the product at `index`, a bias_grad that sums the rows of one of its inputs. */
static struct gt_node *find_sums(
    const struct pass *p, size_t index, struct gt_value **sums, struct gt_node **cast)
{
	const struct gt_node *product = p->g->nodes[index];

	for (size_t i = index + 1; i < p->g->node_count; i++) {
		struct gt_node *n = p->g->nodes[i];

		if (n->op != &gt_op_bias_grad || n->in[0]->ndim == 4 ||
		    (n->in[0] != product->in[0] && n->in[0] != product->in[1]))
			continue;
		*sums = widened(p, n->out[0], cast);
		if (*sums)
			return n;
	}
	return NULL;
}

/* Fuse the product at `index`, whose left factor is transposed, with the gradient of a bias. */
static bool fuse_weight_grad(struct pass *p, size_t index)
{
	struct gt_node *n = p->g->nodes[index], *cast, *sum_cast = NULL, *sum;
	struct gt_value *wide, *sums = NULL, *in[4] = { n->in[0], n->in[1] };

	if (n->op != &gt_op_matmul || !n->attrs.matmul.trans_a || n->in[2] ||
	    !gt_has_kernel(p->kernels, &gt_op_weight_grad, n->in[0]->dtype))
		return false;
	wide = widened(p, n->out[0], &cast);
	if (!wide)
		return false;
	sum = find_sums(p, index, &sums, &sum_cast);
	if (!cast && !sum)
		return false;
	/* Input 2 or 3 only says which factor is summed: it is that factor again. */
	if (sum)
		in[sum->in[0] == n->in[0] ? 2 : 3] = sum->in[0];
	n->op = &gt_op_weight_grad;
	n->outputs = gt_op_weight_grad.outputs;
	set_inputs(n, 4, in);
	gt_make_output(n, 0, wide);
	gt_make_output(n, 1, sums);
	gt_drop_node(p->g, cast);
	gt_drop_node(p->g, sum);
	gt_drop_node(p->g, sum_cast);
	return true;
}

/* ---- the pass ---- */

static bool fuse_at(struct pass *p, size_t index)
{
	const struct gt_node *n = p->g->nodes[index];

	if (is_tanh(n, &gt_op_gelu))
		return fuse_gelu(p, index);
	if (is_tanh(n, &gt_op_gelu_grad))
		return fuse_gelu_grad(p, index);
	return fuse_weight_grad(p, index);
}

static int run_product_fusion(
    struct gt_graph *g, const struct gt_pass_options *options, struct gt_err *err)
{
	struct pass p = { .g = g, .kernels = options->kernels, .uses = gt_count_uses(g, err) };

	if (!p.uses)
		return GT_ENOMEM;
	for (size_t i = 0; i < g->node_count; i++)
		if (fuse_at(&p, i) && i)
			i--;
	free(p.uses);
	return 0;
}

const struct gt_pass gt_pass_fuse_products = {
	.name = "fuse-products",
	.purpose = "fuse products with GELU, bias gradients and casts, where the backend can",
	.applies = applies_product_fusion,
	.run = run_product_fusion,
};
