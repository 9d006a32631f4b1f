/* plan.c - from graph to steps, and the loop that runs them. */
#include "lib/graph/plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/device/plan_device.h"
#include "lib/graph/memory.h"

/* The memory of a value. Values that share bytes (views, in-place outputs, values within another)
 * have one home. Homes form chains, which end at the value whose `home` is itself. */
struct place {
	int home;
	size_t shift;    /* offset within `home`, in bytes */
	int first, last; /* steps that use the value, or any value within this home */
	bool in_store;
	bool whole;                 /* other values lie within this one */
	size_t offset;              /* offset of the home in the arena, in bytes */
	const struct gt_slot *slot; /* if in_store, with the plane that has the elements */
	const struct gt_plane *plane;
};

enum { RUNS = 4 }; /* number of combinations of enum gt_run_flags */

struct gt_plan {
	const struct gt_graph *graph;
	struct gt_store *store;
	const struct gt_plan_extra *extra; /* NULL after the plan is made */
	struct gt_step *steps;
	size_t step_count;
	bool *shared;           /* by step: an equal call is prepared in its place (share_call()) */
	struct gt_index calls;  /* steps with different calls; empty after the plan is made */
	struct gt_marks *marks; /* NULL unless the plan is watched */
	struct gt_span *spans;
	struct place *places; /* by value id */
	size_t arena_bytes, temporary_bytes;
	char *arena;
	/* the compute stream has reached a step on the stream for collectives */
	struct gt_event *passed;
	/* Captures by combination of gt_run_flags, if the backend can capture: the second run is
	 * captured, and later runs replay it. */
	bool replays;
	bool ran[RUNS];            /* the plan has run like this since it was bound */
	unsigned runs_that_differ; /* flags that some node names (enum gt_run_flags) */
	struct gt_capture *captures[RUNS];
};

/*
 * Return the home of a value. Example: y = relu(x) in place, z = reshape(y), and x lies within the
 * temporary t from byte 64 on:
 *
 *   value   home        shift   address
 *   t       t           -       offset of t
 *   x       t           64      offset of t + 64
 *   y       x           0       the same as x
 *   z       y           0       the same as x
 *
 * Only t gets a block in the arena. It lives from the first writer of any of them to the last
 * reader.
 */
static int home_of(const struct gt_plan *p, int id)
{
	while (p->places[id].home != id)
		id = p->places[id].home;
	return id;
}

/* Return the offset of a value within its home, in bytes. */
static size_t shift_of(const struct gt_plan *p, int id)
{
	size_t shift = 0;

	for (; p->places[id].home != id; id = p->places[id].home)
		shift += p->places[id].shift;
	return shift;
}

/* ---- where values live ---- */

static int place_in_store(struct gt_plan *p, const struct gt_value *v, struct gt_err *err)
{
	const struct gt_value *owner = v->parameter ? v->parameter : v;
	const struct gt_slot *slot = v->role == GT_CACHE
	                                 ? gt_store_find_cache(p->store, owner->name)
	                                 : gt_store_find(p->store, owner->name);
	const struct gt_plane *plane = gt_store_plane_of(p->store, v->role);
	struct place *at = &p->places[v->id];

	if (v->role == GT_GRADIENT && !plane)
		return gt_err_set(err, GT_EINVAL, "a store without gradients");
	if (!plane || !slot || slot->held != gt_value_elements(v) ||
	    v->dtype != gt_plane_dtype(plane, slot))
		return gt_err_set(
		    err, GT_EINVAL, "'%s' is not in the store, or of another shape", owner->name);
	at->in_store = true;
	at->slot = slot;
	at->plane = plane;
	return 0;
}

static bool is_in_store(const struct gt_value *v)
{
	bool by_role = v->role == GT_PARAMETER || v->role == GT_BUFFER || v->role == GT_GRADIENT ||
	               v->role == GT_WORKING_COPY || v->role == GT_CACHE;

	return by_role && !v->within;
}

/* Let `into`, and the value it lies in, live as long as the home `id` does. */
static void join_homes(struct gt_plan *p, int into, int id)
{
	struct place *a = &p->places[home_of(p, into)], *b = &p->places[id];

	b->home = into;
	if (b->first < a->first)
		a->first = b->first;
	if (b->last > a->last)
		a->last = b->last;
}

