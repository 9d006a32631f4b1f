/* messages.h - groups of ranks that send each other messages, and what carries these. */
#ifndef GT_COMM_MESSAGES_MESSAGES_H
#define GT_COMM_MESSAGES_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/group.h"

/*
 * A messenger sends bytes from one process to another: over MPI (mpi/mpi.h) or over TCP
 * (tcp/tcp.h). Groups over it have their own collectives (collectives.c): their sums have the fixed
 * order of group.h, and errors name the rank that is late, gone or calls something else.
 */

enum { GT_MSG_HOST_BYTES = 64 }; /* bytes of a host name */

struct gt_messenger {
	const struct gt_messenger_ops *ops;
	int rank, size; /* this rank; number of all ranks */
	int tag_max;    /* the largest tag */
	/* a group's tags are computed from its context; this is the lowest unused context */
	int next_context;
	bool finished;    /* gt_messenger_finish() has ended it */
	bool knows_hosts; /* the ranks have exchanged host names */
	/* [size]; NULL: one host, or knows_hosts is false */
	char (*hosts)[GT_MSG_HOST_BYTES];
};

/* A message on its way. */
struct gt_msg_request {
	uint64_t handle;
};

/* This process waits for a rank, which the other ranks may want to know. */
struct gt_msg_wait {
	struct gt_msg_wait *next;
	int rank; /* -1: for none now */
	/* it began, and ends at the latest: values of gt_clock_s() */
	double since, until;
};

/*
 * The functions of a messenger. Any thread may call them; only `finish` and `progress` block. They
 * return 0, or an error number for explain(). Messages from one rank to another with the same tag
 * arrive in the order in which they were sent.
 */
struct gt_messenger_ops {
	const char *name; /* of its groups: "mpi" */
	bool wakes;       /* progress() returns as soon as a message has moved */

	/* Begin to send, or to receive, the bytes at `p`, which must stay until the request has
	 * ended. With a negative `rank`, receive() accepts a message from any rank. */
	int (*send)(struct gt_messenger *m, struct gt_msg_request *out, const void *p, size_t bytes,
	    int rank, int tag);
	int (*receive)(struct gt_messenger *m, struct gt_msg_request *out, void *p, size_t bytes,
	    int rank, int tag);

	/* If *done is set to 1, the request has ended and must not be used again. */
	int (*test)(struct gt_messenger *m, struct gt_msg_request *request, int *done);

	/* Cancel a receive, if that is possible. Call test() for the request afterwards. */
	int (*cancel)(struct gt_messenger *m, struct gt_msg_request *request);

	/* Free a request that has not ended. It must not be used afterwards. */
	int (*forget)(struct gt_messenger *m, struct gt_msg_request *request);

	/* Move all messages on, after waiting for at most so many seconds. */
	void (*progress)(struct gt_messenger *m, double seconds);

	/* Return how a rank was lost, such as "died"; NULL: it is there, as far as is known. The
	 * function may be NULL, too. */
	const char *(*lost)(struct gt_messenger *m, int rank);

	/* Note that this process waits, until the end of the wait; or that it does not any more.
	 * Both functions may be NULL, as may the next one. */
	void (*begin_wait)(struct gt_messenger *m, struct gt_msg_wait *wait);
	void (*end_wait)(struct gt_messenger *m, struct gt_msg_wait *wait);

	/* `rank` is late, but it may wait for another rank itself. Ask the ranks, and return the
	 * one that keeps the others waiting. */
	int (*find_late)(struct gt_messenger *m, int rank);

	void (*explain)(struct gt_messenger *m, int error, char *text, size_t size);

	/* End a job that has succeeded; may be NULL. */
	int (*finish)(struct gt_messenger *m);
	void (*free)(struct gt_messenger *m);
};

struct gt_msg_options {
	double timeout_s; /* limit for the response of a rank; 0: 600 s */
	/* bytes per piece of a buffer, the same on all ranks; 0: 4 MiB */
	size_t piece_bytes;
};

/* Make a group of all ranks: a collective call. Free it, and the groups split from it, before the
 * messenger. Do not split two groups of this process at the same time. After an error end the
 * process soon: a message may still be written to the buffer of a receive. */
int gt_msg_group(struct gt_group **out, struct gt_messenger *m,
    const struct gt_msg_options *options, struct gt_err *err);

/* End a job that has succeeded: a collective call. The caller still frees `all`, the group from
 * gt_msg_group(). Do not call this after an error: it would wait for lost ranks. */
int gt_messenger_finish(struct gt_messenger *m, struct gt_group *all, struct gt_err *err);

/* Free the messenger; NULL is fine. */
void gt_messenger_free(struct gt_messenger *m);

#endif
