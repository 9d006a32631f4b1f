/* labels.h - private: words and whole numbers that say the class of a row of JSON lines. */
#ifndef GT_DATA_TEXT_LABELS_H
#define GT_DATA_TEXT_LABELS_H

#include "lib/data/core/source.h"
#include "lib/data/text/json_lines.h"

/* Set *out to the label of a row, for json_decref(). Errors: GT_EFORMAT, without the line. */
int gt_label_take(json_t **out, const json_t *row, const char *member, struct gt_err *err);

/*
 * Give each row its class: numbers are classes themselves, words are numbered in the order of their
 * bytes. Set form.classes, and for words class_names, of the source.
 *
 *   classes   [lines->count]; GT_DATA_IGNORE for the number that the request ignores
 *   labels    [lines->count] as gt_label_take() sets them
 *
 * Errors: GT_EFORMAT, GT_ENOMEM.
 */
int gt_labels_number(int32_t *classes, json_t *const *labels, struct gt_source *source,
    const struct gt_data_request *request, const struct gt_json_lines *lines, struct gt_err *err);

#endif
