/* rendezvous.h - how ranks that start apart find each other: small messages over a star of TCP. */
#ifndef GT_COMM_RENDEZVOUS_RENDEZVOUS_H
#define GT_COMM_RENDEZVOUS_RENDEZVOUS_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/comm/world/world.h"

/*
 * Rank 0 listens at the world's address and port, the others connect and identify themselves, and
 * rank 0 admits or refuses each by name. After that there is one operation, an exchange, from which
 * everything else (the groups' shared memory, agreement on errors) is made.
 *
 * With all ranks on one host, rank 0 listens on the loopback interface, whatever name the address
 * has; with several on the one interface that has the address. Peers are not trusted before they
 * have proved that they know the job's secret, nor is rank 0: each side sends a random number, and
 * answers the other's with a keyed hash (HMAC-SHA256) of all that was said. The secret itself is
 * never sent. That keeps strangers out; it does not encrypt, and does not help against an attacker
 * that can alter packets on their way.
 *
 * Strangers are limited: how many may wait, for how long, and how much they may send. A peer that
 * cannot prove itself is refused and the ranks go on waiting for the right one, so that a rank left
 * over from another job ends no job; a peer that can, and does not fit, ends it for all at once.
 */

/* Of an agreement, with its zero; of each rank's part of an exchange. */
#define GT_RENDEZVOUS_MAX_AGREEMENT 16384
#define GT_RENDEZVOUS_MAX_BYTES     65536

struct gt_rendezvous;

/*
 * Meet: returns on all ranks once all are there, or fails on all, about timeout_s seconds after it
 * was called at the latest (a rank that rank 0 has admitted waits a second longer, for its verdict;
 * looking up a name may take the resolver's time). Ranks may come in any order.
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
 * Everybody's `bytes` bytes, in the order of the ranks: all[size * bytes]. All ranks call it with
 * the same `bytes`, at most GT_RENDEZVOUS_MAX_BYTES; 0 makes it a barrier.
 *
 * Errors: GT_EIO when a peer is gone or timeout_s late, naming it; GT_EINVAL when one came with
 * another number of bytes. The others hear of it at once, from rank 0, and every later exchange
 * fails with the same text.
 *
 * Cost: rank 0 receives size-1 messages and sends as many of size * bytes.
 */
int gt_rendezvous_exchange(
    struct gt_rendezvous *r, const void *mine, size_t bytes, void *all, struct gt_err *err);

/* Leave; the others see it at their next exchange. NULL is fine. */
void gt_rendezvous_leave(struct gt_rendezvous *r);

#endif
