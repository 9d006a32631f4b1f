/* plan_device.h - a device for plans that are never run: it takes no memory of the device. */
#ifndef GT_DEVICE_PLAN_DEVICE_H
#define GT_DEVICE_PLAN_DEVICE_H

#include "lib/device/backend.h"

/*
 * Enter a device as gt_device_open() does, but create no streams, which are NULL: kernels can be
 * prepared for the device, and its memory can be read, but no work can be queued. Streams take
 * memory, and so a full GPU has none for them. Close the device with gt_device_close().
 *
 * Errors: those of gt_device_open().
 */
int gt_device_open_for_plans(
    struct gt_device **out, const struct gt_backend *backend, int index, struct gt_err *err);

#endif
