/* name.h - parse the names of devices in --device: "cpu", "cuda", "cuda:1", and lists of them. */
#ifndef GT_DEVICE_NAME_H
#define GT_DEVICE_NAME_H

#include <stddef.h>

#include "lib/device/backend.h"

/* Names of backends for completion, ended by NULL. */
extern const char *const gt_device_words[];

/* Bytes of a device's name. */
enum { GT_DEVICE_NAME_SIZE = 16 };

struct gt_device_name {
	const struct gt_backend *backend;
	int index; /* index among the devices that are not hidden */
};

/* Parse a list such as "cuda:0,cuda:2", "cuda:0,2" or "cuda" (all devices), and keep its order:
 * rank r of a host uses device r % count. The caller frees *out, NULL on failure. Errors:
 * GT_EINVAL, also for a device given twice or two backends; GT_ENOTSUP if `backends`
 * (NULL-terminated) lacks the backend; GT_EDEVICE if the machine lacks the device; GT_ENOMEM. */
int gt_device_names_read(struct gt_device_name **out, size_t *count, const char *text,
    const struct gt_backend *const *backends, struct gt_err *err);

#endif
