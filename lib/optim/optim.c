/* optim.c - optimizers over flat ranges. */
#include "lib/optim/optim.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Neighbouring parameters that are updated alike, or one that is updated whole. */
struct range {
	int64_t offset, count; /* elements in the store's layout */
	const struct gt_optim_rule *rule;
	const struct gt_slot *tensor; /* NULL: not whole */
	int64_t rows, cols;           /* of the tensor as a matrix */
	struct gt_update_options update;
};

const struct gt_scaler gt_scaler_default = {
	.scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000
};

struct gt_optim {
	struct gt_store *store;
	struct gt_optim_options options;
	struct gt_scaler scaler; /* as of the last result that was read */
	struct range *ranges;
	size_t range_count;
	struct gt_update_range *updates; /* [range_count]: the memory of each range */
	struct gt_step_scalars *scalars; /* device */
	float *work;                     /* device: for one range at a time */
	size_t work_bytes;
	void *cache;           /* of the kernel that updates tensors: gt_update_kernel.prepare() */
	int64_t steps;         /* as of the last result that was read */
	struct on_host *slots; /* [GT_OPTIM_AHEAD], for copies: a step in each, in turn */
	struct gt_event *ended[GT_OPTIM_AHEAD];
	int64_t begun, read; /* steps, since the optimizer was made */
};

/* The host's side of one step. */
struct on_host {
	struct gt_step_block block;
	struct gt_step_result result;
};

/* ---- states ---- */

static const struct gt_optim_state_row *find_state(
    const struct gt_optim_rule *rule, const struct gt_optim_options *o, const char *name)
{
	const struct gt_optim_state_row *row = rule->states;

	while (row->name && strcmp(row->name, name))
		row++;
	return row->name && rule->keeps_states(o) ? row : NULL;
}

const struct gt_optim_state_row *gt_optim_state_of(
    const struct gt_optim_options *o, const struct gt_slot *slot, const char *name)
{
	return slot->role == GT_PARAMETER ? find_state(gt_optim_rule_of(o->kind, slot), o, name)
	                                  : NULL;
}

/* A state, as gt_store_add_plane() asks for its slots. */
struct state {
	const struct gt_optim_options *options;
	const char *name;
};

static bool keeps_state(const void *context, const struct gt_slot *slot)
{
	const struct state *state = context;

	return gt_optim_state_of(state->options, slot, state->name);
}

/* A rule that updates all parameters has states for all of them, which have the layout of the
 * store. */
static int add_states(struct gt_store *s, const struct gt_optim_rule *rule,
    const struct gt_optim_options *o, bool all, struct gt_err *err)
{
	int rc = 0;

	for (const struct gt_optim_state_row *row = rule->states; !rc && row->name; row++) {
		const struct state state = { o, row->name };
		const struct gt_plane like = { .name = row->name,
			.role = GT_PARAMETER,
			.dtype = GT_F32,
			.cut = GT_CUT_PACKED,
			.saved = GT_SAVED_STATE };

		if (rule->keeps_states(o))
			rc = gt_store_add_plane(
			    s, &like, all ? NULL : keeps_state, &state, NULL, err);
	}
	return rc;
}

int gt_optim_add_planes(struct gt_store *s, const struct gt_optim_options *o, struct gt_err *err)
{
	const struct gt_optim_rule *rule = gt_optim_rule(o->kind);
	bool all = rule->operand == GT_OPERAND_RANGES;
	int rc = add_states(s, rule, o, all, err);

	return rc || all ? rc : add_states(s, gt_optim_rule(rule->fallback), o, false, err);
}

static int zero_states(const struct gt_store *s, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < s->plane_count; i++)
		if (s->planes[i]->saved == GT_SAVED_STATE)
			rc = s->device->backend->zero(s->device->compute, s->planes[i]->memory,
			    gt_plane_bytes(s, s->planes[i]), err);
	return rc;
}

/* ---- ranges ---- */

static void matrix_of(const struct gt_slot *slot, int64_t *rows, int64_t *cols)
{
	*rows = slot->shape[0];
	*cols = slot->count / slot->shape[0];
}

/* Elements of workspace; those of the largest tensor here, whichever rank updates it. */
static int64_t work_count(const struct gt_store *s, const struct gt_optim_options *o)
{
	int64_t max = 0;

	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		const struct gt_optim_rule *rule = gt_optim_rule_of(o->kind, slot);
		int64_t rows, cols, work;

		if (slot->role != GT_PARAMETER || slot->on_other_ranks || !rule->work)
			continue;
		matrix_of(slot, &rows, &cols);
		work = rule->work(rows, cols);
		max = work > max ? work : max;
	}
	return max;
}

