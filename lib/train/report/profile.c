/* profile.c - record a trace of some steps, and the sums of its times. */
#include "lib/train/report/profile.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/text.h"

/* Kinds of events. Where a device works later than the host, LANE_BESIDE is for kernels that run
 * beside those of the compute stream, and LANE_HOST for work of the host. */
enum lane { LANE_STEP, LANE_PLAN, LANE_BESIDE, LANE_BACKGROUND, LANE_HOST };

/* The time in which the host queues a step that a device does later. */
static const char *const queueing = "queue step";

struct event {
	const char *name, *scope; /* scope may be NULL */
	enum lane lane;
	size_t kernels, kernels_end; /* background: the events of the plan that it was beside */
};

struct gt_profile {
	struct gt_profile_options o;
	struct event *events;  /* [capacity] */
	struct gt_span *spans; /* [capacity], of the events; marks fill them later */
	size_t count, capacity;
	struct gt_marks *marks;
	struct gt_stream *stream; /* stream of the phases of a step */
	struct gt_parallel *parallel;
	int64_t first, last, left;
	size_t step, phase;          /* the events of this step, and of its last phase */
	double began;                /* when the host began this step */
	double looked;               /* when the background was last asked */
	size_t kernels, kernels_end; /* the events of the last run of a plan */
	bool on;
};

/* ---- options ---- */

/* One "key=N" at `text`, whose key is not in *seen yet: where it ends, or NULL. */
static const char *parse_one(struct gt_profile_options *out, const char *text, unsigned *seen)
{
	const struct {
		const char *key;
		int64_t *value, least;
	} keys[] = { { "wait=", &out->wait, 0 }, { "warmup=", &out->warmup, 0 },
		{ "active=", &out->active, 1 } };
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

	*out = (struct gt_profile_options){ .wait = 1, .warmup = 1, .active = 3 };
	for (at = parse_one(out, at, &seen); at && *at == ',';)
		at = parse_one(out, at + 1, &seen);
	if (at && !*at)
		return 0;
	gt_err_set(err, GT_EINVAL, "{profile}: '%s' is not as wait=1,warmup=1,active=3", text);
	return gt_err_hint(err, "each once at most: steps from 0 to 1000000, of active at least 1");
}

/* ---- recording ---- */

/* The host queues a step while the device does the one before. */
enum { STEPS_LATE = 2, MARKS_PER_EVENT = 2 };

/*
 * A profile is a list of events. An event is a piece of work with the times of its begin and end: a
 * step, a phase (a part of a step, such as the optimizer's update), a kernel, a collective, or work
 * of the host. Except for work of the host, the times are those at which the device does the work
 * (lib/device/marks.h). A GPU does the work later than the host queues it. So, with a GPU, the
 * profile reads the times of a step while later steps run, and the times of the last steps when the
 * profile ends. The trace of a GPU has one more row, for the work of the host.
 */
int gt_profile_new(struct gt_profile **out, const struct gt_profile_options *options,
    const struct gt_device *device, struct gt_parallel *parallel, size_t events, struct gt_err *err)
{
	struct gt_profile *p = gt_calloc(1, sizeof(*p), err);

	*out = NULL;
	if (!p)
		return GT_ENOMEM;
	p->o = *options;
	p->left = options->active;
	p->stream = device->compute;
	p->parallel = parallel;
	if (__builtin_mul_overflow((size_t)options->active, events, &p->capacity))
		p->capacity = SIZE_MAX;
	p->spans = gt_calloc(p->capacity, sizeof(*p->spans), err);
	p->events = p->spans ? gt_calloc(p->capacity, sizeof(*p->events), err) : NULL;
	if (!p->events ||
	    gt_marks_new(&p->marks, device, STEPS_LATE * MARKS_PER_EVENT * events, err)) {
		gt_profile_free(p);
		return err->code;
	}
	*out = p;
	return 0;
}

