/* device_group.h - groups for the memory of a device. */
#ifndef GT_COMM_DEVICE_GROUP_H
#define GT_COMM_DEVICE_GROUP_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * Make groups for device memory from a group for host memory of the same ranks. There are these
 * kinds:
 *
 *   host     the group for host memory itself, for a device that uses the host's memory
 *   NAME     the backend's own groups: `nccl` for GPUs (kernels/cuda/nccl/), and `ring` for GPUs of
 *            one host (kernels/cuda/ring/)
 *   staged   for any device: data goes through pinned host memory (staged.h)
 *
 * The kind is chosen once for all ranks of the world, and all their groups are of this kind. A
 * group of one rank copies within its device.
 *
 * All functions are collective calls. Errors: those of group.h and of the backend.
 */
struct gt_device_way {
	const struct gt_device_groups *own; /* the backend's groups; NULL: staged */
	/* why these ranks cannot use faster groups; code 0: no faster groups exist */
	struct gt_err why;
};

#define GT_WAY_BY_HOST "staged"
#define GT_WAY_RING    "ring" /* the backend's rings or, if it has none, the ring of the host */

struct gt_device_way_options {
	const char *name; /* "nccl", "ring", "staged"; NULL: the fastest that these ranks can use */
	bool ordered;     /* accept only groups whose sums are ordered (group.h) */
};

/*
 * Choose the way in which devices exchange data; all ranks choose the same one. Errors: GT_EINVAL
 * if these devices cannot use the named way; GT_ENOTSUP if its sums are not ordered.
 * gt_device_way_check() finds these two errors without asking the other ranks. GT_EDEVICE or
 * GT_ENOTSUP if the check of the ranks shows that they cannot use it.
 */
int gt_device_way_check(const struct gt_backend *backend,
    const struct gt_device_way_options *options, struct gt_err *err);
int gt_device_way_choose(struct gt_device_way *out, struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *options,
    struct gt_err *err);

/* Predict for a plan, without asking other ranks, the way that the ranks would choose. The
 * prediction uses only facts that one rank knows. `shared`: some of the ranks share a device. */
void gt_device_way_expect(struct gt_device_way *out, const struct gt_device *device, bool shared,
    const struct gt_device_way_options *options);

/* Add to *bytes the device memory that a group of `ranks` ranks takes on this device, without the
 * memory of its streams. The way of the host takes none. Returns false, and adds nothing, if the
 * memory is not known. */
bool gt_device_way_add_memory(
    uint64_t *bytes, const struct gt_device_way *way, const struct gt_device *device, int ranks);

/* The name of the way between GPUs, for messages: "ring", for instance, or "way of the host". */
const char *gt_device_way_text(const struct gt_device_way *way);

/* *out is `host` itself if the device uses the host's memory. Otherwise it is a new group, and
 * `host` can still be used. Free the new group by gt_group_free(), before `host` and the device.
 * *out is NULL on failure. */
int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, const struct gt_device_way *way, struct gt_err *err);

/* The same if *group has no other callers. The new group owns the old one and replaces it in
 * *group; gt_group_free() frees both. On failure *group is not changed. *group may be NULL. */
int gt_device_group_take(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err);

/* A backend's own groups for device memory. They have two ranks or more. */
struct gt_device_groups {
	const char *name;
	bool ordered;
	bool shares; /* ranks may share a device */
	/* Make the checks that need no other rank. */
	int (*check_alone)(const struct gt_device *device, struct gt_err *err);
	/* Check that these ranks can use the groups, and prepare their devices. All ranks get the
	 * same result. */
	int (*check)(struct gt_group *world, const struct gt_device *device, struct gt_err *err);
	/* Replace *group, a group for host memory that has no other caller, by a group for device
	 * memory, which owns it. On failure *group is unchanged. */
	int (*make)(struct gt_group **group, const struct gt_device *device, struct gt_err *err);
	/* Bytes of device memory that a group of `ranks` ranks takes on each rank, without the
	 * memory of its streams. The group takes less if the device of another rank has less memory
	 * than this one. NULL: not known. */
	uint64_t (*memory)(const struct gt_device *device, int ranks);
};

#endif
