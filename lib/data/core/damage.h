/* damage.h - count and name the samples that cannot be decoded. */
#ifndef GT_DATA_CORE_DAMAGE_H
#define GT_DATA_CORE_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/*
 * An image that cannot be decoded is damaged. If the images are inputs for predictions
 * (gt_data_request.inputs), a file that cannot be read is also a damaged image. A damaged image
 * keeps its place in its batch, so batches do not depend on the number of threads or ranks. Its
 * pixels are 0, and its target is GT_DATA_IGNORE. The loss ignores this target, but batch
 * statistics include the pixels.
 *
 * struct gt_damage records the damaged samples of a data set. All views of the data set, such as
 * its parts for training and validation, share the record (gt_dataset_damage()). The functions
 * below may be called from several threads.
 */
struct gt_damage;

enum {
	/* Number of error texts that are kept. They are the texts of the damaged samples with the
	 * lowest indices. */
	GT_DAMAGE_TEXTS = 64,
	GT_DAMAGE_TEXT = 480 /* bytes of an error text, with its terminating zero */
};

/* Allocate an empty record for a data set of `samples` samples. If `strict`, a damaged sample is an
 * error. Errors: GT_ENOMEM. */
int gt_damage_new(struct gt_damage **out, int64_t samples, bool strict, struct gt_err *err);
void gt_damage_free(struct gt_damage *d);

/*
 * Record that a sample could not be read because of *err, and return 0. Return err->code instead if
 * the record is strict, or if all samples are damaged now. If all samples are damaged, *err
 * contains the error of the first sample. Other errors: GT_ENOMEM.
 */
int gt_damage_record(struct gt_damage *d, int64_t sample, struct gt_err *err);

/* Return whether a sample is recorded as damaged. */
bool gt_damage_has(struct gt_damage *d, int64_t sample);

/* Return the number of damaged samples. */
int64_t gt_damage_count(const struct gt_damage *d);
/* Return the number of all samples of the data set. */
int64_t gt_damage_samples(const struct gt_damage *d);

/* Write the next error text to `text`, and return true; return false if no text is left. Each text
 * is written once. The texts that are left are taken in the order of their samples. */
bool gt_damage_next(struct gt_damage *d, char text[GT_DAMAGE_TEXT]);

/*
 * Combine the records of several ranks, which send them to each other as bytes.
 *
 *   gt_damage_bytes()   return the size of a packed record, equal on all ranks
 *   gt_damage_pack()    write the record to out [gt_damage_bytes()]
 *   gt_damage_merge()   add another rank's packed record to this one. Errors: GT_ENOMEM.
 */
size_t gt_damage_bytes(const struct gt_damage *d);
void gt_damage_pack(struct gt_damage *d, void *out);
int gt_damage_merge(struct gt_damage *d, const void *packed, struct gt_err *err);

#endif
