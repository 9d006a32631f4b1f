/* maybe.h - a number that may be unknown; unknown differs from zero. */
#ifndef GT_DEVICE_MAYBE_H
#define GT_DEVICE_MAYBE_H

#include <stdbool.h>
#include <stdint.h>

/* Not known: the driver is too old, the card has no such sensor, this user may not ask. */
struct gt_maybe {
	bool known;
	uint64_t value; /* 0 where not known */
};

#endif
