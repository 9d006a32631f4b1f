/* trace.c - the trace of a run on one rank, and comparisons with it. */
#include "lib/train/verify/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the trace of one rank ---- */

void gt_trace_release(struct gt_trace *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->tensors[i].name);
	free(r->tensors);
	free(r->gradients);
	free(r->weights);
	*r = (struct gt_trace){ 0 };
}

static int begin_trace(struct gt_trace *r, const struct gt_train *t, struct gt_err *err)
{
	const struct gt_store *s = t->s.store;
	size_t flat = (size_t)s->flat_count;

	gt_trace_release(r);
	r->flat = s->flat_count;
	r->tensors = gt_calloc(s->slot_count, sizeof(*r->tensors), err);
	r->gradients = gt_calloc(flat * GT_VERIFY_STEPS, sizeof(float), err);
	r->weights = gt_calloc(flat * (GT_VERIFY_STEPS + 1), sizeof(float), err);
	if (!r->tensors || !r->gradients || !r->weights)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->slot_count; i++) {
		struct gt_trace_tensor *tensor = &r->tensors[r->count];

		if (s->slots[i].role != GT_PARAMETER)
			continue;
		tensor->name = gt_strdup(s->slots[i].name, err);
		tensor->offset = s->slots[i].offset;
		tensor->count = s->slots[i].count;
		r->count++;
		if (!tensor->name)
			return GT_ENOMEM;
	}
	return gt_device_read(
	    t->s.device, r->weights, s->parameters->memory, gt_store_flat_bytes(s), err);
}

/* ---- a rank's elements ---- */

/* Copy this rank's elements of a tensor from the whole to a plane: 4 bytes an element. */
static int scatter_tensor(const struct gt_watcher *w, size_t tensor, const struct gt_plane *plane,
    const void *whole, struct gt_err *err)
{
	const struct gt_trace_tensor *of = &w->trace->tensors[tensor];
	const struct gt_slot *slot = gt_store_find(w->t->s.store, of->name);

	if (!slot || slot->count != of->count || slot->dtype != GT_F32)
		return gt_err_set(err, GT_EINVAL, "'%s' differs from that of one rank", of->name);
	return gt_parallel_scatter_slot(w->t->s.parallel, plane, slot, whole, err);
}

/* Copy this rank's elements of all tensors, from wholes as the trace has them, to out[x->count], by
 * way of a plane like the one that is watched. */
static int scatter_all(const struct gt_watcher *w, const struct gt_watched *x, void *out,
    const uint32_t *wholes, struct gt_err *err)
{
	const struct gt_device *d = w->t->s.device;
	size_t bytes = (size_t)x->count * sizeof(*wholes);
	struct gt_plane like = *x->plane;
	int rc = gt_device_alloc(d, bytes, &like.memory, err);

	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < w->trace->count; i++)
		rc = scatter_tensor(w, i, &like, wholes + w->trace->tensors[i].offset, err);
	if (!rc)
		rc = gt_device_read(d, out, like.memory, bytes, err);
	gt_device_free(d, like.memory, bytes);
	return rc;
}

/* Scatter numbers of tensors, to find where the elements of each tensor are in the plane. */
static int find_held(const struct gt_watcher *w, struct gt_watched *x, const struct gt_plane *plane,
    struct gt_err *err)
{
	uint32_t *wholes = gt_calloc((size_t)w->trace->flat, sizeof(*wholes), err);
	int rc = GT_ENOMEM;

	x->plane = plane;
	x->count = gt_plane_elements(w->t->s.store, plane);
	x->tensor = gt_calloc((size_t)x->count, sizeof(*x->tensor), err);
	x->wanted = gt_calloc((size_t)x->count, sizeof(*x->wanted), err);
	x->held = gt_calloc((size_t)x->count, sizeof(*x->held), err);
	for (size_t i = 0; wholes && i < w->trace->count; i++)
		for (int64_t k = 0; k < w->trace->tensors[i].count; k++)
			wholes[w->trace->tensors[i].offset + k] = (uint32_t)i + 1;
	if (wholes && x->tensor && x->wanted && x->held)
		rc = scatter_all(w, x, x->tensor, wholes, err);
	free(wholes);
	return rc;
}

static int begin_watch(struct gt_watcher *w, struct gt_err *err)
{
	const struct gt_store *s = w->t->s.store;
	int rc;

	w->differences = gt_calloc(w->trace->count, sizeof(*w->differences), err);
	if (!w->differences)
		return GT_ENOMEM;
	rc = find_held(w, &w->gradients, s->gradients, err);
	return rc ? rc : find_held(w, &w->weights, s->parameters, err);
}

void gt_watcher_release(struct gt_watcher *w)
{
	struct gt_watched *both[] = { &w->gradients, &w->weights };

	for (int i = 0; i < 2; i++) {
		free(both[i]->tensor);
		free(both[i]->wanted);
		free(both[i]->held);
	}
	free(w->differences);
}

/* ---- comparing ---- */

/* NaN is worse than anything. */
static void worsen(double *max, double x)
{
	if (!isnan(*max) && !(x <= *max))
		*max = x;
}

static double largest(const float *a, int64_t n)
{
	double max = 0;

	for (int64_t i = 0; i < n; i++)
		worsen(&max, fabs((double)a[i]));
	return max;
}

