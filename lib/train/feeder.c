/* feeder.c - batches of a loader on their way to programs. */
#include "lib/train/program.h"

#include <string.h>

enum { HOLD = 1 };

static int pinned_alloc(void *self, size_t bytes, void **out, struct gt_err *err)
{
	const struct gt_feeder *f = self;

	return f->device->backend->host_alloc(f->device->index, bytes, out, err);
}

static void pinned_free(void *self, void *p, size_t bytes)
{
	const struct gt_feeder *f = self;

	f->device->backend->host_free(f->device->index, p, bytes);
}

/* Say for which purpose there was too little pinned memory, and which options need less. Only
 * training has options for reading ahead. */
static int explain_pinned_memory(const struct gt_loader_options *o, struct gt_err *err)
{
	if (!strstr(err->text, "no pinned host memory: "))
		return err->code;
	gt_err_prefix(err, "%d batches of %d samples on their way to the device",
	    (o->workers ? o->prefetch : 0) + 1 + o->hold, o->sampler.batch);
	return gt_err_hint(err, o->draw.train
	                            ? "use a smaller {batch} or {prefetch}, or {pin-memory} no"
	                            : "use a smaller {batch}");
}

/* The loader keeps one batch more for us than the last: its copy may still be under way. */
int gt_feeder_open(struct gt_feeder *f, const struct gt_device *device, struct gt_dataset *data,
    const struct gt_loader_options *options, bool pageable, struct gt_err *err)
{
	struct gt_loader_options mine = *options;
	int rc;

	*f = (struct gt_feeder){ .device = device };
	mine.hold = HOLD;
	if (!pageable)
		mine.memory = (struct gt_loader_memory){ f, pinned_alloc, pinned_free };
	rc = gt_loader_open(&f->loader, data, &mine, err);
	return rc == GT_ENOMEM && !pageable ? explain_pinned_memory(&mine, err) : rc;
}

uint64_t gt_feeder_bytes(const struct gt_dataset *data, const struct gt_loader_options *options)
{
	struct gt_loader_options mine = *options;

	mine.hold = HOLD;
	return gt_loader_bytes(data, &mine);
}

static int wait_for(const struct gt_feeder *f, struct gt_event *event, struct gt_err *err)
{
	const struct gt_backend *b = f->device->backend;

	return !event || b->event_done(event) ? 0 : b->event_sync(event, err);
}

int gt_feeder_wait(struct gt_feeder *f, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < 2; i++)
		rc = wait_for(f, f->fed[i], err);
	return rc;
}

void gt_feeder_close(struct gt_feeder *f)
{
	for (int i = 0; f->loader && i < 2; i++)
		(void)wait_for(f, f->fed[i], GT_ERR_IGNORED);
	gt_loader_close(f->loader);
	*f = (struct gt_feeder){ 0 };
}

int gt_feeder_next(struct gt_feeder *f, const struct gt_batch **batch, struct gt_err *err)
{
	int rc = wait_for(f, f->fed[f->count % 2], err);

	return rc ? rc : gt_loader_next(f->loader, batch, err);
}

/* A program copies as many bytes as its own input has. The samples of a data set with another shape
 * would be read beyond their end. */
static int check_shape(const struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	size_t bytes = (size_t)batch->count * batch->input_bytes;

	if (!p->input_bytes || p->input_bytes == bytes)
		return 0;
	return gt_err_set(err, GT_EINVAL,
	    "a batch of %d samples has %zu bytes, but the model was planned for %zu: the data have "
	    "another shape",
	    batch->count, bytes, p->input_bytes);
}

int gt_feeder_feed(
    struct gt_feeder *f, struct gt_program *p, const struct gt_batch *batch, struct gt_err *err)
{
	int rc = f->loader ? check_shape(p, batch, err) : 0;

	if (rc)
		return rc;
	rc = gt_program_feed(p, batch, err);
	f->fed[f->count++ % 2] = gt_program_fed(p);
	return rc;
}
