/* shm.c - groups on one host: made, split and freed. */
#include "lib/comm/shm/shm.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/comm/shm/segment.h"

static const double default_timeout_s = 600;
static const size_t default_piece_bytes = 64 * 1024, least_piece_bytes = 4096;
static const size_t most_piece_bytes = (size_t)1 << 30;

/* Spinning pays while a wake-up costs more. With more ranks than processors, the one that is waited
 * for needs the processor. */
static const double spin_s = 20e-6, yield_s = 100e-6;

static int shm_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err);
static int shm_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);
static int shm_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err);
static int shm_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err);
static void shm_stop(struct gt_group *group);
static void shm_free(struct gt_group *group);
static int shm_check_calls(
    struct gt_group *group, const struct gt_collective *c, struct gt_err *err);
static int shm_check_peers(struct gt_group *group, bool *gone, struct gt_err *err);
static int shm_fail(struct gt_group *group, struct gt_err *err);

static const struct gt_group_ops ops = {
	.name = "shm",
	.ordered = true,
	.run = shm_run,
	.start = shm_start,
	.wait = shm_wait,
	.alloc = gt_shm_alloc,
	.release = gt_shm_release,
	.split = shm_split,
	.stop = shm_stop,
	.free = shm_free,
	.check_calls = shm_check_calls,
	.check_peers = shm_check_peers,
	.fail = shm_fail,
	.share = gt_shm_share_one,
	.waited_s = gt_shm_waited_s,
};

/* ---- rank areas ---- */

static int run_shm_collective(void *self, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_shm *g = self;

	if (c->kind == GT_SEND || c->kind == GT_RECV)
		return gt_shm_message(g, c, true, err);
	return gt_shm_collect(g, c, err);
}

/*
 * Where the parts of a segment begin. A segment for 2 ranks, each part at a multiple of
 * GT_COMM_LINE, staging at whole pages, with pieces of 64 KiB:
 *
 *   0                  struct gt_shm_segment: the error of the group
 *   4096               areas[2]: each rank's flags, posted calls, and small data
 *   channels           channel[sender][receiver], 4 of them: flags of messages
 *   staging, a page    staging[2][3][64 KiB]: pieces of buffers outside of shared memory
 *   slots, a page      slot[sender][1][256]: pieces of messages; 32 MiB, of which only
 *                      written pages take memory
 *
 * A cache line of areas and channels is written by one rank only, so that ranks do not slow each
 * other down by writing to neighbouring words.
 */
struct plan {
	size_t areas, channels, staging, slots, total, piece_bytes;
	uint32_t slot_count;
};

static struct plan plan_of(int size, const struct gt_shm_options *options)
{
	const size_t n = (size_t)size, page = 4096;
	struct plan p = { .areas = page,
		.piece_bytes = default_piece_bytes,
		.slot_count = size == 2 ? GT_SHM_PAIR_SLOTS : GT_SHM_CHANNEL_SLOTS };

	if (options->staging_bytes)
		p.piece_bytes =
		    options->staging_bytes / GT_SHM_STAGING_SLOTS / GT_COMM_LINE * GT_COMM_LINE;
	if (p.piece_bytes < least_piece_bytes)
		p.piece_bytes = least_piece_bytes;
	if (p.piece_bytes > most_piece_bytes)
		p.piece_bytes = most_piece_bytes;
	p.channels = p.areas + n * sizeof(struct gt_shm_rank_area);
	p.staging = (p.channels + n * n * sizeof(struct gt_shm_channel) + page - 1) / page * page;
	p.slots = p.staging + n * GT_SHM_STAGING_SLOTS * p.piece_bytes;
	p.slots = (p.slots + page - 1) / page * page;
	p.total = p.slots + n * (n - 1) * p.slot_count * sizeof(struct gt_shm_slot);
	return p;
}

static struct gt_shm *new_seat(
    int rank, int size, bool processes, const struct gt_shm_options *options, struct gt_err *err)
{
	struct gt_shm *g = gt_calloc(1, sizeof(*g), err);

	if (!g)
		return NULL;
	g->timeout_s = options->timeout_s > 0 ? options->timeout_s : default_timeout_s;
	g->group = (struct gt_group){ &ops, rank, size, g->timeout_s };
	g->processes = processes;
	g->yield_s = yield_s;
	g->queue = (struct gt_queue){ .run = run_shm_collective, .self = g };
	for (int r = 0; r < GT_SHM_RANKS_MAX; r++) {
		g->pidfds[r] = -1;
		g->names[r] = r;
	}
	return g;
}

