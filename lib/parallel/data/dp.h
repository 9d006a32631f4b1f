/* dp.h - private: the mode dp, in which rank 0 reads samples and updates weights. */
#ifndef GT_PARALLEL_DATA_DP_H
#define GT_PARALLEL_DATA_DP_H

#include "lib/parallel/data/modes.h"

/* This mode works like torch.nn.DataParallel: rank 0 reads the samples, holds the weights and
 * updates them; the others compute parts of the batch. dp.c lists the nodes of a step. */

/* Set *first and *count to the part of a micro-batch for one rank, or for the calling rank. */
void gt_dp_part_of(const struct gt_group *group, int rank, int samples, int *first, int *count);
void gt_dp_part(const struct gt_parallel *p, int samples, int *first, int *count);

/* The functions of the mode (modes.h). */
int gt_dp_scatter(struct gt_parallel *p, struct gt_graph *g, int samples, struct gt_err *err);
int gt_dp_refresh(struct gt_parallel *p, struct gt_err *err);
int gt_dp_publish(struct gt_parallel *p, struct gt_err *err);
int gt_dp_update(struct gt_parallel *p, struct gt_optim *optim, struct gt_err *err);

#endif