static void join_enclosing(struct gt_plan *p)
{
	for (size_t i = 0; i < p->graph->value_count; i++) {
		const struct gt_value *v = p->graph->values[i];

		if (!v->within)
			continue;
		join_homes(p, v->within->id, v->id);
		p->places[i].shift = (size_t)v->within_first * gt_dtype_size(v->dtype);
		p->places[v->within->id].whole = true;
	}
}

/* Set the first and last step of each value. Inputs live from before the first step, outputs to the
 * end. */
static int find_lifetimes(struct gt_plan *p, struct gt_err *err)
{
	const struct gt_graph *g = p->graph;
	int end = (int)g->node_count, rc;

	for (size_t i = 0; i < g->value_count; i++) {
		const struct gt_value *v = g->values[i];
		struct place *at = &p->places[i];

		at->home = (int)i;
		at->first = v->role == GT_INPUT ? -1 : end;
		at->last = v->role == GT_OUTPUT ? end : -1;
		if (is_in_store(v) && (rc = place_in_store(p, v, err)))
			return rc;
	}
	for (int i = 0; i < end; i++) {
		const struct gt_node *n = g->nodes[i];

		for (int k = 0; k < n->outputs; k++) {
			if (!n->out[k])
				continue;
			p->places[n->out[k]->id].first = i;
			if (p->places[n->out[k]->id].last < i)
				p->places[n->out[k]->id].last = i;
		}
		for (int k = 0; k < n->inputs; k++) {
			struct place *at = n->in[k] ? &p->places[n->in[k]->id] : NULL;

			if (at && at->last < i)
				at->last = i;
			if (at && at->first > i) /* no node writes this temporary */
				at->first = i;
		}
	}
	join_enclosing(p);
	return 0;
}

/* Return whether a node may reuse the bytes of a value. It may not if another node writes the value
 * in place, if the host still reads it, or if other values of the same temporary are still
 * needed. */
static bool may_lend(const struct gt_plan *p, const struct gt_value *v, int home, int step)
{
	const struct place *at = &p->places[home];

	return v->role == GT_TEMPORARY && !at->in_store && !at->whole && at->last == step;
}

/* Let an output reuse the bytes of one of the inputs, which are given by bits. */
static void take_input(
    struct gt_plan *p, const struct gt_node *n, int step, int output, unsigned inputs)
{
	const struct gt_value *y = n->outputs ? n->out[output] : NULL;

	for (int k = 0; y && k < n->inputs; k++) {
		const struct gt_value *x = n->in[k];
		int home;

		if (!x || !(inputs >> k & 1) || gt_value_bytes(x) != gt_value_bytes(y) ||
		    gt_value_elements(x) != gt_value_elements(y))
			continue;
		home = home_of(p, x->id);
		if (!may_lend(p, x, home, step))
			continue;
		/* An input read twice by this node must not change under the second reader. */
		for (int l = 0; l < n->inputs; l++)
			if (l != k && n->in[l] && home_of(p, n->in[l]->id) == home)
				return;
		if (p->places[y->id].in_store || y->within)
			join_homes(p, y->id, home);
		else
			join_homes(p, home, y->id);
		return;
	}
}

/* Called for the nodes in their order, so lifetimes of later nodes are known, and earlier outputs
 * already have their homes. */
static void share_bytes(struct gt_plan *p, const struct gt_node *n, int step)
{
	/* A view is never in the store: the backward pass copies into gradients. */
	if (n->op->view)
		join_homes(p, n->in[0]->id, n->out[0]->id);
	/* The last output takes an input first. Output 0 cannot take the same input after that. */
	take_input(p, n, step, n->outputs - 1, n->op->inplace_last);
	take_input(p, n, step, 0, n->op->inplace);
}

/* ---- kernels ---- */

static void describe_tensor(struct gt_tensor *t, const struct gt_value *v)
{
	if (!v)
		return;
	t->present = true;
	t->dtype = v->dtype;
	t->layout = v->layout;
	t->ndim = v->ndim;
	memcpy(t->shape, v->shape, sizeof(t->shape));
}

/* Return the type that chooses the kernel: that of the first floating-point input, else output. */
static enum gt_dtype deciding_dtype(const struct gt_call *call)
{
	for (int i = 0; i < call->inputs; i++)
		if (call->in[i].present && gt_dtype_is_real(call->in[i].dtype))
			return call->in[i].dtype;
	for (int i = 0; i < call->outputs; i++)
		if (call->out[i].present && gt_dtype_is_real(call->out[i].dtype))
			return call->out[i].dtype;
	return GT_F32;
}

