/* memory.cc - memory of simulated devices, and pinned memory of the host. */
#include "tests/cudasim/inside.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Addresses of each device; red zones are the least distance of two blocks, and as long as the
 * alignment. */
static const size_t span = (size_t)1 << 30;
enum { ZONE = 256, PAGE = 4096 };

/* Blocks of a device lie in the order of their addresses. Memory that other processes may open is
 * a file of its own, in whole pages. A process that has it open holds a lock of the file, which
 * ends with the process. */
struct block {
	char *p;
	size_t bytes;
	block *next;
	size_t bytes_held; /* with the red zone behind it */
	int fd;            /* of the file; -1: there is none */
	ino_t file;
	int opened; /* how often this process has opened it; 0: it was made here */
};

struct device_memory {
	char *first;
	size_t reached; /* bytes that were in use at some time */
	size_t used;
	block *blocks;
	char *cursor; /* where the next search begins: addresses are used again as late as may be */
};

static device_memory devices[CUDASIM_DEVICES];
static block *pinned, *registered;

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

void cudasim_each_shared(int but, const std::function<void(char *p, size_t bytes)> &act)
{
	for (int i = 0; i < CUDASIM_DEVICES; i++)
		for (const block *b = devices[i].blocks; b; b = b->next)
			if (i != but && b->fd >= 0)
				act(b->p, b->bytes);
}

void cudasim_open_memory(bool open)
{
	for (const device_memory &d : devices)
		set_access(&d, open);
}

/* The link behind which a gap of `bytes` begins at or after `from`, and where it does. */
static block **find_gap(device_memory *d, char *from, size_t bytes, size_t unit, char **at)
{
	char *end = d->first + span, *free_from = d->first;
	block **link = &d->blocks;

	for (;; link = &(*link)->next) {
		char *next = *link ? (*link)->p : end;
		char *p = free_from > from ? free_from : from;

		p = d->first + whole((size_t)(p - d->first), unit);
		if (p < next && (size_t)(next - p) >= bytes) {
			*at = p;
			return link;
		}
		if (!*link)
			return nullptr;
		free_from = (*link)->p + (*link)->bytes_held;
	}
}

/* Poison the part up to `end` that no block has reached yet. Memory beyond has no access, so
 * it needs no poison, and to poison the whole gigabyte would take longer than most tests. */
static void poison_up_to(device_memory *d, const char *end)
{
	size_t reached = whole((size_t)(end - d->first), PAGE);

	if (reached <= d->reached)
		return;
	cudasim_poison(d->first + d->reached, reached - d->reached);
	d->reached = reached;
}

/* A block without access, behind which there is a red zone. The file is the block's from now on. */
static block *place(device_memory *d, size_t bytes, int fd)
{
	size_t unit = fd < 0 ? ZONE : PAGE, bytes_held = whole(bytes + ZONE, unit);
	block **link = nullptr, *b;
	char *p;

	if (reserve(d))
		link = find_gap(d, d->cursor, bytes_held, unit, &p);
	if (reserve(d) && !link)
		link = find_gap(d, d->first, bytes_held, unit, &p);
	if (!link ||
	    (fd >= 0 && mmap(p, bytes_held, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) != p))
		return nullptr;
	b = new block{ p, bytes, *link, bytes_held, fd, 0, 0 };
	*link = b;
	d->cursor = p + bytes_held;
	poison_up_to(d, d->cursor);
	cudasim_poison(p, bytes_held);
	cudasim_unpoison(p, bytes);
	return b;
}

/* ---- files ---- */

int cudasim_new_file(size_t bytes)
{
	int fd = memfd_create("cudasim", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)whole(bytes, PAGE))) {
		perror("cudasim: memory that processes share");
		abort();
	}
	return fd;
}

static ino_t number_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

struct cudasim_file cudasim_file_of(int fd)
{
	return { getpid(), fd, number_of(fd) };
}

/* Another file may have the descriptor by now. */
int cudasim_open_file(const struct cudasim_file *file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)file->process, file->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && number_of(fd) != file->number) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- memory of devices ---- */

