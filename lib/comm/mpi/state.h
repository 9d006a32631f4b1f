/* state.h - private: the state that a rank keeps for a group on MPI, and its messages. */
#ifndef GT_COMM_MPI_STATE_H
#define GT_COMM_MPI_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/group_backend.h"
#include "lib/comm/mpi/calls.h"
#include "lib/comm/mpi/mpi.h"

/*
 * A large buffer is cut into pieces, and each piece into one slice per rank. The ranks of a group
 * send each other these kinds of messages:
 *
 *   notice   says that a rank has failed or left
 *   slip     starts a collective: the call, and the data if they fit (GT_MPI_SLIP_BYTES)
 *   slice    a slice of a piece, for the rank that reduces or receives it
 *   result   a reduced slice, or, in an all-gather or a broadcast, a part of the result
 *   letter   starts a message of GT_SEND: the call, and the data if they fit (GT_MPI_LETTER_BYTES)
 *   body     a piece of the data of a longer message of GT_SEND
 */

enum {
	GT_MPI_HOST_BYTES = 64, /* bytes of a host name, including the zero */
	/* Bytes of data in a slip. Open MPI sends small messages at once, without waiting for the
	 * receiver. A message is small up to 4 KiB within a host (btl_vader_eager_limit, which
	 * includes a header of Open MPI), and up to 64 KiB between hosts. A slip, which also
	 * contains the call, stays below both limits. */
	GT_MPI_SLIP_BYTES = 3 * 1024,
	GT_MPI_LETTER_BYTES = 16 * 1024 /* bytes of data in a letter */
};

struct gt_mpi {
	const struct gt_mpi_calls *calls;
	int rank, size, tag_max; /* from calls->init() */
	/* The MPI tags of a group are computed from a number, the context of the group.
	 * next_context is the lowest context that no group of this process has used. */
	int next_context;
	/* finished: MPI has been finalized. knows_hosts: the ranks have exchanged host names. */
	bool finished, knows_hosts;
	/* [size] host names; NULL: all ranks are on one host, or knows_hosts is false */
	char (*hosts)[GT_MPI_HOST_BYTES];
};

/* The kinds of messages, described above. In each group, each kind has its own MPI tag. Messages
 * with the same tag arrive in the order in which they were sent. */
enum gt_mpi_tag {
	GT_MPI_TAG_NOTICE,
	GT_MPI_TAG_SLIP,
	GT_MPI_TAG_SLICE,
	GT_MPI_TAG_RESULT,
	GT_MPI_TAG_LETTER,
	GT_MPI_TAG_BODY,
	GT_MPI_TAGS
};

struct gt_mpi_slip {
	struct gt_group_call call;
	unsigned char data[GT_MPI_SLIP_BYTES];
};

struct gt_mpi_letter {
	struct gt_group_call call;
	unsigned char data[GT_MPI_LETTER_BYTES];
};

/* A rank sends a notice to all other ranks once, when it fails or leaves. Within a host, Open MPI
 * delivers only about 200 bytes if the receiver does not poll. So a notice of leaving is sent
 * without `text` and `hint`. */
struct gt_mpi_notice {
	int32_t rank, code; /* the sender's rank in the group; its error code, 0: it has left */
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

/* A message that is being sent or received. */
struct gt_mpi_flight {
	struct gt_mpi_request request;
	int peer;
	/* receives: true if the message comes from `peer`, false if it goes to `peer`. active: the
	 * request has not ended. */
	bool receives, active;
};

/* Messages that gt_mpi_await() waits for: at most one to each rank and one from each rank. */
struct gt_mpi_set {
	struct gt_mpi_flight *flights; /* [2 * size] */
	int count;
};

/* The last letter to one rank. MPI may still be sending it; the next letter to this rank waits
 * until the last one has been sent. */
struct gt_mpi_mail {
	struct gt_mpi_letter *letter; /* NULL until the first letter is sent */
	struct gt_mpi_set set;        /* holds only `flight` */
	struct gt_mpi_flight flight;
};

/* Indices into gt_mpi_group.sets. Slices and results have two sets each: one for pieces with even
 * numbers and one for pieces with odd numbers. So two pieces can be sent at the same time. */
enum {
	GT_MPI_SET_MEETING, /* slips, bodies, and the letters that this rank receives */
	GT_MPI_SET_SLICES,
	GT_MPI_SET_RESULTS = GT_MPI_SET_SLICES + 2,
	GT_MPI_SETS = GT_MPI_SET_RESULTS + 2
};

struct gt_mpi_group {
	struct gt_group group;
	struct gt_mpi *mpi;
	int context; /* the number from which the group's MPI tags are computed */
	int *ranks;  /* [size]: the number that MPI gives to each rank of the group */
	/* timeout_s: give up on a rank that does not respond within this time. spin_s: poll without
	 * pauses during the first spin_s seconds of a wait. */
	double timeout_s, spin_s;
	size_t piece_bytes; /* bytes per piece of a buffer */