static void sit_down(struct gt_shm *g, const struct plan *plan)
{
	unsigned char *base = g->share.base;

	g->segment = (void *)base;
	g->areas = (void *)(base + plan->areas);
	g->channels = (void *)(base + plan->channels);
	g->staging = base + plan->staging;
	g->slots = (void *)(base + plan->slots);
	g->slot_count = plan->slot_count;
	g->piece_bytes = plan->piece_bytes;
}

/* Spinning needs a processor for each rank; each may have one of its own. */
static void choose_waiting(struct gt_shm *g, const cpu_set_t *cpus)
{
	g->spin_s = CPU_COUNT(cpus) >= g->group.size ? spin_s : 0;
}

static int check_size(int size, struct gt_err *err)
{
	if (size >= 1 && size <= GT_SHM_RANKS_MAX)
		return 0;
	return gt_err_set(err, GT_EINVAL, "%d ranks in shared memory: there can be 1 to %d", size,
	    GT_SHM_RANKS_MAX);
}

/* A descriptor of a process becomes readable when it dies, also while its parent has not looked. */
static void open_pidfds(struct gt_shm *g)
{
#ifdef SYS_pidfd_open
	for (int r = 0; r < g->group.size; r++)
		if (r != g->group.rank)
			g->pidfds[r] = (int)syscall(SYS_pidfd_open, g->pids[r], 0);
#endif
}

/* `exchange` is among the ranks of the new group. */
static int make_shm_group(struct gt_group **out, int rank, int size, bool processes,
    const struct gt_exchange *exchange, const struct gt_shm_options *options, struct gt_err *err)
{
	struct plan plan = plan_of(size, options);
	struct gt_shm_share share;
	struct gt_shm_peers peers;
	struct gt_shm *g;

	*err = GT_ERR_INIT;
	g = new_seat(rank, size, processes, options, err);
	/* Called even if new_seat() failed: the other ranks are in the same collective call, and
	 * learn from *err that this one gives up. */
	if (gt_shm_share_make(&share, plan.total, processes, rank, size, exchange, &peers, err)) {
		free(g);
		return err->code;
	}
	g->share = share;
	memcpy(g->pids, peers.pids, sizeof(g->pids));
	memcpy(g->all, peers.pids, sizeof(g->all));
	g->all_count = size;
	choose_waiting(g, &peers.cpus);
	sit_down(g, &plan);
	if (processes)
		open_pidfds(g);
	*out = &g->group;
	return 0;
}

int gt_shm_of_processes(struct gt_group **out, int rank, int size,
    const struct gt_exchange *exchange, const struct gt_shm_options *options, struct gt_err *err)
{
	*out = NULL;
	if (check_size(size, err))
		return err->code;
	if (rank < 0 || rank >= size)
		return gt_err_set(err, GT_EINVAL, "rank %d of %d", rank, size);
	return make_shm_group(out, rank, size, true, exchange, options, err);
}

int gt_shm_of_threads(
    struct gt_group **groups, int size, const struct gt_shm_options *options, struct gt_err *err)
{
	struct gt_shm_share share;
	struct plan plan;
	cpu_set_t cpus;

	if (check_size(size, err))
		return err->code;
	memset(groups, 0, sizeof(*groups) * (size_t)size);
	plan = plan_of(size, options);
	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		CPU_ZERO(&cpus);
	if (gt_shm_share_threads(&share, plan.total, size, err))
		return err->code;
	for (int r = 0; r < size; r++) {
		struct gt_shm *g = new_seat(r, size, false, options, err);

		if (!g)
			goto out;
		g->share = share;
		choose_waiting(g, &cpus);
		sit_down(g, &plan);
		groups[r] = &g->group;
	}
	return 0;
out:
	for (int r = 0; r < size; r++) {
		struct gt_shm_share mine = share;

		gt_shm_share_release(&mine);
		free(groups[r]);
		groups[r] = NULL;
	}
	return err->code;
}

/* ---- sub-groups ---- */

