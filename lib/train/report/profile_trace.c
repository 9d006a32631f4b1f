/* profile_trace.c - write the events of a profile as a trace for Perfetto and Chrome. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/gzip.h"
#include "lib/base/text.h"
#include "lib/graph/op.h"
#include "lib/parallel/traffic.h"
#include "lib/train/report/profile_state.h"

/*
 * Times of the format are microseconds. They are rounded to eighths of one, which are binary
 * fractions and whole nanoseconds. So a reader that adds a duration to a begin, or multiplies by
 * 1000, makes no rounding error by which a slice could end behind the one that encloses it:
 * Perfetto drops such slices.
 */
static int64_t eighths_of(double seconds)
{
	return llround(8e6 * seconds);
}

static double microseconds_of(int64_t eighths)
{
	return (double)eighths / 8;
}

/* Rows of a communicator, for collectives that overlap; and the depth of slices in a row. */
enum { LANES = 8, DEPTH = 16 };

/* A slice of the trace: an event in its row. */
struct slice {
	int64_t began, ended; /* eighths of microseconds */
	size_t event;
	int tid;
	/* a kernel that communicates while the stream waits is in the row of the communicator,
	 * too */
	bool communicates;
};

struct trace {
	const struct gt_profile *p;
	int rank;
	struct slice *slices;
	size_t count;
	size_t *found; /* [events] the slice of an event, or SIZE_MAX */
	struct gt_gzip *file;
	bool any; /* a record was written */
};

/* ---- rows ---- */

/* Numbers of threads in the trace. A row with number n of its kind has the thread `first` + n *
 * `lanes`. */
static const struct {
	int first, lanes;
	const char *name, *host_name; /* host_name: where the device is the host */
} rows[] = {
	[GT_ROW_COMPUTE] = { 0, 1, "compute stream", "compute" },
	[GT_ROW_COLLECTIVES] = { 1, 1, "collectives stream", NULL },
	[GT_ROW_COPIES] = { 2, 1, "copy stream", NULL },
	[GT_ROW_HOST] = { 3, 1, "host", NULL },
	[GT_ROW_COMMUNICATOR] = { 10, LANES, "communicator", NULL },
	[GT_ROW_LOADER] = { 1000, 1, "loader", NULL },
};

static int tid_of(enum gt_profile_row row, int number)
{
	return rows[row].first + number * rows[row].lanes;
}

static enum gt_profile_row row_of(int tid)
{
	int row = GT_PROFILE_ROWS - 1;

	while (tid < rows[row].first)
		row--;
	return (enum gt_profile_row)row;
}

static void name_row(const struct gt_profile *p, char *out, size_t size, int tid)
{
	enum gt_profile_row row = row_of(tid);
	int number = (tid - rows[row].first) / rows[row].lanes;
	int lane = (tid - rows[row].first) % rows[row].lanes;
	const char *name = rows[row].host_name && !gt_marks_are_late(p->marks) ? rows[row].host_name
	                                                                       : rows[row].name;

	if (row == GT_ROW_COMMUNICATOR && lane)
		snprintf(
		    out, size, "%s %s (%d)", name, gt_axis_name((enum gt_axis)number), lane + 1);
	else if (row == GT_ROW_COMMUNICATOR)
		snprintf(out, size, "%s %s", name, gt_axis_name((enum gt_axis)number));
	else if (row == GT_ROW_LOADER)
		snprintf(out, size, "%s thread %d", name, number);
	else
		snprintf(out, size, "%s", name);
}

/* ---- slices ---- */

/* Describe the communication of a kernel. Returns false if it does not communicate. */
static bool find_traffic(
    struct gt_traffic *out, const struct gt_profile *p, const struct gt_step *step)
{
	return step && !gt_parallel_traffic(out, p->t->s.parallel, step->node, GT_ERR_IGNORED) &&
	       out->role != GT_TRAFFIC_NONE;
}

static void add_slice(struct trace *t, size_t event, int tid, bool communicates)
{
	const struct gt_span *span = &t->p->spans[event];

	t->slices[t->count++] = (struct slice){ eighths_of(span->began), eighths_of(span->ended),
		event, tid, communicates };
}

