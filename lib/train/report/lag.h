/* lag.h - find the rank for which the other ranks of a run wait. */
#ifndef GT_TRAIN_REPORT_LAG_H
#define GT_TRAIN_REPORT_LAG_H

#include "lib/comm/group.h"
#include "lib/comm/shm/shm.h"

struct gt_lag {
	const struct gt_group *group; /* NULL: nothing is known */
	double before_s[GT_SHM_MAX_RANKS];
};

/* Begin a period. `group`, all ranks of the run, may be NULL. */
void gt_lag_begin(struct gt_lag *l, const struct gt_group *group);

/* Return the share of a period of `elapsed_s` seconds that all ranks but *rank have waited longer
 * than *rank, or 0 if it is not known. Begin the next period. */
double gt_lag_find(int *rank, struct gt_lag *l, double elapsed_s);

#endif
