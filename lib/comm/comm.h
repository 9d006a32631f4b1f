/* comm.h - one rank's ties to all the others. */
#ifndef GT_COMM_COMM_H
#define GT_COMM_COMM_H

#include "lib/comm/group.h"
#include "lib/comm/rendezvous.h"
#include "lib/comm/ring.h"

struct gt_comm {
	struct gt_world world;
	struct gt_group *group;           /* of all ranks */
	struct gt_rendezvous *rendezvous; /* NULL where there is one rank */
	struct gt_exchange exchange;
};

/*
 * Meet the ranks of this world and form the group of all of them: a collective call. `agreement` as
 * for gt_rendezvous_meet(). `out` stays where it is until gt_comm_leave(), which is due after 0
 * alone. Errors: those of the two; GT_ENOTSUP for ranks on several hosts.
 */
int gt_comm_join(struct gt_comm *out, const struct gt_world *world, const char *agreement,
    double timeout_s, struct gt_err *err);
void gt_comm_leave(struct gt_comm *comm);

#endif
