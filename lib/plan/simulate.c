/* simulate.c - two clocks for each stage, and messages between stages. */
#include "lib/plan/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/mem.h"
#include "lib/graph/graph.h"

/* Messages from one stage to a neighbor, in the order in which they are sent and received. */
struct channel {
	double *sent_at, *done_at; /* [capacity] */
	size_t capacity, sent, received;
};

/* A rank that stands for its stage. */
struct place {
	const struct gt_work_list *work;
	struct gt_step_times *times;
	size_t at; /* index of the next item */
	int run;   /* runs that are done */
	double now;
	double background_until;
	double *ends; /* [ids] when each collective in the background ends */
	int ids;
	struct channel to_next, to_before; /* messages that this stage sends */
};

struct simulation {
	const struct gt_cluster *cluster;
	struct place *places;
	int stages;
};

/* ---- one item ---- */

/* Compute for `seconds`, in competition with a collective in the background. */
static void compute(const struct simulation *s, struct place *p, double seconds)
{
	double steal = s->cluster->device.steal, left = p->background_until - p->now;
	double lost;

	if (left <= 0) {
		p->now += seconds;
		return;
	}
	if (seconds < left * (1 - steal))
		lost = seconds / (1 - steal) - seconds;
	else
		lost = left * steal;
	p->times->hidden_s += fmin(seconds + lost, left) - lost;
	p->times->exposed_s[GT_AXIS_DATA] += lost;
	p->now += seconds + lost;
}

static void do_compute(const struct simulation *s, struct place *p, const struct gt_work *w)
{
	enum gt_cost_bound bound;
	double seconds = gt_cost_compute(&bound, s->cluster, w, p->work->tf32);

	compute(s, p, seconds);
	if (w->update) {
		p->times->update_s += seconds;
	} else {
		p->times->compute_s += seconds;
		p->times->bound_s[bound] += seconds;
	}
}

static void wait_until(struct place *p, double until, double *part)
{
	if (until <= p->now)
		return;
	*part += until - p->now;
	p->now = until;
}

static void start(const struct simulation *s, struct place *p, const struct gt_work *w)
{
	double began = fmax(p->now, p->background_until);

	p->background_until = began + gt_cost_traffic(s->cluster, &w->traffic);
	p->ends[w->traffic.id] = p->background_until;
}

/* ---- messages ---- */

static struct channel *sending(struct place *p, int link)
{
	return link == GT_LINK_TO_NEXT ? &p->to_next : &p->to_before;
}

/* The channel by which a stage receives, or NULL if there is no such neighbor. */
static struct channel *receiving(const struct simulation *s, const struct place *p, int link)
{
	bool before = link == GT_LINK_FROM_BEFORE;
	int stage = (int)(p - s->places) + (before ? -1 : 1);

	if (stage < 0 || stage >= s->stages)
		return NULL;
	return before ? &s->places[stage].to_next : &s->places[stage].to_before;
}

/* Return false if the message is not sent yet. */
static bool receive(const struct simulation *s, struct place *p, const struct gt_work *w)
{
	struct channel *c = receiving(s, p, w->traffic.id);
	double seconds = gt_cost_traffic(s->cluster, &w->traffic);

	if (!c || c->received == c->sent)
		return false;
	wait_until(p, c->sent_at[c->received], &p->times->bubble_s);
	wait_until(p, p->now + seconds, &p->times->exposed_s[GT_AXIS_PIPELINE]);
	c->done_at[c->received++] = p->now;
	return true;
}

/* Return false if the latest message is not received yet. */
static bool wait_for_sent(struct place *p, const struct gt_work *w)
{
	struct channel *c = sending(p, w->traffic.id);

	if (c->sent != c->received)
		return false;
	if (c->sent)
		wait_until(p, c->done_at[c->sent - 1], &p->times->bubble_s);
	return true;
}

/* ---- a rank ---- */

/* Do an item. Return false if it needs another stage first. */
static bool do_item(const struct simulation *s, struct place *p, const struct gt_work *w)
{
	const struct gt_traffic *t = &w->traffic;

	switch (t->role) {
	case GT_TRAFFIC_CALL:
		/* Collectives of a device run one after the other. */
		wait_until(p, p->background_until, &p->times->exposed_s[GT_AXIS_DATA]);
		wait_until(
		    p, p->now + gt_cost_traffic(s->cluster, t), &p->times->exposed_s[t->axis]);
		return true;
	case GT_TRAFFIC_START:
		start(s, p, w);
		return true;
	case GT_TRAFFIC_WAIT:
		wait_until(p, t->id < 0 ? p->background_until : p->ends[t->id],
		    &p->times->exposed_s[t->axis]);
		return true;
	case GT_TRAFFIC_SEND: {
		struct channel *c = sending(p, t->id);

		c->sent_at[c->sent++] = p->now;
		return true;
	}
	case GT_TRAFFIC_RECEIVE:
		return receive(s, p, w);
	case GT_TRAFFIC_SENT:
		return wait_for_sent(p, w);
	default:
		do_compute(s, p, w);
		return true;
	}
}

