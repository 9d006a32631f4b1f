/* segment.c - memory that ranks see together: a group's segment, and the memory that it lends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/comm/shm/segment.h"

enum { HUGE_PAGE = 2 << 20 };

/* Between threads: how many ranks still see it. */
struct gt_shm_threads_share {
	atomic_int seers;
};

/* A rank's message to the others while memory is made. A descriptor's number means nothing to other
 * processes; /proc/PID/fd/N does, and the other members prove that it is the right file. */
struct rank_info {
	int32_t code; /* 0, or why this rank can't */
	int32_t pid, fd, unused;
	uint64_t device, inode, bytes;
	struct gt_shm_threads_share *threads;
	unsigned char *base;
	cpu_set_t cpus;
};
_Static_assert(sizeof(struct rank_info) <= 256, "what an exchange takes");

static int map(struct gt_shm_share *out, size_t bytes, int fd, struct gt_err *err)
{
	/* Memory of threads is private: then the kernel grants huge pages more often. */
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		return gt_err_sys(err, "cannot map %zu bytes of shared memory", bytes);
	madvise(p, bytes, MADV_HUGEPAGE); /* where they are granted */
	*out = (struct gt_shm_share){ .base = p, .bytes = bytes };
	return 0;
}

int gt_shm_share_threads(struct gt_shm_share *out, size_t bytes, int size, struct gt_err *err)
{
	struct gt_shm_threads_share *threads = gt_calloc(1, sizeof(*threads), err);

	if (!threads)
		return err->code;
	if (map(out, bytes, -1, err)) {
		free(threads);
		return err->code;
	}
	atomic_init(&threads->seers, size);
	out->threads = threads;
	return 0;
}

void gt_shm_share_release(struct gt_shm_share *share)
{
	struct gt_shm_threads_share *threads = share->threads;

	if (share->base && (!threads || atomic_fetch_sub(&threads->seers, 1) == 1)) {
		munmap(share->base, share->bytes);
		free(threads);
	}
	*share = (struct gt_shm_share){ 0 };
}

/* ---- between processes ---- */

/* Sealed: nobody can shorten it, which would be a SIGBUS for the others. */
static int make_file(struct gt_shm_share *out, size_t bytes, int *fd, struct gt_err *err)
{
	*fd = memfd_create("gtrain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes) ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		gt_err_sys(err, "cannot make %zu bytes of shared memory", bytes);
		goto out;
	}
	if (!map(out, bytes, *fd, err))
		return 0;
out:
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	return err->code;
}

static int other_size(const struct rank_info *info, size_t bytes, struct gt_err *err)
{
	return gt_err_set(err, GT_EINVAL,
	    "ranks ask for shared memory of different sizes: one for %llu bytes, this rank for %zu",
	    (unsigned long long)info->bytes, bytes);
}

static int open_share_file(
    struct gt_shm_share *out, const struct rank_info *info, size_t bytes, struct gt_err *err)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", info->pid, info->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		gt_err_sys(
		    err, "cannot open the shared memory of the group's first rank, '%s'", path);
		return gt_err_hint(err,
		    "ranks that share memory are processes of one user on one host, "
		    "that see each other in /proc");
	}
	if (fstat(fd, &st))
		gt_err_sys(err, "'%s'", path);
	else if (st.st_dev != info->device || st.st_ino != info->inode)
		gt_err_set(err, GT_EINVAL,
		    "'%s' is not the shared memory of the group's first rank: is it on another host?",
		    path);
	else if (info->bytes != bytes || (uint64_t)st.st_size != bytes)
		other_size(info, bytes, err);
	else
		map(out, bytes, fd, err);
	close(fd);
	return out->base ? 0 : err->code;
}

static void fill_rank_info(struct rank_info *info, const struct gt_shm_share *share, int fd)
{
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st)) {
		info->device = st.st_dev;
		info->inode = st.st_ino;
	}
	info->fd = fd;
	info->bytes = share->bytes;
	info->threads = share->threads;
	info->base = share->base;
}

