/* messages.c - groups over messages: made, split and freed; their memory. */
#include "lib/comm/messages/messages.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/comm/messages/state.h"

static const double default_timeout_s = 600, spin_s = 20e-6;
static const size_t default_piece_bytes = (size_t)4 << 20, least_piece_bytes = 4096;
static const size_t most_piece_bytes = (size_t)1 << 30;

static int msg_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err);
static int msg_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err);
static int msg_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err);
static int msg_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err);
static void msg_release(struct gt_group *group, void *memory);
static int msg_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err);
static void msg_stop(struct gt_group *group);
static void msg_free(struct gt_group *group);
static int msg_check_calls(
    struct gt_group *group, const struct gt_collective *c, struct gt_err *err);
static int msg_check_peers(struct gt_group *group, bool *gone, struct gt_err *err);
static int msg_fail(struct gt_group *group, struct gt_err *err);

static const struct gt_group_ops ops = {
	.ordered = true,
	.run = msg_run,
	.start = msg_start,
	.wait = msg_wait,
	.alloc = msg_alloc,
	.release = msg_release,
	.split = msg_split,
	.stop = msg_stop,
	.free = msg_free,
	.check_calls = msg_check_calls,
	.check_peers = msg_check_peers,
	.fail = msg_fail,
};

static int run_msg_collective(void *self, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_msg_group *g = self;

	if (c->kind == GT_SEND || c->kind == GT_RECV)
		return gt_msg_message(g, c, true, err);
	return gt_msg_collect(g, c, err);
}

static int msg_run(struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	return gt_queue_run(&((struct gt_msg_group *)group)->queue, c, err);
}

static int msg_start(
    struct gt_group *group, const struct gt_collective *c, uint64_t *ticket, struct gt_err *err)
{
	return gt_queue_start(&((struct gt_msg_group *)group)->queue, c, ticket, err);
}

static int msg_wait(struct gt_group *group, uint64_t ticket, struct gt_err *err)
{
	return gt_queue_wait(&((struct gt_msg_group *)group)->queue, ticket, err);
}

static int msg_check_calls(
    struct gt_group *group, const struct gt_collective *c, struct gt_err *err)
{
	struct gt_msg_group *g = (struct gt_msg_group *)group;

	gt_queue_drain(&g->queue);
	if (c->kind == GT_SEND || c->kind == GT_RECV)
		return gt_msg_message(g, c, false, err);
	return gt_msg_check_calls(g, c, err);
}

static int msg_check_peers(struct gt_group *group, bool *gone, struct gt_err *err)
{
	return gt_msg_check_peers((struct gt_msg_group *)group, gone, err);
}

static int msg_fail(struct gt_group *group, struct gt_err *err)
{
	return gt_msg_fail((struct gt_msg_group *)group, err);
}

/* ---- made and freed ---- */

static void free_parts(struct gt_msg_group *g)
{
	for (size_t i = 0; i < g->regions_count; i++)
		free(g->regions[i]);
	free(g->regions);
	for (int r = 0; g->last_headers && r < g->group.size; r++)
		free(g->last_headers[r].header);
	free(g->last_headers);
	free(g->header);
	free(g->staging);
	free(g->transfers);
	free(g->in);
	free(g->out);
	free(g->left);
	free(g->received);
	free(g->sent);
	free(g->ranks);
	free(g);
}

static int take_parts(struct gt_msg_group *g, size_t n, struct gt_err *err)
{
	if (!(g->ranks = gt_calloc(n, sizeof(*g->ranks), err)) ||
	    !(g->sent = gt_calloc(n, sizeof(*g->sent), err)) ||
	    !(g->received = gt_calloc(n, sizeof(*g->received), err)) ||
	    !(g->left = gt_calloc(n, sizeof(*g->left), err)) ||
	    !(g->out = gt_calloc(n, sizeof(*g->out), err)) ||
	    !(g->in = gt_calloc(n, sizeof(*g->in), err)) ||
	    !(g->last_headers = gt_calloc(n, sizeof(*g->last_headers), err)) ||
	    !(g->transfers = gt_calloc(2 * n * GT_MSG_SETS, sizeof(*g->transfers), err)))
		return err->code;
	for (size_t s = 0; s < GT_MSG_SETS; s++)
		g->sets[s].transfers = g->transfers + 2 * n * s;
	return 0;
}

static size_t piece_bytes_of(const struct gt_msg_options *options)
{
	size_t bytes = options->piece_bytes ? options->piece_bytes : default_piece_bytes;

	if (bytes < least_piece_bytes)
		return least_piece_bytes;
	return bytes < most_piece_bytes ? bytes : most_piece_bytes;
}

