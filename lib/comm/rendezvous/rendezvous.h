/* rendezvous.h - how ranks find each other: small messages over TCP to rank 0. */
#ifndef GT_COMM_RENDEZVOUS_RENDEZVOUS_H
#define GT_COMM_RENDEZVOUS_RENDEZVOUS_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/comm/world/world.h"

/*
 * Rank 0 listens at the world's address and port. The other ranks connect and identify themselves,
 * and rank 0 accepts or rejects each one. Then there is one operation, an exchange. The setup of
 * groups' shared memory and the agreement on errors are built on it.
 *
 * With all ranks on one host, rank 0 listens on the loopback interface, whatever name the address
 * has; with several on the one interface that has the address. Rank 0 and each peer prove to each
 * other that they know the job's secret. Each side sends a random number, and answers the other's
 * number with a keyed hash (HMAC-SHA256) of all messages so far. The secret itself is never sent.
 * So processes without the secret cannot join. Messages are not encrypted, and an attacker who can
 * alter packets is not stopped.
 *
 * Strangers are limited: how many may wait, for how long, and how much they may send. A peer
 * without the secret is rejected, and the ranks continue to wait, so a rank left over from another
 * job does no harm. If a peer has the secret but does not match, meeting fails on all ranks at
 * once.
 */

/* Limits of bytes: of an agreement, including its zero; of each rank's part of an exchange. */
#define GT_RENDEZVOUS_MAX_AGREEMENT 16384
#define GT_RENDEZVOUS_MAX_BYTES     65536

struct gt_rendezvous;

/*
 * Meet all ranks. This returns on all ranks when all have come, in any order, or fails on all ranks
 * after at most about timeout_s seconds. (A rank that rank 0 has accepted waits a second longer for
 * the result; looking up a name may take as long as the resolver takes.)
 *
 * `agreement` lists the settings that must be the same on every rank, one per line, "KEY VALUE"
 * (version, model, batch): a rank that differs is refused with the key and both values. `world` is
 * not kept. A listening socket that comes with it is taken, and closed.
 *
 * Errors: GT_EINVAL for an agreement that differs, a duplicate rank, another world size, on the
 * rank that is refused and on all others; for a wrong secret, another version of the protocol or
 * another restart on the rank that is refused, and on the others once timeout_s is over. GT_EINVAL
 * also where there are several hosts and no secret. GT_EIO for ranks that do not come, naming them.
 */
int gt_rendezvous_meet(struct gt_rendezvous **out, const struct gt_world *world,
    const char *agreement, double timeout_s, struct gt_err *err);

/*
 * Gather `bytes` bytes of each rank in all[size * bytes], in the order of ranks. All ranks call
 * this with the same `bytes`, at most GT_RENDEZVOUS_MAX_BYTES. With 0 it is a barrier.
 *
 * Errors: GT_EIO when a peer is gone or timeout_s late, naming it; GT_EINVAL when one came with
 * another number of bytes. Rank 0 sends the error to the other ranks at once, and every later
 * exchange fails with it.
 *
 * Cost: rank 0 receives size-1 messages and sends as many of size * bytes.
 */
int gt_rendezvous_exchange(
    struct gt_rendezvous *r, const void *mine, size_t bytes, void *all, struct gt_err *err);

/* Leave; the others see it at their next exchange. NULL is fine. */
void gt_rendezvous_leave(struct gt_rendezvous *r);

#endif
