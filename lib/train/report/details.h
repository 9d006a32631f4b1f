/* details.h - the observer that writes details.json, for `gtrain report`. */
#ifndef GT_TRAIN_REPORT_DETAILS_H
#define GT_TRAIN_REPORT_DETAILS_H

#include "lib/base/buf.h"
#include "lib/train/report/observer.h"
#include "lib/train/train.h"

/* Up to GT_DETAILS_MATRIX classes, the file has the whole confusion matrix, else the
 * GT_DETAILS_PAIRS most frequent confusions. */
enum { GT_DETAILS_MATRIX = 20, GT_DETAILS_PAIRS = 100 };

/*
 * An observer that writes the parameters of the model when the run starts, and the predictions of
 * the best evaluation:
 *
 *   {"parameters":[{"name":..,"shape":[..],"trained":true},..],
 *    "evaluation":{"step":..,"classes":..,"pairs":[[CLASS,PREDICTED,COUNT],..],
 *      "misses":[{"sample":..,"class":..,"predicted":..,"probability":..,"png":..},..],
 *      "prompt":..,"text":..}}
 *
 * Without predictions, classes, pairs and misses are missing; without a text, prompt and text. A
 * sample is a name or a number; png is base64, and missing if the sample is no image.
 *
 * If the file cannot be written, a warning says so once, and the run goes on. A resumed run keeps
 * the evaluation of its earlier part. The caller sets `log` and `t`, and calls gt_details_release()
 * after the run.
 */
struct gt_details {
	struct gt_log *log;
	const struct gt_train *t;
	/* The fields below are the observer's state. */
	const struct gt_folder *folder;
	struct gt_buf parameters, evaluation; /* as JSON; evaluation "": there was none */
	bool warned;
};

struct gt_observer gt_details_observer(struct gt_details *d);
void gt_details_release(struct gt_details *d);

#endif
