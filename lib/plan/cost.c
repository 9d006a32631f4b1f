/* cost.c - rates of devices and links become times. */
#include "lib/plan/cost.h"

#include <math.h>
#include <string.h>

/* ---- computation ---- */

static enum gt_product_type type_of(enum gt_dtype dtype, bool tf32)
{
	switch (dtype) {
	case GT_F16:
		return GT_PRODUCT_F16;
	case GT_BF16:
		return GT_PRODUCT_BF16;
	case GT_F64:
		return GT_PRODUCT_F64;
	default:
		return tf32 ? GT_PRODUCT_TF32 : GT_PRODUCT_F32;
	}
}

static double factor_of(const struct gt_cluster_device *d, const char *op)
{
	for (int i = 0; i < d->factor_count; i++)
		if (!strcmp(d->factors[i].op, op))
			return d->factors[i].factor;
	return 1;
}

double gt_cost_compute(
    enum gt_cost_bound *bound, const struct gt_cluster *c, const struct gt_work *w, bool tf32)
{
	const struct gt_cluster_device *d = &c->device;
	enum gt_product_type type = type_of(w->dtype, tf32);
	double rate, flops_s, bytes_s, launch_s = w->launches * d->launch_s, work_s;
	int launches = w->launches > 1 ? w->launches : 1;

	/* A type without a rate of its own is computed as float32. */
	if (w->product && !d->product[type].count)
		type = GT_PRODUCT_F32;
	rate = w->product ? gt_curve_rate(&d->product[type], w->flops / launches) : d->vector;
	if (w->product && w->width > 0 && w->width < d->tile)
		rate *= w->width / d->tile;
	flops_s = w->flops > 0 ? w->flops / rate : 0;
	bytes_s = w->bytes > 0 ? w->bytes / gt_curve_rate(&d->memory, w->bytes / launches) : 0;
	work_s = fmax(flops_s, bytes_s) * factor_of(d, w->op);
	if (launch_s > work_s)
		*bound = GT_BOUND_LAUNCH;
	else if (bytes_s > flops_s)
		*bound = GT_BOUND_MEMORY;
	else
		*bound = w->product ? GT_BOUND_PRODUCTS : GT_BOUND_VECTOR;
	return launch_s + work_s;
}

/* ---- communication ---- */

/* The ranks of a group on one host, and its hosts. */
struct spread {
	double ranks, local, hosts;
};

static struct spread spread_of(const struct gt_cluster *c, const struct gt_traffic *t)
{
	struct spread s = { .ranks = t->ranks, .local = c->devices / t->apart };

	if (s.local < 1)
		s.local = 1;
	if (s.local > s.ranks)
		s.local = s.ranks;
	s.local = floor(s.local);
	s.hosts = ceil(s.ranks / s.local);
	return s;
}

/* Return the rate within a host. The data axis is taken to use memory that its group has lent, as
 * gradients do. Values of the other axes are in other memory, and the group copies them. */
static double rate_inside(const struct gt_cluster_link *inside, const struct gt_traffic *t)
{
	bool copies = t->axis != GT_AXIS_DATA && inside->copied_per_s > 0;

	return copies ? inside->copied_per_s : inside->bytes_per_s;
}

/* A message crosses hosts if the neighbor on this axis is on another one. */
static double cost_message(const struct gt_cluster *c, const struct gt_traffic *t)
{
	const bool inside = t->apart < c->devices;
	const struct gt_cluster_link *link = inside ? &c->inside : &c->between;
	double rate = inside ? rate_inside(link, t) : link->bytes_per_s;

	return link->base_s + link->step_s + (double)t->bytes / rate;
}

double gt_cost_traffic(const struct gt_cluster *c, const struct gt_traffic *t)
{
	const struct spread s = spread_of(c, t);
	double rate = rate_inside(&c->inside, t), base = c->inside.base_s, n = s.ranks;
	double passes = t->kind == GT_ALL_REDUCE ? 2 : 1, sent = gt_traffic_sent(t);
	double ring, tree, calls = t->calls > 1 ? t->calls : 1;

	if (t->role == GT_TRAFFIC_SEND || t->role == GT_TRAFFIC_RECEIVE)
		return cost_message(c, t);
	if (n < 2)
		return 0;
	ring = passes * (n - s.hosts) * c->inside.step_s;
	tree = passes * (s.local - 1) * c->inside.step_s;
	if (s.hosts > 1) {
		base = fmax(base, c->between.base_s);
		rate = fmin(s.local > 1 ? rate : INFINITY, s.local * c->between.bytes_per_s);
		ring += passes * (s.hosts - 1) * c->between.step_s;
		tree += passes * log2(s.hosts) * c->between.tree_s;
	}
	ring = calls * (base + ring) + sent / rate;
	tree = calls * (base + tree) + sent / (0.9 * rate);
	return t->kind == GT_ALL_REDUCE ? fmin(ring, tree) : ring;
}