static void add_slices(struct trace *t)
{
	for (size_t i = t->p->base; i < t->p->count; i++) {
		const struct gt_profile_event *e = &t->p->events[i];
		struct gt_traffic traffic;

		if (!gt_profile_has(t->p, i))
			continue;
		add_slice(t, i, tid_of(e->row, e->number), false);
		if (find_traffic(&traffic, t->p, e->step) && traffic.ranks > 1 &&
		    (traffic.role == GT_TRAFFIC_CALL || traffic.role == GT_TRAFFIC_RECEIVE))
			add_slice(t, i, tid_of(GT_ROW_COMMUNICATOR, traffic.axis), true);
	}
}

/* A slice that encloses another one comes before it. */
static int compare_times(const struct slice *a, const struct slice *b)
{
	if (a->began != b->began)
		return a->began < b->began ? -1 : 1;
	if (a->ended != b->ended)
		return a->ended > b->ended ? -1 : 1;
	return (a->event > b->event) - (a->event < b->event);
}

static int by_time(const void *x, const void *y)
{
	return compare_times(x, y);
}

static int by_row(const void *x, const void *y)
{
	const struct slice *a = x, *b = y;

	return a->tid != b->tid ? (a->tid > b->tid) - (a->tid < b->tid) : compare_times(a, b);
}

/* Collectives of a group may overlap, such as staged ones, which copy one while another is summed.
 * Each goes to the first lane that is free. */
static void divide_into_lanes(struct trace *t)
{
	int64_t ends[LANES] = { 0 };
	int before = -1;

	for (size_t i = 0; i < t->count; i++) {
		struct slice *s = &t->slices[i];
		int lane = 0;

		if (row_of(s->tid) != GT_ROW_COMMUNICATOR)
			continue;
		if (s->tid != before)
			memset(ends, 0, sizeof(ends));
		before = s->tid;
		while (lane < LANES - 1 && ends[lane] > s->began)
			lane++;
		s->tid += lane;
		ends[lane] = s->ended;
	}
}

/* The clocks of two streams may differ by less than a microsecond (lib/device/marks.h). A slice
 * ends at the latest with the one that encloses it. */
static void nest(struct trace *t)
{
	int64_t ends[DEPTH];
	int depth = 0;

	for (size_t i = 0; i < t->count; i++) {
		struct slice *s = &t->slices[i];

		if (i && t->slices[i - 1].tid != s->tid)
			depth = 0;
		while (depth && ends[depth - 1] <= s->began)
			depth--;
		if (depth && s->ended > ends[depth - 1])
			s->ended = ends[depth - 1];
		if (depth < DEPTH)
			ends[depth++] = s->ended;
	}
}

static void find_slices(struct trace *t)
{
	for (size_t i = 0; i < t->p->count; i++)
		t->found[i] = SIZE_MAX;
	for (size_t i = 0; i < t->count; i++)
		if (!t->slices[i].communicates)
			t->found[t->slices[i].event] = i;
}

/* ---- records ---- */

static int write_text(const char *text, size_t size, void *self)
{
	return gt_gzip_write(((struct trace *)self)->file, text, size);
}

/* Write a record, and release it. Errors of the file are those of gt_gzip_end(). */
static int put(struct trace *t, json_t *record, struct gt_err *err)
{
	const char *before = t->any ? ",\n" : "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";

	if (!record)
		return gt_err_set(err, GT_ENOMEM, "out of memory");
	t->any = true;
	if (!write_text(before, strlen(before), t))
		(void)json_dump_callback(
		    record, write_text, t, JSON_COMPACT | JSON_REAL_PRECISION(17));
	json_decref(record);
	return 0;
}

static int put_name(
    struct trace *t, const char *what, int tid, const char *name, struct gt_err *err)
{
	return put(t,
	    json_pack("{s:s,s:s,s:i,s:i,s:{s:s}}", "name", what, "ph", "M", "pid", t->rank, "tid",
	        tid, "args", "name", name),
	    err);
}

static int put_order(struct trace *t, int tid, struct gt_err *err)
{
	return put(t,
	    json_pack("{s:s,s:s,s:i,s:i,s:{s:i}}", "name", "thread_sort_index", "ph", "M", "pid",
	        t->rank, "tid", tid, "args", "sort_index", tid),
	    err);
}