static const struct gt_kernel *find_row(
    const struct gt_kernel *table, const char *op, struct gt_call *call)
{
	enum gt_dtype dtype = deciding_dtype(call);

	for (const struct gt_kernel *k = table; k->op; k++) {
		call->kernel = k;
		if (k->dtype == dtype && !strcmp(k->op, op) && (!k->accepts || k->accepts(call)))
			return k;
	}
	return NULL;
}

static const struct gt_kernel *find_in(
    const struct gt_kernel *const *tables, const char *op, struct gt_call *call)
{
	const struct gt_kernel *k = NULL;

	for (; !k && *tables; tables++)
		k = find_row(*tables, op, call);
	return k;
}

/* Rows of `extra`, such as collectives, may read their context in every run, and queue calls of the
 * host. A plan with one of them is not captured. */
static const struct gt_kernel *find_kernel(struct gt_plan *p, const char *op, struct gt_call *call)
{
	const struct gt_kernel *k = p->extra ? find_in(p->extra->kernels, op, call) : NULL;

	if (!k)
		return find_in(p->store->device->backend->kernels(), op, call);
	call->context = p->extra->context;
	p->replays = false;
	return k;
}

static int compare_tensors(const struct gt_tensor *a, const struct gt_tensor *b, int count)
{
	for (int i = 0; i < count; i++) {
		int order = a[i].present - b[i].present;

		if (!order)
			order = (int)a[i].dtype - (int)b[i].dtype;
		if (!order)
			order = (int)a[i].layout - (int)b[i].layout;
		if (!order)
			order = a[i].ndim - b[i].ndim;
		if (!order)
			order = memcmp(a[i].shape, b[i].shape, sizeof(a[i].shape));
		if (order)
			return order;
	}
	return 0;
}

/* Return 0 for steps whose calls have all in common that accepts() and prepare() of kernels see. */
static int compare_calls(const void *x, const void *y)
{
	const struct gt_step *a = x, *b = y;
	int order;

	if (a->node->op != b->node->op)
		return (uintptr_t)a->node->op < (uintptr_t)b->node->op ? -1 : 1;
	order = memcmp(&a->call.attrs, &b->call.attrs, sizeof(a->call.attrs));
	if (!order)
		order = a->call.inputs - b->call.inputs;
	if (!order)
		order = compare_tensors(a->call.in, b->call.in, a->call.inputs);
	return order ? order : compare_tensors(a->call.out, b->call.out, a->call.outputs);
}

/*
 * Most calls of a plan are equal to an earlier one, as layers are, and chunks of a pipeline. So
 * they have its kernel, and on a device for plans that are never run also the results of its
 * prepare(), without a state of their own. Return whether the call needs no other preparation.
 */
static bool share_call(struct gt_plan *p, struct gt_step *s, const struct gt_step *same)
{
	s->kernel = s->call.kernel = same->kernel;
	s->call.context = same->call.context;
	if (gt_device_runs(p->store->device))
		return false;
	s->call = same->call;
	s->call.state = NULL;
	p->shared[s - p->steps] = true;
	return true;
}

/* Choose the kernel of a step, and add the step to p->calls. */
static int choose_kernel(struct gt_plan *p, struct gt_step *s, struct gt_err *err)
{
	const struct gt_node *n = s->node;

	s->kernel = find_kernel(p, n->op->name, &s->call);
	if (!s->kernel)
		return gt_err_set(err, GT_ENOTSUP, "%s: no kernel of backend '%s' does '%s' in %s",
		    n->scope, p->store->device->backend->name, n->op->name,
		    gt_dtype_name(deciding_dtype(&s->call)));
	return gt_index_add(&p->calls, s, err) ? 0 : GT_ENOMEM;
}

static int prepare_step(struct gt_plan *p, int index, struct gt_err *err)
{
	const struct gt_step *same;
	struct gt_step *s = &p->steps[p->step_count];
	const struct gt_node *n = p->graph->nodes[index];

	s->node = n;
	s->index = index;
	s->call.attrs = n->attrs;
	s->call.launches = 1;
	s->call.untimed = p->store->device->untimed;
	s->call.writes = n->op->writes;
	s->call.inputs = n->inputs;
	s->call.outputs = n->outputs;
	for (int i = 0; i < n->inputs; i++)
		describe_tensor(&s->call.in[i], n->in[i]);
	for (int i = 0; i < n->outputs; i++)
		describe_tensor(&s->call.out[i], n->out[i]);
	same = gt_index_find(&p->calls, s);
	if (!same && choose_kernel(p, s, err))
		return err->code;
	p->step_count++; /* gt_plan_free() releases the step from now on */
	if (same && share_call(p, s, same))
		return 0;
	if (s->kernel->prepare && s->kernel->prepare(&s->call, err))
		return gt_node_prefix(n, err);
	return 0;
}

