/* device_group.h - groups for the memory of a device. */
#ifndef GT_COMM_DEVICE_GROUP_H
#define GT_COMM_DEVICE_GROUP_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * The ranks of a group for host memory get groups for the memory of their devices:
 *
 *   host     for a device whose memory is the host's: the group for host memory itself
 *   NAME     the backend's own groups: `nccl` for GPUs (kernels/cuda/nccl/), and `ring` for those
 *            of one host (kernels/cuda/ring/)
 *   staged   for any device: data goes through pinned host memory (staged.h)
 *
 * All groups of these ranks use the same kind, which is chosen once for all ranks of the world. A
 * group of one rank copies within its device.
 *
 * All functions are collective calls. Errors: those of group.h and of the backend.
 */
struct gt_device_way {
	const struct gt_device_groups *own; /* the backend's groups; NULL: staged */
	struct gt_err why; /* why these ranks cannot use faster groups; code 0: there are none */
};

#define GT_WAY_BY_HOST "staged"
#define GT_WAY_RING    "ring" /* if the backend has no rings, the ring of the host */

struct gt_device_way_options {
	const char *name; /* "nccl", "ring", "staged"; NULL: the fastest that these ranks can use */
	bool ordered;     /* accept only groups whose sums are ordered (group.h) */
};

/*
 * Choose a way between devices; all ranks choose the same one. Errors: GT_EINVAL where the named
 * way is not for these devices, GT_ENOTSUP where its sums are not ordered: gt_device_way_check()
 * finds these without asking the other ranks. GT_EDEVICE, GT_ENOTSUP: the ranks cannot use it.
 */
int gt_device_way_check(const struct gt_backend *backend,
    const struct gt_device_way_options *options, struct gt_err *err);
int gt_device_way_choose(struct gt_device_way *out, struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *options,
    struct gt_err *err);

/* For plans, without the other ranks: the way that they would choose as far as one rank can tell.
 * `shared`: some of the ranks share a device. */
void gt_device_way_expect(struct gt_device_way *out, const struct gt_device *device, bool shared,
    const struct gt_device_way_options *options);

/* Add the device memory that a group of so many ranks takes on this one, but for that of its
 * streams: by way of the host, none. Returns false, and adds nothing, where that is not known. */
bool gt_device_way_add_memory(
    uint64_t *bytes, const struct gt_device_way *way, const struct gt_device *device, int ranks);

/* "ring", or "way of the host": GPUs reach each other by it. */
const char *gt_device_way_text(const struct gt_device_way *way);

/* *out is `host` itself, or a new group, which leaves `host` to its other callers: free that one by
 * gt_group_free(), before `host` and the device. *out is NULL on failure. */
int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, const struct gt_device_way *way, struct gt_err *err);

/* The same if *group has no other callers. The new group owns *group and replaces it;
 * gt_group_free() frees both. On failure it remains the group for host memory. *group may be NULL.
 */
int gt_device_group_take(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err);

/* A backend's own groups for device memory. They have two ranks or more. */
struct gt_device_groups {
	const char *name;
	bool ordered;
	bool shares; /* ranks may share a device */
	/* Check what a rank can check alone. */
	int (*check_alone)(const struct gt_device *device, struct gt_err *err);
	/* Check that these ranks can use the groups, and prepare their devices. All ranks get the
	 * same result. */
	int (*check)(struct gt_group *world, const struct gt_device *device, struct gt_err *err);
	/* Replace *group, a group for host memory that has no other caller, by a group for device
	 * memory, which owns it. On failure *group is unchanged. */
	int (*make)(struct gt_group **group, const struct gt_device *device, struct gt_err *err);
	/* Bytes of device memory that a group of so many ranks takes on a rank, but for those of
	 * its streams, if none of their devices has less memory than this one; otherwise it takes
	 * less. NULL: not known. */
	uint64_t (*memory)(const struct gt_device *device, int ranks);
};

#endif
