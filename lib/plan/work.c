/* work.c - lists of work. */
#include "lib/plan/work.h"

#include <stdlib.h>

#include "lib/graph/graph.h"

void gt_work_release(struct gt_work_list *work)
{
	free(work->list);
	*work = (struct gt_work_list){ 0 };
}

/* How often an item is done in a step. */
static int times_of(const struct gt_work_list *w, size_t i)
{
	return i < w->first || i >= w->last || w->list[i].runs ? 1 : w->runs;
}

double gt_work_sent(const struct gt_work_list *work, enum gt_axis axis)
{
	double bytes = 0;

	for (size_t i = 0; i < work->count; i++)
		if (axis == GT_AXES || work->list[i].traffic.axis == axis)
			bytes += times_of(work, i) * gt_traffic_sent(&work->list[i].traffic);
	return bytes;
}
