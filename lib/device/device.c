/* device.c - a device in use: its streams, its memory, copies that the host waits for. */
#include "lib/base/mem.h"
#include "lib/device/backend.h"

#include <stdlib.h>

int gt_device_open(
    struct gt_device **out, const struct gt_backend *backend, int index, struct gt_err *err)
{
	struct gt_device *d = gt_calloc(1, sizeof(*d), err);

	*out = NULL;
	if (!d)
		return GT_ENOMEM;
	d->backend = backend;
	d->index = index;
	if (backend->enter(index, err) || backend->stream_new(&d->compute, index, err) ||
	    backend->stream_new(&d->copies, index, err)) {
		gt_device_close(d);
		return err->code;
	}
	*out = d;
	return 0;
}

void gt_device_close(struct gt_device *d)
{
	if (!d)
		return;
	d->backend->stream_free(d->copies);
	d->backend->stream_free(d->compute);
	free(d);
}

int gt_device_alloc(const struct gt_device *d, size_t bytes, void **out, struct gt_err *err)
{
	return d->backend->alloc(d->index, bytes, out, err);
}

void gt_device_free(const struct gt_device *d, void *p, size_t bytes)
{
	if (p)
		d->backend->free(d->index, p, bytes);
}

int gt_device_write(
    const struct gt_device *d, void *device, const void *host, size_t bytes, struct gt_err *err)
{
	int rc = d->backend->copy_in(d->compute, device, host, bytes, err);

	return rc ? rc : d->backend->stream_sync(d->compute, err);
}

int gt_device_read(
    const struct gt_device *d, void *host, const void *device, size_t bytes, struct gt_err *err)
{
	int rc = d->backend->copy_out(d->compute, host, device, bytes, err);

	return rc ? rc : d->backend->stream_sync(d->compute, err);
}