/* A rank of `size`, which are ranks[size] of the messenger. Local: nobody is told. */
static int make_msg_group(struct gt_group **out, struct gt_messenger *m, int rank, int size,
    const int *ranks, int context, const struct gt_msg_options *options, struct gt_err *err)
{
	struct gt_msg_group *g;
	cpu_set_t cpus;

	if (context >= m->tag_max / GT_MSG_TAGS)
		return gt_err_set(
		    err, GT_EDEVICE, "%s has no room for %d groups", m->ops->name, context + 1);
	g = gt_calloc(1, sizeof(*g), err);
	if (!g)
		return err->code;
	g->timeout_s = options->timeout_s > 0 ? options->timeout_s : default_timeout_s;
	g->ops = ops;
	g->ops.name = m->ops->name;
	g->group = (struct gt_group){ &g->ops, rank, size, g->timeout_s };
	g->messenger = m;
	g->context = context;
	g->piece_bytes = piece_bytes_of(options);
	g->spin_s =
	    !sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) >= size ? spin_s : 0;
	g->queue = (struct gt_queue){ .run = run_msg_collective, .self = g };
	if (take_parts(g, (size_t)size, err)) {
		free_parts(g);
		return err->code;
	}
	memcpy(g->ranks, ranks, (size_t)size * sizeof(*ranks));
	if (gt_msg_listen(g, err)) {
		free_parts(g);
		return err->code;
	}
	*out = &g->group;
	return 0;
}

static void msg_stop(struct gt_group *group)
{
	struct gt_msg_group *g = (struct gt_msg_group *)group;

	atomic_store(&g->quit, true);
}

static void msg_free(struct gt_group *group)
{
	struct gt_msg_group *g = (struct gt_msg_group *)group;

	msg_stop(group);
	gt_queue_free(&g->queue);
	gt_msg_leave(g, true);
	free_parts(g);
}

/* Where there are several hosts, messages say which one a rank is on. The first group asks. */
static int learn_hosts(struct gt_messenger *m, struct gt_group *all, struct gt_err *err)
{
	char mine[GT_MSG_HOST_BYTES] = "", (*hosts)[GT_MSG_HOST_BYTES];
	struct gt_collective c = { GT_ALL_GATHER, mine, NULL, GT_MSG_HOST_BYTES, GT_U8,
		.what = "hosts" };
	bool several = false;

	if (m->knows_hosts)
		return 0;
	hosts = gt_calloc((size_t)m->size, sizeof(*hosts), err);
	if (!hosts)
		return err->code;
	gethostname(mine, sizeof(mine) - 1);
	c.out = hosts;
	if (gt_group_run(all, &c, err)) {
		free(hosts);
		return err->code;
	}
	m->knows_hosts = true;
	((struct gt_msg_group *)all)->number = 0; /* this one nobody has called */
	for (int r = 0; r < m->size; r++) {
		hosts[r][GT_MSG_HOST_BYTES - 1] = '\0';
		several = several || strcmp(hosts[r], hosts[0]) != 0;
	}
	if (several)
		m->hosts = hosts;
	else
		free(hosts);
	return 0;
}

int gt_msg_group(struct gt_group **out, struct gt_messenger *m,
    const struct gt_msg_options *options, struct gt_err *err)
{
	int *ranks = gt_calloc((size_t)m->size, sizeof(*ranks), err);
	int rc;

	*out = NULL;
	if (!ranks)
		return err->code;
	for (int r = 0; r < m->size; r++)
		ranks[r] = r;
	rc = make_msg_group(out, m, m->rank, m->size, ranks, m->next_context++, options, err);
	free(ranks);
	if (!rc)
		rc = learn_hosts(m, *out, err);
	if (rc) {
		gt_group_free(*out);
		*out = NULL;
	}
	return rc;
}

/* ---- sub-groups ---- */

/* A rank's arguments of a split. The number of the new groups is one that no member of any has
 * used; groups of one split share it, as they have no rank in common. */
struct wish {
	struct gt_split_choice choice;
	int32_t next_context;
};

static int split_by(struct gt_group **out, struct gt_msg_group *g, const struct wish *all,
    int color, struct gt_err *err)
{
	struct gt_msg_options options = { g->timeout_s, g->piece_bytes };
	int size = g->group.size, context = 0, count, rank = 0, rc;
	struct gt_split_choice *choices = gt_calloc((size_t)size, sizeof(*choices), err);
	int *members = gt_calloc((size_t)size, sizeof(*members), err);

	for (int r = 0; choices && r < size; r++) {
		choices[r] = all[r].choice;
		context = all[r].next_context > context ? all[r].next_context : context;
	}
	g->messenger->next_context = context + 1;
	rc = choices && members ? 0 : err->code;
	if (!rc && color >= 0) {
		count = gt_choose(members, choices, size, color);
		while (members[rank] != g->group.rank)
			rank++;
		for (int i = 0; i < count; i++)
			members[i] = g->ranks[members[i]];
		rc =
		    make_msg_group(out, g->messenger, rank, count, members, context, &options, err);
	}
	free(members);
	free(choices);
	return rc;
}

