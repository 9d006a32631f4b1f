/* memory.cc - memory of simulated devices, and pinned memory of the host. */
#include "tests/cudasim/inside.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

/* Addresses of each device; red zones are the least distance of two blocks, and as long as the
 * alignment. */
static const size_t span = (size_t)1 << 30;
enum { ZONE = 256, PAGE = 4096 };

/* Blocks of a device lie in the order of their addresses. */
struct block {
	char *p;
	size_t bytes;
	block *next;
};

struct device_memory {
	char *first;
	size_t reached; /* bytes that were in use at some time */
	size_t used;
	block *blocks;
	char *cursor; /* where the next search begins: addresses are used again as late as may be */
};

static device_memory devices[CUDASIM_DEVICES];
static block *pinned;

static size_t whole(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

size_t cudasim_memory_total()
{
	const char *text = getenv("CUDASIM_MEMORY");
	size_t bytes = text ? strtoull(text, nullptr, 10) : span;

	return bytes < span ? bytes : span;
}

size_t cudasim_memory_used(int device)
{
	return devices[device].used;
}

static bool reserve(device_memory *d)
{
	void *p;

	if (d->first)
		return true;
	p = mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return false;
	d->first = d->cursor = (char *)p;
	cudasim_poison(p, span);
	return true;
}

static void set_access(const device_memory *d, bool open)
{
	if (d->reached &&
	    mprotect(d->first, d->reached, open ? PROT_READ | PROT_WRITE : PROT_NONE)) {
		perror("cudasim: access to device memory");
		abort();
	}
}

void cudasim_open_memory(bool open)
{
	for (const device_memory &d : devices)
		set_access(&d, open);
}

/* The link behind which a gap of `bytes` begins at or after `from`, and where it does. */
static block **find_gap(device_memory *d, char *from, size_t bytes, char **at)
{
	char *end = d->first + span, *free_from = d->first;
	block **link = &d->blocks;

	for (;; link = &(*link)->next) {
		char *next = *link ? (*link)->p : end;
		char *p = free_from > from ? free_from : from;

		if (p < next && (size_t)(next - p) >= bytes) {
			*at = p;
			return link;
		}
		if (!*link)
			return nullptr;
		free_from = (*link)->p + whole((*link)->bytes, ZONE) + ZONE;
	}
}

void *cudasim_take(int device, size_t bytes)
{
	device_memory *d = &devices[device];
	size_t room = whole(bytes, ZONE) + ZONE;
	block **link, *b;
	char *p;

	if (!reserve(d) || bytes > cudasim_memory_total() - d->used)
		return nullptr;
	link = find_gap(d, d->cursor, room, &p);
	if (!link)
		link = find_gap(d, d->first, room, &p);
	if (!link)
		return nullptr;
	b = new block{ p, bytes, *link };
	*link = b;
	d->used += bytes;
	d->cursor = p + room;
	if ((size_t)(d->cursor - d->first) > d->reached)
		d->reached = whole((size_t)(d->cursor - d->first), PAGE);
	cudasim_unpoison(p, bytes);
	set_access(d, true);
	memset(p, 0xff, bytes);
	set_access(d, false);
	return p;
}

/* Take the block that begins here out of the list; NULL: there is none. */
static block *unlink_block(block **link, const void *p)
{
	block *b;

	while (*link && (*link)->p != p)
		link = &(*link)->next;
	b = *link;
	if (b)
		*link = b->next;
	return b;
}

bool cudasim_give(int device, void *p)
{
	device_memory *d = &devices[device];
	block *b = unlink_block(&d->blocks, p);
	size_t first, end;

	if (!b)
		return false;
	first = whole((size_t)(b->p - d->first), PAGE);
	end = (size_t)(b->p - d->first) + b->bytes;
	end -= end % PAGE;
	if (end > first)
		madvise(d->first + first, end - first, MADV_DONTNEED);
	cudasim_poison(b->p, b->bytes);
	d->used -= b->bytes;
	delete b;
	return true;
}

static bool holds(const block *b, const void *p, size_t bytes)
{
	for (; b; b = b->next)
		if ((const char *)p >= b->p && (const char *)p + bytes <= b->p + b->bytes)
			return true;
	return false;
}

bool cudasim_is_device(const void *p, size_t bytes)
{
	for (const device_memory &d : devices)
		if (holds(d.blocks, p, bytes))
			return true;
	return false;
}

int cudasim_device_of(const void *p)
{
	for (int d = 0; d < CUDASIM_DEVICES; d++)
		for (const block *b = devices[d].blocks; b; b = b->next)
			if (b->p == p)
				return d;
	return -1;
}

/* The heap's own red zones are enough here. */
void *cudasim_take_pinned(size_t bytes)
{
	char *p = (char *)aligned_alloc(ZONE, whole(bytes ? bytes : 1, ZONE));

	if (!p)
		return nullptr;
	cudasim_poison(p + bytes, whole(bytes ? bytes : 1, ZONE) - bytes);
	memset(p, 0xff, bytes);
	pinned = new block{ p, bytes, pinned };
	return p;
}

bool cudasim_give_pinned(void *p)
{
	block *b = unlink_block(&pinned, p);

	if (!b)
		return false;
	cudasim_unpoison(p, whole(b->bytes ? b->bytes : 1, ZONE));
	free(p);
	delete b;
	return true;
}

bool cudasim_is_pinned(const void *p, size_t bytes)
{
	return holds(pinned, p, bytes);
}
