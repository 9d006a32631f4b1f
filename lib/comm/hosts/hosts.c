/* hosts.c - large sums over hosts: inside each host, between the hosts, and back. */
#include "lib/comm/hosts/hosts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/comm/group_backend.h"
#include "lib/comm/messages/state.h"
#include "lib/comm/shm/segment.h"
#include "lib/comm/tcp/tcp.h"

/*
 * An all-reduce by two hosts with two ranks each. A buffer has two slices, a and b:
 *
 *             rank 0      rank 1      |  rank 2      rank 3
 *   has       a0 b0       a1 b1       |  a2 b2       a3 b3
 *   local     a0+a1       b0+b1       |  a2+a3       b2+b3      reduce-scatter in shared memory
 *   across    a           b           |  a           b          all-reduce between 0 and 2, 1 and 3
 *   local     a b         a b         |  a b         a b        all-gather in shared memory
 *
 * So a host sends each element to the others once, not once per rank. A longer buffer is done piece
 * by piece. All else, and short buffers, which cost less in one step, are left to the group of all.
 */
enum { LEAST_BYTES = 64 * 1024, PIECE_BYTES = 8 << 20 };

/* A wait inside a host is over if it was not noted again within this time. */
static const double looked_s = 0.5;

struct hosts {
	struct gt_group group;
	struct gt_group_ops ops; /* with the name of `all` */
	struct gt_group *all;    /* owned, as are the others */
	struct gt_group *local;  /* ranks of this host, over shared memory */
	struct gt_group *across; /* a rank of each host */
	void *slice;             /* [PIECE_BYTES / local->size], from `local` */
	char host[GT_TCP_HOST_ID], name[64];
	struct gt_messenger *messenger; /* the one that `all` sends by */
	struct gt_msg_wait wait;        /* in `local` */
	struct gt_queue queue;
};

static bool adds_by_host(const struct gt_collective *c)
{
	bool exact =
	    c->dtype == GT_F32 || c->dtype == GT_F64 || c->dtype == GT_I32 || c->dtype == GT_I64;

	/* Sums of 16-bit types would be rounded twice. */
	return c->kind == GT_ALL_REDUCE && exact &&
	       (size_t)c->count * gt_dtype_size(c->dtype) >= LEAST_BYTES;
}

/* Ranks that wait in any of the three groups learn of it. */
static int fail_hosts(struct hosts *h, bool local, struct gt_err *err)
{
	struct gt_err each;

	if (local && !err->follows && !err->lost)
		gt_err_prefix(err, "on host %s", h->name);
	gt_group_fail(h->all, err);
	each = *err;
	gt_group_fail(h->across, &each);
	each = *err;
	gt_group_fail(h->local, &each);
	return err->code;
}

/* The sum becomes an average, in the arithmetic of all groups. */
static void divide(const struct hosts *h, void *slice, size_t count, enum gt_dtype dtype)
{
	gt_reduce_step(&(struct gt_reduce_step){ .dst = { slice },
	    .dsts = 1,
	    .in = slice,
	    .count = count,
	    .dtype = dtype,
	    .reduction = GT_AVG,
	    .ranks = h->group.size });
}

/* `count` elements of each rank of a host. */
static int add_piece(struct hosts *h, const struct gt_collective *c, const void *in, void *out,
    int64_t count, struct gt_err *err)
{
	const enum gt_reduction reduction = c->reduction == GT_MAX ? GT_MAX : GT_SUM;
	const struct gt_collective scatter = { GT_REDUCE_SCATTER, in, h->slice, count, c->dtype,
		reduction, .what = c->what };
	const struct gt_collective sum = { GT_ALL_REDUCE, h->slice, h->slice, count, c->dtype,
		reduction, .what = c->what };
	const struct gt_collective gather = { GT_ALL_GATHER, h->slice, out, count, c->dtype,
		.what = c->what };

	if (gt_group_run(h->local, &scatter, err))
		return fail_hosts(h, true, err);
	if (gt_group_run(h->across, &sum, err))
		return fail_hosts(h, false, err);
	if (c->reduction == GT_AVG)
		divide(h, h->slice, (size_t)count, c->dtype);
	return gt_group_run(h->local, &gather, err) ? fail_hosts(h, true, err) : 0;
}

