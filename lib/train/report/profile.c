/* profile.c - record the events of some steps. */
#include "lib/train/report/profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/train/report/observer.h"
#include "lib/train/report/profile_state.h"

/* ---- options ---- */

/* One "key=N" at `text`, whose key is not in *seen yet: where it ends, or NULL. */
static const char *parse_one(struct gt_profile_options *out, const char *text, unsigned *seen)
{
	const struct {
		const char *key;
		int64_t *value, least;
	} keys[] = { { "wait=", &out->wait, 0 }, { "warmup=", &out->warmup, 0 },
		{ "active=", &out->active, 1 }, { "repeat=", &out->repeat, 0 } };
	const size_t count = sizeof(keys) / sizeof(keys[0]);
	size_t i = 0;
	long long n;
	char *end;

	while (i < count && strncmp(text, keys[i].key, strlen(keys[i].key)))
		i++;
	if (i == count || *seen >> i & 1)
		return NULL;
	*seen |= 1u << i;
	text += strlen(keys[i].key);
	n = strtoll(text, &end, 10);
	*keys[i].value = n;
	return end == text || n < keys[i].least || n > 1000000 ? NULL : end;
}

int gt_profile_parse(struct gt_profile_options *out, const char *text, struct gt_err *err)
{
	const char *at = text;
	unsigned seen = 0;

	*out = (struct gt_profile_options){ .wait = 1, .warmup = 1, .active = 3, .repeat = 1 };
	for (at = parse_one(out, at, &seen); at && *at == ',';)
		at = parse_one(out, at + 1, &seen);
	if (at && !*at)
		return 0;
	gt_err_set(
	    err, GT_EINVAL, "{profile}: '%s' is not as wait=1,warmup=1,active=3,repeat=1", text);
	return gt_err_hint(err,
	    "each once at most: numbers from 0 to 1000000, of active at least 1; repeat=0 goes on "
	    "to the end of the run");
}

/* ---- a profile ---- */

enum {
	/* The host queues a step while the device does the one before. */
	STEPS_LATE = 2,
	MARKS_PER_EVENT = 2,
	/* events of a run of a plan besides its kernels and collectives: read, wait, copy */
	EVENTS_PER_RUN = 3,
	/* the step, its phases, and the time in which the host queues it */
	EVENTS_PER_STEP = 6
};

/* Set p->plans, and p->per_step to the most events of a step. */
static int survey_plans(struct gt_profile *p, struct gt_err *err)
{
	const struct gt_program_pair *pair = &p->t->steps;
	size_t most = 0, count;

	for (int i = 0; i < 2; i++) {
		const struct gt_plan *plan = i ? pair->tail.plan : pair->full.plan;

		if (!plan)
			continue;
		gt_plan_steps(plan, &count);
		most = count > most ? count : most;
		p->plans[i].plan = plan;
		if (gt_plan_live(&p->plans[i].live, plan, err))
			return err->code;
	}
	/* An event of the ranks is one of runs, and then once in each, or of the update. */
	gt_parallel_events(p->t->s.parallel, &count);
	p->per_step = (size_t)p->t->runs * (most + count + EVENTS_PER_RUN) + EVENTS_PER_STEP;
	return 0;
}

static int alloc_events(struct gt_profile *p, struct gt_err *err)
{
	p->base = p->o.warmup ? p->per_step : 0;
	if (__builtin_mul_overflow((size_t)p->o.active, p->per_step, &p->capacity) ||
	    __builtin_add_overflow(p->capacity, p->base, &p->capacity))
		p->capacity = SIZE_MAX;
	p->spans = gt_calloc(p->capacity, sizeof(*p->spans), err);
	p->events = p->spans ? gt_calloc(p->capacity, sizeof(*p->events), err) : NULL;
	if (!p->events)
		return GT_ENOMEM;
	return gt_marks_new(
	    &p->marks, p->t->s.device, STEPS_LATE * MARKS_PER_EVENT * p->per_step, err);
}