int64_t gt_optim_work_bytes(const struct gt_store *s, const struct gt_optim_options *o)
{
	return work_count(s, o) * (int64_t)sizeof(float);
}

static int compare_slot_offsets(const void *x, const void *y)
{
	const struct gt_slot *a = *(const struct gt_slot *const *)x;
	const struct gt_slot *b = *(const struct gt_slot *const *)y;

	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static struct gt_update_options update_options(
    const struct gt_optim_options *o, const struct gt_slot *slot, const struct gt_optim_rule *rule)
{
	struct gt_update_options update = {
		.momentum = (float)o->momentum,
		.dampening = (float)o->dampening,
		.nesterov = o->nesterov,
		.beta1 = o->beta1,
		.beta2 = o->beta2,
		.eps = (float)o->eps,
		.weight_decay = slot->decay ? (float)o->weight_decay : 0,
		.lr_scale = (float)slot->lr_scale,
		.decoupled = rule->decoupled,
		.use_fallback_lr = rule != gt_optim_rule(o->kind),
	};
	return update;
}

/* A range that begins with a slot. */
static struct range begin_range(const struct gt_optim *o, const struct gt_slot *slot)
{
	const struct gt_optim_rule *rule = gt_optim_rule_of(o->options.kind, slot);

	struct range r = { .offset = slot->offset,
		.rule = rule,
		.update = update_options(&o->options, slot, rule) };

	if (rule->operand == GT_OPERAND_RANGES)
		return r;
	r.tensor = slot;
	matrix_of(slot, &r.rows, &r.cols);
	if (rule->adjust)
		rule->adjust(&r.update, &o->options, r.rows, r.cols);
	return r;
}

static bool joins(const struct range *r, const struct range *next)
{
	return !r->tensor && !next->tensor && r->rule == next->rule &&
	       r->update.weight_decay == next->update.weight_decay &&
	       r->update.lr_scale == next->update.lr_scale && r->offset + r->count == next->offset;
}

/* Cut the flat buffer where the rule or its options change. A parameter's padding belongs to the
 * range: it is zero and stays so. A tensor that is updated whole goes without. */
static int make_ranges(struct gt_optim *o, struct gt_err *err)
{
	const struct gt_store *s = o->store;
	const struct gt_slot **order = gt_calloc(s->slot_count, sizeof(*order), err);
	size_t count = 0;

	o->ranges = gt_calloc(s->slot_count, sizeof(*o->ranges), err);
	if (!order || !o->ranges) {
		free(order);
		return GT_ENOMEM;
	}
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].role == GT_PARAMETER && !s->slots[i].on_other_ranks)
			order[count++] = &s->slots[i];
	qsort(order, count, sizeof(*order), compare_slot_offsets);
	for (size_t i = 0; i < count; i++) {
		const struct range next = begin_range(o, order[i]);
		struct range *last = o->range_count ? &o->ranges[o->range_count - 1] : NULL;

		if (!last || !joins(last, &next)) {
			last = &o->ranges[o->range_count++];
			*last = next;
		}
		last->count += next.tensor ? next.tensor->held : gt_slot_padded(order[i]);
	}
	free(order);
	return 0;
}

/* Keep of the ranges those that this process updates, which are those whose gradients it has. A
 * tensor that is updated whole lies in one part. */
static int keep_parts(struct gt_optim *o, struct gt_err *err)
{
	const struct gt_store *s = o->store;
	struct range *all = o->ranges;
	size_t all_count = o->range_count;

	o->ranges = gt_calloc(all_count + s->part_count, sizeof(*o->ranges), err);
	o->range_count = 0;
	for (size_t i = 0; o->ranges && i < all_count; i++) {
		struct gt_ranges walk =
		    gt_plane_ranges(s, s->gradients, all[i].offset, all[i].count);
		struct gt_part part;

		while (gt_ranges_next(&walk, &part)) {
			struct range *r = &o->ranges[o->range_count++];

			assert(!all[i].tensor || part.count == all[i].count);
			*r = all[i];
			r->offset = part.offset;
			r->count = part.count;
		}
	}
	free(all);
	return o->ranges ? 0 : GT_ENOMEM;
}

