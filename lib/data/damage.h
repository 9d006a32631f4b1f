/* damage.h - samples that cannot be decoded, counted and named. */
#ifndef GT_DATA_DAMAGE_H
#define GT_DATA_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/*
 * An image that cannot be decoded is damaged. It keeps its place in its batch, with pixels of 0 and
 * the target GT_DATA_IGNORE, so that batches depend on neither workers nor ranks. The loss ignores
 * it, but batch statistics include its pixels.
 *
 * A record of them belongs to a data set; views of the data set share it (gt_dataset_damage()). Its
 * functions may be called from several threads.
 */
struct gt_damage;

enum {
	GT_DAMAGE_TEXTS = 64, /* errors kept: those of the samples with the lowest numbers */
	GT_DAMAGE_TEXT = 480
};

/* An empty record for a data set. `strict`: damage is an error. Errors: GT_ENOMEM. */
int gt_damage_new(struct gt_damage **out, int64_t samples, bool strict, struct gt_err *err);
void gt_damage_free(struct gt_damage *d);

/*
 * Record a sample that could not be read because of *err, and return 0. Return err->code if damage
 * is an error, or if all samples are damaged now; then *err is the error of the first one. Errors:
 * GT_ENOMEM.
 */
int gt_damage_leave_out(struct gt_damage *d, int64_t sample, struct gt_err *err);

bool gt_damage_has(struct gt_damage *d, int64_t sample);

/* The number of recorded samples; and of all samples. */
int64_t gt_damage_count(const struct gt_damage *d);
int64_t gt_damage_samples(const struct gt_damage *d);

/* Write the error of the lowest sample that was not returned before. Returns false if there is
 * none. */
bool gt_damage_next(struct gt_damage *d, char text[GT_DAMAGE_TEXT]);

/* Write the record as gt_damage_bytes() bytes, which ranks exchange; and add the record of another
 * rank. Errors: GT_ENOMEM. */
size_t gt_damage_bytes(const struct gt_damage *d);
void gt_damage_pack(struct gt_damage *d, void *out);
int gt_damage_merge(struct gt_damage *d, const void *packed, struct gt_err *err);

#endif