/*
 * A profile is a list of events. An event is a piece of work with the times of its begin and end: a
 * step, a phase (a part of a step, such as the optimizer's update), a kernel, a collective, a copy,
 * or work of the host. Except for work of the host, the times are those at which the device does
 * the work (lib/device/marks.h). A GPU does the work later than the host queues it. So, with a GPU,
 * the profile reads the times of a step while later steps run, and the times of the last steps when
 * the cycle ends.
 *
 * Steps of the warm-up are recorded like others, so that what is done once, such as creating the
 * events of marks, is done before the first step that counts. All of them use the same events.
 */
int gt_profile_new(struct gt_profile **out, struct gt_train *t, struct gt_profile_summary *summary,
    struct gt_err *err)
{
	struct gt_profile *p = gt_calloc(1, sizeof(*p), err);
	struct gt_session_memory memory = { 0 };

	*out = NULL;
	if (!p)
		return GT_ENOMEM;
	p->o = t->profile;
	p->t = t;
	p->summary = summary;
	if (!t->s.device->backend->host_memory)
		gt_train_memory(&memory, t);
	p->gpu_bytes = memory.total;
	if (survey_plans(p, err) || alloc_events(p, err)) {
		gt_profile_free(p);
		return err->code;
	}
	p->count = p->base;
	*out = p;
	return 0;
}

void gt_profile_free(struct gt_profile *p)
{
	if (!p)
		return;
	gt_parallel_watch(p->t->s.parallel, NULL, NULL);
	gt_marks_free(p->marks); /* before the spans that it fills */
	for (int i = 0; i < 2; i++)
		free(p->plans[i].live);
	free(p->spans);
	free(p->events);
	free(p);
}

/* ---- recording ---- */

/* Add an event. The caller or marks set its times. */
static struct gt_profile_event *add_profile_event(
    struct gt_profile *p, enum gt_event_kind kind, enum gt_profile_row row, const char *name)
{
	struct gt_profile_event *e = &p->events[p->count];

	assert(p->count < p->capacity);
	p->spans[p->count++] = (struct gt_span){ 0 };
	*e = (struct gt_profile_event){ .kind = kind,
		.row = row,
		.name = name,
		.collective = -1,
		.kernels = p->kernels,
		.kernels_end = p->kernels_end };
	return e;
}

static struct gt_stream *compute_stream(const struct gt_profile *p)
{
	return p->t->s.device->compute;
}

/* Find the place of a step in its cycle. */
static void look_up_schedule(struct gt_profile *p)
{
	int64_t length = p->o.wait + p->o.warmup + p->o.active;
	int64_t place = p->index % length;
	bool over = p->o.repeat && p->index / length >= p->o.repeat;

	p->on = !over && place >= p->o.wait;
	p->active = p->on && place >= p->o.wait + p->o.warmup;
	if (p->on && !p->active)
		p->count = 0;
	else if (place == p->o.wait + p->o.warmup)
		p->count = p->base;
}

int gt_profile_step(struct gt_profile *p, int64_t index, int64_t number, struct gt_err *err)
{
	if (!p)
		return 0;
	p->index = index;
	look_up_schedule(p);
	if (!p->on)
		return 0;
	if (p->active && p->count == p->base)
		p->summary->first = number;
	if (p->active)
		p->summary->last = number;
	p->began = p->looked = gt_clock_s();
	p->step = p->count;
	p->kernels = p->kernels_end = p->count;
	add_profile_event(p, GT_EVENT_STEP, GT_ROW_COMPUTE, GT_PROFILE_STEP)->bytes =
	    gt_report_memory(p->gpu_bytes);
	return gt_marks_add(p->marks, compute_stream(p), &p->spans[p->step].began, err);
}

int gt_profile_phase(struct gt_profile *p, const char *name, struct gt_err *err)
{
	if (!p || !p->on)
		return 0;
	p->phase = p->count;
	add_profile_event(p, GT_EVENT_STEP, GT_ROW_COMPUTE, name);
	return gt_marks_add(p->marks, compute_stream(p), &p->spans[p->phase].began, err);
}

int gt_profile_phase_done(struct gt_profile *p, struct gt_err *err)
{
	if (!p || !p->on)
		return 0;
	return gt_marks_add(p->marks, compute_stream(p), &p->spans[p->phase].ended, err);
}

