/* rendezvous.h - ranks find each other and exchange small messages over TCP, through rank 0. */
#ifndef GT_COMM_RENDEZVOUS_RENDEZVOUS_H
#define GT_COMM_RENDEZVOUS_RENDEZVOUS_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/comm/world/world.h"

/*
 * Rank 0 listens at the world's port (world/world.h): on several hosts at all of its addresses,
 * otherwise at the world's address. It admits or rejects each rank
 * that connects. After this meeting the ranks have one operation, the exchange: each rank sends
 * bytes to all others. Groups (lib/comm/group.h) use it to set up shared memory.
 */

/* bytes of an agreement, including its zero */
#define GT_RENDEZVOUS_MAX_AGREEMENT 16384
/* bytes per rank in an exchange */
#define GT_RENDEZVOUS_MAX_BYTES 65536

struct gt_rendezvous;

/*
 * Connect with all ranks of the world; returns when the last rank has called this. `agreement`
 * lists the settings that must be the same on every rank, one "KEY VALUE" per line. `world` is not
 * kept; rank 0 closes world->listen_fd.
 *
 * Errors: GT_EINVAL on all ranks if an agreement, a world size or a rank conflicts; on the rejected
 * rank alone if its secret, protocol version or restart number differs. GT_EIO names the ranks that
 * did not come within timeout_s.
 */
int gt_rendezvous_meet(struct gt_rendezvous **out, const struct gt_world *world,
    const char *agreement, double timeout_s, struct gt_err *err);

/* Give mine[bytes] to all ranks, and get all[size * bytes] in the order of ranks. All ranks must
 * call this with the same `bytes`. Errors: GT_EIO names a rank that has died or is late; GT_EINVAL
 * if `bytes` differ. All ranks get the error, and every later exchange returns it. */
int gt_rendezvous_exchange(
    struct gt_rendezvous *r, const void *mine, size_t bytes, void *all, struct gt_err *err);

/* Set *out to the sockets of this rank's connections, and return their number. */
int gt_rendezvous_sockets(const struct gt_rendezvous *r, const int **out);

/* Close the connections and free `r`; NULL is fine. The next exchange of the others fails. */
void gt_rendezvous_leave(struct gt_rendezvous *r);

#endif
