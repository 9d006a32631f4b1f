/* device_group.c - choose and open the group for the memory of a device. */
#include "lib/comm/device_group.h"

#include <string.h>

#include "lib/comm/staged.h"

/* ---- choosing ---- */

int gt_device_way_check(
    const struct gt_backend *backend, const struct gt_device_way_options *o, struct gt_err *err)
{
	const struct gt_device_groups *own = backend->groups;

	if (!o->name || !strcmp(o->name, GT_WAY_BY_HOST))
		return 0;
	if (!own || strcmp(o->name, own->name) != 0) {
		gt_err_set(err, GT_EINVAL, "{backend} %s is not for devices of '%s'", o->name,
		    backend->name);
		return gt_err_hint(
		    err, "it connects GPUs: {device} cuda; {backend} auto takes the fastest way");
	}
	if (!o->ordered || own->ordered)
		return 0;
	gt_err_set(err, GT_ENOTSUP, "the order in which '%s' adds up is not fixed", own->name);
	return gt_err_hint(err, "{backend} shm adds up in a fixed order");
}

int gt_device_way_choose(struct gt_device_way *out, struct gt_group *world,
    const struct gt_device *device, const struct gt_device_way_options *o, struct gt_err *err)
{
	const struct gt_device_groups *own = device->backend->groups;

	*out = (struct gt_device_way){ .why = GT_ERR_INIT };
	if (gt_device_way_check(device->backend, o, err))
		return err->code;
	if (!own || world->size == 1 || (o->name && !strcmp(o->name, GT_WAY_BY_HOST)) ||
	    (o->ordered && !own->ordered))
		return 0;
	if (!own->check(world, device, &out->why)) {
		out->own = own;
		return 0;
	}
	if (!o->name)
		return 0;
	*err = out->why;
	return err->code;
}

/* ---- groups ---- */

/* Turn *group, a group for host memory, into one for the memory of the device. */
static int make(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err)
{
	if (way->own && (*group)->size > 1)
		return way->own->make(group, device, err);
	return gt_staged_new(group, device, 0, err);
}

int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, const struct gt_device_way *way, struct gt_err *err)
{
	struct gt_group *own;

	*out = device->backend->host_memory ? host : NULL;
	if (*out)
		return 0;
	if (gt_group_split(&own, host, 0, host->rank, err))
		return err->code;
	if (make(&own, device, way, err)) {
		gt_group_free(own);
		return err->code;
	}
	*out = own;
	return 0;
}

int gt_device_group_take(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err)
{
	return *group && !device->backend->host_memory ? make(group, device, way, err) : 0;
}