/* Find the memory of each range in the planes. */
static int find_memory(struct gt_optim *o, struct gt_err *err)
{
	const struct gt_store *s = o->store;

	o->updates = gt_calloc(o->range_count, sizeof(*o->updates), err);
	if (!o->updates)
		return GT_ENOMEM;
	for (size_t i = 0; i < o->range_count; i++) {
		struct range *r = &o->ranges[i];
		const struct gt_optim_state_row *row = r->rule->states;
		struct gt_update_range *u = &o->updates[i];

		*u = (struct gt_update_range){ .p = gt_plane_at(s, s->parameters, r->offset),
			.g = gt_plane_at(s, s->gradients, r->offset),
			.count = r->count,
			.o = &r->update };
		r->update.copy = gt_plane_at(s, s->copies, r->offset);
		r->update.copy_type = s->copies ? s->copies->dtype : GT_F32;
		for (int k = 0; r->rule->keeps_states(&o->options) && row[k].name; k++) {
			assert(k < GT_RANGE_STATES);
			u->states[k] = gt_plane_at(s, gt_store_plane(s, row[k].name), r->offset);
		}
	}
	return 0;
}

int gt_optim_check_number(const char *name, double value, float limit, struct gt_err *err)
{
	float rounded = (float)value;

	if (value <= 0 || (rounded != 0 && rounded != limit))
		return 0;
	return gt_err_set(err, GT_EINVAL, "{%s} %.15g is %g in float32, in which updates compute",
	    name, value, (double)rounded);
}

/* With such numbers updates would do nothing, divide by zero or never clip. */
static int check_options(const struct gt_optim_options *o, struct gt_err *err)
{
	if (o->nesterov && gt_optim_reads(o->kind, "nesterov") &&
	    (o->momentum <= 0 || o->dampening != 0))
		return gt_err_set(
		    err, GT_EINVAL, "{nesterov} needs a {momentum} above 0 and no dampening");
	if (gt_optim_reads(o->kind, "momentum") &&
	    gt_optim_check_number("momentum", o->momentum, 1, err))
		return err->code;
	if (gt_optim_check_number("clip", o->clip, INFINITY, err) ||
	    gt_optim_check_number("eps", o->eps, INFINITY, err) ||
	    gt_optim_check_number("weight-decay", o->weight_decay, INFINITY, err))
		return err->code;
	return 0;
}

static int take_scalars(struct gt_optim *o, struct gt_err *err)
{
	const struct gt_device *d = o->store->device;
	void *p;

	if (gt_device_alloc(d, sizeof(*o->scalars), &p, err))
		return err->code;
	o->scalars = p;
	if (d->backend->host_alloc(d->index, GT_OPTIM_AHEAD * sizeof(*o->slots), &p, err))
		return gt_err_prefix(err, "results of %d steps", GT_OPTIM_AHEAD);
	o->slots = p;
	for (int i = 0; i < GT_OPTIM_AHEAD; i++)
		if (d->backend->event_new(&o->ended[i], d->index, err))
			return err->code;
	return 0;
}

static int take_optim_memory(struct gt_optim *o, struct gt_err *err)
{
	size_t bytes = (size_t)gt_optim_work_bytes(o->store, &o->options);
	void *work = NULL;
	int rc = take_scalars(o, err);

	if (!rc && bytes)
		rc = gt_device_alloc(o->store->device, bytes, &work, err);
	o->work = work;
	o->work_bytes = bytes;
	return rc;
}

static const struct gt_update_kernel *kernel_of(
    const struct gt_optim *o, const struct gt_optim_rule *rule)
{
	return o->store->device->backend->steps()->updates[rule->update];
}

static int prepare_tensors(struct gt_optim *o, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < o->range_count; i++) {
		const struct range *r = &o->ranges[i];
		const struct gt_update_kernel *kernel = kernel_of(o, r->rule);

		if (r->tensor && kernel->prepare)
			rc = kernel->prepare(&o->cache, r->rows, r->cols, err);
	}
	return rc;
}

int gt_optim_new(struct gt_optim **out, struct gt_store *store,
    const struct gt_optim_options *options, struct gt_err *err)
{
	struct gt_optim *o = gt_calloc(1, sizeof(*o), err);

	*out = NULL;
	if (!o)
		return GT_ENOMEM;
	o->store = store;
	o->options = *options;
	if (store->dtype != GT_F32 || !store->gradients) {
		gt_err_set(
		    err, GT_ENOTSUP, "optimizers update float32 parameters that have gradients");
		goto out;
	}
	if (check_options(options, err) || gt_optim_add_planes(store, options, err) ||
	    zero_states(store, err) || make_ranges(o, err) || keep_parts(o, err) ||
	    take_optim_memory(o, err) || prepare_tensors(o, err) ||
	    gt_optim_set_scaler(o, &options->scaler, err) || find_memory(o, err))
		goto out;
	*out = o;
	return 0;
out:
	gt_optim_free(o);
	return err->code;
}

