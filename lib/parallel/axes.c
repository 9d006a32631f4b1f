/* axes.c - the list of axes, and the grid of ranks that they make. */
#include "lib/parallel/axis.h"
#include "lib/parallel/pipeline/stage.h"
#include "lib/parallel/state.h"

/*
 * Ranks form a grid. Three axes (pipeline, data, tensor) are the dimensions of the grid. The seat
 * of a rank on an axis is its coordinate in this dimension, from 0 on:
 *
 *   rank = (pipeline seat * data seats + data seat) * tensor seats + tensor seat
 *
 * Two more axes are not dimensions of the grid. On the virtual axis, one rank simulates several
 * virtual ranks (virtual/rewrite.h). The sequence axis uses the ranks of the tensor axis.
 *
 * The axes divide the parameters one after the other, from the outermost axis to the innermost. In
 * the grid, the pipeline is the outermost axis: each of its seats, called a stage, holds some of
 * the parameters. The tensor axis is next: each of its seats holds a shard (lib/graph/sharding.h)
 * of each parameter of its stage. The data axis is the innermost: in the modes zero1 to zero3 (enum
 * gt_parallel_kind), each of its seats updates a range of this shard. The table of axes has the
 * order of enum gt_axis, the innermost axis first.
 *
 * Example: there are 2 stages, 2 seats on the tensor axis, and 2 seats on the data axis with the
 * mode zero1. Stage 1 holds a matrix of 2 x 4 elements, which is divided into 2 shards by columns.
 * The matrix, and the elements that each of the four ranks of stage 1 updates:
 *
 *   0 1 2 3    (stage 1, shard 0, data 0) updates 0 1    (stage 1, shard 1, data 0) updates 2 3
 *   4 5 6 7    (stage 1, shard 0, data 1) updates 4 5    (stage 1, shard 1, data 1) updates 6 7
 *
 * For one axis, held() returns the elements that a seat holds. With held(), the file whole.c
 * gathers tensors from all ranks to save them in files, and scatters tensors that were read from
 * files. With divides() and counts(), the file norm.c counts the square of each element of the
 * gradients exactly once.
 */

const struct gt_axis_row *const gt_axis_rows[] = {
	[GT_AXIS_DATA] = &gt_axis_data,
	[GT_AXIS_TENSOR] = &gt_axis_tensor,
	[GT_AXIS_SEQUENCE] = &gt_axis_sequence,
	[GT_AXIS_PIPELINE] = &gt_axis_pipeline,
	[GT_AXIS_VIRTUAL] = &gt_axis_virtual,
};
_Static_assert(sizeof(gt_axis_rows) / sizeof(*gt_axis_rows) == GT_AXES, "a row for every axis");

/* The axes that take ranks. Neighbours on the first of them are neighbours in the world. */
static const enum gt_axis grid[] = { GT_AXIS_TENSOR, GT_AXIS_DATA, GT_AXIS_PIPELINE };
enum { GRID = sizeof(grid) / sizeof(*grid) };

const char *gt_axis_name(enum gt_axis axis)
{
	return gt_axis_rows[axis]->name;
}

int gt_parallel_data_ranks(const struct gt_parallel_options *options, int ranks)
{
	return gt_axis_data.size(options, ranks);
}

int gt_axes_parts(const struct gt_parallel_options *o)
{
	return gt_axis_tensor.size(o, 0) * gt_axis_pipeline.size(o, 0);
}

/* Make the group of the ranks that differ from this one in their seat on the axis alone; the
 * numbers of neighbours there differ by `apart`. An axis of one seat needs no group, but modes call
 * that of the data axis in any case. */
static int open_axis(struct gt_parallel *p, enum gt_axis axis, int apart, struct gt_err *err)
{
	struct gt_group *seat = &p->seats[axis];
	int rank = p->world->rank;

	seat->rank = rank / apart % seat->size;
	if (seat->size == p->world->size)
		p->axes[axis] = p->world;
	else if (!p->dry && (seat->size > 1 || axis == GT_AXIS_DATA))
		return gt_group_split(
		    &p->axes[axis], p->world, rank - seat->rank * apart, rank, err);
	return 0;
}

/* Ranks that share layers have the same results: a group of results has one of them. */
static int open_results(struct gt_parallel *p, struct gt_err *err)
{
	int tensor = p->seats[GT_AXIS_TENSOR].size;

	if (p->dry || tensor == 1)
		p->results = p->world;
	else if (p->seats[GT_AXIS_PIPELINE].size == 1)
		p->results = p->axes[GT_AXIS_DATA];
	else
		return gt_group_split(
		    &p->results, p->world, p->world->rank % tensor, p->world->rank, err);
	return 0;
}

