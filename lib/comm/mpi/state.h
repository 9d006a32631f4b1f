/* state.h - inside comm: a rank's state of a group on MPI. */
#ifndef GT_COMM_MPI_STATE_H
#define GT_COMM_MPI_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/comm/group_backend.h"
#include "lib/comm/mpi/calls.h"
#include "lib/comm/mpi/mpi.h"

enum {
	GT_MPI_HOST_BYTES = 64,
	/* Bytes of data on a slip. Together with the call they stay below the size that Open MPI
	 * sends at once within a host (btl_vader_eager_limit, 4 KiB with its own head); between
	 * hosts it is 64 KiB. */
	GT_MPI_SLIP_BYTES = 3 * 1024,
	GT_MPI_LETTER_BYTES =
	    16 * 1024 /* bytes of data in a letter, which carries a short message */
};

struct gt_mpi {
	const struct gt_mpi_calls *calls;
	int rank, size, tag_most;
	int next_context; /* not used by a group of this process before */
	bool finished, knows_hosts;
	char (
	    *hosts)[GT_MPI_HOST_BYTES]; /* [size]; NULL where all are on one, or nobody knows yet */
};

/* Kinds of messages. Each group has a tag for each kind; messages of one tag keep their order. */
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

/* Sent once to all other ranks when a rank fails, with its error, or when it leaves; then only the
 * numbers are sent. Open MPI delivers about 200 bytes within a host even if the receiver does not
 * poll. */
struct gt_mpi_notice {
	int32_t rank, code; /* of the group; 0: it has left */
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

/* Messages on their way. */
struct gt_mpi_flight {
	struct gt_mpi_request request;
	int peer;
	bool receives, active;
};

/* Messages that are waited for together: at most one to each rank and one from each rank. */
struct gt_mpi_set {
	struct gt_mpi_flight *flights; /* [2 * size] */
	int count;
};

/* The last letter to a rank. Its sending may last until the next letter. */
struct gt_mpi_mail {
	struct gt_mpi_letter *letter; /* from the first one on */
	struct gt_mpi_set set;
	struct gt_mpi_flight flight;
};

/* Pieces use the two sets in turn. */
enum {
	GT_MPI_SET_MEETING,
	GT_MPI_SET_SLICES,
	GT_MPI_SET_RESULTS = GT_MPI_SET_SLICES + 2,
	GT_MPI_SETS = GT_MPI_SET_RESULTS + 2
};

struct gt_mpi_group {
	struct gt_group group;
	struct gt_mpi *mpi;
	int context;
	int *ranks; /* [size], of MPI */
	double timeout_s, spin_s;
	size_t piece_bytes;

	uint64_t number;                /* number of collectives so far */
	struct gt_group_call call;      /* the collective that runs */
	struct gt_group_call met, last; /* the latest collective, the one before it */
	bool begun;                     /* all ranks have reached the current collective */
	uint64_t *sent, *received;      /* [size] messages */
	bool *left;                     /* [size] */

	struct gt_mpi_slip *out, *in; /* [size] each */
	unsigned char *staging; /* [2][size][staging_part], from the first call that needs it */
	size_t staging_part;
	struct gt_mpi_flight *flights;
	struct gt_mpi_set sets[GT_MPI_SETS];
	struct gt_mpi_mail *mail; /* [size] */
	/* the letter that is received next; allocated with the first letter */
	struct gt_mpi_letter *letter;

	struct gt_mpi_notice inbox;
	struct gt_mpi_request inbox_request;
	struct gt_err failed;

	void **regions;
	size_t regions_count, regions_capacity;

	atomic_bool quit; /* all waits give up */
	struct gt_queue queue;
};

/* ---- mpi/open.c ---- */

/* An error of MPI's own. */
int gt_mpi_error(struct gt_mpi *mpi, int error, const char *doing, struct gt_err *err);

/* ---- mpi/wait.c: messages, deadlines and failing together ---- */

/* Start a message; its bytes stay where they are until gt_mpi_await() of the set. */
int gt_mpi_send(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, const void *p,
    size_t bytes, enum gt_mpi_tag tag, struct gt_err *err);
int gt_mpi_receive(struct gt_mpi_group *g, struct gt_mpi_set *set, int peer, void *p, size_t bytes,
    enum gt_mpi_tag tag, struct gt_err *err);

/* Wait until all messages of the set have been sent and received. */
int gt_mpi_await(struct gt_mpi_group *g, struct gt_mpi_set *set, struct gt_err *err);

/* Tell all ranks to fail with *err. If another rank has failed before, *err becomes its error.
 * Returns err->code. */
int gt_mpi_fail(struct gt_mpi_group *g, struct gt_err *err);

/* Return 0, or the error with which a rank has failed. */
int gt_mpi_check(struct gt_mpi_group *g, struct gt_err *err);

/* Implements gt_group_look(). */
int gt_mpi_look(struct gt_mpi_group *g, bool *gone, struct gt_err *err);

/* Begin to listen for notices; and stop, giving up messages on their way, and tell the others. */
int gt_mpi_listen(struct gt_mpi_group *g, struct gt_err *err);
void gt_mpi_leave(struct gt_mpi_group *g, bool say_so);

/* ---- mpi/collectives.c, mpi/message.c: the calls ---- */

int gt_mpi_collect(struct gt_mpi_group *g, const struct gt_collective *c, struct gt_err *err);

/* Begin a collective without its data, as gt_group_meet(). Send or receive a message; with `data`
 * false, without its data. */
int gt_mpi_meet(struct gt_mpi_group *g, const struct gt_collective *c, struct gt_err *err);
int gt_mpi_message(
    struct gt_mpi_group *g, const struct gt_collective *c, bool data, struct gt_err *err);

#endif
