/* device_group.c - which group is for the memory of a device. */
#include "lib/comm/device_group.h"

#include "lib/comm/staged.h"

/* A kind of groups for device memory. */
struct row {
	bool (*takes)(const struct gt_group *host, const struct gt_device *device);
	/* Make *group, a group for host memory, one for the device's; NULL: it is. */
	int (*make)(struct gt_group **group, const struct gt_device *device, struct gt_err *err);
};

static bool is_host(const struct gt_group *host, const struct gt_device *device)
{
	(void)host;
	return device->backend->host_memory;
}

static bool is_any(const struct gt_group *host, const struct gt_device *device)
{
	(void)host;
	(void)device;
	return true;
}

static int make_staged(struct gt_group **group, const struct gt_device *device, struct gt_err *err)
{
	return gt_staged_new(group, device, 0, err);
}

/* The fastest first. */
static const struct row rows[] = {
	{ is_host, NULL },
	{ is_any, make_staged },
};

static const struct row *row_of(const struct gt_group *host, const struct gt_device *device)
{
	const struct row *row = rows;

	while (!row->takes(host, device))
		row++;
	return row;
}

int gt_device_group_open(struct gt_group **out, struct gt_group *host,
    const struct gt_device *device, struct gt_err *err)
{
	const struct row *row = row_of(host, device);
	struct gt_group *own;

	*out = row->make ? NULL : host;
	if (!row->make)
		return 0;
	if (gt_group_split(&own, host, 0, host->rank, err))
		return err->code;
	if (row->make(&own, device, err)) {
		gt_group_free(own);
		return err->code;
	}
	*out = own;
	return 0;
}

int gt_device_group_take(
    struct gt_group **group, const struct gt_device *device, struct gt_err *err)
{
	const struct row *row = *group ? row_of(*group, device) : NULL;

	return row && row->make ? row->make(group, device, err) : 0;
}