static int add_by_host(struct hosts *h, const struct gt_collective *c, struct gt_err *err)
{
	const size_t size = gt_dtype_size(c->dtype);
	const int64_t ranks = h->local->size, most = PIECE_BYTES / (int64_t)size / ranks;
	struct gt_collective rest = *c;
	int64_t at = 0, count;

	for (; c->count - at >= ranks; at += ranks * count) {
		count = (c->count - at) / ranks < most ? (c->count - at) / ranks : most;
		if (add_piece(h, c, (const char *)c->in + (size_t)at * size,
		        (char *)c->out + (size_t)at * size, count, err))
			return err->code;
	}
	rest.in = (const char *)c->in + (size_t)at * size;
	rest.out = (char *)c->out + (size_t)at * size;
	rest.count = c->count - at;
	if (rest.count && gt_group_run(h->all, &rest, err))
		return fail_hosts(h, false, err);
	return 0;
}

static int run_hosts_collective(void *self, const struct gt_collective *c, struct gt_err *err)
{
	struct hosts *h = self;

	if (adds_by_host(c))
		return add_by_host(h, c, err);
	return gt_group_run(h->all, c, err) ? fail_hosts(h, false, err) : 0;
}

/* ---- a rank waits for another one of its host, which may wait for one of another host ---- */

/* Note the wait, for the ranks that ask. */
static void look_elsewhere(void *self, int rank)
{
	struct hosts *h = self;
	struct gt_messenger *m = h->messenger;
	double now = gt_clock_s();

	m->ops->end_wait(m, &h->wait);
	if (h->wait.rank != rank || now >= h->wait.until)
		h->wait.since = now;
	h->wait.rank = rank;
	h->wait.until = now + looked_s;
	m->ops->begin_wait(m, &h->wait);
	m->ops->progress(m, 0);
}

static int find_late_rank(void *self, int rank)
{
	struct gt_messenger *m = ((struct hosts *)self)->messenger;

	return m->ops->find_late(m, rank);
}

static void name_rank_on_host(void *self, char *out, size_t size, int rank)
{
	char name[GT_MSG_RANK_NAME];

	snprintf(out, size, "%s", gt_msg_rank_name(name, ((struct hosts *)self)->messenger, rank));
}

static void forget_wait(struct hosts *h)
{
	if (h->messenger->ops->end_wait)
		h->messenger->ops->end_wait(h->messenger, &h->wait);
}

/* ---- the functions of the group ---- */

static int hosts_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	return gt_queue_run(&((struct hosts *)group)->queue, c, err);
}

static int hosts_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	return gt_queue_start(&((struct hosts *)group)->queue, c, ticket, err);
}

static int hosts_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err)
{
	return gt_queue_wait(&((struct hosts *)group)->queue, ticket, err);
}

/* Whether all ranks have come with the same size and without an error. */
static int agree_on_size(
    struct hosts *h, size_t bytes, const struct gt_err *mine, struct gt_err *err)
{
	int64_t most[3] = { -mine->code, (int64_t)bytes, -(int64_t)bytes };

	if (gt_all_reduce(h->all, most, 3, GT_I64, GT_MAX, err))
		return fail_hosts(h, false, err);
	if (mine->code)
		*err = *mine;
	else if (most[1] != -most[2])
		gt_err_set(err, GT_EINVAL,
		    "ranks ask for memory of different sizes: %lld bytes and %lld",
		    (long long)-most[2], (long long)most[1]);
	else if (most[0])
		gt_err_set(err, GT_ENOMEM, "another host has no memory for %zu bytes", bytes);
	return err->code;
}

