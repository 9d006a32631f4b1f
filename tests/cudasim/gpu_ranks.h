/* gpu_ranks.h - ranks as threads, with a group for the memory of a simulated GPU each. */
#ifndef GT_TESTS_CUDASIM_GPU_RANKS_H
#define GT_TESTS_CUDASIM_GPU_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/ring/ring.h"
#include "lib/comm/device_group.h"
#include "lib/comm/shm/shm.h"
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

static struct gt_cuda_links short_links; /* run_ranks() fills it in */

static inline int make_short(
    struct gt_group **group, const struct gt_device *device, struct gt_err *err)
{
	return gt_cuda_group_new(group, device, &short_links, err);
}

static const struct gt_device_groups short_rings = {
	.name = "ring", .ordered = true, .make = make_short
};

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

static inline void *live(void *self)
{
	struct rank *r = self;

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
	return NULL;
}

static inline void run_ranks(struct rank *ranks, int count, int gpus,
    const struct gt_shm_options *options, const struct gt_device_way_options *way,
    int (*act)(struct rank *r))
{
	struct gt_group *groups[MOST];
	pthread_barrier_t barrier;
	pthread_t threads[MOST];
	struct gt_err err = GT_ERR_INIT;
	char text[16];

	short_links = gt_cuda_ring_links;
	short_links.connect = connect_short;
	snprintf(text, sizeof(text), "%d", gpus);
	setenv("CUDASIM_DEVICES", text, 1);
	pthread_barrier_init(&barrier, NULL, (unsigned)count);
	assert_int_equal(gt_shm_of_threads(groups, count, options, &err), 0);
	for (int i = 0; i < count; i++) {
		ranks[i] = (struct rank){ .host = groups[i],
			.options = *way,
			.instead = way == &by_ring ? &short_rings : NULL,
			.barrier = &barrier,
			.index = i,
			.ranks = count,
			.act = act };
		assert_int_equal(pthread_create(&threads[i], NULL, live, &ranks[i]), 0);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	for (int i = 0; i < gpus; i++)
		if (cudasim_fault(i))
			fail_msg("GPU %d: %s", i, cudasim_fault(i));
}

static const struct gt_device_way_options over_nccl = { .name = "nccl" };

/* So many ranks, each on its GPU or on `gpus`, all of which succeed. */
static inline void run_well_by(
    const struct gt_device_way_options *way, int count, int gpus, int (*act)(struct rank *r))
{
	struct rank ranks[MOST];

	run_ranks(ranks, count, gpus ? gpus : count, &patience, way, act);
	for (int i = 0; i < count; i++)
		if (ranks[i].rc)
			fail_msg("rank %d of %d: %s", i, count, ranks[i].err.text);
}

static inline void run_well(int count, int (*act)(struct rank *r))
{
	run_well_by(&over_nccl, count, 0, act);
}

static inline int stop_with(struct rank *r, const char *what)
{
	return gt_err_set(&r->err, GT_EINVAL, "%s", what);
}

static inline void *room(struct rank *r, size_t bytes)
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
