/* finite.h - find NaN and infinity in the tensors that a run saves. */
#ifndef GT_TRAIN_FINITE_H
#define GT_TRAIN_FINITE_H

#include "lib/comm/group.h"
#include "lib/store/store.h"

/* A number that is NaN or infinite, and the tensor that holds it. */
struct gt_nonfinite {
	/* the tensor (lib/store/store.h), borrowed; NULL: all numbers are finite */
	const struct gt_slot *slot;
	/* the plane that holds the number: a state of the optimizer, or a running mean; NULL: the
	 * tensor itself holds the number */
	const struct gt_plane *plane;
	double value; /* NaN, inf or -inf; the sign of a NaN is not kept */
};

/*
 * Find the first parameter or buffer, in the order of the state_dict, that holds a NaN or an
 * infinity. If all parameters and buffers are finite, search all other planes that are saved, too:
 * the states of the optimizer, and the running mean of the weights.
 *
 * A collective call of the ranks of `group` (NULL: there is one rank). Each rank searches the
 * elements that it has. All ranks get the same result. A search of 124 million weights takes about
 * 0.1 s on a CPU. With the states of Adam, a search takes three times as long.
 *
 * Errors: any error of the group or the device.
 */
int gt_find_nonfinite(struct gt_nonfinite *out, const struct gt_store *store,
    struct gt_group *group, struct gt_err *err);

/* Return whether all numbers of host[count], an array in host memory, are finite. Only float32 and
 * float64 are searched; for other types the result is true. If a number is not finite, set *value
 * to the first NaN or infinity. The sign of a NaN is not kept. */
bool gt_all_finite_host(const void *host, int64_t count, enum gt_dtype dtype, double *value);

enum { GT_NONFINITE_SIZE = 160 }; /* bytes */

/* Write a description such as "the parameter 'fc1.weight' holds inf" to `out` and return `out`. */
char *gt_nonfinite_text(char out[GT_NONFINITE_SIZE], const struct gt_nonfinite *n);

#endif
