/* cost.h - the time of an op on a described device, and of a collective over described links. */
#ifndef GT_PLAN_COST_H
#define GT_PLAN_COST_H

#include "lib/plan/cluster.h"
#include "lib/plan/work.h"

/* The limit of an op's time. */
enum gt_cost_bound {
	GT_BOUND_PRODUCTS,
	GT_BOUND_VECTOR,
	GT_BOUND_MEMORY,
	GT_BOUND_LAUNCH,
	GT_BOUNDS
};

/*
 * Return the seconds of an item of work that computes:
 *
 *   launches * launch time + max(FLOPs / rate, bytes / rate) * the op's factor
 *
 * Products have a rate for their type, their size and their width, all ops one for their bytes.
 * *bound is the larger part.
 */
double gt_cost_compute(
    enum gt_cost_bound *bound, const struct gt_cluster *c, const struct gt_work *work, bool tf32);

/*
 * Return the seconds of a collective, or of a message, from when all ranks have called it. On n
 * ranks, S bytes, of which a ring sends 2 (n - 1) / n in an all-reduce, half of it in a
 * reduce-scatter or an all-gather:
 *
 *   ring    base + 2 (n - 1) step + 2 (n - 1) / n S / rate
 *   tree    base + 2 (ranks of a host + log2(hosts)) step + 2 (n - 1) / n S / (0.9 rate)
 *
 * and an all-reduce takes the faster one. Over several hosts, the rate is that of the network cards
 * of all ranks of the group on a host, at most that of the links within it; steps between hosts
 * have the latency of the network. Never slower with a higher rate.
 */
double gt_cost_traffic(const struct gt_cluster *c, const struct gt_traffic *t);

#endif
