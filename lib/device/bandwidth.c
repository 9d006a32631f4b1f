/* bandwidth.c - how fast bytes are copied between the host and devices, measured. */
#include "lib/device/bandwidth.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

const char *const gt_copy_names[GT_COPIES] = { "pinned-in", "pageable-in", "pinned-out",
	"pageable-out", "within", "peer", "peers" };

/* A device, with buffers for copies. */
struct place {
	struct gt_device *device;
	void *first, *second; /* two buffers in device memory */
	void *pinned;
};

struct gt_copies {
	const struct gt_backend *backend;
	struct place *place; /* [count] */
	bool *direct;        /* [count * count], by first device, then by second */
	size_t count, bytes;
	char *pageable; /* NULL if device memory is host memory */
};

/* ---- memory of the host ---- */

/* A part of a copy on the host, for one thread: a single thread cannot use the full speed of
 * memory. */
enum { PIECE = 1 << 20 };

static size_t piece_bytes(size_t bytes, size_t at)
{
	return bytes - at < PIECE ? bytes - at : PIECE;
}

/* Write each page by the thread that copies it. The system gives memory pages of its own at the
 * first write; until then all pages are one page of zeros, which is in the cache. */
static void touch(struct place *p, size_t bytes)
{
#pragma omp parallel for schedule(static)
	for (size_t at = 0; at < bytes; at += PIECE) {
		memset((char *)p->first + at, 1, piece_bytes(bytes, at));
		memset((char *)p->second + at, 2, piece_bytes(bytes, at));
	}
}

static void copy_on_host(const struct place *p, size_t bytes)
{
#pragma omp parallel for schedule(static)
	for (size_t at = 0; at < bytes; at += PIECE)
		memcpy((char *)p->second + at, (char *)p->first + at, piece_bytes(bytes, at));
}

/* ---- opening ---- */

/* Check that host memory has room for two buffers: the system would hand out memory that it lacks,
 * and end the process when it is written. */
static int check_memory(const struct gt_device *d, size_t bytes, struct gt_err *err)
{
	uint64_t available, total;
	int rc = d->backend->memory(d->index, &available, &total, err);

	if (rc || bytes <= available / 2)
		return rc;
	return gt_err_set(err, GT_ENOMEM,
	    "%s:%d: no memory: 2 buffers of %zu bytes asked for, %llu of %llu bytes are free",
	    d->backend->name, d->index, bytes, (unsigned long long)available,
	    (unsigned long long)total);
}

static int open_place(struct place *p, const struct gt_copies *c, const struct gt_device_name *name,
    struct gt_err *err)
{
	int rc = gt_device_open(&p->device, name->backend, name->index, err);

	if (!rc)
		rc = check_memory(p->device, c->bytes, err);
	if (!rc)
		rc = gt_device_alloc(p->device, c->bytes, &p->first, err);
	if (!rc)
		rc = gt_device_alloc(p->device, c->bytes, &p->second, err);
	if (!rc && c->backend->host_memory)
		touch(p, c->bytes);
	else if (!rc)
		rc = c->backend->host_alloc(name->index, c->bytes, &p->pinned, err);
	return rc;
}

/* The memory of a device that cannot be entered is not freed. */
static void close_place(struct place *p, size_t bytes)
{
	const struct gt_device *d = p->device;

	if (d && !d->backend->enter(d->index, GT_ERR_IGNORED)) {
		if (p->pinned)
			d->backend->host_free(d->index, p->pinned, bytes);
		gt_device_free(d, p->second, bytes);
		gt_device_free(d, p->first, bytes);
	}
	gt_device_close(p->device);
}

static int open_peers(struct gt_copies *c, struct gt_err *err)
{
	int rc = 0;

	for (size_t a = 0; !rc && c->backend->peer_open && a < c->count; a++) {
		int index = c->place[a].device->index;

		rc = c->backend->enter(index, err);
		for (size_t b = 0; !rc && b < c->count; b++)
			if (a != b)
				rc = c->backend->peer_open(index, c->place[b].device->index,
				    &c->direct[a * c->count + b], err);
	}
	return rc;
}

int gt_copies_open(struct gt_copies **out, const struct gt_device_name *names, size_t count,
    size_t bytes, struct gt_err *err)
{
	struct gt_copies *c = gt_calloc(1, sizeof(*c), err);
	int rc;

	*out = NULL;
	if (!c)
		return GT_ENOMEM;
	c->backend = names[0].backend;
	c->count = count;
	c->bytes = bytes;
	c->place = gt_calloc(count, sizeof(*c->place), err);
	c->direct = gt_calloc(count * count, sizeof(*c->direct), err);
	if (!c->backend->host_memory)
		c->pageable = gt_calloc(1, bytes, err);
	rc = c->place && c->direct && (c->pageable || c->backend->host_memory) ? 0 : GT_ENOMEM;
	for (size_t i = 0; !rc && i < count; i++)
		rc = open_place(&c->place[i], c, &names[i], err);
	if (c->pageable)
		memset(c->pageable, 1, bytes); /* gives each page memory of its own */
	if (!rc)
		rc = open_peers(c, err);
	if (rc)
		gt_copies_close(c);
	else
		*out = c;
	return rc;
}

void gt_copies_close(struct gt_copies *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->place && i < c->count; i++)
		close_place(&c->place[i], c->bytes);
	free(c->pageable);
	free(c->direct);
	free(c->place);
	free(c);
}

