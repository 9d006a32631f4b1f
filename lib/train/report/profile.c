/* profile.c - where the time of some steps goes: a trace, and its sums. */
#include "lib/train/report/profile.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/text.h"

/* Rows of the trace, and of the sums. */
enum lane { LANE_STEP, LANE_PLAN, LANE_BACKGROUND };

struct event {
	const char *name, *scope; /* scope may be NULL */
	struct gt_span span;
	enum lane lane;
	size_t kernels, kernels_end; /* background: the events of the plan that it was beside */
};

struct gt_profile {
	struct gt_profile_options o;
	struct event *events;
	size_t count, capacity;
	struct gt_span *spans; /* [span_count], for a plan to fill */
	size_t span_count;
	int64_t first, last, left;
	double began;                /* of this step */
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

int gt_profile_new(struct gt_profile **out, const struct gt_profile_options *options, size_t events,
    struct gt_err *err)
{
	struct gt_profile *p = gt_calloc(1, sizeof(*p), err);

	*out = NULL;
	if (!p)
		return GT_ENOMEM;
	p->o = *options;
	p->left = options->active;
	p->span_count = events;
	p->spans = gt_calloc(events, sizeof(*p->spans), err);
	if (__builtin_mul_overflow((size_t)options->active, events, &p->capacity))
		p->capacity = SIZE_MAX;
	p->events = p->spans ? gt_calloc(p->capacity, sizeof(*p->events), err) : NULL;
	if (!p->events) {
		gt_profile_free(p);
		return GT_ENOMEM;
	}
	*out = p;
	return 0;
}

void gt_profile_free(struct gt_profile *p)
{
	if (!p)
		return;
	free(p->spans);
	free(p->events);
	free(p);
}

static void add(
    struct gt_profile *p, enum lane lane, const char *name, const char *scope, struct gt_span span)
{
	assert(p->count < p->capacity);
	p->events[p->count++] =
	    (struct event){ name, scope, span, lane, p->kernels, p->kernels_end };
}

void gt_profile_step(struct gt_profile *p, int64_t index, int64_t number)
{
	if (!p)
		return;
	p->on = p->left && index >= p->o.wait + p->o.warmup;
	if (!p->on)
		return;
	p->first = p->first ? p->first : number;
	p->last = number;
	p->began = p->looked = gt_clock_s();
}

void gt_profile_plan(struct gt_profile *p, struct gt_plan *plan)
{
	if (p && p->on)
		gt_plan_watch(plan, p->spans);
}

void gt_profile_plan_done(struct gt_profile *p, struct gt_plan *plan)
{
	const struct gt_step *steps;
	size_t count;

	if (!p || !p->on)
		return;
	gt_plan_watch(plan, NULL);
	steps = gt_plan_steps(plan, &count);
	p->kernels = p->count;
	for (size_t i = 0; i < count && i < p->span_count; i++)
		add(p, LANE_PLAN, steps[i].node->op->name, steps[i].node->scope, p->spans[i]);
	p->kernels_end = p->count;
}

void gt_profile_background(struct gt_profile *p, const struct gt_parallel *parallel)
{
	const struct gt_parallel_event *events;
	size_t count;

	if (!p || !p->on)
		return;
	events = gt_parallel_events(parallel, &count);
	for (size_t i = 0; i < count; i++)
		if (events[i].span.began >= p->looked)
			add(p, LANE_BACKGROUND, events[i].what, NULL, events[i].span);
	p->looked = gt_clock_s();
}

void gt_profile_note(struct gt_profile *p, const char *name, double began)
{
	if (p && p->on)
		add(p, LANE_STEP, name, NULL, (struct gt_span){ began, gt_clock_s() });
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

static double duration(const struct event *e)
{
	return e->span.ended - e->span.began;
}

/* Kernels of the plan and phases of the loop, by name, the longest first. Returns how many. */
static size_t shares_of(const struct gt_profile *p, struct share *shares)
{
	size_t n = 0;

	for (size_t i = 0; i < p->count; i++) {
		const struct event *e = &p->events[i];
		size_t k = 0;

		if (e->lane == LANE_BACKGROUND)
			continue;
		while (k < n && strcmp(shares[k].name, e->name))
			k++;
		if (k == n)
			shares[n++] = (struct share){ e->name, 0 };
		shares[k].seconds += duration(e);
	}
	qsort(shares, n, sizeof(*shares), by_time);
	return n;
}

/* The first of the kernels, which are one after the other, that had not ended by then. */
static size_t first_after(const struct gt_profile *p, size_t from, size_t to, double when)
{
	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (p->events[middle].span.ended > when)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* Seconds of this event in which kernels ran that are not the ranks' doing. */
static double hidden_by_kernels(const struct gt_profile *p, const struct event *e)
{
	size_t i = first_after(p, e->kernels, e->kernels_end, e->span.began);
	double hidden = 0;

	for (; i < e->kernels_end && p->events[i].span.began < e->span.ended; i++) {
		const struct event *k = &p->events[i];
		double from, to;

		if (gt_parallel_has_op(k->name))
			continue;
		from = e->span.began > k->span.began ? e->span.began : k->span.began;
		to = e->span.ended < k->span.ended ? e->span.ended : k->span.ended;
		hidden += to - from;
	}
	return hidden;
}

static void sum_up(const struct gt_profile *p, struct gt_profile_summary *s)
{
	double n = (double)(p->last - p->first + 1), hidden = 0;

	*s = (struct gt_profile_summary){ .first = p->first, .last = p->last };
	for (size_t i = 0; i < p->count; i++) {
		const struct event *e = &p->events[i];

		if (e->lane == LANE_BACKGROUND) {
			s->collectives_s += duration(e) / n;
			hidden += hidden_by_kernels(p, e) / n;
		} else if (!strcmp(e->name, "step")) {
			s->step_s += duration(e) / n;
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
	for (size_t i = 0; i < n && i < 7 && at < sizeof(line); i++)
		if (strcmp(shares[i].name, "step"))
			at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s %.0f %%",
			    at ? ", " : "", shares[i].name, 100 * shares[i].seconds / all);
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

static json_t *event_json(const struct event *e, int rank)
{
	static const char *const lanes[] = {
		[LANE_STEP] = "step", [LANE_PLAN] = "kernel", [LANE_BACKGROUND] = "collective"
	};
	json_t *json = json_pack("{s:s,s:s,s:s,s:f,s:f,s:i,s:i}", "name", e->name, "cat",
	    lanes[e->lane], "ph", "X", "ts", 1e6 * e->span.began, "dur", 1e6 * duration(e), "pid",
	    rank, "tid", e->lane == LANE_BACKGROUND ? 1 : 0);

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
	for (size_t i = 0; !rc && i < p->count; i++)
		rc = json_array_append_new(list, event_json(&p->events[i], rank));
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

static int finish(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err)
{
	struct gt_folder folder = { 0 };
	char *path = NULL;
	int rc = open_trace(&folder, dir, err);

	p->left = 0;
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
	gt_profile_note(p, "step", p->began);
	p->on = false;
	return --p->left ? 0 : finish(p, dir, rank, log, summary, err);
}

int gt_profile_end(struct gt_profile *p, const char *dir, int rank, struct gt_log *log,
    struct gt_profile_summary *summary, struct gt_err *err)
{
	if (!p || !p->left)
		return 0;
	if (p->count)
		return finish(p, dir, rank, log, summary, err);
	gt_log_warn(log,
	    "{profile}: the run was over before the first step to be recorded, number %lld",
	    (long long)(p->o.wait + p->o.warmup + 1));
	return 0;
}