/* ---- the arena ---- */

/* One block per home in the arena and one per workspace; blocks[i] belongs to home or step
 * owner[i]. */
static int lay_out_arena(struct gt_plan *p, struct gt_err *err)
{
	const struct gt_graph *g = p->graph;
	size_t count = 0, max = g->value_count + p->step_count;
	struct gt_lifetime *blocks = gt_calloc(max, sizeof(*blocks), err);
	size_t **offsets = gt_calloc(max, sizeof(*offsets), err);
	int rc = GT_ENOMEM;

	if (!blocks || !offsets)
		goto out;
	for (size_t i = 0; i < g->value_count; i++) {
		struct place *at = &p->places[i];

		if (at->home != (int)i || at->in_store || at->first > at->last)
			continue;
		blocks[count] =
		    (struct gt_lifetime){ gt_value_bytes(g->values[i]), at->first, at->last, 0 };
		offsets[count++] = &at->offset;
	}
	for (size_t i = 0; i < p->step_count; i++) {
		struct gt_step *s = &p->steps[i];
		size_t bytes = s->call.workspace_bytes;

		if (!bytes)
			continue;
		/* A workspace lives for one step, so workspaces can share bytes. */
		blocks[count] = (struct gt_lifetime){ bytes, s->index, s->index, 0 };
		offsets[count++] = &s->workspace_offset;
	}
	for (size_t i = 0; i < count; i++)
		p->temporary_bytes += blocks[i].bytes;
	rc = gt_memory_plan(blocks, count, &p->arena_bytes, err);
	for (size_t i = 0; !rc && i < count; i++)
		*offsets[i] = blocks[i].offset;
out:
	free(blocks);
	free(offsets);
	return rc;
}

int gt_plan_new(struct gt_plan **out, const struct gt_graph *g, struct gt_store *store,
    const struct gt_plan_extra *extra, struct gt_err *err)
{
	struct gt_plan *p = gt_calloc(1, sizeof(*p), err);

	*out = NULL;
	if (!p)
		return GT_ENOMEM;
	p->graph = g;
	p->store = store;
	p->extra = extra;
	p->replays = store->device->backend->replay;
	p->places = gt_calloc(g->value_count, sizeof(*p->places), err);
	p->steps = gt_calloc(g->node_count, sizeof(*p->steps), err);
	p->shared = gt_calloc(g->node_count, sizeof(*p->shared), err);
	p->calls.compare = compare_calls;
	if (!p->places || !p->steps || !p->shared || find_lifetimes(p, err))
		goto out;
	for (size_t i = 0; i < g->node_count; i++) {
		/* Bytes are shared before the kernel is chosen: a row's accepts() and prepare() see
		 * no addresses, so they cannot depend on it. */
		share_bytes(p, g->nodes[i], (int)i);
		p->runs_that_differ |= g->nodes[i]->runs;
		if (!g->nodes[i]->op->view && prepare_step(p, (int)i, err))
			goto out;
	}
	if (lay_out_arena(p, err))
		goto out;
	p->extra = NULL;
	gt_index_release(&p->calls);
	*out = p;
	return 0;
out:
	gt_plan_free(p);
	return err->code;
}

static void forget_runs(struct gt_plan *p)
{
	for (int i = 0; i < RUNS; i++) {
		if (p->captures[i])
			p->store->device->backend->capture_free(p->captures[i]);
		p->captures[i] = NULL;
		p->ran[i] = false;
	}
}

void gt_plan_free(struct gt_plan *p)
{
	if (!p)
		return;
	forget_runs(p);
	for (size_t i = 0; i < p->step_count; i++)
		if (p->steps[i].kernel && p->steps[i].kernel->release && !p->shared[i])
			p->steps[i].kernel->release(&p->steps[i].call);
	if (p->passed)
		p->store->device->backend->event_free(p->passed);
	gt_index_release(&p->calls);
	free(p->steps);
	free(p->shared);
	free(p->places);
	free(p);
}

size_t gt_plan_arena_bytes(const struct gt_plan *p)
{
	return p->arena_bytes;
}

