/* eval_report.h - the answers of a model to single samples: by class, as a matrix, as a file. */
#ifndef GT_CMD_EVAL_REPORT_H
#define GT_CMD_EVAL_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "lib/train/eval.h"

/* How often samples of one class were taken for another; release it. */
struct gt_confusion {
	const struct gt_eval *eval;
	int classes;
	int64_t *counts; /* [classes][classes]: of the right class, by the predicted one */
};

/* Count the answers of an evaluation with how.top of 1. Errors: GT_ENOMEM. */
int gt_confusion_count(struct gt_confusion *out, const struct gt_eval *e, struct gt_err *err);
void gt_confusion_release(struct gt_confusion *c);

/* As text: a line for each class that has samples; the matrix. The latter has a column for each
 * class, or, where that is not legible, a line for each pair of classes that were confused. */
void gt_confusion_print_classes(FILE *out, const struct gt_confusion *c);
void gt_confusion_print(FILE *out, const struct gt_confusion *c);

/* The numbers of an evaluation as JSON, by their names. Yours; NULL for want of memory. */
json_t *gt_metrics_json(const struct gt_metrics *m);

/* As JSON: [{"class", "n", "right"}]; [[n, ...], ...]. Yours; NULL for want of memory. */
json_t *gt_confusion_classes_json(const struct gt_confusion *c);
json_t *gt_confusion_json(const struct gt_confusion *c);

/* Write DATA's samples in their order as CSV (RFC 4180): sample, class, predicted, probability;
 * of regression sample, target, predicted, on the target's own scale. All
 * of the file or nothing. Errors: GT_EIO, GT_ENOMEM. */
int gt_predictions_write(const char *path, const struct gt_eval *e, struct gt_err *err);

#endif