void gt_profile_feed(struct gt_profile *p, struct gt_program *program, const struct gt_batch *batch)
{
	uint64_t bytes = program->input_bytes + program->target_bytes;

	if (!p || !p->on || !batch->input)
		return;
	if (batch->reader >= 0) {
		struct gt_profile_event *e =
		    add_profile_event(p, GT_EVENT_READ, GT_ROW_LOADER, "read batch");

		e->number = batch->reader;
		e->bytes = bytes;
		p->spans[p->count - 1] = batch->read;
	}
	p->copy = p->count;
	add_profile_event(
	    p, GT_EVENT_COPY, program->staging ? GT_ROW_COPIES : GT_ROW_COMPUTE, "copy batch")
	    ->bytes = bytes;
	gt_program_watch(program, p->marks, &p->spans[p->copy]);
}

void gt_profile_fed(struct gt_profile *p, struct gt_program *program)
{
	if (p && p->on)
		gt_program_watch(program, NULL, NULL);
}

static void add_collective(struct gt_profile *p, int index, const char *name)
{
	struct gt_profile_event *e =
	    add_profile_event(p, GT_EVENT_COLLECTIVE, GT_ROW_COMMUNICATOR, name);

	e->number = GT_AXIS_DATA; /* the ranks that add up buckets */
	e->collective = index;
}

/* Return whether marks measure collectives: groups for device memory have no other times. */
static bool marks_collectives(const struct gt_profile *p)
{
	return !p->t->s.device->backend->host_memory;
}

/* Where marks measure collectives, add an event for each that this run, or the update behind it,
 * may start. Spans of those that it does not start stay zero. */
static void watch_parallel(struct gt_profile *p)
{
	const struct gt_parallel_event *events;
	size_t count;

	if (!marks_collectives(p))
		return;
	events = gt_parallel_events(p->t->s.parallel, &count);
	gt_parallel_watch(p->t->s.parallel, p->marks, p->spans + p->count);
	for (size_t i = 0; i < count; i++)
		add_collective(p, (int)i, events[i].what);
}

/* The memory of the plan's temporaries. */
static const size_t *live_bytes(const struct gt_profile *p, const struct gt_plan *plan)
{
	return p->plans[p->plans[0].plan != plan].live;
}

void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan)
{
	bool late = p && gt_marks_are_late(p->marks);
	size_t count, collectives;
	const struct gt_step *steps = gt_plan_steps(plan, &count);
	size_t first;

	if (!p || !p->on)
		return;
	gt_parallel_events(p->t->s.parallel, &collectives);
	p->kernels = p->count + (marks_collectives(p) ? collectives : 0);
	p->kernels_end = p->kernels + count;
	watch_parallel(p);
	first = p->count;
	for (size_t i = 0; i < count; i++) {
		struct gt_profile_event *e = add_profile_event(p, GT_EVENT_KERNEL,
		    steps[i].crosses && late ? GT_ROW_COLLECTIVES : GT_ROW_COMPUTE,
		    steps[i].node->op->name);

		e->step = &steps[i];
		e->bytes = live_bytes(p, plan)[i];
	}
	gt_plan_watch(plan, p->marks, p->spans + first);
}

void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan)
{
	if (p && p->on)
		gt_plan_watch(plan, NULL, NULL);
}

void gt_profile_background(struct gt_profile *p)
{
	const struct gt_parallel_event *events;
	size_t count;

	if (!p || !p->on)
		return;
	events = gt_parallel_events(p->t->s.parallel, &count);
	for (size_t i = 0; i < count; i++)
		if (events[i].span.began >= p->looked) {
			add_collective(p, (int)i, events[i].what);
			p->spans[p->count - 1] = events[i].span;
		}
	p->looked = gt_clock_s();
}

void gt_profile_note(struct gt_profile *p, const char *name, double began)
{
	bool late = p && gt_marks_are_late(p->marks);

	if (!p || !p->on)
		return;
	add_profile_event(
	    p, late ? GT_EVENT_HOST : GT_EVENT_STEP, late ? GT_ROW_HOST : GT_ROW_COMPUTE, name);
	p->spans[p->count - 1] = (struct gt_span){ began, gt_clock_s() };
}

bool gt_profile_has(const struct gt_profile *p, size_t event)
{
	return p->spans[event].ended > 0;
}

/* ---- the end of a cycle ---- */

