/* device_group.h - groups for the memory of a device. */
#ifndef GT_COMM_DEVICE_GROUP_H
#define GT_COMM_DEVICE_GROUP_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * The ranks of a group for host memory get groups for the memory of their devices:
 *
 *   host     the memory of the device is the host's: it is the group for host memory itself
 *   NAME     a way of the backend's own: `nccl` of GPUs (kernels/cuda/nccl/)
 *   staged   any device: by way of pinned host memory (staged.h)
 *
 * All groups of these ranks take the same way, which is chosen once, for all ranks of the world. A
 * group of one rank copies within its device.
 *
 * All functions are collective calls. Errors: those of group.h and of the backend.
 */
struct gt_device_way {
	const struct gt_device_groups *own; /* of the backend; NULL: by way of the host */
	struct gt_err why; /* why not `own`, where it would be faster; or no code */
};

#define GT_WAY_BY_HOST "staged"

struct gt_device_way_options {
	const char *name; /* "nccl", "staged"; NULL: the fastest that these ranks can take */
	bool ordered;     /* only one whose sums are ordered (group.h) */
};

/*
 * The same on all ranks. Errors: GT_EINVAL and GT_ENOTSUP where the one that is named is not for
 * these devices, or not ordered, which gt_device_way_check() finds without asking the other ranks;
 * GT_EDEVICE and GT_ENOTSUP where the ranks cannot take it.
 */
int gt_device_way_check(const struct gt_backend *backend,
    const struct gt_device_way_options *options, struct gt_err *err);
int gt_device_way_choose(struct gt_device_way *out, struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *options,
    struct gt_err *err);

/* *out is `host` itself, or a new group, which leaves `host` to its other callers: free that one by
 * gt_group_free(), before `host` and the device. *out is NULL on failure. */
int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, const struct gt_device_way *way, struct gt_err *err);

/* The same where nobody else calls *group: it becomes the group for device memory, and
 * gt_group_free() frees both. On failure it remains the group for host memory. *group may be
 * NULL. */
int gt_device_group_take(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err);

/* A way of a backend's own. `host` groups are of two ranks or more. */
struct gt_device_groups {
	const char *name;
	bool ordered;
	/* Whether these ranks can take it, for which it prepares their devices: the same result on
	 * all of them. */
	int (*check)(struct gt_group *world, const struct gt_device *device, struct gt_err *err);
	/* Make *group, a group for host memory that nobody else calls, one for the device's, which
	 * owns it. On failure it is as it was. */
	int (*make)(struct gt_group **group, const struct gt_device *device, struct gt_err *err);
};

#endif
