/* profile_sums.c - the sums of a profile's times: the table of ops, and what bounds a step. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/graph/op.h"
#include "lib/train/report/profile_state.h"
#include "lib/train/report/work.h"

enum { OPS_SHOWN = 10 };

/* All events of an op or of a phase, in all recorded steps. */
struct op_sum {
	const char *name;
	int64_t calls;
	double seconds, flops, bytes;
	double exposed_s; /* seconds on the compute stream */
	double limit_s;   /* time that the limits of the device give; 0: not known */
	double bound_s[GT_BOUNDS];
	bool kernel, communicates; /* else a phase */
};

/* Return the bytes that a phase moves, or 0 for a phase that waits for other ranks. */
static double bytes_of_phase(const struct gt_profile *p, const char *name)
{
	const struct gt_store *store = p->t->s.store;

	if (!strcmp(name, GT_PROFILE_UPDATE))
		return gt_train_update_bytes(p->t);
	if (!strcmp(name, GT_PROFILE_ZEROING))
		return (double)gt_plane_bytes(store, store->gradients);
	return 0;
}

static double duration(const struct gt_profile *p, size_t i)
{
	return p->spans[i].ended - p->spans[i].began;
}

static double steps_of(const struct gt_profile_summary *s)
{
	return (double)(s->last - s->first + 1);
}

/* ---- times of the background ---- */

/* Seconds in which both ran. */
static double overlap(const struct gt_span *a, const struct gt_span *b)
{
	double from = a->began > b->began ? a->began : b->began;
	double to = a->ended < b->ended ? a->ended : b->ended;

	return to > from ? to - from : 0;
}

/* Seconds of this event in which kernels ran that do not communicate with other ranks. */
static double hidden_by_kernels(const struct gt_profile *p, size_t event)
{
	const struct gt_profile_event *e = &p->events[event];
	double hidden = 0;

	for (size_t i = e->kernels; i < e->kernels_end; i++)
		if (p->events[i].row == GT_ROW_COMPUTE && !gt_parallel_has_op(p->events[i].name))
			hidden += overlap(&p->spans[event], &p->spans[i]);
	return hidden;
}

static void add_times(const struct gt_profile *p, struct gt_profile_summary *s)
{
	double n = steps_of(s), hidden = 0;

	s->step_s = s->collectives_s = 0;
	for (size_t i = p->base; i < p->count; i++) {
		const struct gt_profile_event *e = &p->events[i];

		if (e->kind == GT_EVENT_COLLECTIVE) {
			s->collectives_s += duration(p, i) / n;
			hidden += hidden_by_kernels(p, i) / n;
		} else if (!strcmp(e->name, GT_PROFILE_STEP)) {
			s->step_s += duration(p, i) / n;
		}
	}
	s->hidden = s->collectives_s > 0 ? hidden / s->collectives_s : 0;
}

/* ---- sums by op ---- */

/* Return whether an event is a part of a step that no other event of its row encloses. */
static bool is_part(const struct gt_profile_event *e)
{
	return e->kind == GT_EVENT_KERNEL ||
	       (e->kind == GT_EVENT_STEP && strcmp(e->name, GT_PROFILE_STEP) != 0);
}

double gt_profile_limit(
    enum gt_cost_bound *bound, const struct gt_profile *p, const struct gt_profile_event *e)
{
	struct gt_cost cost = { 0 };

	*bound = GT_BOUND_MEMORY;
	if (e->step && !gt_parallel_has_op(e->name)) {
		gt_step_add_cost(e->step, &cost);
		return gt_limits_time(bound, &p->limits, e->step->node->op->product, cost.flops,
		    cost.bytes_read + cost.bytes_written);
	}
	if (e->kind != GT_EVENT_STEP)
		return 0;
	return gt_limits_time(bound, &p->limits, false, 0, bytes_of_phase(p, e->name));
}

/* A kernel this short, and far from its limit, spends its time on being started. */
static bool is_short(double seconds, double limit_s)
{
	return limit_s > 0 && seconds < 20e-6 && limit_s < seconds / 10;
}

