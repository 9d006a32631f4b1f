/* lag.c - compare the times that ranks have waited for others. */
#include "lib/train/report/lag.h"

#include <math.h>

void gt_lag_begin(struct gt_lag *l, const struct gt_group *group)
{
	bool known = group && group->size > 1 && group->size <= GT_SHM_MAX_RANKS &&
	             !isnan(gt_group_waited_s(group, 0));

	l->group = known ? group : NULL;
	for (int r = 0; known && r < group->size; r++)
		l->before_s[r] = gt_group_waited_s(group, r);
}

/* A slow rank waits for nobody, and all others wait for it: the two ranks that have waited least
 * are compared. */
double gt_lag_find(int *rank, struct gt_lag *l, double elapsed_s)
{
	double least = INFINITY, second = INFINITY;

	*rank = -1;
	for (int r = 0; l->group && r < l->group->size; r++) {
		double now = gt_group_waited_s(l->group, r), waited = now - l->before_s[r];

		l->before_s[r] = now;
		if (waited < least) {
			second = least;
			least = waited;
			*rank = r;
		} else if (waited < second) {
			second = waited;
		}
	}
	return *rank >= 0 && elapsed_s > 0 ? fmin((second - least) / elapsed_s, 1) : 0;
}
