/* maybe.h - a number that may be unknown; unknown differs from zero. */
#ifndef GT_DEVICE_MAYBE_H
#define GT_DEVICE_MAYBE_H

#include <stdbool.h>
#include <stdint.h>

/* A number is unknown if, for example, the driver is too old, the GPU has no such sensor, or this
 * user has no permission to read the number. */
struct gt_maybe {
	bool known;
	uint64_t value; /* 0 if not known */
};

#endif
