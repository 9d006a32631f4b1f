/* comm.c - connect a rank with all other ranks: rendezvous, and the group of all ranks. */
#include "lib/comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/comm/device_group.h"
#include "lib/comm/hosts/hosts.h"
#include "lib/comm/rendezvous/messages.h"

const char *const gt_comm_backend_names[] = {
	[GT_COMM_AUTO] = "auto",
	[GT_COMM_SHM] = "shm",
	[GT_COMM_RING] = "ring",
	[GT_COMM_TCP] = "tcp",
	[GT_COMM_MPI] = "mpi",
	[GT_COMM_NCCL] = "nccl",
	[GT_COMM_BACKENDS] = NULL,
};

const char *gt_comm_way(enum gt_comm_backend backend)
{
	if (backend == GT_COMM_AUTO)
		return NULL;
	return backend == GT_COMM_NCCL   ? gt_comm_backend_names[GT_COMM_NCCL]
	       : backend == GT_COMM_RING ? GT_WAY_RING
	                                 : GT_WAY_BY_HOST;
}

static int exchange(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct gt_comm *c = self;

	return gt_rendezvous_exchange(c->rendezvous, mine, bytes, all, err);
}

static int meet(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	if (c->rendezvous)
		return 0;
	return gt_rendezvous_meet(&c->rendezvous, &c->world, o->agreement, o->timeout_s, err);
}

/* ---- which ranks are on this host ---- */

/* The launcher did not say so: count the ranks that name the same host. */
static int find_local_ranks(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	char mine[GT_TCP_HOST_ID], (*all)[GT_TCP_HOST_ID];
	struct gt_world *w = &c->world;
	int rc = meet(c, o, err);

	if (rc)
		return rc;
	all = gt_calloc((size_t)w->size, sizeof(*all), err);
	if (!all)
		return err->code;
	gt_tcp_host_id(mine);
	rc = exchange(c, mine, sizeof(mine), all, err);
	if (!rc)
		w->local_rank = w->local_size = 0;
	for (int r = 0; !rc && r < w->size; r++) {
		bool here = r == w->rank || (*mine && !memcmp(all[r], mine, strlen(mine) + 1));

		w->local_rank += here && r < w->rank;
		w->local_size += here;
	}
	w->assumes_hosts = false;
	free(all);
	return rc;
}

/* ---- shm ---- */

static int join_shm(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	const struct gt_shm_options options = { .timeout_s = o->timeout_s };

	if (c->world.size == 1)
		return gt_shm_of_threads(&c->group, 1, &options, err);
	if (meet(c, o, err))
		return err->code;
	return gt_shm_of_processes(
	    &c->group, c->world.rank, c->world.size, &c->exchange, &options, err);
}

static int join_ring(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	int rc = join_shm(c, o, err);

	return rc ? rc : gt_ring_of_shm(&c->group, err);
}

/* ---- tcp ---- */

static int join_tcp(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	const struct gt_world *w = &c->world;
	const struct gt_msg_options options = { .timeout_s = o->timeout_s };
	struct gt_tcp_options tcp = {
		.timeout_s = o->timeout_s, .secret = w->secret, .one_host = gt_world_on_one_host(w)
	};
	char host[GT_TCP_HOST_ID];
	int rc;

	if (w->size > 1 && !w->address[0]) {
		gt_err_set(err, GT_EINVAL, "{backend} tcp: MASTER_ADDR is not set");
		return gt_err_hint(err, "it is the host of rank 0; MASTER_PORT is a port there");
	}
	rc = meet(c, o, err);
	if (rc)
		return rc;
	if (w->size > 1)
		tcp.near_count = gt_rendezvous_sockets(c->rendezvous, &tcp.near);
	gt_tcp_host_id(host);
	rc = gt_tcp_open(&c->messenger, w->rank, w->size, &c->exchange, &tcp, err);
	if (!rc)
		rc = gt_msg_group(&c->group, c->messenger, &options, err);
	return rc ? rc : gt_hosts_group(&c->group, host, err);
}

/* ---- mpi ---- */