void gt_profile_free(struct gt_profile *p)
{
	if (!p)
		return;
	gt_parallel_watch(p->parallel, NULL, NULL);
	gt_marks_free(p->marks); /* before the spans that it fills */
	free(p->spans);
	free(p->events);
	free(p);
}

/* Add an event. The caller or marks set its times. */
static size_t add_profile_event(
    struct gt_profile *p, enum lane lane, const char *name, const char *scope)
{
	assert(p->count < p->capacity);
	p->events[p->count] = (struct event){ name, scope, lane, p->kernels, p->kernels_end };
	return p->count++;
}

int gt_profile_step(struct gt_profile *p, int64_t index, int64_t number, struct gt_err *err)
{
	if (!p)
		return 0;
	p->on = p->left && index >= p->o.wait + p->o.warmup;
	if (!p->on)
		return 0;
	p->first = p->first ? p->first : number;
	p->last = number;
	p->began = p->looked = gt_clock_s();
	p->step = add_profile_event(p, LANE_STEP, "step", NULL);
	return gt_marks_add(p->marks, p->stream, &p->spans[p->step].began, err);
}

int gt_profile_phase(struct gt_profile *p, const char *name, struct gt_err *err)
{
	if (!p || !p->on)
		return 0;
	p->phase = add_profile_event(p, LANE_STEP, name, NULL);
	return gt_marks_add(p->marks, p->stream, &p->spans[p->phase].began, err);
}

int gt_profile_phase_done(struct gt_profile *p, struct gt_err *err)
{
	if (!p || !p->on)
		return 0;
	return gt_marks_add(p->marks, p->stream, &p->spans[p->phase].ended, err);
}

/* Where a device does collectives, add an event for each that this run, or the update behind it,
 * may start. Spans of those that it does not start stay zero. */
static void watch_parallel(struct gt_profile *p)
{
	const struct gt_parallel_event *events;
	size_t count;

	if (!gt_marks_are_late(p->marks))
		return;
	events = gt_parallel_events(p->parallel, &count);
	gt_parallel_watch(p->parallel, p->marks, p->spans + p->count);
	for (size_t i = 0; i < count; i++)
		add_profile_event(p, LANE_BACKGROUND, events[i].what, NULL);
}

void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan)
{
	size_t steps, collectives;

	if (!p || !p->on)
		return;
	gt_plan_steps(plan, &steps);
	gt_parallel_events(p->parallel, &collectives);
	p->kernels = p->count + (gt_marks_are_late(p->marks) ? collectives : 0);
	p->kernels_end = p->kernels + steps;
	watch_parallel(p);
	gt_plan_watch(plan, p->marks, p->spans + p->count);
}

static enum lane lane_of(const struct gt_profile *p, const struct gt_step *step)
{
	return step->crosses && gt_marks_are_late(p->marks) ? LANE_BESIDE : LANE_PLAN;
}

void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan)
{
	const struct gt_step *steps;
	size_t count;

	if (!p || !p->on)
		return;
	gt_plan_watch(plan, NULL, NULL);
	steps = gt_plan_steps(plan, &count);
	for (size_t i = 0; i < count; i++)
		add_profile_event(
		    p, lane_of(p, &steps[i]), steps[i].node->op->name, steps[i].node->scope);
}

void gt_profile_background(struct gt_profile *p)
{
	const struct gt_parallel_event *events;
	size_t count;

	if (!p || !p->on)
		return;
	events = gt_parallel_events(p->parallel, &count);
	for (size_t i = 0; i < count; i++)
		if (events[i].span.began >= p->looked)
			p->spans[add_profile_event(p, LANE_BACKGROUND, events[i].what, NULL)] =
			    events[i].span;
	p->looked = gt_clock_s();
}

void gt_profile_note(struct gt_profile *p, const char *name, double began)
{
	if (p && p->on)
		p->spans[add_profile_event(p, gt_marks_are_late(p->marks) ? LANE_HOST : LANE_STEP,
		    name, NULL)] = (struct gt_span){ began, gt_clock_s() };
}

