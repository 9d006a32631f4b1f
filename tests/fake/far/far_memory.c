/* far_memory.c - memory of the far device, and the order of all accesses to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "tests/fake/far/far_inside.h"

/* Two ranges of addresses of this size: one that the host sees, one for kernels. Addresses are not
 * used twice before all have been. */
static const size_t span = (size_t)16 << 30;

struct access {
	size_t from, to; /* in the block */
	bool write;
	int stream;
	uint64_t when; /* by the clock of that stream */
	const char *name;
};

/* Memory of a device, or of the host and known to the device. */
struct block {
	char *p;
	size_t bytes;
	int index;
	bool pinned;
	struct access *accesses;
	size_t access_count, access_capacity;
	struct block *next;
};

static struct {
	pthread_mutex_t lock;
	char *host_view, *kernel_view;
	size_t used;
	struct block *blocks;
	struct block *busy; /* freed too early: queued work may still reach them, so they stay */
} memory = { .lock = PTHREAD_MUTEX_INITIALIZER };

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static bool reserve(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

	if (memory.host_view)
		return true;
	memory.host_view = mmap(NULL, span, PROT_NONE, flags, -1, 0);
	memory.kernel_view = mmap(NULL, span, PROT_NONE, flags, -1, 0);
	if (memory.host_view != MAP_FAILED && memory.kernel_view != MAP_FAILED)
		return true;
	memory.host_view = NULL;
	return false;
}

void *far_near(const void *device)
{
	return device ? memory.kernel_view + ((const char *)device - memory.host_view) : NULL;
}

bool far_is_far(const void *p)
{
	const char *first;

	pthread_mutex_lock(&memory.lock);
	first = memory.host_view;
	pthread_mutex_unlock(&memory.lock);
	return first && (const char *)p >= first && (const char *)p < first + span;
}

static struct block *add_block(char *p, size_t bytes, int index, bool pinned)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	*b = (struct block){ .p = p, .bytes = bytes, .index = index, .pinned = pinned };
	pthread_mutex_lock(&memory.lock);
	b->next = memory.blocks;
	memory.blocks = b;
	pthread_mutex_unlock(&memory.lock);
	return b;
}

/* The block that holds all these bytes, or NULL. Call it with the lock. */
static struct block *find_block(const void *p, size_t bytes)
{
	for (struct block *b = memory.blocks; b; b = b->next)
		if ((const char *)p >= b->p && (const char *)p + bytes <= b->p + b->bytes)
			return b;
	return NULL;
}

bool far_is_pinned(const void *host, size_t bytes)
{
	struct block *b;

	pthread_mutex_lock(&memory.lock);
	b = find_block(host, bytes);
	pthread_mutex_unlock(&memory.lock);
	return b && b->pinned;
}

/* A page that nobody may touch is between two blocks. */
static char *take_pages(size_t bytes)
{
	size_t pages = whole_pages(bytes ? bytes : 1), guard = whole_pages(1);
	char *p = NULL;

	pthread_mutex_lock(&memory.lock);
	if (reserve() && pages + guard <= span) {
		if (memory.used + pages + guard > span)
			memory.used = 0;
		p = memory.host_view + memory.used;
		memory.used += pages + guard;
	}
	pthread_mutex_unlock(&memory.lock);
	return p && !mprotect(far_near(p), pages, PROT_READ | PROT_WRITE) ? p : NULL;
}

int far_alloc(int index, size_t bytes, void **out, struct gt_err *err)
{
	char *p = take_pages(bytes);

	*out = NULL;
	far_count_blocking(index);
	if (!p || !add_block(p, bytes, index, false)) {
		gt_err_set(err, GT_ENOMEM, "far: no memory: %zu bytes asked for", bytes);
		err->device_memory = true;
		return GT_ENOMEM;
	}
	*out = p;
	return 0;
}

/* Take the block out of the list; false, and a fault, if there is none or work on it is queued. */
static bool drop_block(int index, void *p, const char *kind)
{
	const struct far_clock *host = far_host_clock(index);
	const char *busy = NULL;
	struct block **at, *b;

	pthread_mutex_lock(&memory.lock);
	for (at = &memory.blocks; *at && (*at)->p != p; at = &(*at)->next)
		;
	b = *at;
	if (b)
		*at = b->next;
	for (size_t i = 0; b && !busy && i < b->access_count; i++)
		if (host->at[b->accesses[i].stream] < b->accesses[i].when)
			busy = b->accesses[i].name;
	if (busy) {
		b->next = memory.busy;
		memory.busy = b;
	}
	pthread_mutex_unlock(&memory.lock);
	if (!b)
		far_fail(index, "%s memory is freed that was not allocated, or twice", kind);
	if (busy)
		far_fail(index, "%s memory is freed while '%s' on it is queued", kind, busy);
	if (!b || busy)
		return false;
	free(b->accesses);
	free(b);
	return true;
}