static void add_event(struct op_sum *sum, const struct gt_profile *p, size_t event)
{
	const struct gt_profile_event *e = &p->events[event];
	double seconds = duration(p, event), limit_s;
	struct gt_cost cost = { 0 };
	enum gt_cost_bound bound;

	limit_s = gt_profile_limit(&bound, p, e);
	sum->calls++;
	sum->seconds += seconds;
	sum->exposed_s += e->row == GT_ROW_COMPUTE ? seconds : 0;
	sum->limit_s += limit_s;
	sum->bound_s[is_short(seconds, limit_s) ? GT_BOUND_LAUNCH : bound] += seconds;
	sum->kernel = e->step;
	sum->communicates = e->step && gt_parallel_has_op(e->name);
	if (e->step && !sum->communicates)
		gt_step_add_cost(e->step, &cost);
	else if (!e->step)
		cost.bytes_read = bytes_of_phase(p, e->name);
	sum->flops += cost.flops;
	sum->bytes += cost.bytes_read + cost.bytes_written;
}

static int by_seconds(const void *a, const void *b)
{
	const struct op_sum *x = a, *y = b;

	return (y->seconds > x->seconds) - (y->seconds < x->seconds);
}

/* Kernels of the plan and phases of the loop, by name, the longest first. Returns how many. */
static size_t sum_ops(const struct gt_profile *p, struct op_sum *ops)
{
	size_t n = 0;

	for (size_t i = p->base; i < p->count; i++) {
		size_t k = 0;

		if (!is_part(&p->events[i]) || !gt_profile_has(p, i))
			continue;
		while (k < n && strcmp(ops[k].name, p->events[i].name))
			k++;
		if (k == n)
			ops[n++] = (struct op_sum){ .name = p->events[i].name };
		add_event(&ops[k], p, i);
	}
	qsort(ops, n, sizeof(*ops), by_seconds);
	return n;
}

/* ---- the table ---- */

/* The limit that an op reaches most of the time. */
static const char *name_limit(const struct op_sum *op)
{
	static const char *const names[GT_BOUNDS] = { [GT_BOUND_PRODUCTS] = "products",
		[GT_BOUND_VECTOR] = "arithmetic",
		[GT_BOUND_MEMORY] = "memory",
		[GT_BOUND_LAUNCH] = "too short" };
	int most = 0;

	for (int i = 1; i < GT_BOUNDS; i++)
		if (op->bound_s[i] > op->bound_s[most])
			most = i;
	return names[most];
}

static void log_row(const struct gt_profile *p, const struct op_sum *op, double all_s, double steps)
{
	char flops[GT_TEXT_SIZE] = "", bytes[GT_TEXT_SIZE] = "", limit[40] = "";

	if (op->flops > 0)
		gt_text_count(flops, op->flops / op->seconds);
	if (op->bytes > 0)
		gt_text_count(bytes, op->bytes / op->seconds);
	if (op->communicates)
		snprintf(limit, sizeof(limit), "other ranks");
	else if (op->limit_s > 0)
		snprintf(limit, sizeof(limit), "%3.0f %% of %s", 100 * op->limit_s / op->seconds,
		    name_limit(op));
	gt_log_info(p->t->log, "%-24s %9.3f ms %4.0f %% %8.4g %8s %8s  %s", op->name,
	    1e3 * op->seconds / steps, 100 * op->seconds / all_s, (double)op->calls / steps, flops,
	    bytes, limit);
}