/* Name the rows that have slices, which are in the order of rows. */
static int put_rows(struct trace *t, struct gt_err *err)
{
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "rank %d", t->rank);
	rc = put_name(t, "process_name", 0, name, err);
	for (size_t i = 0; !rc && i < t->count; i++) {
		int tid = t->slices[i].tid;

		if (i && t->slices[i - 1].tid == tid)
			continue;
		name_row(t->p, name, sizeof(name), tid);
		rc = put_name(t, "thread_name", tid, name, err);
		if (!rc)
			rc = put_order(t, tid, err);
	}
	return rc;
}

static void set_number(json_t *args, const char *key, double number)
{
	json_object_set_new(args, key, json_integer((json_int_t)number));
}

/* The part of the device's limit that an event reaches. */
static void describe_share(json_t *args, const struct gt_profile *p, size_t event)
{
	const struct gt_span *span = &p->spans[event];
	enum gt_cost_bound bound;
	double limit_s = gt_profile_limit(&bound, p, &p->events[event]);
	double seconds = span->ended - span->began;

	if (limit_s > 0 && seconds > 0)
		json_object_set_new(
		    args, "share_of_limit", json_real(round(1e3 * limit_s / seconds) / 1e3));
}

/* The layer, the work, and the communication of a kernel. */
static void describe_kernel(json_t *args, const struct gt_profile *p, const struct gt_step *step)
{
	struct gt_traffic traffic;
	struct gt_cost cost = { 0 };

	if (step->node->scope && gt_text_is_utf8(step->node->scope))
		json_object_set_new(args, "scope", json_string(step->node->scope));
	if (find_traffic(&traffic, p, step)) {
		set_number(args, "ranks", traffic.ranks);
		set_number(args, "bytes", (double)traffic.bytes);
		return;
	}
	gt_step_add_cost(step, &cost);
	set_number(args, "flops", cost.flops);
	set_number(args, "bytes", cost.bytes_read + cost.bytes_written);
}

/* Return the event of the node that has started a collective, or SIZE_MAX. */
static size_t find_start(const struct gt_profile *p, const struct gt_profile_event *e)
{
	for (size_t i = e->kernels; e->collective >= 0 && i < e->kernels_end; i++)
		if (p->events[i].step && gt_profile_has(p, i) &&
		    gt_parallel_started(p->t->s.parallel, p->events[i].step->node) == e->collective)
			return i;
	return SIZE_MAX;
}

static json_t *describe_event(const struct gt_profile *p, size_t event)
{
	const struct gt_profile_event *e = &p->events[event];
	json_t *args = json_object();
	size_t start = e->kind == GT_EVENT_COLLECTIVE ? find_start(p, e) : SIZE_MAX;

	if (!args)
		return NULL;
	if (e->step)
		describe_kernel(args, p, e->step);
	else if (start != SIZE_MAX)
		describe_kernel(args, p, p->events[start].step);
	else if (e->kind == GT_EVENT_COPY || e->kind == GT_EVENT_READ)
		set_number(args, "bytes", (double)e->bytes);
	describe_share(args, p, event);
	return args;
}

static int put_slice(struct trace *t, const struct slice *s, struct gt_err *err)
{
	static const char *const categories[] = { [GT_EVENT_STEP] = "step",
		[GT_EVENT_KERNEL] = "kernel",
		[GT_EVENT_COLLECTIVE] = "collective",
		[GT_EVENT_COPY] = "copy",
		[GT_EVENT_READ] = "read",
		[GT_EVENT_HOST] = "host" };
	const struct gt_profile_event *e = &t->p->events[s->event];
	json_t *args = describe_event(t->p, s->event), *record;

	record = json_pack("{s:s,s:s,s:s,s:f,s:f,s:i,s:i}", "name", e->name, "cat",
	    s->communicates ? "collective" : categories[e->kind], "ph", "X", "ts",
	    microseconds_of(s->began), "dur", microseconds_of(s->ended - s->began), "pid", t->rank,
	    "tid", s->tid);
	if (record && args && json_object_size(args))
		json_object_set(record, "args", args);
	json_decref(args);
	return put(t, record, err);
}

/* ---- arrows and counters ---- */

static int put_arrow_end(struct trace *t, const char *phase, int64_t id, const struct slice *s,
    int64_t at, struct gt_err *err)
{
	json_t *record = json_pack("{s:s,s:s,s:s,s:I,s:f,s:i,s:i}", "name", "gradients", "cat",
	    "bucket", "ph", phase, "id", (json_int_t)id, "ts", microseconds_of(at), "pid", t->rank,
	    "tid", s->tid);

	if (record && *phase == 'f')
		json_object_set_new(record, "bp", json_string("e"));
	return put(t, record, err);
}

