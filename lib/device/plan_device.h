/* plan_device.h - a device for plans that are never run: it takes no memory of the device. */
#ifndef GT_DEVICE_PLAN_DEVICE_H
#define GT_DEVICE_PLAN_DEVICE_H

#include "lib/device/backend.h"

/* Open a device without streams, which take memory: kernels can be prepared and memory be read, but
 * no work be queued. Close it with gt_device_close(). Errors: those of gt_device_open(). */
int gt_device_open_for_plans(
    struct gt_device **out, const struct gt_backend *backend, int index, struct gt_err *err);

/* Return whether plans of a device can run: it was not opened for plans alone. */
static inline bool gt_device_runs(const struct gt_device *d)
{
	return d->compute;
}

#endif