static int msg_split(
    struct gt_group **out, struct gt_group *group, int color, int key, struct gt_err *err)
{
	struct gt_msg_group *g = (struct gt_msg_group *)group;
	struct wish mine = { { color, key }, g->messenger->next_context }, *all;
	struct gt_collective c = { GT_ALL_GATHER, &mine, NULL, sizeof(mine), GT_U8,
		.what = "split" };
	int rc;

	gt_queue_drain(&g->queue);
	all = gt_calloc((size_t)group->size, sizeof(*all), err);
	if (!all)
		return gt_msg_fail(g, err);
	c.out = all;
	rc = gt_msg_collect(g, &c, err);
	if (!rc && split_by(out, g, all, color, err))
		rc = gt_msg_fail(g, err);
	free(all);
	return rc;
}

/* ---- memory ---- */

/* A rank's arguments of an allocation. */
struct claim {
	uint64_t bytes;
	int64_t code;
};

static int agree_on_memory(
    struct gt_msg_group *g, struct claim mine, struct claim *all, struct gt_err *err)
{
	struct gt_collective c = { GT_ALL_GATHER, &mine, all, sizeof(mine), GT_U8,
		.what = "memory" };

	if (gt_msg_collect(g, &c, err))
		return err->code;
	for (int r = 0; r < g->group.size; r++) {
		if (all[r].bytes != mine.bytes)
			return gt_err_set(err, GT_EINVAL,
			    "ranks ask for memory of different sizes: rank %d for %llu bytes, rank "
			    "%d for %llu",
			    g->ranks[g->group.rank], (unsigned long long)mine.bytes, g->ranks[r],
			    (unsigned long long)all[r].bytes);
		if (all[r].code && r != g->group.rank)
			return gt_err_set(err, GT_ENOMEM, "rank %d has no memory for %llu bytes",
			    g->ranks[r], (unsigned long long)mine.bytes);
	}
	return (int)mine.code;
}

/* The memory belongs to this rank alone: a messenger gives the others no access to it. */
static void *own_memory(struct gt_msg_group *g, size_t bytes, struct gt_err *err)
{
	size_t whole = bytes < SIZE_MAX - GT_COMM_LINE
	                   ? bytes / GT_COMM_LINE * GT_COMM_LINE + GT_COMM_LINE
	                   : 0;
	void *p = whole ? aligned_alloc(GT_COMM_LINE, whole) : NULL;

	if (!p)
		gt_err_set(err, GT_ENOMEM, "no memory for %zu bytes", bytes);
	else if (gt_grow(&g->regions, g->regions_count, &g->regions_capacity, sizeof(*g->regions),
	             err)) {
		free(p);
		p = NULL;
	}
	if (p)
		memset(p, 0, whole);
	return p;
}

static int msg_alloc(struct gt_group *group, size_t bytes, void **out, struct gt_err *err)
{
	struct gt_msg_group *g = (struct gt_msg_group *)group;
	struct claim *all = gt_calloc((size_t)group->size, sizeof(*all), err);
	struct gt_err mine = GT_ERR_INIT;
	void *p;
	int rc;

	*out = NULL;
	gt_queue_drain(&g->queue);
	if (!all)
		return gt_msg_fail(g, err);
	p = own_memory(g, bytes, &mine);
	rc = agree_on_memory(g, (struct claim){ bytes, mine.code }, all, err);
	free(all);
	if (rc && mine.code)
		*err = mine;
	if (rc) {
		free(p);
		return rc;
	}
	g->regions[g->regions_count++] = p;
	*out = p;
	return 0;
}

static void msg_release(struct gt_group *group, void *memory)
{
	struct gt_msg_group *g = (struct gt_msg_group *)group;

	gt_queue_drain(&g->queue);
	for (size_t i = 0; i < g->regions_count; i++)
		if (g->regions[i] == memory) {
			g->regions[i] = g->regions[--g->regions_count];
			free(memory);
			return;
		}
}

/* ---- the messenger's end ---- */

int gt_messenger_finish(struct gt_messenger *m, struct gt_group *all, struct gt_err *err)
{
	struct gt_collective c = { .kind = GT_BARRIER, .what = "the end" };
	int e;

	if (m->finished)
		return 0;
	if (gt_group_run(all, &c, err))
		return err->code;
	if (!m->ops->finish)
		return 0;
	/* Requests that are open would be the messenger's no more. */
	gt_msg_leave((struct gt_msg_group *)all, false);
	m->finished = true;
	e = m->ops->finish(m);
	return e ? gt_err_set(err, GT_EIO, "%s cannot end: error %d", m->ops->name, e) : 0;
}

void gt_messenger_free(struct gt_messenger *m)
{
	if (!m)
		return;
	free(m->hosts);
	m->ops->free(m);
}