	uint64_t number;           /* number of collectives so far */
	struct gt_group_call call; /* the current collective or message */
	/* met: the latest collective; unlike `call`, never a message. last: the collective before
	 * `met`. */
	struct gt_group_call met, last;
	bool begun;                /* all ranks have begun the current collective */
	uint64_t *sent, *received; /* [size]: number of GT_SEND messages to and from each rank */
	bool *left;                /* [size]: left[r] is true if rank r has left */

	struct gt_mpi_slip *out, *in; /* [size] each */
	/* [2][size][staging_part]: received slices, separately for pieces with even and with odd
	 * numbers; allocated by the first collective that needs it */
	unsigned char *staging;
	size_t staging_part;           /* bytes */
	struct gt_mpi_flight *flights; /* memory of all sets */
	struct gt_mpi_set sets[GT_MPI_SETS];
	struct gt_mpi_mail *mail; /* [size]: letters to each rank */
	/* memory into which this rank receives letters; allocated for the first letter */
	struct gt_mpi_letter *letter;

	struct gt_mpi_notice inbox; /* memory into which the next notice is received */
	struct gt_mpi_request inbox_request;
	struct gt_err failed; /* the first error of any rank of the group */

	void **regions; /* memory from gt_group_alloc() */
	size_t regions_count, regions_capacity;

	atomic_bool quit; /* true: all waits give up */
	struct gt_queue queue;
};

/* ---- mpi/open.c ---- */

/* Set *err to "MPI cannot DOING: TEXT", where TEXT is MPI's text for its error code `error`. */
int gt_mpi_error(struct gt_mpi *mpi, int error, const char *doing, struct gt_err *err);

/* ---- mpi/wait.c: messages, deadlines and failing together ---- */

/* Start to send or receive `bytes` bytes at `p`, and add the message to *set. Do not change or free
 * these bytes until gt_mpi_await() has returned for this set. */
int gt_mpi_send(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, const void *p,
    size_t bytes, enum gt_mpi_tag tag, struct gt_err *err);
int gt_mpi_receive(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, void *p, size_t bytes,
    enum gt_mpi_tag tag, struct gt_err *err);

/* Wait until all messages of the set have been sent and received. */
int gt_mpi_await(struct gt_mpi_group *g, struct gt_mpi_set *set, struct gt_err *err);

/* Fail with *err, and send the error to all ranks. If another rank has failed before, copy the
 * error of that rank to *err instead. Returns err->code. */
int gt_mpi_fail(struct gt_mpi_group *g, struct gt_err *err);

/* Return 0, or the error with which a rank has failed. */
int gt_mpi_check(struct gt_mpi_group *g, struct gt_err *err);

/* Check, without waiting, that no rank has failed, died or left: implements
 * gt_group_check_peers(). */
int gt_mpi_check_peers(struct gt_mpi_group *g, bool *gone, struct gt_err *err);

/* Begin to receive notices. */
int gt_mpi_listen(struct gt_mpi_group *g, struct gt_err *err);

/* Leave the group: cancel all messages that have not ended, and stop receiving notices. If `notify`
 * is true, also send a notice to the other ranks. */
void gt_mpi_leave(struct gt_mpi_group *g, bool notify);

/* ---- mpi/collectives.c, mpi/message.c: the calls ---- */

/* Run a collective. */
int gt_mpi_collect(struct gt_mpi_group *g, const struct gt_collective *c, struct gt_err *err);

/* Wait until all ranks have called the collective, and compare their calls, without the data:
 * implements gt_group_check_calls(). */
int gt_mpi_check_calls(struct gt_mpi_group *g, const struct gt_collective *c, struct gt_err *err);

/* Send or receive a message (GT_SEND, GT_RECV). If `data` is false, only the calls are compared. */
int gt_mpi_message(
    struct gt_mpi_group *g, const struct gt_collective *c, bool data, struct gt_err *err);

#endif
