/* comm.c - one rank's ties to all the others. */
#include "lib/comm/comm.h"

static int exchange(void *self, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	struct gt_comm *c = self;

	return gt_rendezvous_exchange(c->rendezvous, mine, bytes, all, err);
}

int gt_comm_join(struct gt_comm *c, const struct gt_world *world, const char *agreement,
    double timeout_s, struct gt_err *err)
{
	const struct gt_ring_options options = { .timeout_s = timeout_s };
	int rc;

	*c = (struct gt_comm){ .world = *world, .exchange = { exchange, c } };
	if (world->size == 1)
		return gt_ring_of_threads(&c->group, 1, &options, err);
	if (world->local_size != world->size) {
		gt_err_set(err, GT_ENOTSUP,
		    "%d ranks, of which %d are on this host: CPU ranks of "
		    "several hosts are not supported yet",
		    world->size, world->local_size);
		return gt_err_hint(err, "start them all on one host: --nproc %d", world->size);
	}
	rc = gt_rendezvous_meet(&c->rendezvous, world, agreement, timeout_s, err);
	if (!rc)
		rc = gt_ring_of_processes(
		    &c->group, world->rank, world->size, &c->exchange, &options, err);
	if (rc)
		gt_comm_leave(c);
	return rc;
}

void gt_comm_leave(struct gt_comm *c)
{
	gt_group_free(c->group);
	gt_rendezvous_leave(c->rendezvous);
	c->group = NULL;
	c->rendezvous = NULL;
}
