/* whole.h - private: the elements of a tensor that the seats of an axis hold. */
#ifndef GT_PARALLEL_WHOLE_H
#define GT_PARALLEL_WHOLE_H

#include "lib/parallel/axis.h"

/* A slot in a plane. */
struct gt_whole_tensor {
	const struct gt_plane *plane;
	const struct gt_slot *slot;
	size_t size; /* bytes of an element */
};

struct gt_whole_tensor gt_whole_tensor(const struct gt_plane *plane, const struct gt_slot *slot);

/* Return whether the seats of the axis hold different elements. */
bool gt_whole_is_cut(
    const struct gt_parallel *p, enum gt_axis axis, const struct gt_whole_tensor *t);

/* Return the elements that a seat holds of those that the outer axes have left to all seats of its
 * axis, which is cut. */
struct gt_slice gt_whole_slice(
    const struct gt_parallel *p, enum gt_axis axis, const struct gt_whole_tensor *t, int seat);

#endif