bool gt_copies_has(const struct gt_copies *c, enum gt_copy kind)
{
	if (kind == GT_COPY_WITHIN)
		return true;
	if (kind == GT_COPY_PEER || kind == GT_COPY_PEERS)
		return c->backend->copy_peer && c->count > 1;
	return !c->backend->host_memory;
}

bool gt_copies_direct(const struct gt_copies *c, size_t from, size_t to)
{
	return c->direct[from * c->count + to];
}

/* ---- copies ---- */

/* The copies that are measured. */
struct job {
	struct gt_copies *c;
	enum gt_copy kind;
	struct place *from, *to;
	size_t bytes;
};

static int copy_to_peer(struct gt_stream *stream, const struct place *from, const struct place *to,
    size_t bytes, struct gt_err *err)
{
	return from->device->backend->copy_peer(
	    stream, to->second, to->device->index, from->first, from->device->index, bytes, err);
}

static int queue_copy(const struct job *j, struct gt_err *err)
{
	const struct gt_backend *b = j->c->backend;
	const struct place *p = j->from;
	struct gt_stream *s = p->device->compute;
	int rc;

	switch (j->kind) {
	case GT_COPY_PINNED_IN:
		return b->copy_in(s, p->first, p->pinned, j->bytes, err);
	case GT_COPY_PAGEABLE_IN:
		return b->copy_in(s, p->first, j->c->pageable, j->bytes, err);
	case GT_COPY_PINNED_OUT:
		return b->copy_out(s, p->pinned, p->first, j->bytes, err);
	case GT_COPY_PAGEABLE_OUT:
		return b->copy_out(s, j->c->pageable, p->first, j->bytes, err);
	case GT_COPY_WITHIN:
		if (!b->host_memory)
			return b->copy(s, p->second, p->first, j->bytes, err);
		copy_on_host(p, j->bytes);
		return 0;
	case GT_COPY_PEER:
		return copy_to_peer(s, p, j->to, j->bytes, err);
	default:
		rc = copy_to_peer(s, p, j->to, j->bytes, err);
		return rc ? rc : copy_to_peer(j->to->device->compute, j->to, p, j->bytes, err);
	}
}

static int wait_for(const struct place *p, struct gt_err *err)
{
	int rc = p->device->backend->enter(p->device->index, err);

	return rc ? rc : p->device->backend->stream_sync(p->device->compute, err);
}

static int copy_times(void *self, int64_t times, struct gt_err *err)
{
	struct job *j = self;
	int rc = 0;

	for (int64_t i = 0; !rc && i < times; i++)
		rc = queue_copy(j, err);
	if (!rc && j->kind == GT_COPY_PEERS)
		rc = wait_for(j->to, err);
	return rc ? rc : wait_for(j->from, err);
}

int gt_copies_measure(double *time_s, struct gt_copies *c, enum gt_copy kind, size_t from,
    size_t to, size_t bytes, const struct gt_measure *m, struct gt_err *err)
{
	struct job job = { c, kind, &c->place[from], &c->place[to], bytes };
	int rc = c->backend->enter(job.from->device->index, err);

	return rc ? rc : gt_measure(time_s, m, copy_times, &job, err);
}

/* ---- checking the data ---- */

enum { CHECKED_BYTES = 4 << 20 };

/* Never 0: the destination is zeroed first, so a missing copy is seen. */
static uint32_t pattern(int64_t i, size_t from, size_t to)
{
	return ((uint32_t)i * 2654435761u ^ (uint32_t)(from << 24 | to << 16)) | 1;
}

static int write_pattern(
    struct gt_copies *c, uint32_t *host, int64_t words, size_t from, size_t to, struct gt_err *err)
{
	const struct place *a = &c->place[from], *b = &c->place[to];
	size_t bytes = (size_t)words * sizeof(*host);
	int rc = c->backend->enter(b->device->index, err);

	if (!rc)
		rc = c->backend->zero(b->device->compute, b->second, bytes, err);
	if (!rc)
		rc = wait_for(b, err);
	if (!rc)
		rc = c->backend->enter(a->device->index, err);
	for (int64_t i = 0; i < words; i++)
		host[i] = pattern(i, from, to);
	return rc ? rc : gt_device_write(a->device, a->first, host, bytes, err);
}

static int read_back(
    struct gt_copies *c, uint32_t *host, int64_t words, size_t from, size_t to, struct gt_err *err)
{
	const struct place *b = &c->place[to];
	size_t bytes = (size_t)words * sizeof(*host);
	int rc = copy_to_peer(c->place[from].device->compute, &c->place[from], b, bytes, err);

	if (!rc)
		rc = wait_for(&c->place[from], err);
	if (!rc)
		rc = c->backend->enter(b->device->index, err);
	memset(host, 0, bytes);
	return rc ? rc : gt_device_read(b->device, host, b->second, bytes, err);
}

int gt_copies_check(
    int64_t *wrong, int64_t *words, struct gt_copies *c, size_t from, size_t to, struct gt_err *err)
{
	size_t bytes = c->bytes < CHECKED_BYTES ? c->bytes : CHECKED_BYTES;
	uint32_t *host = gt_calloc(1, bytes, err);
	int rc = host ? 0 : GT_ENOMEM;

	*words = (int64_t)(bytes / sizeof(*host));
	*wrong = 0;
	if (!rc)
		rc = write_pattern(c, host, *words, from, to, err);
	if (!rc)
		rc = read_back(c, host, *words, from, to, err);
	for (int64_t i = 0; !rc && i < *words; i++)
		*wrong += host[i] != pattern(i, from, to);
	free(host);
	return rc;
}