void gt_optim_free(struct gt_optim *o)
{
	if (!o)
		return;
	if (o->cache)
		kernel_of(o, gt_optim_rule(o->options.kind))->free_cache(o->cache);
	gt_device_free(o->store->device, o->work, o->work_bytes);
	gt_device_free(o->store->device, o->scalars, sizeof(*o->scalars));
	for (int i = 0; i < GT_OPTIM_AHEAD; i++)
		o->store->device->backend->event_free(o->ended[i]);
	if (o->slots)
		o->store->device->backend->host_free(
		    o->store->device->index, o->slots, GT_OPTIM_AHEAD * sizeof(*o->slots));
	free(o->ranges);
	free(o->updates);
	free(o);
}

/* The sum depends on the ranges that are added by one call: gradients that lie in a row are one
 * range. */
static int add_squares(const struct gt_optim *o, struct gt_err *err)
{
	const struct gt_store *s = o->store;
	const struct gt_step_kernels *k = s->device->backend->steps();
	struct gt_stream *stream = s->device->compute;
	const float *g = s->gradients->memory;
	struct gt_ranges walk = gt_plane_ranges(s, s->gradients, 0, s->flat_count);
	struct gt_part part;
	int rc = 0;

	if (s->gradients->cut != GT_CUT_IN_PLACE)
		return k->squares(stream, g, gt_plane_elements(s, s->gradients), o->scalars, err);
	while (!rc && gt_ranges_next(&walk, &part))
		rc = k->squares(stream, g + part.at, part.count, o->scalars, err);
	return rc;
}

/*
 * Update a tensor of which this rank holds a shard. The averaged gradients of all shards make the
 * whole tensor, which every rank makes orthogonal: the same work on each, for one collective.
 *
 *   work           averaged shard -> whole tensor     own shard of the result
 *   behind it      (for the collective)               result
 */
static int update_shard(struct gt_optim *o, const struct range *r, struct gt_update *u,
    const struct gt_optim_ranks *ranks, struct gt_err *err)
{
	const struct gt_update_kernel *kernel = kernel_of(o, r->rule);
	struct gt_stream *stream = o->store->device->compute;
	float *result = o->work + r->tensor->count;
	int rc;

	assert(ranks && ranks->join && ranks->cut);
	u->phase = GT_UPDATE_AVERAGE;
	rc = kernel->run(stream, u, o->scalars, err);
	if (!rc)
		rc = ranks->join(ranks->self, r->tensor, o->work, result, err);
	u->phase = GT_UPDATE_ORTHOGONALIZE;
	if (!rc)
		rc = kernel->run(stream, u, o->scalars, err);
	if (!rc)
		rc = ranks->cut(ranks->self, r->tensor, o->work, result, err);
	u->phase = GT_UPDATE_STEP;
	return rc ? rc : kernel->run(stream, u, o->scalars, err);
}

/* One call updates all neighbours of one rule; a tensor that is updated whole has its own call. */
static int update_ranges(struct gt_optim *o, const struct gt_optim_ranks *ranks, struct gt_err *err)
{
	struct gt_stream *stream = o->store->device->compute;
	int rc = 0;

	for (size_t i = 0, end; !rc && i < o->range_count; i = end) {
		const struct range *r = &o->ranges[i];
		struct gt_update update = { .ranges = &o->updates[i],
			.rows = r->rows,
			.cols = r->cols,
			.work = o->work,
			.cache = o->cache };

		for (end = i + 1; end < o->range_count && !r->tensor; end++)
			if (o->ranges[end].rule != r->rule)
				break;
		update.n = end - i;
		rc = r->tensor && r->tensor->held < r->tensor->count
		         ? update_shard(o, r, &update, ranks, err)
		         : kernel_of(o, r->rule)->run(stream, &update, o->scalars, err);
	}
	return rc;
}

