/* sync_bn.h - batch normalization over the samples of all ranks. */
#ifndef GT_PARALLEL_DATA_SYNC_BN_H
#define GT_PARALLEL_DATA_SYNC_BN_H

#include "lib/parallel/parallel.h"

/* Change a training graph, after all passes: each batch_norm and its gradient use the samples of
 * all ranks of the data axis, or of all virtual ranks, `ranks` in number. */
int gt_sync_bn(struct gt_graph *g, int ranks, struct gt_err *err);

#endif