static void log_table(const struct gt_profile *p, const struct gt_profile_summary *s,
    const struct op_sum *ops, size_t n)
{
	const struct gt_limits *l = &p->limits;
	double steps = steps_of(s);

	gt_log_info(p->t->log, "steps %lld to %lld: %.3f ms each", (long long)s->first,
	    (long long)s->last, 1e3 * s->step_s);
	gt_log_info(p->t->log, "%-24s %12s %6s %8s %8s %8s  %s", "operation", "time", "share",
	    "calls", "FLOP/s", "bytes/s", "of the limit");
	for (size_t i = 0; i < n && i < OPS_SHOWN; i++)
		log_row(p, &ops[i], s->step_s * steps, steps);
	if (l->product_per_s > 0 && l->memory.count)
		gt_log_info(p->t->log,
		    "limits: %.3g GFLOP/s in products of %s, %.3g GB/s from memory, %s",
		    1e-9 * l->product_per_s, gt_dtype_name(p->t->s.precision.low),
		    1e-9 * l->memory.rate[l->memory.count - 1],
		    l->measured ? "measured" : "published");
	else
		gt_log_info(p->t->log, "the limits of this device are not known");
}

/* ---- what bounds a step ---- */

enum cause {
	CAUSE_DATA,
	CAUSE_RANKS,
	CAUSE_PRODUCTS,
	CAUSE_ARITHMETIC,
	CAUSE_MEMORY,
	CAUSE_SHORT,
	CAUSE_UPDATE,
	CAUSE_HOST,
	CAUSES
};

/* Each cause: its name in JSON, its words, and what to change. */
static const struct {
	const char *name, *words, *change;
} causes[CAUSES] = {
	[CAUSE_DATA] = { "data", "waiting for data",
	    "more {workers} read the data, a larger {prefetch} reads further ahead" },
	[CAUSE_RANKS] = { "ranks", "waiting for other ranks",
	    "a larger {batch} or {accumulate} sums gradients less often" },
	[CAUSE_PRODUCTS] = { "products", "products of matrices", "more ranks, or a faster device" },
	[CAUSE_ARITHMETIC] = { "arithmetic", "arithmetic that is no product",
	    "more ranks, or a faster device" },
	[CAUSE_MEMORY] = { "memory", "reading and writing memory",
	    "a larger {batch} reads the weights less often, and more ranks have more memory to "
	    "read from" },
	[CAUSE_SHORT] = { "launch", "the start of kernels with little work",
	    "a larger {batch} gives each kernel more work" },
	[CAUSE_UPDATE] = { "update", "the optimizer's update",
	    "a larger {batch} or {accumulate} updates less often" },
	[CAUSE_HOST] = { "host", "work of the host between kernels",
	    "a larger {batch} gives the device more work for each kernel that the host queues" },
};

/* What to change, where the options of the run allow something better. */
static const char *find_change(const struct gt_profile *p, enum cause cause, double share_of_limit)
{
	const struct gt_train_options *o = &p->t->o;
	bool single = p->t->s.precision.low == GT_F32, gpu = p->gpu_bytes;
	bool whole = o->parallel.tensor <= 1 && o->parallel.stages <= 1;
	bool divides = gt_session_data_world(&p->t->s) > 1 && o->parallel.kind < GT_PARALLEL_ZERO1;

	if (cause == CAUSE_RANKS && !whole)
		return "'gtrain plan --search' finds the layout of ranks that waits least";
	if (cause == CAUSE_RANKS && divides && !o->parallel.compress)
		return "a larger {batch} or {accumulate} sums gradients less often, {compress} "
		       "bf16 sends half of the bytes";
	if (cause == CAUSE_DATA && !o->workers)
		return "{workers} 2 reads while the model computes";
	if (cause == CAUSE_PRODUCTS && single && gpu)
		return "{amp} bf16 multiplies several times as fast";
	if (cause == CAUSE_PRODUCTS && share_of_limit > 0 && share_of_limit < 0.5)
		return "a larger {batch} makes the products larger, which are far from the limit";
	if (cause == CAUSE_MEMORY && single && gpu)
		return "{amp} bf16 moves half of the bytes";
	if (cause == CAUSE_UPDATE && divides)
		return "{parallel} zero1 divides the update among the ranks";
	return causes[cause].change;
}

/* Return the seconds of a note or of a phase in all recorded steps. */
static double seconds_of(const struct gt_profile *p, const char *name)
{
	double seconds = 0;

	for (size_t i = p->base; i < p->count; i++)
		if (!strcmp(p->events[i].name, name))
			seconds += duration(p, i);
	return seconds;
}

