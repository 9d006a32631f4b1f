/* norms.c - layer norms and rms norms that a network computes step by step. */
#include "lib/graph/ops/infer.h"
#include "lib/graph/patterns/pattern.h"

/* Set *v to the tensor of a letter as a vector of the features of x. Without the letter, *v is
 * NULL. Returns false if the tensor is no such vector. */
static bool read_features(
    struct gt_value **v, const struct gt_match *m, char letter, const struct gt_value *x)
{
	int64_t size = gt_value_last(x);

	*v = gt_match_tensor(m, letter);
	if (!*v)
		return true;
	if (gt_value_elements(*v) != size || gt_value_last(*v) != size)
		return false;
	if ((*v)->ndim != 1)
		*v = gt_reshape(m->g, *v, 1, &size);
	return true;
}

static struct gt_value *features_of_ones(struct gt_graph *g, const struct gt_value *x)
{
	int64_t size = gt_value_last(x);

	return gt_fill(g, x->dtype, 1, &size, 1);
}

struct gt_value *gt_pattern_layer_norm(const struct gt_match *m)
{
	struct gt_value *x = gt_match_tensor(m, 'x'), *weight, *bias;

	if (!read_features(&weight, m, 'w', x) || !read_features(&bias, m, 'b', x))
		return NULL;
	if (!weight)
		weight = features_of_ones(m->g, x);
	return gt_layer_norm(m->g, x, weight, bias, gt_match_number(m, 'E'));
}

struct gt_value *gt_pattern_rms_norm(const struct gt_match *m)
{
	struct gt_value *x = gt_match_tensor(m, 'x'), *weight;

	if (!read_features(&weight, m, 'w', x))
		return NULL;
	if (!weight)
		weight = features_of_ones(m->g, x);
	return gt_rms_norm(m->g, x, weight, gt_match_number(m, 'E'));
}
