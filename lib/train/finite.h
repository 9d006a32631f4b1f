/* finite.h - find NaN and infinity in the weights, buffers and optimizer state of a run. */
#ifndef GT_TRAIN_FINITE_H
#define GT_TRAIN_FINITE_H

#include "lib/comm/group.h"
#include "lib/optim/optim.h"

/* A number that is NaN or infinite, and the tensor that holds it. */
struct gt_nonfinite {
	/* the tensor (lib/store/store.h), borrowed; NULL: all numbers are finite */
	const struct gt_slot *slot;
	/* name of the optimizer state of this tensor that holds the number; NULL: the tensor itself
	 * holds the number */
	const char *state;
	double value; /* NaN, inf or -inf; the sign of a NaN is not kept */
};

/*
 * Find the first parameter or buffer, in the order of the state_dict, that holds a NaN or an
 * infinity. If all parameters and buffers are finite, search the states of `optim`, too. `optim` is
 * NULL if there is no optimizer.
 *
 * A collective call of the ranks of `group` (NULL: there is one rank). Each rank searches its
 * buffers, and those parts of parameters and states that this rank updates. All ranks get the same
 * result. A search of 124 million weights takes about 0.1 s on a CPU. With the states of Adam, a
 * search takes three times as long.
 *
 * Errors: any error of the group or the device.
 */
int gt_find_nonfinite(struct gt_nonfinite *out, const struct gt_store *store,
    const struct gt_optim *optim, struct gt_group *group, struct gt_err *err);

/* Return whether all numbers of host[count], an array in host memory, are finite. Only float32 and
 * float64 are searched; for other types the result is true. If a number is not finite, set *value
 * to the first NaN or infinity. The sign of a NaN is not kept. */
bool gt_all_finite_host(const void *host, int64_t count, enum gt_dtype dtype, double *value);

enum { GT_NONFINITE_SIZE = 160 }; /* bytes */

/* Write a description such as "the parameter 'fc1.weight' holds inf" to `out` and return `out`. */
char *gt_nonfinite_text(char out[GT_NONFINITE_SIZE], const struct gt_nonfinite *n);

#endif