static double largest_difference(const float *a, const float *b, int64_t n)
{
	double max = 0;

	for (int64_t i = 0; i < n; i++)
		worsen(&max, fabs((double)a[i] - (double)b[i]));
	return max;
}

static void note_difference(struct gt_watcher *w, double *max, double difference, double bound,
    const char *what, const char *tensor, int64_t step, size_t comparison)
{
	struct gt_verify_row *row = &w->row;

	worsen(max, difference);
	if (difference <= bound || !row->good)
		return;
	row->good = false;
	row->what = what;
	row->step = step;
	row->difference = difference;
	strncpy(row->tensor, tensor, sizeof(row->tensor) - 1);
	w->comparison = comparison;
}

/* A difference of 0 is no difference in any unit. */
static double ratio(double difference, double of)
{
	return difference == 0 ? 0 : difference / of;
}

/* Compare the elements that this rank holds in device memory with wholes as the trace has them. The
 * largest difference of each tensor goes to w->differences. */
static int compare_held_elements(
    struct gt_watcher *w, struct gt_watched *x, const float *wholes, struct gt_err *err)
{
	size_t bytes = (size_t)x->count * sizeof(*x->held);
	int rc = scatter_all(w, x, x->wanted, (const uint32_t *)wholes, err);

	if (!rc)
		rc = gt_device_read(w->t->s.device, x->held, x->plane->memory, bytes, err);
	memset(w->differences, 0, w->trace->count * sizeof(*w->differences));
	for (int64_t i = 0; !rc && i < x->count; i++)
		if (x->tensor[i])
			worsen(&w->differences[x->tensor[i] - 1],
			    fabs((double)x->held[i] - (double)x->wanted[i]));
	return rc;
}

static int compare_gradients(struct gt_watcher *w, int64_t step, struct gt_err *err)
{
	const struct gt_trace *r = w->trace;
	const float *whole = r->gradients + (step - 1) * r->flat;
	double all = largest(whole, r->flat);
	int rc = compare_held_elements(w, &w->gradients, whole, err);

	for (size_t i = 0; !rc && i < r->count; i++) {
		const struct gt_trace_tensor *tensor = &r->tensors[i];
		double scale = fmax(largest(whole + tensor->offset, tensor->count), all / 100);

		note_difference(w, &w->row.gradient, ratio(w->differences[i], scale),
		    w->row.bounds.gradient, "gradient", tensor->name, step, i);
	}
	return rc;
}

static int compare_weights(struct gt_watcher *w, int64_t step, struct gt_err *err)
{
	const struct gt_trace *r = w->trace;
	const float *whole = r->weights + step * r->flat;
	double change = largest_difference(whole, r->weights, r->flat);
	int rc = compare_held_elements(w, &w->weights, whole, err);

	for (size_t i = 0; !rc && i < r->count; i++)
		note_difference(w, &w->row.weight, ratio(w->differences[i], change),
		    w->row.bounds.weight, "weight", r->tensors[i].name, step, r->count + 1 + i);
	return rc;
}

/* ---- callbacks ---- */

static int start_trace_watch(void *self, const struct gt_start_report *report, struct gt_err *err)
{
	struct gt_watcher *w = self;

	(void)report;
	return w->records ? begin_trace(w->trace, w->t, err) : begin_watch(w, err);
}

static int gradients(void *self, int64_t n, struct gt_err *err)
{
	struct gt_watcher *w = self;
	const struct gt_store *s = w->t->s.store;

	if (!w->records)
		return compare_gradients(w, n, err);
	return gt_device_read(w->t->s.device, w->trace->gradients + (n - 1) * w->trace->flat,
	    s->gradients->memory, gt_store_flat_bytes(s), err);
}

static int trace_step(void *self, const struct gt_step_report *report, struct gt_err *err)
{
	struct gt_watcher *w = self;
	const struct gt_store *s = w->t->s.store;
	struct gt_trace *r = w->trace;
	int64_t n = report->step;
	double loss = r->loss[n - 1];

	if (!w->records) {
		note_difference(w, &w->row.loss, ratio(fabs(report->loss - loss), fabs(loss)),
		    w->row.bounds.loss, "loss", "", n, r->count);
		return compare_weights(w, n, err);
	}
	r->loss[n - 1] = report->loss;
	return gt_device_read(w->t->s.device, r->weights + n * r->flat, s->parameters->memory,
	    gt_store_flat_bytes(s), err);
}

struct gt_observer gt_watcher_observer(struct gt_watcher *w)
{
	return (struct gt_observer){
		.self = w, .start = start_trace_watch, .gradients = gradients, .step = trace_step
	};
}

void gt_watcher_add(struct gt_verify_row *row, size_t *comparison, const struct gt_watcher *w)
{
	const struct gt_verify_row *r = &w->row;

	worsen(&row->loss, r->loss);
	worsen(&row->gradient, r->gradient);
	worsen(&row->weight, r->weight);
	if (r->good || (!row->good && (row->step < r->step ||
	                                  (row->step == r->step && *comparison <= w->comparison))))
		return;
	row->good = false;
	row->what = r->what;
	row->step = r->step;
	row->difference = r->difference;
	memcpy(row->tensor, r->tensor, sizeof(row->tensor));
	*comparison = w->comparison;
}
