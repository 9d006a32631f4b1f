/* finite.h - find NaN and infinity in the tensors that a run saves. */
#ifndef GT_TRAIN_FINITE_H
#define GT_TRAIN_FINITE_H

#include "lib/comm/group.h"
#include "lib/store/store.h"

/* A number that is NaN or infinite. */
struct gt_nonfinite {
	/* its tensor, borrowed; NULL: all numbers are finite */
	const struct gt_slot *slot;
	/* the state or running mean that holds it; NULL: the tensor itself */
	const struct gt_plane *plane;
	double value; /* NaN, inf or -inf */
};

/* Find the first parameter or buffer that is not finite; if there is none, search the optimizer
 * states and the mean of weights. A collective call; NULL: one rank. All ranks get the same
 * result. */
int gt_find_nonfinite(struct gt_nonfinite *out, const struct gt_store *store,
    struct gt_group *group, struct gt_err *err);

/* Return whether host[count] is finite, and set *value to the first number that is not. Types but
 * float32 and float64 are always finite. */
bool gt_all_finite_host(const void *host, int64_t count, enum gt_dtype dtype, double *value);

enum { GT_NONFINITE_SIZE = 160 }; /* bytes */

/* Write "the parameter 'fc1.weight' holds inf" to `out`, and return it. */
char *gt_nonfinite_text(char out[GT_NONFINITE_SIZE], const struct gt_nonfinite *n);

#endif
