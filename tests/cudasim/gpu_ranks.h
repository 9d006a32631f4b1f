/* gpu_ranks.h - ranks as threads or processes, with a group for the memory of a simulated GPU. */
#ifndef GT_TESTS_CUDASIM_GPU_RANKS_H
#define GT_TESTS_CUDASIM_GPU_RANKS_H

#include "tests/unit/comm_fixture.h"

#include "kernels/cuda/ring/ring.h"
#include "lib/comm/device_group.h"
#include "tests/cudasim/cudasim.h"

enum { MOST = 4, ELEMENTS = 300 };

static const struct gt_shm_options patience = { .timeout_s = 60, .staging_bytes = 4096 };

/* ---- rings ---- */

static const struct gt_device_way_options by_ring = { .name = "ring" };

/* Rings with so short slots that collectives go around many times. */
static inline int connect_short(struct gt_cuda_group *g, struct gt_err *err)
{
	return gt_cuda_ring_connect_by(g, 512, 512, err);
}

static struct gt_cuda_links short_links; /* run_gpu_ranks() fills it in */

static inline int make_short(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err)
{
	return gt_cuda_group_new(group, device, &short_links, way->messages, err);
}

static const struct gt_device_groups short_rings = {
	.name = "ring", .ordered = true, .make = make_short
};

/* ---- sites ---- */

static const struct gt_device_way_options over_nccl = { .name = "nccl" };

/* Where ranks are, and the way between their GPUs. */
struct site {
	const struct gt_device_way_options *way;
	int gpus; /* 0: one for each rank */
	bool processes;
};

/* Over a simulated NCCL, and by a ring, whose ranks may share GPUs. */
static const struct site nccl_of_threads = { &over_nccl, 0, false };
static const struct site nccl_of_processes = { &over_nccl, 0, true };
static const struct site ring_of_gpus = { &by_ring, 0, false };
static const struct site ring_on_one_gpu = { &by_ring, 1, false };
enum { SITES = 4 };
static const struct site *const all_sites[SITES] = { &nccl_of_threads, &nccl_of_processes,
	&ring_of_gpus, &ring_on_one_gpu };

/* ---- ranks with a GPU each, as far as there are so many ---- */

struct rank {
	struct gt_group *host;
	struct gt_group *group; /* for the GPU's memory */
	struct gt_device *d;
	struct gt_device_way_options options;
	struct gt_device_way way;
	const struct gt_device_groups *instead; /* of those that were chosen; or NULL */
	pthread_barrier_t *barrier;
	int index, ranks;
	int (*act)(struct rank *r);
	int rc;
	struct gt_err err;
};

static inline void live(struct rank *r)
{
	r->rc =
	    gt_device_open(&r->d, &gt_cuda_backend, r->index % gt_cuda_backend.count(), &r->err);
	if (!r->rc)
		r->rc = gt_device_way_choose(&r->way, r->host, r->d, &r->options, &r->err);
	if (!r->rc && r->way.own && r->instead)
		r->way.own = r->instead;
	if (!r->rc)
		r->rc = gt_device_group_open(&r->group, r->host, r->d, &r->way, &r->err);
	if (!r->rc && r->act)
		r->rc = r->act(r);
	if (!r->rc)
		r->rc = gt_device_sync(r->d, &r->err);
	gt_group_free(r->group); /* a rank that failed keeps nobody waiting */
	if (r->rc && r->d)
		(void)gt_device_sync(r->d, GT_ERR_IGNORED);
	gt_group_free(r->host);
	gt_device_close(r->d);
}

static inline void gpu_body(struct seat_of *s)
{
	struct rank *r = (struct rank *)s->arg + s->rank;

	r->host = s->g;
	r->barrier = &s->table->barrier;
	s->g = NULL;
	live(r);
	for (int i = 0; i < gt_cuda_backend.count(); i++)
		if (cudasim_fault(i))
			fail_rank(s, "GPU %d: %s", i, cudasim_fault(i));
}

static inline void run_gpu_ranks(struct rank *ranks, int count, const struct site *site,
    const struct gt_shm_options *options, int (*act)(struct rank *r))
{
	size_t bytes = (size_t)count * sizeof(*ranks);
	struct rank *shared =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char text[16];

	assert_ptr_not_equal(shared, MAP_FAILED);
	short_links = gt_cuda_ring_links;
	short_links.connect = connect_short;
	snprintf(text, sizeof(text), "%d", site->gpus ? site->gpus : count);
	setenv("CUDASIM_DEVICES", text, 1);
	for (int i = 0; i < count; i++)
		shared[i] = (struct rank){ .options = *site->way,
			.instead = site->way == &by_ring ? &short_rings : NULL,
			.index = i,
			.ranks = count,
			.act = act };
	run_ranks(site->processes, count, options, gpu_body, shared);
	memcpy(ranks, shared, bytes);
	munmap(shared, bytes);
}

/* So many ranks, all of which succeed. */
static inline void run_well(const struct site *site, int count, int (*act)(struct rank *r))
{
	struct rank ranks[MOST];

	run_gpu_ranks(ranks, count, site, &patience, act);
	for (int i = 0; i < count; i++)
		if (ranks[i].rc)
			fail_msg("rank %d of %d: %s", i, count, ranks[i].err.text);
}

static inline int stop_with(struct rank *r, const char *what)
{
	return gt_err_set(&r->err, GT_EINVAL, "%s", what);
}

static inline void *allocate(struct rank *r, size_t bytes)
{
	void *p = NULL;

	if (gt_group_alloc(r->group, bytes ? bytes : 1, &p, &r->err))
		fail_msg("%s", r->err.text);
	return p;
}

static inline int start_sum(
    struct rank *r, float *x, int64_t count, const char *what, uint64_t *ticket)
{
	const struct gt_collective c = { .kind = GT_ALL_REDUCE,
		.in = x,
		.out = x,
		.count = count,
		.dtype = GT_F32,
		.what = what,
		.stream = r->d->compute };

	return gt_group_start(r->group, &c, ticket, &r->err);
}

#endif
