/* activations.c - activations that a network computes from simpler functions. */
#include "lib/graph/patterns/pattern.h"

struct gt_value *gt_pattern_gelu_tanh(const struct gt_match *m)
{
	return gt_gelu(m->g, gt_match_tensor(m, 'x'), GT_GELU_TANH);
}

struct gt_value *gt_pattern_gelu_erf(const struct gt_match *m)
{
	return gt_gelu(m->g, gt_match_tensor(m, 'x'), GT_GELU_ERF);
}

struct gt_value *gt_pattern_silu(const struct gt_match *m)
{
	return gt_unary(m->g, GT_F_SILU, gt_match_tensor(m, 'x'));
}

/* The op takes tensors of one shape. */
struct gt_value *gt_pattern_swiglu(const struct gt_match *m)
{
	struct gt_value *gate = gt_match_tensor(m, 'a'), *up = gt_match_tensor(m, 'b');

	return gt_value_same_shape(gate, up) ? gt_swiglu(m->g, gate, up) : NULL;
}