/* The result of comparing one rank's agreement with rank 0's. */
struct verdict {
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

static int exchange_verdicts(struct gt_comm *c, const struct gt_err *mine, struct gt_err *err)
{
	struct verdict me = { .code = mine->code };
	struct verdict *all = gt_calloc((size_t)c->world.size, sizeof(*all), err);
	struct gt_collective gather = { GT_ALL_GATHER, &me, all, sizeof(me), GT_U8,
		.what = "agreement" };

	if (!all)
		return err->code;
	memcpy(me.text, mine->text, sizeof(me.text));
	memcpy(me.hint, mine->hint, sizeof(me.hint));
	gt_group_run(c->group, &gather, err);
	for (int r = 0; !err->code && r < c->world.size; r++)
		if (all[r].code) {
			gt_err_set(err, all[r].code, "%.*s", (int)sizeof(me.text) - 1, all[r].text);
			gt_err_hint(err, "%.*s", (int)sizeof(me.hint) - 1, all[r].hint);
		}
	free(all);
	return err->code;
}

static int agree_on_text(struct gt_comm *c, const char *mine, struct gt_err *err)
{
	char *rank_0s = gt_calloc(1, GT_RENDEZVOUS_MAX_AGREEMENT, err);
	struct gt_err verdict = GT_ERR_INIT;
	size_t length = strlen(mine);

	if (!rank_0s)
		return err->code;
	if (length < GT_RENDEZVOUS_MAX_AGREEMENT)
		memcpy(rank_0s, c->world.rank ? "" : mine, c->world.rank ? 1 : length + 1);
	else
		gt_err_set(&verdict, GT_EINVAL, "an agreement of %zu bytes", length);
	if (!gt_broadcast(c->group, rank_0s, GT_RENDEZVOUS_MAX_AGREEMENT, GT_U8, 0, err)) {
		rank_0s[GT_RENDEZVOUS_MAX_AGREEMENT - 1] = '\0';
		if (!verdict.code)
			gt_agreement_compare(rank_0s, mine, c->world.rank, &verdict);
		exchange_verdicts(c, &verdict, err);
	}
	free(rank_0s);
	return err->code;
}

/* The processes may have been started by another launcher than the one that MPI belongs to. */
static int check_numbers(const struct gt_comm *c, int rank, int size,
    const struct gt_comm_options *o, struct gt_err *err)
{
	char line[sizeof(err->hint)];

	if (rank == c->world.rank && size == c->world.size)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "this is rank %d of %d by the environment (%s), but rank %d of %d by MPI",
	    c->world.rank, c->world.size, gt_world_source_name(c->world.source), rank, size);
	gt_comm_mpirun_line(line, sizeof(line) - 32, &c->world, o->command);
	return gt_err_hint(err, "start all ranks by MPI: %s", line);
}

static int join_mpi(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	const struct gt_msg_options options = { .timeout_s = o->timeout_s };

	if (gt_mpi_open(&c->messenger, err) ||
	    check_numbers(c, c->messenger->rank, c->messenger->size, o, err) ||
	    gt_msg_group(&c->group, c->messenger, &options, err))
		return err->code;
	return agree_on_text(c, o->agreement, err);
}

/* ---- one of them ---- */

/*
 * `auto` and `nccl` take the group for host memory that these ranks can have.
 *
 * The choice is a rule and not a measurement at the start of a run. `bench allreduce` with two
 * ranks on one host, sums in place of 64 KiB to 1 MiB: `shm` was the fastest in every size; `ring`
 * took 1.6 to 25 times as long, `tcp` 5 to 25 times, and MPI twice as long at best. Where ranks
 * shared too few cores with other programs (four ranks on two busy ones), times of one engine
 * differed by a factor of 3 from moment to moment, and `tcp`, which sleeps while it waits, was as
 * fast as `shm`. A measurement of some milliseconds would then choose by chance, and `ring` adds
 * in another order: so equal runs could have other bits.
 */
static int choose_comm_backend(enum gt_comm_backend *out, const struct gt_world *world,
    const struct gt_comm_options *o, struct gt_err *err)
{
	bool any = o->backend == GT_COMM_AUTO || o->backend == GT_COMM_NCCL;
	bool one_host = world->local_size == world->size;

	*out = !any                            ? o->backend
	       : one_host                      ? GT_COMM_SHM
	       : world->source == GT_WORLD_MPI ? GT_COMM_MPI
	                                       : GT_COMM_TCP;
	if (one_host || *out == GT_COMM_TCP || *out == GT_COMM_MPI)
		return 0;
	gt_err_set(err, GT_EINVAL,
	    "%d ranks on several hosts (%d on this one): {backend} %s is for those of one host",
	    world->size, world->local_size, gt_comm_backend_names[*out]);
	return gt_err_hint(
	    err, "{backend} tcp is for several, and so is mpi where mpirun starts the ranks");
}

int gt_comm_join(struct gt_comm *c, const struct gt_world *world,
    const struct gt_comm_options *options, struct gt_err *err)
{
	static int (*const joins[])(struct gt_comm * c, const struct gt_comm_options *o,
	    struct gt_err *err) = { [GT_COMM_SHM] = join_shm,
		[GT_COMM_RING] = join_ring,
		[GT_COMM_TCP] = join_tcp,
		[GT_COMM_MPI] = join_mpi };
	enum gt_comm_backend backend;
	int rc = 0;

	*c = (struct gt_comm){ .world = *world, .exchange = { exchange, c } };
	if (world->assumes_hosts && options->backend != GT_COMM_MPI)
		rc = find_local_ranks(c, options, err);
	if (!rc)
		rc = choose_comm_backend(&backend, &c->world, options, err);
	if (!rc)
		rc = joins[backend](c, options, err);
	if (rc)
		gt_comm_leave(c);
	return rc;
}

int gt_comm_finish(struct gt_comm *c, struct gt_err *err)
{
	return c->messenger ? gt_messenger_finish(c->messenger, c->group, err) : 0;
}

void gt_comm_leave(struct gt_comm *c)
{
	gt_group_free(c->group);
	gt_messenger_free(c->messenger);
	gt_rendezvous_leave(c->rendezvous);
	c->group = NULL;
	c->messenger = NULL;
	c->rendezvous = NULL;
}
