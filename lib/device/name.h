/* name.h - devices as --device names them: "cpu", "cuda", "cuda:1", and lists of them. */
#ifndef GT_DEVICE_NAME_H
#define GT_DEVICE_NAME_H

#include <stddef.h>

#include "lib/device/backend.h"

/* Bytes for the name of a device. */
enum { GT_DEVICE_NAME_SIZE = 16 };

/* One device. The index is logical: it counts the GPUs that CUDA_VISIBLE_DEVICES leaves. */
struct gt_device_name {
	const struct gt_backend *backend;
	int index;
};

/*
 * Read a list of devices of this machine: "cuda:0,cuda:2", or shorter "cuda:0,2": a bare number is
 * a device of the backend before it. A backend's name alone, "cuda", is all of its devices. The
 * order is kept: the ranks of a host take the devices in turn. `backends` is NULL-terminated, as
 * gt_backends is.
 *
 *   *out  [*count], at least one; yours to free(); NULL on failure
 *
 * Errors: GT_EINVAL for an empty list or element, a word that is no device's name, the same device
 * twice, or devices of two backends; GT_ENOTSUP for a backend that is not one of these; GT_EDEVICE,
 * with the backend's text, for a device that this machine does not have; GT_ENOMEM.
 */
int gt_device_names_read(struct gt_device_name **out, size_t *count, const char *text,
    const struct gt_backend *const *backends, struct gt_err *err);

#endif