/* Go on to the item `until`, or to one that needs another stage first. Return whether any item was
 * done. */
static bool advance(const struct simulation *s, struct place *p, size_t until)
{
	const struct gt_work_list *w = p->work;
	bool any = false;

	while (p->at < until) {
		bool inside = p->at >= w->first && p->at < w->last;
		bool skipped = inside && !gt_work_is_in_run(w, p->at, p->run);

		if (!skipped && !do_item(s, p, &w->list[p->at]))
			return any;
		any = true;
		p->at++;
		if (p->at == w->last && inside && ++p->run < w->runs)
			p->at = w->first;
	}
	return any;
}

/* ---- all of them ---- */

static int open_channel(
    struct channel *c, const struct gt_work_list *w, int link, struct gt_err *err)
{
	for (size_t i = w->first; i < w->last; i++)
		c->capacity +=
		    w->list[i].traffic.role == GT_TRAFFIC_SEND && w->list[i].traffic.id == link;
	c->capacity = c->capacity * (size_t)w->runs + 1;
	c->sent_at = gt_calloc(c->capacity, sizeof(*c->sent_at), err);
	c->done_at = gt_calloc(c->capacity, sizeof(*c->done_at), err);
	return c->sent_at && c->done_at ? 0 : GT_ENOMEM;
}

static int open_place(struct place *p, const struct gt_work_list *work, struct gt_err *err)
{
	p->work = work;
	for (size_t i = 0; i < work->count; i++)
		if (work->list[i].traffic.role == GT_TRAFFIC_START &&
		    work->list[i].traffic.id >= p->ids)
			p->ids = work->list[i].traffic.id + 1;
	p->ends = gt_calloc((size_t)p->ids + 1, sizeof(*p->ends), err);
	if (!p->ends || open_channel(&p->to_next, work, GT_LINK_TO_NEXT, err) ||
	    open_channel(&p->to_before, work, GT_LINK_TO_BEFORE, err))
		return GT_ENOMEM;
	return 0;
}

static void close_place(struct place *p)
{
	free(p->ends);
	free(p->to_next.sent_at);
	free(p->to_next.done_at);
	free(p->to_before.sent_at);
	free(p->to_before.done_at);
}

/* Let all stages go on until each has done its plans. */
static int run_plans(const struct simulation *s, struct gt_err *err)
{
	bool any = true, done = false;

	while (any && !done) {
		any = false;
		done = true;
		for (int i = 0; i < s->stages; i++) {
			struct place *p = &s->places[i];

			any |= advance(s, p, p->work->last);
			done &= p->at == p->work->last;
		}
	}
	return done ? 0 : gt_err_set(err, GT_EINVAL, "the stages of the plan wait for each other");
}

/* All ranks agree on the loss, so none updates before the last one is there; and the next step
 * begins when all have updated. */
static void meet(const struct simulation *s)
{
	double last = 0;

	for (int i = 0; i < s->stages; i++)
		last = fmax(last, s->places[i].now);
	for (int i = 0; i < s->stages; i++)
		wait_until(&s->places[i], last, &s->places[i].times->bubble_s);
}

int gt_plan_simulate(struct gt_step_times *times, const struct gt_cluster *c,
    const struct gt_work_list *work, int stages, struct gt_err *err)
{
	struct simulation s = { .cluster = c, .stages = stages };
	int rc = 0;

	s.places = gt_calloc((size_t)stages, sizeof(*s.places), err);
	if (!s.places)
		return GT_ENOMEM;
	for (int i = 0; !rc && i < stages; i++) {
		times[i] = (struct gt_step_times){ 0 };
		s.places[i].times = &times[i];
		rc = open_place(&s.places[i], &work[i], err);
	}
	if (!rc)
		rc = run_plans(&s, err);
	if (!rc) {
		meet(&s);
		for (int i = 0; i < stages; i++)
			(void)advance(&s, &s.places[i], work[i].count);
		meet(&s);
		for (int i = 0; i < stages; i++)
			times[i].step_s = s.places[i].now;
	}
	for (int i = 0; i < stages; i++)
		close_place(&s.places[i]);
	free(s.places);
	return rc;
}

int gt_plan_slowest(const struct gt_step_times *times, int stages)
{
	int slowest = 0;

	for (int i = 1; i < stages; i++)
		if (times[i].bubble_s < times[slowest].bubble_s)
			slowest = i;
	return slowest;
}
