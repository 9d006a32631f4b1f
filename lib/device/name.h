/* name.h - parse the names of devices in --device: "cpu", "cuda", "cuda:1", and lists of them. */
#ifndef GT_DEVICE_NAME_H
#define GT_DEVICE_NAME_H

#include <stddef.h>

#include "lib/device/backend.h"

/* The names of backends that a list may have, ended by NULL. Completion proposes them. */
extern const char *const gt_device_words[];

/* The size of a buffer for the name of a device, in bytes. */
enum { GT_DEVICE_NAME_SIZE = 16 };

/* One device. */
struct gt_device_name {
	const struct gt_backend *backend;
	int index; /* from 0 on; GPUs that CUDA_VISIBLE_DEVICES hides are not counted */
};

/*
 * Parse a list of devices of this machine.
 *
 *   "cuda:0,cuda:2"   two GPUs
 *   "cuda:0,2"        the same: a number alone is a device of the previous element's backend
 *   "cuda"            all devices of the backend
 *
 * The order of the list is kept, because rank r of a host uses device r % count. `backends` is a
 * NULL-terminated list, such as gt_backends.
 *
 *   *out  [*count], at least one device; the caller frees it with free(); NULL on failure
 *
 * Errors:
 *   GT_EINVAL   the list or an element is empty, an element is not the name of a device, a device
 *               is listed twice, or the list has devices of two backends
 *   GT_ENOTSUP  a backend is not in `backends`
 *   GT_EDEVICE  this machine does not have the device; if it has no device of the backend at all,
 *               the backend provides the text of the error
 *   GT_ENOMEM
 */
int gt_device_names_read(struct gt_device_name **out, size_t *count, const char *text,
    const struct gt_backend *const *backends, struct gt_err *err);

#endif