static void *address_of(const struct gt_plan *p, const struct gt_value *v)
{
	const struct place *home = &p->places[home_of(p, v->id)];

	return home->in_store ? gt_slot_address(home->plane, home->slot)
	                      : p->arena + home->offset + shift_of(p, v->id);
}

/* Return the stream of a step. A device that works synchronously has one stream. */
static int choose_stream(struct gt_plan *p, struct gt_step *s, struct gt_err *err)
{
	const struct gt_device *d = p->store->device;

	/* A collective gets its own stream, so that kernels of later nodes run while it waits for
	 * other ranks. */
	s->call.stream = s->node->op->collective ? d->collectives : d->compute;
	s->crosses = s->call.stream != d->compute;
	return !s->crosses || p->passed ? 0 : d->backend->event_new(&p->passed, d->index, err);
}

int gt_plan_bind(struct gt_plan *p, void *arena, struct gt_err *err)
{
	if (!p->store->allocated)
		return gt_err_set(err, GT_EINVAL, "the store has no memory yet");
	if (!gt_device_runs(p->store->device))
		return gt_err_set(err, GT_EINVAL, "the device is for plans that are never run");
	forget_runs(p);
	p->arena = arena;
	for (size_t i = 0; i < p->step_count; i++) {
		struct gt_step *s = &p->steps[i];

		for (int k = 0; k < s->call.inputs; k++)
			if (s->node->in[k])
				s->call.in[k].data = address_of(p, s->node->in[k]);
		for (int k = 0; k < s->call.outputs; k++)
			if (s->node->out[k])
				s->call.out[k].data = address_of(p, s->node->out[k]);
		if (choose_stream(p, s, err))
			return err->code;
		s->call.workspace = s->call.workspace_bytes ? p->arena + s->workspace_offset : NULL;
		if (s->kernel->bind && s->kernel->bind(&s->call, err))
			return gt_node_prefix(s->node, err);
	}
	return 0;
}

/* Let the step wait for all earlier steps. Later steps do not wait for it by themselves. */
static int cross(const struct gt_plan *p, const struct gt_step *s, struct gt_err *err)
{
	const struct gt_device *d = p->store->device;
	int rc = d->backend->event_record(p->passed, d->compute, err);

	return rc ? rc : d->backend->event_wait(s->call.stream, p->passed, err);
}

static int run_step(const struct gt_plan *p, size_t i, unsigned runs, struct gt_err *err)
{
	struct gt_step *s = &p->steps[i];
	struct gt_span *span = p->marks ? &p->spans[i] : NULL;

	if (s->node->runs && !(s->node->runs & runs))
		return 0;
	if ((s->crosses && cross(p, s, err)) ||
	    (span && gt_marks_add(p->marks, s->call.stream, &span->began, err)) ||
	    s->kernel->run(&s->call, err) ||
	    (span && gt_marks_add(p->marks, s->call.stream, &span->ended, err)))
		return gt_node_prefix(s->node, err);
	return 0;
}

static int queue_steps(struct gt_plan *p, unsigned runs, struct gt_err *err)
{
	for (size_t i = 0; i < p->step_count; i++)
		if (run_step(p, i, runs, err))
			return err->code;
	return 0;
}

static int capture(struct gt_plan *p, unsigned runs, struct gt_err *err)
{
	const struct gt_device *d = p->store->device;
	struct gt_capture *captured;
	int rc = d->backend->capture_begin(d->compute, err);

	if (rc)
		return rc;
	/* Now run() queues into the capture, and nothing is executed. The stream stays in this mode
	 * until capture_end(), which is called after an error, too. */
	rc = queue_steps(p, runs, err);
	if (d->backend->capture_end(&captured, d->compute, rc ? GT_ERR_IGNORED : err) && !rc)
		rc = err->code;
	if (rc)
		d->backend->capture_free(captured);
	else
		p->captures[runs] = captured;
	return rc;
}

/* The first run is queued kernel by kernel, so that kernels can do work of their first run alone,
 * and a plan that runs once is never captured. Nor is one whose steps are timed. */
int gt_plan_run_as(struct gt_plan *p, unsigned runs, struct gt_err *err)
{
	const struct gt_device *d = p->store->device;
	bool first;

	/* A graph without nodes for single runs has one capture for all of them: their flags make
	 * no difference. */
	runs &= p->runs_that_differ;
	first = !p->ran[runs];
	p->ran[runs] = true;
	if (!p->replays || p->marks || first)
		return queue_steps(p, runs, err);
	if (!p->captures[runs] && capture(p, runs, err))
		return err->code;
	return d->backend->replay(d->compute, p->captures[runs], err);
}

