/* device_group.h - groups of ranks for device memory: choose the fastest kind, and make a group. */
#ifndef GT_COMM_DEVICE_GROUP_H
#define GT_COMM_DEVICE_GROUP_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * A group for device memory is made from a group for host memory with the same ranks. There are
 * several kinds, called ways:
 *
 *   host     the group for host memory itself, if the device uses the memory of the host
 *   nccl     for GPUs (kernels/cuda/nccl/)
 *   ring     for GPUs of one host (kernels/cuda/ring/)
 *   staged   for any device: data goes through pinned host memory (staged.h)
 *
 * A backend can have groups of its own; those of the CUDA backend are `nccl` and `ring`. The world
 * is the group of all ranks of a run. The way is chosen once for the world. All groups for device
 * memory with two or more ranks then use this way. A group of one rank copies within its device.
 *
 * Functions with an argument `world`, `host` or `group` are collective calls. Besides the errors
 * listed below, the functions return the errors of the collectives of group.h and of the backend.
 */

/* The chosen way. */
struct gt_device_way {
	const struct gt_device_groups *own; /* the backend's own groups; NULL: host or staged */
	/* the errors of all checks that rejected a faster way, in one text; code 0: no faster way
	 * was rejected */
	struct gt_err why;
};

/* names of ways */
#define GT_WAY_BY_HOST "staged"
/* the backend's own `ring`; if the backend has none: `staged`, over a `ring` for host memory */
#define GT_WAY_RING "ring"

struct gt_device_way_options {
	/* "nccl", "ring" or "staged"; NULL: the fastest way that these ranks can use */
	const char *name;
	bool ordered; /* accept only groups that sum in a fixed order ("ordered" in group.h) */
};

/*
 * gt_device_way_choose() chooses the way for the devices of all ranks. All ranks get the same
 * result. Errors for a named way (options->name):
 *
 *   GT_EINVAL                  devices of this backend cannot use the way
 *   GT_ENOTSUP                 the way is not ordered, but options->ordered is set
 *   GT_EDEVICE or GT_ENOTSUP   the ranks have checked together that they cannot use the way
 *
 * gt_device_way_check() checks only for the first two of these errors, and needs no other ranks.
 */
int gt_device_way_check(const struct gt_backend *backend,
    const struct gt_device_way_options *options, struct gt_err *err);
int gt_device_way_choose(struct gt_device_way *out, struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *options,
    struct gt_err *err);

/* Predict the way that gt_device_way_choose() would choose, without the other ranks. A dry run,
 * which only plans memory, uses this prediction. `shared`: some ranks share a device. NCCL takes
 * such ranks if NCCL_MULTI_RANK_GPU_ENABLE is set, which is not predicted. */
void gt_device_way_expect(struct gt_device_way *out, const struct gt_device *device, bool shared,
    const struct gt_device_way_options *options);

/* Add to *bytes the device memory, in bytes, that a group of `ranks` ranks takes on this device.
 * The memory of the group's streams is not included. A staged group takes no device memory. If the
 * size is not known, add nothing and return false. */
bool gt_device_way_add_memory(
    uint64_t *bytes, const struct gt_device_way *way, const struct gt_device *device, int ranks);

/* Return the name of a way for messages: "nccl" or "ring" for the backend's own groups, otherwise
 * "way of the host". */
const char *gt_device_way_text(const struct gt_device_way *way);

/* Make a group for device memory with the ranks of `host`. *out is `host` itself if the device uses
 * the host's memory. Otherwise *out is a new group, and `host` can still be used. Free a new group
 * with gt_group_free() before you free `host` and the device. *out is NULL on failure. */
int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, const struct gt_device_way *way, struct gt_err *err);

/* Replace *group, a group for host memory that has no other callers, by a group for device memory.
 * The new group owns the old one, and gt_group_free() frees both. *group does not change if the
 * device uses the host's memory, if *group is NULL, or on failure. */
int gt_device_group_take(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err);

/* For the backends of groups for device memory: record in *c->span the time at which `stream`
 * begins or ends collective c. The functions do nothing if c->marks or c->span is NULL. */
int gt_device_group_mark_begin(
    const struct gt_collective *c, struct gt_stream *stream, struct gt_err *err);
int gt_device_group_mark_end(
    const struct gt_collective *c, struct gt_stream *stream, struct gt_err *err);

/* One kind of a backend's own groups for device memory. These groups have two or more ranks. */
struct gt_device_groups {
	const char *name; /* "nccl" or "ring" */
	bool ordered;     /* sums have a fixed order ("ordered" in group.h) */
	bool shares;      /* several ranks may use one device */
	/* Check that this device can use the groups, without the other ranks. */
	int (*check_alone)(const struct gt_device *device, struct gt_err *err);
	/* Check that these ranks can use the groups, and prepare their devices. All ranks get the
	 * same result. */
	int (*check)(struct gt_group *world, const struct gt_device *device, struct gt_err *err);
	/* Replace *group, a group for host memory that has no other caller, by a group for device
	 * memory. The new group owns the old one. On failure *group is unchanged. */
	int (*make)(struct gt_group **group, const struct gt_device *device, struct gt_err *err);
	/* Return the bytes of device memory that a group of `ranks` ranks takes on each rank,
	 * without the memory of its streams. The group takes less if the device of another rank has
	 * less memory than `device`. The function pointer is NULL if the size is not known. */
	uint64_t (*memory)(const struct gt_device *device, int ranks);
};

#endif