/* Return the last kernel before the start of a collective that computes: it completes the bucket's
 * gradients. */
static size_t find_gradients(const struct gt_profile *p, const struct gt_profile_event *e)
{
	size_t i = find_start(p, e);

	if (i == SIZE_MAX)
		return SIZE_MAX;
	while (i > e->kernels && (gt_parallel_has_op(p->events[i].name) || !gt_profile_has(p, i)))
		i--;
	return gt_parallel_has_op(p->events[i].name) || !gt_profile_has(p, i) ? SIZE_MAX : i;
}

/* Draw an arrow from the kernel that completes a bucket of gradients to the bucket's collective. */
static int put_arrow(struct trace *t, size_t slice, struct gt_err *err)
{
	const struct slice *to = &t->slices[slice], *from;
	const struct gt_profile_event *e = &t->p->events[to->event];
	int64_t id = (int64_t)t->rank << 32 | (int64_t)slice;
	size_t gradients;

	if (e->kind != GT_EVENT_COLLECTIVE)
		return 0;
	gradients = find_gradients(t->p, e);
	if (gradients == SIZE_MAX || t->found[gradients] == SIZE_MAX)
		return 0;
	from = &t->slices[t->found[gradients]];
	if (put_arrow_end(t, "s", id, from, from->began + (from->ended - from->began) / 2, err))
		return err->code;
	return put_arrow_end(t, "f", id, to, to->began, err);
}

static int put_counter(
    struct trace *t, const char *name, int64_t at, uint64_t bytes, struct gt_err *err)
{
	return put(t,
	    json_pack("{s:s,s:s,s:i,s:f,s:{s:I}}", "name", name, "ph", "C", "pid", t->rank, "ts",
	        microseconds_of(at), "args", "bytes", (json_int_t)bytes),
	    err);
}

/* Memory of the rank at the begin of each step, and of temporaries in each kernel of the compute
 * stream. */
static int put_memory(struct trace *t, const struct slice *s, struct gt_err *err)
{
	const struct gt_profile_event *e = &t->p->events[s->event];

	if (s->communicates || e->row != GT_ROW_COMPUTE)
		return 0;
	if (e->kind == GT_EVENT_KERNEL)
		return put_counter(t, "temporaries", s->began, e->bytes, err);
	if (e->kind == GT_EVENT_STEP && e->bytes)
		return put_counter(t, "memory", s->began, e->bytes, err);
	return 0;
}

/* ---- the file ---- */

static int put_all(struct trace *t, struct gt_err *err)
{
	static const char end[] = "\n]}\n";
	int rc;

	add_slices(t);
	qsort(t->slices, t->count, sizeof(*t->slices), by_row);
	divide_into_lanes(t);
	qsort(t->slices, t->count, sizeof(*t->slices), by_row);
	nest(t);
	rc = put_rows(t, err);
	qsort(t->slices, t->count, sizeof(*t->slices), by_time);
	find_slices(t);
	for (size_t i = 0; !rc && i < t->count; i++) {
		rc = put_slice(t, &t->slices[i], err);
		if (!rc)
			rc = put_memory(t, &t->slices[i], err);
		if (!rc)
			rc = put_arrow(t, i, err);
	}
	(void)write_text(end, strlen(end), t);
	return rc;
}

int gt_profile_write(const struct gt_profile *p, struct gt_file_name file, struct gt_err *err)
{
	struct trace t = { .p = p, .rank = gt_train_rank(p->t) };
	struct gt_atomic_file f = { 0 };
	int rc;

	t.slices = gt_calloc(2 * p->count, sizeof(*t.slices), err);
	t.found = t.slices ? gt_calloc(p->count, sizeof(*t.found), err) : NULL;
	rc = t.found ? gt_atomic_open_at(&f, file, err) : GT_ENOMEM;
	if (!rc) {
		rc = gt_gzip_new(&t.file, f.stream, err);
		if (!rc)
			rc = put_all(&t, err);
		if (!rc)
			rc = gt_gzip_end(t.file, file.path, err);
		if (rc)
			gt_atomic_abandon(&f);
		else
			rc = gt_atomic_commit(&f, err);
	}
	gt_gzip_free(t.file);
	free(t.slices);
	free(t.found);
	return rc;
}