int gt_plan_run(struct gt_plan *p, struct gt_err *err)
{
	return gt_plan_run_as(p, GT_RUN_FIRST | GT_RUN_LAST, err);
}

void gt_plan_watch(struct gt_plan *p, struct gt_marks *marks, struct gt_span *spans)
{
	p->marks = marks;
	p->spans = spans;
}

void *gt_plan_address(const struct gt_plan *p, const struct gt_value *v)
{
	/* The bytes of a temporary may belong to another value by now, so there is no address that
	 * a caller could use. */
	bool touched = v->role == GT_INPUT || v->role == GT_OUTPUT || v->role == GT_GRADIENT;

	return p->arena && touched ? address_of(p, v) : NULL;
}

int gt_plan_write(
    struct gt_plan *p, const struct gt_value *v, const void *host, size_t bytes, struct gt_err *err)
{
	if (!p->arena || v->role != GT_INPUT || bytes != gt_value_bytes(v))
		return gt_err_set(err, GT_EINVAL, "'%s' takes no %zu bytes from the host",
		    v->name ? v->name : "a temporary", bytes);
	return gt_device_write(p->store->device, address_of(p, v), host, bytes, err);
}

int gt_plan_read(
    struct gt_plan *p, const struct gt_value *v, void *host, size_t bytes, struct gt_err *err)
{
	if (!p->arena || (v->role != GT_OUTPUT && v->role != GT_GRADIENT) ||
	    bytes != gt_value_bytes(v))
		return gt_err_set(
		    err, GT_EINVAL, "value %d gives no %zu bytes to the host", v->id, bytes);
	return gt_device_read(p->store->device, host, address_of(p, v), bytes, err);
}

/* Add bytes to the nodes from `first` to `last`: changes[i] is the difference between node i and
 * the node before. Inputs live from before the first node, outputs to behind the last one. */
static void add_living(size_t *changes, size_t nodes, int first, int last, size_t bytes)
{
	changes[first < 0 ? 0 : first] += bytes;
	if ((size_t)last + 1 < nodes)
		changes[last + 1] -= bytes; /* wraps around, and so does the sum */
}

int gt_plan_live(size_t **out, const struct gt_plan *p, struct gt_err *err)
{
	size_t nodes = p->graph->node_count, live = 0, step = 0;
	size_t *changes = gt_calloc(nodes + 1, sizeof(*changes), err);

	*out = gt_calloc(p->step_count + 1, sizeof(**out), err);
	if (!changes || !*out) {
		free(changes);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < p->graph->value_count; i++) {
		const struct place *at = &p->places[i];

		if (at->home == (int)i && !at->in_store && at->first <= at->last)
			add_living(changes, nodes, at->first, at->last,
			    gt_value_bytes(p->graph->values[i]));
	}
	for (size_t i = 0; i < nodes && step < p->step_count; i++) {
		live += changes[i];
		if (p->steps[step].index == (int)i) {
			(*out)[step] = live + p->steps[step].call.workspace_bytes;
			step++;
		}
	}
	free(changes);
	return 0;
}

void gt_plan_summarize(const struct gt_plan *p, struct gt_plan_summary *out)
{
	*out = (struct gt_plan_summary){ 0 };
	out->parameter_bytes = gt_plane_bytes(p->store, p->store->parameters) +
	                       gt_plane_bytes(p->store, p->store->copies);
	out->gradient_bytes = gt_plane_bytes(p->store, p->store->gradients);
	out->buffer_bytes = gt_plane_bytes(p->store, p->store->buffers);
	out->arena_bytes = p->arena_bytes;
	out->temporary_bytes = p->temporary_bytes;
	out->steps = (int)p->step_count;
	for (size_t i = 0; i < p->step_count; i++) {
		out->launches += p->steps[i].call.launches;
		gt_step_add_cost(&p->steps[i], &out->cost);
	}
}

const struct gt_step *gt_plan_steps(const struct gt_plan *p, size_t *count)
{
	*count = p->step_count;
	return p->steps;
}

bool gt_plan_place(const struct gt_plan *p, const struct gt_value *v, size_t *offset, size_t *bytes)
{
	const struct place *home = &p->places[home_of(p, v->id)];

	if (home->in_store)
		return false;
	*offset = home->offset + shift_of(p, v->id);
	*bytes = gt_value_bytes(v);
	return true;
}