/* An exchange among some ranks of a group, as an all-gather of all of them. */
struct among {
	struct gt_shm *parent;
	int members[GT_SHM_RANKS_MAX],
	    count; /* ranks of the parent, in the order of the new ones */
};

static int gather_split_infos(
    struct gt_shm *g, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct gt_collective c = { GT_ALL_GATHER, mine, all, (int64_t)bytes, GT_U8,
		.what = "split" };

	return gt_shm_collect(g, &c, err);
}

static int gather_among(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	const struct among *a = self;
	unsigned char *of_parent = gt_calloc((size_t)a->parent->group.size, bytes, err);

	if (!of_parent)
		return gt_shm_fail(a->parent, err);
	if (!gather_split_infos(a->parent, mine, bytes, of_parent, err))
		for (size_t i = 0; i < (size_t)a->count; i++)
			memcpy((unsigned char *)all + i * bytes,
			    of_parent + (size_t)a->members[i] * bytes, bytes);
	else
		a = NULL;
	free(of_parent);
	return a ? 0 : err->code;
}

static int shm_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err)
{
	struct gt_shm *g = (struct gt_shm *)group;
	struct gt_shm_options options = { g->timeout_s, g->piece_bytes * GT_SHM_STAGING_SLOTS };
	struct gt_split_choice mine = { color, key }, all[GT_SHM_RANKS_MAX];
	struct among among = { .parent = g };
	struct gt_exchange exchange = { gather_among, &among };
	struct gt_shm *part;
	int rank = 0;

	gt_queue_drain(&g->queue);
	if (gather_split_infos(g, &mine, sizeof(mine), all, err))
		return err->code;
	/* A rank without a new group takes part in the exchanges of the ranks that make one. */
	if (color < 0)
		return gt_shm_share_skip(&exchange, err);
	among.count = gt_choose(among.members, all, group->size, color);
	while (among.members[rank] != group->rank)
		rank++;
	if (make_shm_group(out, rank, among.count, g->processes, &exchange, &options, err))
		return err->code;
	part = (struct gt_shm *)*out;
	for (int r = 0; r < among.count; r++)
		/* Messages name ranks by their numbers in the first group, which users know from
		 * the logs. */
		part->names[r] = g->names[among.members[r]];
	memcpy(part->all, g->all, sizeof(part->all));
	part->all_count = g->all_count;
	return 0;
}

static int shm_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	return gt_queue_run(&((struct gt_shm *)group)->queue, c, err);
}

static int shm_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	return gt_queue_start(&((struct gt_shm *)group)->queue, c, ticket, err);
}

static int shm_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err)
{
	return gt_queue_wait(&((struct gt_shm *)group)->queue, ticket, err);
}

static int shm_check_calls(
    struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_shm *g = (struct gt_shm *)group;

	gt_queue_drain(&g->queue);
	if (c->kind == GT_SEND || c->kind == GT_RECV)
		return gt_shm_message(g, c, false, err);
	if (group->size == 1)
		return 0;
	return gt_shm_announce(g, c, err) ? err->code : gt_shm_check_calls(g, err);
}

static int shm_check_peers(struct gt_group *group, bool *gone, struct gt_err *err)
{
	return gt_shm_check_peers((struct gt_shm *)group, gone, err);
}

static int shm_fail(struct gt_group *group, struct gt_err *err)
{
	return gt_shm_fail((struct gt_shm *)group, err);
}

static void shm_stop(struct gt_group *group)
{
	gt_shm_give_up((struct gt_shm *)group);
}

static void shm_free(struct gt_group *group)
{
	struct gt_shm *g = (struct gt_shm *)group;

	/* Waits of the background thread end first; then gt_queue_free() can join it. */
	shm_stop(group);
	gt_queue_free(&g->queue);
	/* Set before the wake-up: a rank that wakes must see that this one has left, or it would
	 * sleep again. */
	atomic_store(&g->areas[group->rank].left, 1);
	gt_shm_wake_all(g);
	for (size_t i = 0; i < g->regions_count; i++)
		gt_shm_share_release(&g->regions[i].share);
	free(g->regions);
	for (int r = 0; r < group->size; r++)
		if (g->pidfds[r] >= 0)
			close(g->pidfds[r]);
	gt_shm_share_release(&g->share);
	free(g);
}
