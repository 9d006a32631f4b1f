/* eval_report.h - print predictions: accuracy by class, the confusion matrix, a CSV file. */
#ifndef GT_CMD_EVAL_REPORT_H
#define GT_CMD_EVAL_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "lib/train/eval.h"

/* The confusion matrix: how often samples of one class were predicted as another. Release it. */
struct gt_confusion {
	const struct gt_eval *eval;
	int classes;
	/* [classes][classes]: counts, in rows by the right class, in columns by the predicted
	 * class */
	int64_t *counts;
};

/* Count the predictions of an evaluation with how.top of 1. Errors: GT_ENOMEM. */
int gt_confusion_count(struct gt_confusion *out, const struct gt_eval *e, struct gt_err *err);
void gt_confusion_release(struct gt_confusion *c);

/* As text: a line for each class that has samples; and the matrix. If the matrix is too wide to
 * read, it is printed as a line for each pair of confused classes instead. */
void gt_confusion_print_classes(FILE *out, const struct gt_confusion *c);
void gt_confusion_print(FILE *out, const struct gt_confusion *c);

/* Return the metrics of an evaluation as a JSON object, which the caller frees; NULL if memory runs
 * out. */
json_t *gt_metrics_json(const struct gt_metrics *m);

/* As JSON: [{"class", "n", "right"}]; [[n, ...], ...]. Yours; NULL: out of memory. */
json_t *gt_confusion_classes_json(const struct gt_confusion *c);
json_t *gt_confusion_json(const struct gt_confusion *c);

/* Write the predictions as CSV (RFC 4180), in the order of the samples. The columns are sample,
 * class, predicted, probability; for regression they are sample, target, predicted, on the target's
 * own scale. The file appears complete or not at all. Errors: GT_EIO, GT_ENOMEM. */
int gt_predictions_write(const char *path, const struct gt_eval *e, struct gt_err *err);

#endif