static int hosts_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct hosts *h = (struct hosts *)group;
	struct gt_err mine = GT_ERR_INIT;
	bool fits = bytes <= PTRDIFF_MAX;

	*out = NULL;
	gt_queue_drain(&h->queue);
	if (fits)
		gt_group_alloc(h->local, bytes, out, &mine);
	else
		gt_err_set(&mine, GT_ENOMEM, "no memory for %zu bytes", bytes);
	*err = GT_ERR_INIT;
	if (!agree_on_size(h, fits ? bytes : 0, &mine, err))
		return 0;
	if (*out)
		gt_group_release(h->local, *out);
	*out = NULL;
	return err->code;
}

static void hosts_release(struct gt_group *group, void *memory)
{
	struct hosts *h = (struct hosts *)group;

	gt_queue_drain(&h->queue);
	gt_group_release(h->local, memory);
}

static int hosts_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err)
{
	struct hosts *h = (struct hosts *)group;
	int rc;

	gt_queue_drain(&h->queue);
	rc = gt_group_split(out, h->all, color, key, err);
	if (rc)
		return fail_hosts(h, false, err);
	rc = *out ? gt_hosts_group(out, h->host, err) : 0;
	if (rc) {
		gt_group_free(*out);
		*out = NULL;
	}
	return rc;
}

static int hosts_check_calls(
    struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	struct hosts *h = (struct hosts *)group;

	gt_queue_drain(&h->queue);
	return gt_group_check_calls(h->all, c, err) ? fail_hosts(h, false, err) : 0;
}

static int hosts_check_peers(struct gt_group *group, bool *gone, struct gt_err *err)
{
	return gt_group_check_peers(((struct hosts *)group)->all, gone, err);
}

static int hosts_fail(struct gt_group *group, struct gt_err *err)
{
	return fail_hosts((struct hosts *)group, false, err);
}

static void hosts_stop(struct gt_group *group)
{
	struct hosts *h = (struct hosts *)group;

	gt_group_stop(h->all);
	gt_group_stop(h->local);
	gt_group_stop(h->across);
}

static void hosts_free(struct gt_group *group)
{
	struct hosts *h = (struct hosts *)group;

	hosts_stop(group);
	gt_queue_free(&h->queue);
	forget_wait(h);
	gt_group_free(h->local);
	gt_group_free(h->across);
	gt_group_free(h->all);
	free(h);
}

static const struct gt_group_ops ops = {
	.ordered = true,
	.run = hosts_run,
	.start = hosts_start,
	.wait = hosts_wait,
	.alloc = hosts_alloc,
	.release = hosts_release,
	.split = hosts_split,
	.stop = hosts_stop,
	.free = hosts_free,
	.check_calls = hosts_check_calls,
	.check_peers = hosts_check_peers,
	.fail = hosts_fail,
};

/* ---- made ---- */

/* Return the number of ranks of each host, or 0 if sums by host are of no use. */
static int ranks_per_host(const char (*hosts)[GT_TCP_HOST_ID], int size)
{
	int each = 1;

	while (each < size && !strcmp(hosts[each], hosts[0]))
		each++;
	if (each < 2 || each == size || size % each || (each & (each - 1)) ||
	    each > GT_SHM_MAX_RANKS || !*hosts[0])
		return 0;
	for (int r = 0; r < size; r++)
		for (int other = 0; other < r; other++)
			if (!strcmp(hosts[r], hosts[other]) != (r / each == other / each))
				return 0;
	return each;
}

static int exchange_in_group(
    void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct gt_collective c = { GT_ALL_GATHER, mine, all, (int64_t)bytes, GT_U8,
		.what = "shared memory" };

	return gt_group_run(self, &c, err);
}