/* Only rank 0 holds the run directory, and other hosts may have one of their own. */
static int open_trace(struct gt_folder *out, const char *dir, struct gt_err *err)
{
	struct gt_folder parent = { 0 };
	int rc = gt_make_dirs(dir, err);

	if (!rc)
		rc = gt_folder_open(&parent, dir, err);
	if (!rc)
		rc = gt_folder_open_in(out, &parent, "trace", true, err);
	gt_folder_close(&parent);
	return rc;
}

/* Return the path of the trace: "rank-0.json.gz", and "rank-0-2.json.gz" for the second cycle. */
static char *name_trace(const struct gt_profile *p, const char *folder, struct gt_err *err)
{
	char cycle[24] = "";

	if (p->summary->cycles)
		snprintf(cycle, sizeof(cycle), "-%lld", (long long)p->summary->cycles + 1);
	return gt_asprintf(err, "%s/rank-%d%s.json.gz", folder, gt_train_rank(p->t), cycle);
}

static int write_trace(struct gt_profile *p, struct gt_err *err)
{
	struct gt_folder folder = { 0 };
	char *path = NULL;
	int rc = open_trace(&folder, p->t->o.out, err);

	if (!rc) {
		path = name_trace(p, folder.path, err);
		rc = path ? 0 : GT_ENOMEM;
	}
	if (!rc)
		rc = gt_profile_write(p, (struct gt_file_name){ &folder, path }, err);
	if (!rc)
		gt_log_info(p->t->log, "trace: %s", path);
	gt_folder_close(&folder);
	free(path);
	return rc;
}

/* A trace that cannot be written, because the disk is full, does not end the run. */
static int finish_cycle(struct gt_profile *p, struct gt_err *err)
{
	struct gt_profile_summary *s = p->summary;
	struct gt_err failed = GT_ERR_INIT;
	double began = gt_clock_s();
	int rc = gt_marks_read(p->marks, err);

	if (!rc && !s->cycles)
		gt_limits_find(&p->limits, p->t->s.device, &p->t->s.precision);
	if (!rc && write_trace(p, &failed))
		gt_log_warn(p->t->log, "%s; the run goes on without this trace", failed.text);
	if (!rc)
		rc = gt_profile_sum_up(p, s, err);
	if (!rc)
		s->cycles++;
	p->count = p->base;
	p->finish_s = gt_clock_s() - began;
	return rc;
}

int gt_profile_step_done(struct gt_profile *p, struct gt_err *err)
{
	int64_t length;

	if (!p || !p->on)
		return 0;
	if (gt_marks_are_late(p->marks))
		gt_profile_note(p, GT_PROFILE_QUEUEING, p->began);
	gt_parallel_watch(p->t->s.parallel, NULL, NULL);
	if (gt_marks_add(p->marks, compute_stream(p), &p->spans[p->step].ended, err))
		return err->code;
	length = p->o.wait + p->o.warmup + p->o.active;
	return p->active && (p->index + 1) % length == 0 ? finish_cycle(p, err) : 0;
}

/* The first step of a run takes longer than others. */
void gt_profile_time(struct gt_profile *p, double seconds)
{
	if (!p || !p->index || (p->on && !p->active))
		return;
	if (p->on) {
		p->recorded++;
		p->recorded_s += seconds - p->finish_s;
	} else {
		p->others++;
		p->other_s += seconds;
	}
	p->finish_s = 0;
}

/* Tell the cost of recording. */
static void compare_with_others(struct gt_profile *p)
{
	struct gt_profile_summary *s = p->summary;

	s->other_steps = p->others;
	if (!p->others || !p->recorded)
		return;
	s->other_step_s = p->other_s / (double)p->others;
	gt_log_info(p->t->log, "recorded steps took %.3f ms each, others %.3f ms (count: %lld)",
	    1e3 * p->recorded_s / (double)p->recorded, 1e3 * s->other_step_s, (long long)p->others);
}

int gt_profile_end(struct gt_profile *p, struct gt_err *err)
{
	if (!p)
		return 0;
	if (p->active && p->count > p->base && finish_cycle(p, err))
		return err->code;
	if (p->summary->cycles)
		compare_with_others(p);
	else
		gt_log_warn(p->t->log,
		    "{profile}: the run was over before the first step to be recorded, number %lld",
		    (long long)(p->o.wait + p->o.warmup + 1));
	return 0;
}
