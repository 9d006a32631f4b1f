/* tensorboard.h - an observer that writes files of events for TensorBoard. */
#ifndef GT_TRAIN_TENSORBOARD_TENSORBOARD_H
#define GT_TRAIN_TENSORBOARD_TENSORBOARD_H

#include "lib/train/train.h"

struct gt_tensorboard;

struct gt_tensorboard_options {
	/* the options of the run, borrowed until gt_tensorboard_free(); NULL: they are not shown */
	const json_t *config;
	/* steps between histograms of weights and gradients; 0: none are written */
	int64_t histogram_every;
	struct gt_log *log; /* for a warning, if the file cannot be written any more */
};

/*
 * Make a writer of events; gt_tensorboard_observer() returns its observer. Rank 0 writes a new file
 * in the run directory, with the configuration as text and as hyperparameters, and the state in
 * which the run ends. With histogram_every, each rank needs the observer, because ranks send their
 * shards of weights and gradients to rank 0.
 *
 * The numbers of metrics.jsonl come from its writer: give it gt_tensorboard_sink(), by
 * gt_metrics_writer_send_to(), and list the observer after that of the metrics. If the file cannot
 * be written any more, a warning is logged, and the run goes on. `t` must outlive *out. Errors:
 * GT_ENOTSUP for histograms of weights that are not float32; GT_ENOMEM.
 */
int gt_tensorboard_new(struct gt_tensorboard **out, const struct gt_train *t,
    const struct gt_tensorboard_options *options, struct gt_err *err);
void gt_tensorboard_free(struct gt_tensorboard *tb);
struct gt_observer gt_tensorboard_observer(struct gt_tensorboard *tb);
struct gt_number_sink gt_tensorboard_sink(struct gt_tensorboard *tb);

#endif