/* Connect the ranks of this host by shared memory, whose errors have the numbers of all. */
static int make_local(struct hosts *h, int each, struct gt_err *err)
{
	const struct gt_shm_options options = { .timeout_s = h->all->timeout_s };
	const int rank = h->all->rank, host = rank / each;
	uint64_t number;
	struct gt_exchange exchange = { exchange_in_group, NULL };
	struct gt_group *below;
	struct gt_shm *shm;

	if (gt_group_split(&below, h->all, host, rank, err))
		return err->code;
	exchange.self = below;
	gt_shm_of_processes(&h->local, below->rank, each, &exchange, &options, err);
	gt_group_free(below);
	if (!h->local)
		return err->code;
	shm = (struct gt_shm *)h->local;
	for (int r = 0; r < each; r++)
		shm->names[r] = ((struct gt_msg_group *)h->all)->ranks[host * each + r];
	shm->all_count = 0;
	if (h->messenger->ops->begin_wait) {
		shm->elsewhere = (struct gt_shm_elsewhere){ h, look_elsewhere, find_late_rank,
			name_rank_on_host };
		h->messenger->ops->begin_wait(h->messenger, &h->wait);
	}
	number = shm->number;
	gt_group_alloc(h->local, (size_t)(PIECE_BYTES / each), &h->slice, err);
	assert((shm->number - number) % 2 == 0); /* areas post by odd and even numbers */
	shm->number = number;                    /* the caller did not call these */
	return err->code;
}

/* Connect them, or find that one host's cannot share memory. */
static int connect_levels(struct hosts *h, int each, bool *shares, struct gt_err *err)
{
	struct gt_err mine = GT_ERR_INIT;
	int32_t failed;

	if (gt_group_split(&h->across, h->all, h->all->rank % each, h->all->rank, err))
		return err->code;
	make_local(h, each, &mine);
	failed = !h->slice;
	if (gt_all_reduce(h->all, &failed, 1, GT_I32, GT_MAX, err))
		return err->code;
	*shares = !failed;
	return 0;
}

static int find_hosts(int *each, const struct gt_group *g, const char *host, struct gt_err *err)
{
	char mine[GT_TCP_HOST_ID] = "", (*hosts)[GT_TCP_HOST_ID];
	struct gt_collective c = { GT_ALL_GATHER, mine, NULL, sizeof(mine), GT_U8,
		.what = "hosts" };
	int rc;

	hosts = gt_calloc((size_t)g->size, sizeof(*hosts), err);
	if (!hosts)
		return gt_group_fail((struct gt_group *)g, err);
	snprintf(mine, sizeof(mine), "%s", host);
	c.out = hosts;
	rc = gt_group_run((struct gt_group *)g, &c, err);
	*each = rc ? 0 : ranks_per_host((const char(*)[GT_TCP_HOST_ID])hosts, g->size);
	free(hosts);
	return rc;
}

static int add_levels(struct gt_group **group, const char *host, int each, struct gt_err *err)
{
	struct gt_group *all = *group;
	struct hosts *h = gt_calloc(1, sizeof(*h), err);
	bool shares = false;
	int rc;

	if (!h)
		return gt_group_fail(all, err);
	h->all = all;
	h->messenger = ((struct gt_msg_group *)all)->messenger;
	h->wait.rank = -1;
	h->ops = ops;
	h->ops.name = all->ops->name;
	h->group = (struct gt_group){ &h->ops, all->rank, all->size, all->timeout_s };
	h->queue = (struct gt_queue){ .run = run_hosts_collective, .self = h };
	snprintf(h->host, sizeof(h->host), "%s", host);
	gethostname(h->name, sizeof(h->name) - 1);
	rc = connect_levels(h, each, &shares, err);
	if (rc || !shares) {
		forget_wait(h);
		gt_group_free(h->local);
		gt_group_free(h->across);
		free(h);
		return rc;
	}
	*group = &h->group;
	return 0;
}

int gt_hosts_group(struct gt_group **group, const char *host, struct gt_err *err)
{
	struct gt_msg_group *all = (struct gt_msg_group *)*group;
	uint64_t number = all->number;
	int each = 0, rc = find_hosts(&each, *group, host, err);

	if (!rc && each)
		rc = add_levels(group, host, each, err);
	all->number = number; /* the caller did not call these */
	return rc;
}