void far_free(int index, void *p, size_t bytes)
{
	size_t pages = whole_pages(bytes ? bytes : 1);

	if (!p)
		return;
	far_count_blocking(index);
	if (!drop_block(index, p, "device"))
		return;
	madvise(far_near(p), pages, MADV_DONTNEED); /* the next one finds zeros */
	mprotect(far_near(p), pages, PROT_NONE);
}

int far_host_alloc(int index, size_t bytes, void **out, struct gt_err *err)
{
	*out = gt_calloc(1, bytes ? bytes : 1, err);
	if (!*out)
		return GT_ENOMEM;
	if (add_block(*out, bytes, index, true))
		return 0;
	free(*out);
	*out = NULL;
	return gt_err_set(err, GT_ENOMEM, "far: out of memory");
}

void far_host_free(int index, void *p, size_t bytes)
{
	(void)bytes;
	if (!p)
		return;
	if (drop_block(index, p, "host"))
		free(p);
}

/* ---- the order of accesses ---- */

static bool overlap(const struct access *x, const struct access *y)
{
	return x->from < y->to && y->from < x->to;
}

static bool within(const struct access *x, const struct access *y)
{
	return y->from <= x->from && x->to <= y->to;
}

/*
 * Note an access that is behind all others. An access that the new one covers needs no place any
 * more: an access behind the new one is behind both.
 */
static bool note(struct block *b, const struct access *a)
{
	size_t kept = 0;

	for (size_t i = 0; i < b->access_count; i++) {
		const struct access *old = &b->accesses[i];
		bool same = old->stream == a->stream && old->write == a->write;

		if (!(within(old, a) && (a->write || same)))
			b->accesses[kept++] = *old;
	}
	b->access_count = kept;
	if (kept == b->access_capacity) {
		size_t capacity = kept ? 2 * kept : 16;
		struct access *more = realloc(b->accesses, capacity * sizeof(*more));

		if (!more)
			return false;
		b->accesses = more;
		b->access_capacity = capacity;
	}
	b->accesses[b->access_count++] = *a;
	return true;
}

static const char *check_access(
    struct block *b, const struct access *a, const struct far_clock *clock, char *text, size_t size)
{
	for (size_t i = 0; i < b->access_count; i++) {
		const struct access *old = &b->accesses[i];

		if (!overlap(old, a) || (!old->write && !a->write) ||
		    clock->at[old->stream] >= old->when)
			continue;
		snprintf(text, size,
		    "'%s' on stream %d %s memory that '%s' on stream %d %s, and does not wait for "
		    "it",
		    a->name, a->stream, a->write ? "writes" : "reads", old->name, old->stream,
		    old->write ? "writes" : "reads");
		return text;
	}
	if (note(b, a))
		return NULL;
	snprintf(text, size, "out of memory");
	return text;
}

const char *far_check_item(
    const struct far_item *item, int index, int id, const struct far_clock *clock)
{
	static _Thread_local char text[400];
	const char *fault = NULL;

	pthread_mutex_lock(&memory.lock);
	for (int i = 0; !fault && i < item->access_count; i++) {
		const struct far_access *x = &item->accesses[i];
		struct block *b = find_block(x->p, x->bytes);
		struct access a = {
			.write = x->write, .stream = id, .when = clock->at[id], .name = item->name
		};

		if (!b || (!b->pinned && b->index != index)) {
			snprintf(text, sizeof(text),
			    "'%s' %s %zu bytes that are not memory of device %d", item->name,
			    x->write ? "writes" : "reads", x->bytes, index);
			fault = text;
			continue;
		}
		a.from = (size_t)((const char *)x->p - b->p);
		a.to = a.from + x->bytes;
		fault = check_access(b, &a, clock, text, sizeof(text));
	}
	pthread_mutex_unlock(&memory.lock);
	return fault;
}

bool far_is_pending(int index, const void *host, size_t bytes, bool reads)
{
	const struct far_clock *known = far_host_clock(index);
	struct block *b;
	bool pending = false;

	pthread_mutex_lock(&memory.lock);
	b = find_block(host, bytes);
	for (size_t i = 0; b && !pending && i < b->access_count; i++) {
		const struct access *a = &b->accesses[i];
		size_t from = (size_t)((const char *)host - b->p);

		pending = from < a->to && a->from < from + bytes && (a->write || reads) &&
		          known->at[a->stream] < a->when;
	}
	pthread_mutex_unlock(&memory.lock);
	return pending;
}