/* Divide the time of the steps among the causes. The rest is that of the host: on a GPU, which
 * works on while the host waits for data, only the rest can be such a wait. */
static void find_causes(double causes_s[CAUSES], const struct gt_profile *p,
    const struct gt_profile_summary *s, const struct op_sum *ops, size_t n)
{
	double rest = s->step_s * steps_of(s), waited = seconds_of(p, GT_PROFILE_WAITING);

	for (size_t i = 0; i < n; i++) {
		const struct op_sum *op = &ops[i];

		if (!strcmp(op->name, GT_PROFILE_WAITING))
			continue;
		rest -= op->exposed_s;
		if (!strcmp(op->name, GT_PROFILE_UPDATE)) {
			causes_s[CAUSE_UPDATE] += op->seconds;
		} else if (op->communicates || (!op->kernel && !op->bytes)) {
			causes_s[CAUSE_RANKS] += op->exposed_s;
		} else {
			causes_s[CAUSE_PRODUCTS] += op->bound_s[GT_BOUND_PRODUCTS];
			causes_s[CAUSE_ARITHMETIC] += op->bound_s[GT_BOUND_VECTOR];
			causes_s[CAUSE_MEMORY] += op->bound_s[GT_BOUND_MEMORY];
			causes_s[CAUSE_SHORT] += op->bound_s[GT_BOUND_LAUNCH];
		}
	}
	rest = rest > 0 ? rest : 0;
	causes_s[CAUSE_DATA] = waited < rest ? waited : rest;
	causes_s[CAUSE_HOST] = rest - causes_s[CAUSE_DATA];
}

/* Return the part of their limit that ops reach which it bounds. */
static double reached(const struct op_sum *ops, size_t n, enum gt_cost_bound bound)
{
	double seconds = 0, limit_s = 0;

	for (size_t i = 0; i < n; i++)
		if (ops[i].bound_s[bound] > ops[i].seconds / 2) {
			seconds += ops[i].seconds;
			limit_s += ops[i].limit_s;
		}
	return seconds > 0 ? limit_s / seconds : 0;
}

static void log_verdict(
    const struct gt_profile *p, struct gt_profile_summary *s, const struct op_sum *ops, size_t n)
{
	double causes_s[CAUSES] = { 0 }, part = 0;
	char limit[60] = "";
	int most = 0;

	find_causes(causes_s, p, s, ops, n);
	for (int i = 1; i < CAUSES; i++)
		if (causes_s[i] > causes_s[most])
			most = i;
	if (most == CAUSE_PRODUCTS || most == CAUSE_MEMORY)
		part =
		    reached(ops, n, most == CAUSE_PRODUCTS ? GT_BOUND_PRODUCTS : GT_BOUND_MEMORY);
	if (part > 0)
		snprintf(limit, sizeof(limit), ", at %.0f %% of the limit", 100 * part);
	s->bound = causes[most].name;
	s->bound_share = s->step_s > 0 ? causes_s[most] / (s->step_s * steps_of(s)) : 0;
	gt_log_info(p->t->log, "the step is bound by %s%s (%.0f %% of its time): %s",
	    causes[most].words, limit, 100 * s->bound_share,
	    find_change(p, (enum cause)most, part));
}

int gt_profile_sum_up(const struct gt_profile *p, struct gt_profile_summary *s, struct gt_err *err)
{
	struct op_sum *ops = gt_calloc(p->count, sizeof(*ops), err);
	size_t n;

	if (!ops)
		return GT_ENOMEM;
	n = sum_ops(p, ops);
	add_times(p, s);
	log_table(p, s, ops, n);
	if (s->collectives_s > 0)
		gt_log_info(p->t->log,
		    "collectives in the background: %.3f ms a step, %.0f %% hidden behind kernels",
		    1e3 * s->collectives_s, 100 * s->hidden);
	log_verdict(p, s, ops, n);
	free(ops);
	return 0;
}
