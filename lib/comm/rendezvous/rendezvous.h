/* rendezvous.h - ranks find each other and exchange small messages over TCP, through rank 0. */
#ifndef GT_COMM_RENDEZVOUS_RENDEZVOUS_H
#define GT_COMM_RENDEZVOUS_RENDEZVOUS_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/comm/world/world.h"

/*
 * The world (world/world.h) is the position of this process among all ranks, and the address of
 * rank 0. Rank 0 listens at the world's address and port. The other ranks connect and identify
 * themselves, and rank 0 accepts or rejects each of them. After this meeting, the ranks have one
 * operation, the exchange: each rank sends bytes to all other ranks. Groups (lib/comm/group.h) use
 * exchanges to set up shared memory and to agree on errors.
 *
 * If all ranks are on one host, rank 0 listens on the loopback interface. Otherwise it listens on
 * the one interface that has the world's address.
 *
 * Authentication. Rank 0 and each other rank prove to each other that they know the job's secret.
 * Each side sends a random number. Then it sends a keyed hash (HMAC-SHA256) of the messages so far,
 * which include the random number of the other side. The secret itself is never sent. So processes
 * without the secret cannot join. But messages are not encrypted, and an attacker who can change
 * packets is not stopped.
 *
 * Other processes may connect, too. Rank 0 limits the connections of processes that it has not
 * accepted yet: their number, their time, and the bytes that they may send. A process without the
 * secret is rejected, and the ranks continue to wait. So a process that is left over from another
 * job does no harm. If a process has the secret, but its rank, world size or agreement (the
 * settings that must be the same on all ranks) does not match, the rendezvous fails on all ranks at
 * once.
 */

/* maximum size of an agreement in bytes, including its terminating zero */
#define GT_RENDEZVOUS_MAX_AGREEMENT 16384
/* largest number of bytes that each rank can contribute to an exchange */
#define GT_RENDEZVOUS_MAX_BYTES 65536

struct gt_rendezvous;

/*
 * Connect with all ranks of the world. All ranks must call this function, in any order. It returns
 * when the last rank has called it. If a rank does not call it within about timeout_s seconds, the
 * calls of all ranks fail. A rank that rank 0 has accepted waits up to one second longer, so that
 * it receives rank 0's error. The lookup of a host name may also take longer.
 *
 * `agreement` lists the settings that must be the same on every rank (version, model, batch), one
 * per line, as "KEY VALUE". If a rank differs from rank 0, the error names the key and both values.
 * The function keeps no pointer to `world`. Rank 0 takes over world->listen_fd and closes it.
 *
 * Errors:
 *   GT_EINVAL on all ranks at once    the agreement or the world size of a rank differs, or two
 *                                     processes have the same rank
 *   GT_EINVAL on the rejected rank    its secret, protocol version or restart number differs; the
 *                                     other ranks return this error when timeout_s is over
 *   GT_EINVAL                         there are several hosts, but no secret
 *   GT_EIO                            ranks have not connected in time; the text names them
 */
int gt_rendezvous_meet(struct gt_rendezvous **out, const struct gt_world *world,
    const char *agreement, double timeout_s, struct gt_err *err);

/*
 * Exchange: each rank passes mine[bytes]. It gets the bytes of all ranks, in the order of ranks, in
 * all[size * bytes]. All ranks must call this function with the same `bytes`, at most
 * GT_RENDEZVOUS_MAX_BYTES. With 0 bytes, an exchange is a barrier.
 *
 * Errors: GT_EIO if a rank has died or is more than timeout_s late; the text names it. GT_EINVAL if
 * a rank calls with another number of bytes. Rank 0 sends the error to the other ranks at once.
 * Every later exchange returns this error, too.
 *
 * Cost: rank 0 receives one message of `bytes` bytes from each other rank, and sends one message of
 * size * bytes bytes to each other rank.
 */
int gt_rendezvous_exchange(
    struct gt_rendezvous *r, const void *mine, size_t bytes, void *all, struct gt_err *err);

/* Close the connections, and free `r`. Afterwards the next exchange of the other ranks fails. NULL
 * is fine. */
void gt_rendezvous_leave(struct gt_rendezvous *r);

#endif
