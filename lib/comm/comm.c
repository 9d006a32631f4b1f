/* comm.c - connect a rank with all other ranks: rendezvous, and the group of all ranks. */
#include "lib/comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/comm/device_group.h"
#include "lib/comm/rendezvous/messages.h"

const char *const gt_comm_backend_names[] = {
	[GT_COMM_AUTO] = "auto",
	[GT_COMM_SHM] = "shm",
	[GT_COMM_RING] = "ring",
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

/* ---- shm ---- */

static int join_shm(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	const struct gt_shm_options options = { .timeout_s = o->timeout_s };
	int rc;

	if (c->world.size == 1)
		return gt_shm_of_threads(&c->group, 1, &options, err);
	rc = gt_rendezvous_meet(&c->rendezvous, &c->world, o->agreement, o->timeout_s, err);
	return rc ? rc
	          : gt_shm_of_processes(
	                &c->group, c->world.rank, c->world.size, &c->exchange, &options, err);
}

static int join_ring(struct gt_comm *c, const struct gt_comm_options *o, struct gt_err *err)
{
	int rc = join_shm(c, o, err);

	return rc ? rc : gt_ring_of_shm(&c->group, err);
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
	const struct gt_mpi_options options = { .timeout_s = o->timeout_s };
	int rank, size;

	if (gt_mpi_open(&c->mpi, &rank, &size, err) || check_numbers(c, rank, size, o, err) ||
	    gt_mpi_group(&c->group, c->mpi, &options, err))
		return err->code;
	return agree_on_text(c, o->agreement, err);
}

/* ---- one of them ---- */

static int choose_comm_backend(enum gt_comm_backend *out, const struct gt_world *world,
    const struct gt_comm_options *o, struct gt_err *err)
{
	bool any = o->backend == GT_COMM_AUTO || o->backend == GT_COMM_NCCL;
	bool one_host = world->local_size == world->size;
	char line[sizeof(err->hint)];

	*out = !any ? o->backend : one_host ? GT_COMM_SHM : GT_COMM_MPI;
	if (*out != GT_COMM_MPI ? one_host
	                        : o->backend == GT_COMM_MPI || world->source == GT_WORLD_MPI)
		return 0;
	if (*out != GT_COMM_MPI) {
		gt_err_set(err, GT_EINVAL,
		    "%d ranks on several hosts (%d on this one): {backend} %s is for those of one host",
		    world->size, world->local_size, gt_comm_backend_names[*out]);
		return gt_err_hint(err, "{backend} mpi is for several; mpirun starts its ranks");
	}
	gt_err_set(err, GT_ENOTSUP,
	    "%d ranks on several hosts (%d on this one), started by %s: %s other hosts by MPI "
	    "alone",
	    world->size, world->local_size, gt_world_source_name(world->source),
	    o->backend == GT_COMM_NCCL ? "ranks of NCCL find" : "CPU ranks reach");
	gt_comm_mpirun_line(line, sizeof(line) - 32, world, o->command);
	return gt_err_hint(err, "start them by MPI: %s", line);
}

int gt_comm_join(struct gt_comm *c, const struct gt_world *world,
    const struct gt_comm_options *options, struct gt_err *err)
{
	static int (*const joins[])(
	    struct gt_comm * c, const struct gt_comm_options *o, struct gt_err *err) = {
		[GT_COMM_SHM] = join_shm, [GT_COMM_RING] = join_ring, [GT_COMM_MPI] = join_mpi
	};
	enum gt_comm_backend backend;
	int rc;

	*c = (struct gt_comm){ .world = *world, .exchange = { exchange, c } };
	rc = choose_comm_backend(&backend, world, options, err);
	if (!rc)
		rc = joins[backend](c, options, err);
	if (rc)
		gt_comm_leave(c);
	return rc;
}

int gt_comm_finish(struct gt_comm *c, struct gt_err *err)
{
	return c->mpi ? gt_mpi_finish(c->mpi, c->group, err) : 0;
}

void gt_comm_leave(struct gt_comm *c)
{
	gt_group_free(c->group);
	gt_mpi_free(c->mpi);
	gt_rendezvous_leave(c->rendezvous);
	c->group = NULL;
	c->mpi = NULL;
	c->rendezvous = NULL;
}