/* Slots are taken in turn, so the host may be that many steps ahead of the results it has read. */
int gt_optim_begin(struct gt_optim *o, double lr, bool stop, struct gt_err *err)
{
	const struct gt_device *d = o->store->device;
	struct gt_step_block *block = &o->slots[o->begun % GT_OPTIM_AHEAD].block;

	if (o->begun - o->read == GT_OPTIM_AHEAD)
		return gt_err_set(
		    err, GT_EINVAL, "%d steps have results to be read", GT_OPTIM_AHEAD);
	*block = (struct gt_step_block){
		.lr = (float)lr,
		.fallback_lr = (float)(lr * o->options.fallback_lr_factor),
		.clip = (float)o->options.clip,
		.beta1 = o->options.beta1,
		.beta2 = o->options.beta2,
		.stop = stop,
		.exact = o->options.exact_norm,
		.growth = (float)o->scaler.growth_factor,
		.backoff = (float)o->scaler.backoff_factor,
		.growth_interval = o->scaler.growth_interval,
	};
	o->begun++;
	if (d->backend->copy_in(d->compute, &o->scalars->block, block, sizeof(*block), err))
		return err->code;
	return d->backend->steps()->begin_step(d->compute, o->scalars, err);
}

struct gt_step_scalars *gt_optim_scalars(const struct gt_optim *o)
{
	return o->scalars;
}

int gt_optim_begin_update(
    struct gt_optim *o, const struct gt_optim_ranks *ranks, struct gt_err *err)
{
	const struct gt_device *d = o->store->device;
	int rc = add_squares(o, err);

	if (!rc && ranks && ranks->add_up)
		rc = ranks->add_up(ranks->self, o->scalars->result.squares, err);
	return rc ? rc : d->backend->steps()->begin_update(d->compute, o->scalars, err);
}

int gt_optim_update(struct gt_optim *o, const struct gt_optim_ranks *ranks, struct gt_err *err)
{
	int rc = gt_optim_begin_update(o, ranks, err);

	return rc ? rc : update_ranges(o, ranks, err);
}

int gt_optim_end(struct gt_optim *o, struct gt_err *err)
{
	const struct gt_device *d = o->store->device;
	int slot = (int)((o->begun - 1) % GT_OPTIM_AHEAD);
	struct gt_step_result *result = &o->slots[slot].result;

	if (d->backend->copy_out(d->compute, result, &o->scalars->result, sizeof(*result), err))
		return err->code;
	return d->backend->event_record(o->ended[slot], d->compute, err);
}

int gt_optim_result(struct gt_optim *o, struct gt_step_result *out, struct gt_err *err)
{
	int slot = (int)(o->read % GT_OPTIM_AHEAD);
	int rc = o->store->device->backend->event_sync(o->ended[slot], err);

	if (rc)
		return rc;
	*out = o->slots[slot].result;
	o->steps = out->steps;
	if (o->scaler.growth_interval) {
		o->scaler.scale = (double)out->scale;
		o->scaler.growth_tracker = out->growth_tracker;
	}
	o->read++;
	return 0;
}

int gt_optim_step(struct gt_optim *o, double lr, float *grad_norm, struct gt_err *err)
{
	struct gt_step_result result;
	int rc = gt_optim_begin(o, lr, false, err);

	if (!rc)
		rc = gt_optim_update(o, NULL, err);
	if (!rc)
		rc = gt_optim_end(o, err);
	if (!rc)
		rc = gt_optim_result(o, &result, err);
	if (!rc && grad_norm)
		*grad_norm = result.grad_norm;
	return rc;
}

int gt_optim_zero_grad(struct gt_optim *o, struct gt_err *err)
{
	const struct gt_store *s = o->store;

	return s->device->backend->zero(
	    s->device->compute, s->gradients->memory, gt_plane_bytes(s, s->gradients), err);
}

int64_t gt_optim_steps(const struct gt_optim *o)
{
	return o->steps;
}

int gt_optim_set_steps(struct gt_optim *o, int64_t steps, struct gt_err *err)
{
	o->steps = steps;
	return gt_device_write(
	    o->store->device, &o->scalars->result.steps, &steps, sizeof(steps), err);
}

const struct gt_scaler *gt_optim_scaler(const struct gt_optim *o)
{
	return &o->scaler;
}

int gt_optim_set_scaler(struct gt_optim *o, const struct gt_scaler *scaler, struct gt_err *err)
{
	const struct gt_device *d = o->store->device;
	struct gt_step_result *r = &o->scalars->result;
	float scale = (float)scaler->scale;
	int rc = gt_device_write(d, &r->scale, &scale, sizeof(scale), err);

	o->scaler = *scaler;
	return rc ? rc
	          : gt_device_write(d, &r->growth_tracker, &scaler->growth_tracker,
	                sizeof(scaler->growth_tracker), err);
}

const struct gt_optim_options *gt_optim_options(const struct gt_optim *o)
{
	return &o->options;
}
