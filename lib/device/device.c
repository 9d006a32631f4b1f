/* device.c - a device in use: its backend, streams, memory, and copies that the host waits for. */
#include "lib/base/mem.h"
#include "lib/device/plan_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct gt_backend *gt_backend_find(const char *name)
{
	for (int i = 0; gt_backends[i]; i++)
		if (!strcmp(gt_backends[i]->name, name))
			return gt_backends[i];
	return NULL;
}

int gt_device_open_for_plans(
    struct gt_device **out, const struct gt_backend *backend, int index, struct gt_err *err)
{
	struct gt_device *d;

	*out = NULL;
	if (!backend || index < 0 || index >= backend->count())
		return gt_err_set(err, GT_EINVAL, "there is no device %s:%d",
		    backend ? backend->name : "", index);
	if (backend->enter(index, err))
		return err->code;
	d = gt_calloc(1, sizeof(*d), err);
	if (!d)
		return GT_ENOMEM;
	d->backend = backend;
	d->index = index;
	*out = d;
	return 0;
}

int gt_device_open(
    struct gt_device **out, const struct gt_backend *backend, int index, struct gt_err *err)
{
	struct gt_device *d;
	int rc = gt_device_open_for_plans(&d, backend, index, err);

	*out = NULL;
	if (rc)
		return rc;
	if (backend->stream_new(&d->compute, index, err) ||
	    backend->stream_new(&d->copies, index, err) ||
	    backend->stream_new(&d->collectives, index, err) ||
	    backend->event_new(&d->ordered, index, err)) {
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
	d->backend->event_free(d->ordered);
	d->backend->stream_free(d->collectives);
	d->backend->stream_free(d->copies);
	d->backend->stream_free(d->compute);
	free(d);
}

int gt_device_identify(
    const struct gt_device *d, char text[GT_DEVICE_IDENTITY_SIZE], struct gt_err *err)
{
	if (d->backend->identify)
		return d->backend->identify(d->index, text, GT_DEVICE_IDENTITY_SIZE, err);
	snprintf(text, GT_DEVICE_IDENTITY_SIZE, "%s:%d", d->backend->name,
	    d->backend->host_memory ? 0 : d->index);
	return 0;
}

int gt_device_sync(const struct gt_device *d, struct gt_err *err)
{
	struct gt_stream *const streams[] = { d->copies, d->collectives, d->compute };
	int rc = 0;

	for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++)
		if (d->backend->stream_sync(streams[i], rc ? GT_ERR_IGNORED : err))
			rc = rc ? rc : err->code;
	return rc;
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
	/* Let the copy begin on an idle stream. CUDA copies to memory that is not pinned before
	 * cudaMemcpyAsync() returns, so that it waits for the stream there. If the stream waits for
	 * a rank of this process, calls of that rank may wait for a lock that CUDA holds
	 * meanwhile. */
	int rc = d->backend->stream_sync(d->compute, err);

	if (!rc)
		rc = d->backend->copy_out(d->compute, host, device, bytes, err);
	return rc ? rc : d->backend->stream_sync(d->compute, err);
}
