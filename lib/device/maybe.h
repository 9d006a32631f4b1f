/* maybe.h - a number that may be unknown; unknown differs from zero. */
#ifndef GT_DEVICE_MAYBE_H
#define GT_DEVICE_MAYBE_H

#include <stdbool.h>
#include <stdint.h>

/* A number that a driver, a sensor or a missing permission may leave unknown. */
struct gt_maybe {
	bool known;
	uint64_t value; /* 0 if not known */
};

#endif