/* ---- sums ---- */

struct share {
	const char *name;
	double seconds;
};

static int by_time(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return (y->seconds > x->seconds) - (y->seconds < x->seconds);
}

static double duration(const struct gt_profile *p, size_t i)
{
	return p->spans[i].ended - p->spans[i].began;
}

static bool is_sum(const char *name)
{
	return !strcmp(name, "step") || !strcmp(name, queueing);
}

/* Kernels of the plan and phases of the loop, by name, the longest first. Returns how many. */
static size_t shares_of(const struct gt_profile *p, struct share *shares)
{
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++) {
		const struct event *e = &p->events[i];
		size_t k = 0;

		if (e->lane == LANE_BACKGROUND || is_sum(e->name))
			continue;
		while (k < n && strcmp(shares[k].name, e->name))
			k++;
		if (k == n)
			shares[n++] = (struct share){ e->name, 0 };
		shares[k].seconds += duration(p, i);
	}
	qsort(shares, n, sizeof(*shares), by_time);
	return n;
}

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
	const struct event *e = &p->events[event];
	double hidden = 0;

	for (size_t i = e->kernels; i < e->kernels_end; i++)
		if (p->events[i].lane == LANE_PLAN && !gt_parallel_has_op(p->events[i].name))
			hidden += overlap(&p->spans[event], &p->spans[i]);
	return hidden;
}

static void sum_up(const struct gt_profile *p, struct gt_profile_summary *s)
{
	double n = (double)(p->last - p->first + 1), hidden = 0;

	*s = (struct gt_profile_summary){ .first = p->first, .last = p->last };
	for (size_t i = 0; i < p->count; i++) {
		const struct event *e = &p->events[i];

		if (e->lane == LANE_BACKGROUND) {
			s->collectives_s += duration(p, i) / n;
			hidden += hidden_by_kernels(p, i) / n;
		} else if (!strcmp(e->name, "step")) {
			s->step_s += duration(p, i) / n;
		}
	}
	s->hidden = s->collectives_s > 0 ? hidden / s->collectives_s : 0;
}

static int say(const struct gt_profile *p, const struct gt_profile_summary *s, const char *path,
    struct gt_log *log, struct gt_err *err)
{
	struct share *shares = gt_calloc(p->count, sizeof(*shares), err);
	size_t n = shares ? shares_of(p, shares) : 0, at = 0;
	double all = s->step_s * (double)(s->last - s->first + 1);
	char line[512] = "";

	if (!shares)
		return GT_ENOMEM;
	for (size_t i = 0; i < n && i < 6 && at < sizeof(line); i++)
		at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s %.0f %%", at ? ", " : "",
		    shares[i].name, 100 * shares[i].seconds / all);
	free(shares);
	gt_log_info(log, "steps %lld to %lld: %.3g ms each; %s", (long long)s->first,
	    (long long)s->last, 1e3 * s->step_s, line);
	if (s->collectives_s > 0)
		gt_log_info(log,
		    "collectives in the background: %.3g ms a step, %.0f %% hidden behind kernels",
		    1e3 * s->collectives_s, 100 * s->hidden);
	gt_log_info(log, "trace: %s", path);
	return 0;
}

/* ---- the file ---- */

static json_t *event_json(const struct gt_profile *p, size_t i, int rank)
{
	static const struct {
		const char *category;
		int tid;
	} lanes[] = { [LANE_STEP] = { "step", 0 },
		[LANE_PLAN] = { "kernel", 0 },
		[LANE_BESIDE] = { "kernel", 1 },
		[LANE_BACKGROUND] = { "collective", 1 },
		[LANE_HOST] = { "host", 2 } };
	const struct event *e = &p->events[i];
	json_t *json = json_pack("{s:s,s:s,s:s,s:f,s:f,s:i,s:i}", "name", e->name, "cat",
	    lanes[e->lane].category, "ph", "X", "ts", 1e6 * p->spans[i].began, "dur",
	    1e6 * duration(p, i), "pid", rank, "tid", lanes[e->lane].tid);

	if (json && e->scope &&
	    json_object_set_new(json, "args", json_pack("{s:s}", "scope", e->scope)))
		json = (json_decref(json), NULL);
	return json;
}

