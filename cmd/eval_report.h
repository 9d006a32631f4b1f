/* eval_report.h - report predictions: accuracy by class, the confusion matrix, a CSV file. */
#ifndef GT_CMD_EVAL_REPORT_H
#define GT_CMD_EVAL_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "lib/base/file.h"
#include "lib/train/eval.h"

/* The samples of each class, and the classes predicted for them. The confusion matrix has mostly
 * zeros if there are many classes, so it is stored as a list. Release it with
 * gt_confusion_release(). */
struct gt_confusion {
	/* the evaluation; borrowed */
	const struct gt_eval *eval;
	int classes;        /* number of classes or labels */
	bool labels;        /* a sample may have several of them, or none */
	int64_t *samples;   /* [classes] number of samples of each class */
	int64_t *right;     /* [classes] number of samples that were predicted as their class */
	int64_t *predicted; /* [classes] number of samples that were predicted as this class */
	/* Area under the ROC curve: the share of pairs of samples of both classes in which the one
	 * of class 1 has the larger margin (gt_predictions); equal margins count half. NaN: there
	 * are not two classes, one has no samples, or a margin is NaN. */
	double roc_auc;
	/* [pair_count] one number per sample, in ascending order: the sample's class * `classes` +
	 * the predicted class. Samples without a predicted class, because a logit was NaN, are left
	 * out. */
	int64_t *pairs;
	int64_t pair_count;
};

/* Count the predictions of a finished evaluation. The evaluation must have stored one prediction
 * per sample, or one for each label: its option `how.top` must have been 1. Samples without a class
 * are not counted. A label is predicted if its probability is above 0.5.
 * Errors: GT_ENOMEM. */
int gt_confusion_count(struct gt_confusion *out, const struct gt_eval *e, struct gt_err *err);
void gt_confusion_release(struct gt_confusion *c);

/* Precision, recall and F1 score: right / predicted, right / samples, and their harmonic mean; 0
 * where the divisor is 0. */
struct gt_class_scores {
	double precision, recall, f1;
};

/* Return the scores of a class. */
struct gt_class_scores gt_confusion_scores(const struct gt_confusion *c, int class);

/* Return the means of the scores of all labels, or of the classes that have samples or were
 * predicted, as scikit-learn does. */
struct gt_class_scores gt_confusion_macro(const struct gt_confusion *c);

/* Return the scores of all labels together. */
struct gt_class_scores gt_confusion_micro(const struct gt_confusion *c);

/* Print the scores by class as text: one line for each class that has samples or was predicted, and
 * one for their means. Of labels there is a line for each, and one for all together. With two
 * classes, a line for the area under the ROC curve follows. */
void gt_confusion_print_classes(FILE *out, const struct gt_confusion *c);

/* Print the confusion matrix as text. If there are more than 10 classes, print a list instead: one
 * line for each pair of a class and a wrong class that was predicted for its samples. Names above
 * the columns of the matrix are cut, to three letters at least, until it is `columns` wide; 0: they
 * are not cut. */
void gt_confusion_print(FILE *out, const struct gt_confusion *c, size_t columns);

/* Return the metrics of an evaluation as a JSON object, which the caller frees; NULL if memory runs
 * out. */
json_t *gt_metrics_json(const struct gt_metrics *m);

/* Return the scores by class as a JSON array of objects {"class", "n", "right", "predicted",
 * "precision", "recall", "f1"}: the name of the class, the numbers of its samples, of right
 * predictions and of all predictions of this class, and its scores. The caller frees the array.
 * NULL if memory runs out. */
json_t *gt_confusion_classes_json(const struct gt_confusion *c);

/* Add the scores by class to the document as "classes", their means as "macro", of labels those of
 * all together as "micro", and with two classes the area under the ROC curve as "roc_auc". Return
 * 0, or -1 if memory runs out. */
int gt_confusion_add_scores(json_t *document, const struct gt_confusion *c);

/* Return the confusion matrix as a JSON array of rows, which the caller frees. The element [i][k]
 * is the number of samples of class i that were predicted as class k. NULL if memory runs out. */
json_t *gt_confusion_json(const struct gt_confusion *c);

/*
 * Write the predictions to an open file as CSV (RFC 4180), in the order of the samples. Then commit
 * the file, which gives it its final name. Damaged samples, which could not be read or decoded, are
 * left out. The columns are sample, class, predicted, probability. For numbers the columns are
 * sample, target, predicted; target and predicted are in the units of the data set. For labels each
 * sample has a line for each label, with the columns sample, label, target, probability. Errors:
 * GT_EIO.
 */
int gt_predictions_write(struct gt_atomic_file *file, const struct gt_eval *e, struct gt_err *err);

#endif
