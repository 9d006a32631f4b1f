/* work.c - lists of work. */
#include "lib/plan/work.h"

#include <stdlib.h>

#include "lib/graph/graph.h"

void gt_work_release(struct gt_work_list *work)
{
	free(work->list);
	*work = (struct gt_work_list){ 0 };
}

bool gt_work_is_in_run(const struct gt_work_list *w, size_t item, int run)
{
	unsigned flags = (run == 0 ? GT_RUN_FIRST : 0) | (run + 1 == w->runs ? GT_RUN_LAST : 0);

	return !w->list[item].runs || w->list[item].runs & flags;
}

int gt_work_times(const struct gt_work_list *w, size_t item)
{
	int times = 0;

	if (item < w->first || item >= w->last)
		return 1;
	for (int run = 0; run < w->runs; run++)
		times += gt_work_is_in_run(w, item, run);
	return times;
}

double gt_work_sent(const struct gt_work_list *work, enum gt_axis axis)
{
	double bytes = 0;

	for (size_t i = 0; i < work->count; i++)
		if (axis == GT_AXES || work->list[i].traffic.axis == axis)
			bytes += gt_work_times(work, i) * gt_traffic_sent(&work->list[i].traffic);
	return bytes;
}
