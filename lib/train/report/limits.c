/* limits.c - the rates that a device can reach, known or measured. */
#include "lib/train/report/limits.h"

#include <math.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/plan.h"

/* The side of the matrices; rounds of a measurement, and its least time. */
enum { SIDE = 512, ROUNDS = 3 };
static const double round_s = 5e-3;

/* Bytes of an addition: two ranges are read, one is written. */
static const double sizes[] = { 96e3, 1.5e6, 12e6, 48e6 };
enum { BYTES_PER_ELEMENT = 3 * sizeof(float) };

/* Ops that are no products are taken to reach a quarter of the FLOP/s of float32 products, as in
 * gt_calibration_apply(). */
static const double vector_part = 0.25;

double gt_limits_peak_flops(const struct gt_device *d, const struct gt_precision *p)
{
	return d->backend->peak_flops
	           ? d->backend->peak_flops(d->index, p->low, p->low == GT_F32 && p->tf32)
	           : 0;
}

/* ---- measuring ---- */

/* Return the seconds of one call, of the fastest round; 0 on failure. */
static double time_calls(
    int (*call)(void *self, struct gt_err *err), void *self, const struct gt_device *d)
{
	double best = INFINITY;

	if (call(self, GT_ERR_IGNORED) || gt_device_sync(d, GT_ERR_IGNORED))
		return 0;
	for (int round = 0; round < ROUNDS; round++) {
		double began = gt_clock_s(), seconds;
		int calls = 0;

		do {
			if (call(self, GT_ERR_IGNORED) || gt_device_sync(d, GT_ERR_IGNORED))
				return 0;
			calls++;
			seconds = gt_clock_s() - began;
		} while (seconds < round_s);
		best = fmin(best, seconds / calls);
	}
	return best;
}

static int run_plan(void *plan, struct gt_err *err)
{
	return gt_plan_run(plan, err);
}

static int build_product(struct gt_graph *g, enum gt_dtype dtype, struct gt_err *err)
{
	const int64_t shape[] = { SIDE, SIDE };
	struct gt_value *a = gt_input(g, "a", dtype, 2, shape);
	struct gt_value *b = gt_input(g, "b", dtype, 2, shape);

	gt_output(g, gt_matmul(g, a, b, NULL, false, false), "c");
	return gt_graph_status(g, err);
}

static double measure_products(const struct gt_device *d, enum gt_dtype dtype)
{
	struct gt_graph *g = NULL;
	struct gt_store *store = NULL;
	struct gt_plan *plan = NULL;
	struct gt_err err = GT_ERR_INIT;
	void *arena = NULL;
	double seconds = 0;
	int rc = gt_graph_new(&g, &err);

	if (!rc)
		rc = build_product(g, dtype, &err);
	if (!rc)
		rc = gt_store_new(&store, g, d, false, &err);
	if (!rc)
		rc = gt_store_alloc(store, &err);
	if (!rc)
		rc = gt_plan_new(&plan, g, store, NULL, &err);
	if (!rc)
		rc = gt_device_alloc(d, gt_plan_arena_bytes(plan), &arena, &err);
	if (!rc)
		rc = gt_plan_bind(plan, arena, &err);
	if (!rc)
		seconds = time_calls(run_plan, plan, d);
	if (arena)
		gt_device_free(d, arena, gt_plan_arena_bytes(plan));
	gt_plan_free(plan);
	gt_store_free(store);
	gt_graph_free(g);
	return seconds > 0 ? 2.0 * SIDE * SIDE * SIDE / seconds : 0;
}

struct addition {
	const struct gt_device *device;
	float *x, *y;
	int64_t count;
};

static int run_addition(void *self, struct gt_err *err)
{
	const struct addition *a = self;

	return a->device->backend->ranges()->add(a->device->compute, a->x, a->y, a->count, err);
}

static void measure_memory(struct gt_curve *out, const struct gt_device *d)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct addition a = { .device = d,
			.count = (int64_t)(sizes[i] / BYTES_PER_ELEMENT) };
		size_t bytes = (size_t)a.count * sizeof(float);
		void *x = NULL, *y = NULL;
		double seconds = 0;

		if (!gt_device_alloc(d, bytes, &x, GT_ERR_IGNORED) &&
		    !gt_device_alloc(d, bytes, &y, GT_ERR_IGNORED)) {
			a.x = x;
			a.y = y;
			seconds = time_calls(run_addition, &a, d);
		}
		gt_device_free(d, x, bytes);
		gt_device_free(d, y, bytes);
		if (seconds > 0)
			gt_curve_add(out, sizes[i], sizes[i] / seconds);
	}
}

/* ---- limits ---- */

static void use_known_memory(struct gt_limits *l, const struct gt_device *d)
{
	struct gt_cluster_device known;
	uint64_t available, total;
	char name[256];

	if (d->backend->describe(d->index, name, sizeof(name), GT_ERR_IGNORED) ||
	    d->backend->memory(d->index, &available, &total, GT_ERR_IGNORED))
		return;
	if (gt_cluster_find_device(&known, name, (double)total))
		gt_curve_add(&l->memory, 1, known.memory_peak);
}

void gt_limits_find(
    struct gt_limits *out, const struct gt_device *d, const struct gt_precision *precision)
{
	const struct gt_precision single = { .low = GT_F32 };

	*out = (struct gt_limits){ .product_per_s = gt_limits_peak_flops(d, precision) };
	if (d->backend->peak_flops) {
		out->vector_per_s = gt_limits_peak_flops(d, &single);
		use_known_memory(out, d);
		return;
	}
	out->measured = true;
	out->product_per_s = measure_products(d, precision->low);
	out->vector_per_s = vector_part * (precision->low == GT_F32 ? out->product_per_s
	                                                            : measure_products(d, GT_F32));
	measure_memory(&out->memory, d);
}

double gt_limits_time(
    enum gt_cost_bound *bound, const struct gt_limits *l, bool product, double flops, double bytes)
{
	double rate = product ? l->product_per_s : l->vector_per_s;
	double flops_s = rate > 0 && flops > 0 ? flops / rate : 0;
	double bytes_s =
	    l->memory.count && bytes > 0 ? bytes / gt_curve_rate(&l->memory, bytes) : 0;

	if (product && flops_s >= bytes_s)
		*bound = GT_BOUND_PRODUCTS;
	else
		*bound = flops_s > bytes_s ? GT_BOUND_VECTOR : GT_BOUND_MEMORY;
	return (product ? rate > 0 : l->memory.count > 0) ? fmax(flops_s, bytes_s) : 0;
}