/* The names of the rows. */
static json_t *name_json(const char *what, int rank, int tid, const char *name)
{
	return json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "name", what, "ph", "M", "pid", rank, "tid",
	    tid, "args", "name", name);
}

static json_t *trace_json(const struct gt_profile *p, int rank)
{
	json_t *list = json_array();
	char name[32];
	int rc;

	snprintf(name, sizeof(name), "rank %d", rank);
	rc = json_array_append_new(list, name_json("process_name", rank, 0, name)) ||
	     json_array_append_new(list, name_json("thread_name", rank, 0, "plan")) ||
	     json_array_append_new(list, name_json("thread_name", rank, 1, "background"));
	if (!rc && gt_marks_are_late(p->marks))
		rc = json_array_append_new(list, name_json("thread_name", rank, 2, "host"));
	for (size_t i = 0; !rc && i < p->count; i++)
		if (p->spans[i].ended > 0) /* see watch_parallel() */
			rc = json_array_append_new(list, event_json(p, i, rank));
	if (!rc)
		return json_pack("{s:o,s:s}", "traceEvents", list, "displayTimeUnit", "ms");
	json_decref(list);
	return NULL;
}

static int write_trace(
    const struct gt_profile *p, struct gt_file_name file, int rank, struct gt_err *err)
{
	json_t *json = trace_json(p, rank);
	struct gt_atomic_file f;
	int rc;

	if (!json)
		return gt_err_set(err, GT_ENOMEM, "out of memory");
	rc = gt_atomic_open_at(&f, file, err);
	if (!rc && json_dumpf(json, f.stream, JSON_COMPACT | JSON_REAL_PRECISION(15))) {
		rc = gt_err_sys(err, "cannot write '%s'", file.path);
		gt_atomic_abandon(&f);
	} else if (!rc) {
		rc = gt_atomic_commit(&f, err);
	}
	json_decref(json);
	return rc;
}

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

static int finish_profile(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err)
{
	struct gt_folder folder = { 0 };
	char *path = NULL;
	int rc = gt_marks_read(p->marks, err);

	p->left = 0;
	if (!rc)
		rc = open_trace(&folder, dir, err);
	if (!rc) {
		path = gt_asprintf(err, "%s/rank-%d.json", folder.path, rank);
		rc = path ? 0 : GT_ENOMEM;
	}
	if (!rc)
		rc = write_trace(p, (struct gt_file_name){ &folder, path }, rank, err);
	if (!rc) {
		sum_up(p, summary);
		rc = say(p, summary, path, log, err);
	}
	gt_folder_close(&folder);
	free(path);
	return rc;
}

int gt_profile_step_done(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err)
{
	if (!p || !p->on)
		return 0;
	if (gt_marks_are_late(p->marks))
		gt_profile_note(p, queueing, p->began);
	p->on = false;
	gt_parallel_watch(p->parallel, NULL, NULL);
	if (gt_marks_add(p->marks, p->stream, &p->spans[p->step].ended, err))
		return err->code;
	return --p->left ? 0 : finish_profile(p, dir, rank, log, summary, err);
}

int gt_profile_end(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err)
{
	if (!p || !p->left)
		return 0;
	if (p->count)
		return finish_profile(p, dir, rank, log, summary, err);
	gt_log_warn(log,
	    "{profile}: the run was over before the first step to be recorded, number %lld",
	    (long long)(p->o.wait + p->o.warmup + 1));
	return 0;
}
