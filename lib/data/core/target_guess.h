/* target_guess.h - private: whether whole numbers as targets are meant as classes. */
#ifndef GT_DATA_CORE_TARGET_GUESS_H
#define GT_DATA_CORE_TARGET_GUESS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/data/core/data.h"

/* A summary of targets that are all numbers. */
struct gt_target_numbers {
	size_t count, distinct; /* number of targets; number of different ones */
	double smallest, largest;
	bool fractions; /* some are not whole numbers */
};

enum gt_target_guess {
	GT_TARGET_CLASSES, /* few classes without wide gaps */
	/* many different numbers: fractions, or whole numbers with gaps between them or with few
	 * samples for each */
	GT_TARGET_NUMBERS,
	GT_TARGET_SPARSE /* few different numbers with wide gaps, such as 10, 250 and 3000 */
};

/* Whether a target counts as missing (gt_data_request.ignored). */
bool gt_target_is_ignored(const struct gt_data_request *request, double value);

/* Summarize `count` numbers, which are finite and stand `step` apart, but for ignored ones. Errors:
 * GT_ENOMEM. */
int gt_target_summarize(struct gt_target_numbers *out, const double *values, size_t count,
    size_t step, const struct gt_data_request *request, struct gt_err *err);

enum gt_target_guess gt_target_guess(const struct gt_target_numbers *n);

/* Write to text[size] how targets were taken, and why: as numbers, or as classes if these have gaps
 * or are many; "" for a few classes without gaps. Return `text`. */
const char *gt_target_describe_guess(const struct gt_target_numbers *n, char *text, size_t size);

/* Set the error for GT_TARGET_SPARSE. `column` names the targets in the message. */
int gt_target_fail_sparse(
    const struct gt_target_numbers *n, const char *column, struct gt_err *err);

#endif
