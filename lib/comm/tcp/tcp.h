/* tcp.h - messages over TCP: for ranks on any hosts, started by any launcher. */
#ifndef GT_COMM_TCP_TCP_H
#define GT_COMM_TCP_TCP_H

#include "lib/comm/messages/messages.h"
#include "lib/comm/shm/shm.h"

enum { GT_TCP_EXCHANGED = 1024 }; /* the most bytes that a rank passes to the exchange */

struct gt_tcp_options {
	double timeout_s; /* limit for connecting with all ranks */
	/* of the job: a rank accepts only connections from ranks that know it */
	const char *secret;
	bool one_host; /* all ranks are on this host: use only the loopback interface */
	/* [near_count] sockets that are connected to other hosts of the job: their local addresses
	 * are known to be reachable */
	const int *near;
	int near_count;
};

/* Connect each rank with all others: a collective call. Each rank listens at a port that the system
 * chooses. Errors: GT_EIO names two ranks that cannot connect; all ranks get the error of a rank
 * that failed. */
int gt_tcp_open(struct gt_messenger **out, int rank, int size, const struct gt_exchange *exchange,
    const struct gt_tcp_options *options, struct gt_err *err);

enum { GT_TCP_HOST_ID = 80 }; /* bytes of a host's identity */

/* Write the identity of this host, or of this container if it has a network of its own, which two
 * hosts never share. "": it is not known. */
void gt_tcp_host_id(char out[GT_TCP_HOST_ID]);

#endif