static void fill_peers(struct gt_shm_peers *peers, const struct rank_info *all, int size)
{
	*peers = (struct gt_shm_peers){ 0 };
	for (int r = 0; r < size; r++) {
		peers->pids[r] = all[r].pid;
		CPU_OR(&peers->cpus, &peers->cpus, &all[r].cpus);
	}
}

static int attach_share(struct gt_shm_share *out, const struct rank_info *info, size_t bytes,
    bool processes, struct gt_err *err)
{
	if (processes)
		return open_share_file(out, info, bytes, err);
	*out = (struct gt_shm_share){ info->base, info->bytes, info->threads };
	return info->bytes == bytes ? 0 : other_size(info, bytes, err);
}

static int first_code(const struct rank_info *all, int size, struct gt_err *err)
{
	for (int r = 0; r < size; r++)
		if (all[r].code)
			return gt_err_set(err, all[r].code < 0 ? all[r].code : GT_EIO,
			    "rank %d of the group cannot share memory", r);
	return 0;
}

/*
 * The first exchange tells where the memory is, the second that all have it, so that rank 0 may
 * close its descriptor. A rank that fails goes on to say so. An exchange that breaks down between
 * threads leaves the memory behind: other ranks may have seen it.
 */
int gt_shm_share_make(struct gt_shm_share *out, size_t bytes, bool processes, int rank, int size,
    const struct gt_exchange *exchange, struct gt_shm_peers *peers, struct gt_err *err)
{
	struct rank_info mine = { .code = err->code, .pid = (int32_t)getpid() },
	                 all[GT_SHM_RANKS_MAX] = { 0 };
	struct gt_err theirs = GT_ERR_INIT;
	int fd = -1, code;

	*out = (struct gt_shm_share){ 0 };
	if (!mine.code && rank == 0)
		mine.code = processes ? make_file(out, bytes, &fd, err)
		                      : gt_shm_share_threads(out, bytes, size, err);
	fill_rank_info(&mine, out, fd);
	if (sched_getaffinity(0, sizeof(mine.cpus), &mine.cpus))
		CPU_ZERO(&mine.cpus);
	code = exchange->run(exchange->self, &mine, sizeof(mine), all, &theirs);
	if (!code && !mine.code && rank != 0 && !all[0].code)
		mine.code = attach_share(out, &all[0], bytes, processes, err);
	if (peers)
		fill_peers(peers, all, size);
	if (!code)
		code = exchange->run(exchange->self, &mine, sizeof(mine), all, &theirs);
	if (!code)
		code = first_code(all, size, &theirs);
	if (fd >= 0)
		close(fd);
	if (!code)
		return 0;
	gt_shm_share_release(out);
	if (!mine.code)
		*err = theirs;
	return err->code;
}

int gt_shm_share_skip(const struct gt_exchange *exchange, struct gt_err *err)
{
	struct rank_info mine = { 0 }, all[GT_SHM_RANKS_MAX];

	if (exchange->run(exchange->self, &mine, sizeof(mine), all, err))
		return err->code;
	return exchange->run(exchange->self, &mine, sizeof(mine), all, err);
}

/* ---- regions ---- */

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Return a free entry of the table of regions. All ranks choose the same, as their tables are
 * alike. */
static struct gt_shm_region *free_region(struct gt_shm *g, struct gt_err *err)
{
	for (size_t i = 0; i < g->regions_count; i++)
		if (!g->regions[i].bytes)
			return &g->regions[i];
	if (gt_grow(&g->regions, g->regions_count, &g->regions_capacity, sizeof(*g->regions), err))
		return NULL;
	g->regions[g->regions_count] = (struct gt_shm_region){ 0 };
	return &g->regions[g->regions_count++];
}

static int gather_rank_infos(
    void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct gt_collective c = { GT_ALL_GATHER, mine, all, (int64_t)bytes, GT_U8,
		.what = "alloc" };

	return gt_shm_collect(self, &c, err);
}

/* Touch each page of this rank's part: the kernel puts a page near the processor that touches it
 * first. */
static void touch(unsigned char *p, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

#ifdef MADV_POPULATE_WRITE
	if (!madvise(p, round_up(bytes, page), MADV_POPULATE_WRITE))
		return;
#endif
	for (size_t i = 0; i < bytes; i += page)
		((volatile unsigned char *)p)[i] = 0;
}