void *cudasim_take(int device, size_t bytes, bool shared)
{
	device_memory *d = &devices[device];
	block *b;
	int fd;

	if (bytes > cudasim_memory_total() - d->used)
		return nullptr;
	fd = shared ? cudasim_new_file(bytes + ZONE) : -1;
	b = place(d, bytes, fd);
	if (!b && shared)
		close(fd);
	if (!b)
		return nullptr;
	b->file = shared ? number_of(fd) : 0;
	d->used += bytes;
	set_access(d, true);
	memset(b->p, 0xff, bytes);
	set_access(d, false);
	return b->p;
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

/* The pages of the gap where a block was have no content any more. Small blocks leave a page only
 * with the last one that is in it; each page with content makes changes of access slower. */
static void empty(const device_memory *d, const block *gone)
{
	size_t first = 0, end = (size_t)(gone->p - d->first) + gone->bytes_held;

	for (const block *b = d->blocks; b && b->p < gone->p; b = b->next)
		first = (size_t)(b->p - d->first) + b->bytes_held;
	if (gone->next)
		end = (size_t)(gone->next->p - d->first);
	first = whole(first, PAGE);
	end -= end % PAGE;
	if (end > first)
		madvise(d->first + first, end - first, MADV_DONTNEED);
}

/* Without its file. */
static void unmap(const block *b)
{
	void *p = mmap(b->p, b->bytes_held, PROT_NONE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (p != b->p) {
		perror("cudasim: memory that processes share");
		abort();
	}
	close(b->fd);
}

bool cudasim_give(int device, void *p)
{
	device_memory *d = &devices[device];
	block *b = cudasim_is_opened(p) ? nullptr : unlink_block(&d->blocks, p);

	if (!b)
		return false;
	if (b->fd >= 0 && flock(b->fd, LOCK_EX | LOCK_NB))
		cudasim_set_fault(device, "memory is freed that another process has open");
	if (b->fd >= 0)
		unmap(b);
	else
		empty(d, b);
	cudasim_poison(b->p, b->bytes);
	d->used -= b->bytes;
	delete b;
	return true;
}

/* ---- memory of other processes ---- */

static block *block_at(const void *p)
{
	for (const device_memory &d : devices)
		for (block *b = d.blocks; b; b = b->next)
			if (b->p == p)
				return b;
	return nullptr;
}

bool cudasim_is_opened(const void *p)
{
	const block *b = block_at(p);

	return b && b->opened;
}

bool cudasim_export(const void *p, struct cudasim_shared_memory *out)
{
	const block *b = block_at(p);

	if (!b || b->fd < 0 || b->opened)
		return false;
	*out = { cudasim_file_of(b->fd), cudasim_device_of(p), b->bytes };
	return true;
}

/* Its file, locked; -1: it is not there any more. */
static int open_locked(const struct cudasim_file *file)
{
	int fd = cudasim_open_file(file);

	if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB)) {
		close(fd);
		return -1;
	}
	return fd;
}

void *cudasim_open(const struct cudasim_shared_memory *s)
{
	device_memory *d = &devices[s->device];
	block *b;
	int fd;

	for (b = d->blocks; b; b = b->next)
		if (b->opened && b->file == s->file.number) {
			b->opened++;
			return b->p;
		}
	fd = open_locked(&s->file);
	if (fd < 0)
		return nullptr;
	b = place(d, s->bytes, fd);
	if (!b) {
		close(fd);
		return nullptr;
	}
	b->file = s->file.number;
	b->opened = 1;
	return b->p;
}

bool cudasim_close(void *p)
{
	block *b = block_at(p);
	int device = cudasim_device_of(p);

	if (!b || !b->opened)
		return false;
	if (--b->opened)
		return true;
	if (cudasim_is_used(p, b->bytes))
		cudasim_set_fault(device, "memory is closed that queued work uses");
	unlink_block(&devices[device].blocks, p);
	unmap(b);
	cudasim_poison(b->p, b->bytes);
	delete b;
	return true;
}

/* ---- looking for memory ---- */

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
	pinned = new block{ p, bytes, pinned, bytes, -1, 0, 0 };
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
	return holds(pinned, p, bytes) || holds(registered, p, bytes);
}

/* ---- memory of the host that is pinned where it is ---- */

bool cudasim_register(void *p, size_t bytes)
{
	for (const block *b = registered; b; b = b->next)
		if (b->p < (char *)p + bytes && (char *)p < b->p + b->bytes)
			return false;
	registered = new block{ (char *)p, bytes, registered, bytes, -1, 0, 0 };
	return true;
}

bool cudasim_unregister(void *p)
{
	block *b = unlink_block(&registered, p);

	if (!b)
		return false;
	if (cudasim_is_used(p, b->bytes))
		cudasim_set_fault(
		    cudasim_device, "host memory is unregistered that queued work uses");
	delete b;
	return true;
}