int gt_axes_open(struct gt_parallel *p, struct gt_err *err)
{
	int apart = 1, rc = 0;

	for (int i = 0; i < GT_AXES; i++) {
		p->seats[i].size = gt_axis_rows[i]->size(&p->o, p->world->size);
		p->axes[i] = &p->seats[i];
	}
	for (int i = 0; !rc && i < GRID; i++) {
		rc = open_axis(p, grid[i], apart, err);
		apart *= p->seats[grid[i]].size;
	}
	if (!rc)
		rc = open_results(p, err);
	for (int i = 0; !rc && i < GT_AXES; i++)
		if (gt_axis_rows[i]->open)
			rc = gt_axis_rows[i]->open(p, err);
	return rc;
}

/* ---- groups for device memory ---- */

/* The world has a group for device memory already, and an axis without a group needs none. */
static int open_device_group(struct gt_parallel *p, enum gt_axis axis, struct gt_err *err)
{
	struct gt_group *host = p->axes[axis], **own = &p->device_axes[axis];

	*own = host == p->world ? p->device_world : host;
	if (host == p->world || host == &p->seats[axis])
		return 0;
	return gt_device_group_open(own, host, p->device, &p->way, err);
}

int gt_axes_open_device(struct gt_parallel *p, struct gt_err *err)
{
	const struct gt_device_way_options o = { p->o.way, p->o.reproducible };
	int rc = 0;

	if (p->dry)
		gt_device_way_expect(&p->way, p->device, p->o.sharing > 1, &o);
	else
		rc = gt_device_way_choose(&p->way, p->world, p->device, &o, err);
	if (!p->dry && !rc)
		rc = gt_device_group_open(&p->device_world, p->world, p->device, &p->way, err);
	for (int i = 0; !p->dry && !rc && i < GT_AXES; i++)
		rc = open_device_group(p, (enum gt_axis)i, err);
	if (p->results == p->world)
		p->device_results = p->device_world;
	else if (p->results == p->axes[GT_AXIS_DATA])
		p->device_results = p->device_axes[GT_AXIS_DATA];
	else if (!rc)
		rc = gt_device_group_open(&p->device_results, p->results, p->device, &p->way, err);
	return rc;
}

void gt_axes_add_group(struct gt_group_memory *m, const struct gt_parallel *p, int ranks)
{
	if (!gt_device_way_add_memory(&m->bytes, &p->way, p->device, ranks))
		m->unknown = true;
}

/* The groups of gt_axes_open_device(), which in a dry run are not there, and those of the axes. */
struct gt_group_memory gt_parallel_group_memory(const struct gt_parallel *p)
{
	int world = p->world->size, tensor = p->seats[GT_AXIS_TENSOR].size;
	struct gt_group_memory m = { 0 };

	gt_axes_add_group(&m, p, world);
	for (int i = 0; i < GRID; i++)
		if (p->seats[grid[i]].size != world)
			gt_axes_add_group(&m, p, p->seats[grid[i]].size);
	if (tensor > 1 && p->seats[GT_AXIS_PIPELINE].size > 1)
		gt_axes_add_group(&m, p, world / tensor);
	for (int i = 0; i < GT_AXES; i++)
		if (gt_axis_rows[i]->add_groups)
			gt_axis_rows[i]->add_groups(p, &m);
	return m;
}

const struct gt_device_way *gt_parallel_detour(const struct gt_parallel *p)
{
	return p->way.why.code ? &p->way : NULL;
}

const char *gt_parallel_backend(const struct gt_parallel *p)
{
	return p->device_world->ops->name;
}

/* Whether the group of results is one of its own, neither the world nor the data axis. */
static bool owns_results(const struct gt_parallel *p)
{
	return p->results != p->world && p->results != p->axes[GT_AXIS_DATA];
}

/* Call this for a group for device memory, if it was made and is not the host's. */
static void act_on(
    struct gt_group *group, const struct gt_group *host, void (*act)(struct gt_group *group))
{
	if (group && group != host)
		act(group);
}

static void each_device_group(const struct gt_parallel *p, void (*act)(struct gt_group *group))
{
	if (owns_results(p))
		act_on(p->device_results, p->results, act);
	for (int i = 0; i < GT_AXES; i++)
		if (p->axes[i] != p->world)
			act_on(p->device_axes[i], p->axes[i], act);
	act_on(p->device_world, p->world, act);
}

static void stop_group(struct gt_group *group)
{
	gt_group_stop(group);
	(void)gt_group_wait(group, GT_GROUP_ALL, GT_ERR_IGNORED);
}

void gt_parallel_stop(struct gt_parallel *p)
{
	if (!p || !p->device || p->device->backend->host_memory)
		return;
	each_device_group(p, stop_group);
	gt_pipeline_each_group(p, stop_group);
}

void gt_axes_close(struct gt_parallel *p)
{
	for (int i = 0; i < GT_AXES; i++)
		if (gt_axis_rows[i]->release)
			gt_axis_rows[i]->release(p);
	each_device_group(p, gt_group_free);
	if (owns_results(p))
		gt_group_free(p->results);
	for (int i = 0; i < GT_AXES; i++)
		if (p->axes[i] != p->world && p->axes[i] != &p->seats[i])
			gt_group_free(p->axes[i]);
}