/*
 * Parts of 2 MiB or more begin at huge pages, so that no huge page belongs to two ranks, whose
 * processors may be far apart. Such a part is an odd number of huge pages: the first-level cache
 * of AMD's processors finds a line by a hash of bits 12 to 27 of its address (Lipp et al., "Take
 * A Way: Exploring the Security Implications of AMD's Cache Way Predictors", 2020). Buffers that
 * are 256 MiB apart, or a multiple of that, would push each other's lines out: an all-reduce of
 * two ranks takes 7 times as long.
 */
static size_t part_bytes(size_t want)
{
	if (want < HUGE_PAGE)
		return round_up(want, (size_t)sysconf(_SC_PAGESIZE));
	return round_up(want, HUGE_PAGE) | HUGE_PAGE;
}

int gt_shm_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct gt_shm *g = (struct gt_shm *)group;
	const struct gt_exchange exchange = { gather_rank_infos, g };
	size_t want = bytes ? bytes : 1, part;
	struct gt_shm_region *region;
	struct gt_shm_share share;

	*out = NULL;
	*err = GT_ERR_INIT;
	gt_queue_drain(&g->queue);
	region = free_region(g, err);
	if (want > SIZE_MAX / 2 / GT_SHM_RANKS_MAX - HUGE_PAGE) {
		gt_err_set(err, GT_ENOMEM, "%zu bytes are more than there can be", bytes);
		/* The call goes on with a size that is possible, only to tell the other ranks about
		 * the error. */
		want = 1;
	}
	part = part_bytes(want);
	if (gt_shm_share_make(&share, part * (size_t)group->size, g->processes, group->rank,
	        group->size, &exchange, NULL, err))
		return err->code;
	*region = (struct gt_shm_region){ share, want, part };
	*out = share.base + (size_t)group->rank * part;
	touch(*out, want);
	return 0;
}

/* The shared memory is the part of rank 0. */
int gt_shm_share_one(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct gt_shm *g = (struct gt_shm *)group;
	void *mine;

	if (gt_shm_alloc(group, bytes, &mine, err))
		return err->code;
	*out = gt_shm_at(g, 0, gt_shm_place_of(g, mine, bytes), bytes);
	return 0;
}

void gt_shm_release(struct gt_group *group, void *memory)
{
	struct gt_shm *g = (struct gt_shm *)group;

	gt_queue_drain(&g->queue);
	for (size_t i = 0; i < g->regions_count; i++) {
		struct gt_shm_region *region = &g->regions[i];

		if (!region->bytes ||
		    region->share.base + (size_t)group->rank * region->part != memory)
			continue;
		gt_shm_share_release(&region->share);
		*region = (struct gt_shm_region){ 0 };
		return;
	}
}

struct gt_shm_place gt_shm_place_of(const struct gt_shm *g, const void *p, size_t bytes)
{
	for (size_t i = 0; i < g->regions_count; i++) {
		const struct gt_shm_region *region = &g->regions[i];
		uintptr_t base =
		    (uintptr_t)region->share.base + (size_t)g->group.rank * region->part;
		/* If p lies before the base, the difference wraps around to a large number, so one
		 * comparison is enough. */
		uintptr_t offset = (uintptr_t)p - base;

		if (offset < region->bytes && bytes <= region->bytes - offset)
			return (struct gt_shm_place){ (uint32_t)i + 1, 0, offset };
	}
	return (struct gt_shm_place){ 0 };
}

unsigned char *gt_shm_at(const struct gt_shm *g, int rank, struct gt_shm_place place, size_t bytes)
{
	const struct gt_shm_region *region;

	if (!place.region || place.region > g->regions_count)
		return NULL;
	region = &g->regions[place.region - 1];
	/* The place comes from another rank's memory: it is checked before it becomes an address.
	 */
	if (place.offset >= region->bytes || bytes > region->bytes - place.offset)
		return NULL;
	return region->share.base + (size_t)rank * region->part + place.offset;
}
