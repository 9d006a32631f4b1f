/* device_group.h - groups of ranks for device memory: choose the fastest kind, and make a group. */
#ifndef GT_COMM_DEVICE_GROUP_H
#define GT_COMM_DEVICE_GROUP_H

#include "lib/comm/group.h"
#include "lib/device/backend.h"

/*
 * A group for device memory is made from a group for host memory, in one of these ways:
 *
 *   host     the group for host memory itself, if the device uses the memory of the host
 *   nccl     for GPUs (kernels/cuda/nccl/)
 *   ring     for GPUs of one host (kernels/cuda/ring/)
 *   staged   for any device: data goes through pinned host memory (staged.h)
 *
 * All groups of two or more ranks use the way that is chosen once for the world, the group of all
 * ranks. Functions with an argument `world`, `host` or `group` are collective calls.
 */

/* The chosen way. */
struct gt_device_way {
	const struct gt_device_groups *own; /* NULL: host or staged */
	/* why faster ways were rejected; code 0: none was */
	struct gt_err why;
	/* the group only carries messages, which may wait long for other ranks: it is to occupy
	 * little of the device */
	bool messages;
};

/* names of ways */
#define GT_WAY_BY_HOST "staged"
/* the backend's own, or `staged` over a `ring` for host memory */
#define GT_WAY_RING "ring"

struct gt_device_way_options {
	/* NULL: the fastest way that these ranks can use */
	const char *name;
	bool ordered; /* accept only "ordered" groups (group.h) */
};

/* Choose the way for the devices of all ranks; all get the same result. For a named way: GT_EINVAL
 * if these devices cannot use it, GT_ENOTSUP if it is not ordered as asked, GT_EDEVICE or
 * GT_ENOTSUP if the ranks find that they cannot use it. gt_device_way_check() finds only the first
 * two errors, and needs no other ranks. */
int gt_device_way_check(const struct gt_backend *backend,
    const struct gt_device_way_options *options, struct gt_err *err);
int gt_device_way_choose(struct gt_device_way *out, struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *options,
    struct gt_err *err);

/* Predict the choice without the other ranks, for a dry run. `shared`: some ranks share a device,
 * which is predicted to rule out NCCL. */
void gt_device_way_expect(struct gt_device_way *out, const struct gt_device *device, bool shared,
    const struct gt_device_way_options *options);

/* Add the device memory of a group of `ranks` ranks, without its streams. Return false and add
 * nothing if it is not known. */
bool gt_device_way_add_memory(
    uint64_t *bytes, const struct gt_device_way *way, const struct gt_device *device, int ranks);

/* for messages: "nccl", "ring" or "way of the host" */
const char *gt_device_way_text(const struct gt_device_way *way);

/* Make a group with the ranks of `host`. *out is `host` itself if the device uses the host's
 * memory; otherwise free *out before `host` and the device. */
int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, const struct gt_device_way *way, struct gt_err *err);

/* Replace *group, a group for host memory without other callers, by one that owns it. *group stays
 * if the device uses the host's memory, if it is NULL, or on failure. */
int gt_device_group_take(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err);

/* For backends: record in *c->span when `stream` begins or ends the collective, if c->marks and
 * c->span are set. */
int gt_device_group_mark_begin(
    const struct gt_collective *c, struct gt_stream *stream, struct gt_err *err);
int gt_device_group_mark_end(
    const struct gt_collective *c, struct gt_stream *stream, struct gt_err *err);

/* One kind of a backend's own groups, of two or more ranks. */
struct gt_device_groups {
	const char *name; /* "nccl" or "ring" */
	bool ordered;     /* see group.h */
	bool shares;      /* several ranks may use one device */
	/* Check that this device can use the groups, without the other ranks. */
	int (*check_alone)(const struct gt_device *device, struct gt_err *err);
	/* Check this with all ranks, and prepare the devices. All get the same result. */
	int (*check)(struct gt_group *world, const struct gt_device *device, struct gt_err *err);
	/* Replace *group as gt_device_group_take() does. */
	int (*make)(struct gt_group **group, const struct gt_device *device,
	    const struct gt_device_way *way, struct gt_err *err);
	/* Return the largest device memory of a group, without its streams. NULL: not known. */
	uint64_t (*memory)(const struct gt_device *device, int ranks);
};

#endif
