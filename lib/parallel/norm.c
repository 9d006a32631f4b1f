/* norm.c - the squares of the gradients of all ranks, each element counted once. */
#include <stdlib.h>

#include "lib/parallel/axis.h"
#include "lib/parallel/state.h"
#include "lib/parallel/tensor/tensor.h"

static bool is_divided(const struct gt_parallel *p)
{
	for (int i = 0; i < GT_AXES; i++)
		if (gt_axis_rows[i]->divides && gt_axis_rows[i]->divides(p))
			return true;
	return false;
}

static bool is_counted(const struct gt_parallel *p, const struct gt_slot *slot)
{
	for (int i = 0; i < GT_AXES; i++)
		if (gt_axis_rows[i]->counts && !gt_axis_rows[i]->counts(p, slot))
			return false;
	return true;
}

/* Add the ranges of the gradients of a slot that this rank updates. */
static void add_ranges(struct gt_parallel *p, const struct gt_slot *slot)
{
	struct gt_ranges walk = gt_slot_ranges(p->store, p->store->gradients, slot);

	while (gt_ranges_next(&walk, &p->norm_ranges[p->norm_range_count]))
		p->norm_range_count++;
}

static int take_scalars(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_step_scalars begin = { .block = { .exact = p->o.reproducible } };
	void *scalars;
	int rc = gt_device_alloc(p->device, sizeof(*p->scalars), &scalars, err);

	if (rc)
		return rc;
	p->scalars = scalars;
	return gt_device_write(p->device, scalars, &begin, sizeof(begin), err);
}

/* A slot lies in one part of this rank, so there are no more ranges than slots. */
int gt_norm_attach(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_store *s = p->store;
	size_t max = s->slot_count;

	if (p->dry || p->o.forward || !is_divided(p))
		return 0;
	p->norm_ranges = gt_calloc(max, sizeof(*p->norm_ranges), err);
	if (!p->norm_ranges)
		return GT_ENOMEM;
	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];

		if (slot->role != GT_PARAMETER || slot->on_other_ranks)
			continue;
		if (is_counted(p, slot))
			add_ranges(p, slot);
		else
			p->counts_some = true;
	}
	return p->counts_some ? take_scalars(p, err) : 0;
}

void gt_norm_release(struct gt_parallel *p)
{
	if (p->scalars)
		gt_device_free(p->device, p->scalars, sizeof(*p->scalars));
	free(p->norm_ranges);
}

/* Replace the squares of all gradients that this rank updates by those of the ones it counts. */
static int count_again(const struct gt_parallel *p, double *squares, struct gt_err *err)
{
	const struct gt_backend *b = p->device->backend;
	struct gt_stream *stream = p->device->compute;
	double *sum = p->scalars->result.squares;
	int rc = b->zero(stream, sum, GT_SQUARES * sizeof(*sum), err);

	for (size_t i = 0; !rc && i < p->norm_range_count; i++)
		rc = b->steps()->squares(stream,
		    (const float *)p->store->gradients->memory + p->norm_ranges[i].at,
		    p->norm_ranges[i].count, p->scalars, err);
	return rc ? rc : b->copy(stream, squares, sum, GT_SQUARES * sizeof(*sum), err);
}

/* The sum of the squares of all ranks' gradients, from the sum over those that this rank
 * updates. */
static int add_up(void *self, double *squares, struct gt_err *err)
{
	const struct gt_parallel *p = self;
	int rc = p->counts_some ? count_again(p, squares, err) : 0;

	for (int i = 0; !rc && i < GT_AXES; i++) {
		const struct gt_collective c = { .kind = GT_ALL_REDUCE,
			.in = squares,
			.out = squares,
			.count = GT_SQUARES,
			.dtype = GT_F64,
			.reduction = GT_SUM,
			.what = "norm",
			.stream = p->device->compute };

		if (gt_axis_rows[i]->divides && gt_axis_rows[i]->divides(p))
			rc = gt_group_run(p->device_axes[i], &c, err);
	}
	return rc;
}

int gt_norm_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err)
{
	const struct gt_optim_ranks ranks = { .add_up = is_divided(p) ? add_up : NULL,
		.join = gt_tp_join,
		.cut = gt_tp_cut,
		.self = p };

	return gt_optim_update(optim, &ranks, err);
}
