/* calls.h - inside comm: the few functions of MPI that groups need, as a table in a library. */
#ifndef GT_COMM_MPI_CALLS_H
#define GT_COMM_MPI_CALLS_H

#include <stdint.h>

/*
 * MPI has no binary interface: each library has handles of its own. So calls.c alone is compiled
 * with mpicc, into libgtrain-mpi.so, whose one symbol is this table; the program opens it when a
 * group on MPI is asked for, and needs no MPI otherwise.
 *
 * Nothing here waits, but init and finalize. Functions may be called by any thread: a lock lets one
 * at a time in, which is all that MPI_THREAD_SERIALIZED asks for. They return 0 or MPI's error.
 */

#define GT_MPI_CALLS_VERSION 1
#define GT_MPI_CALLS_SYMBOL  "gt_mpi_calls"

/* A request as MPI has it: a pointer or a number. 0 is none of them to a caller. */
struct gt_mpi_request {
	uint64_t handle;
};

struct gt_mpi_calls {
	uint32_t version, bytes; /* GT_MPI_CALLS_VERSION, of this struct */

	/* MPI_Init_thread. *rank and *size of all, *tag_most: the largest tag. -1: MPI was begun or
	 * ended before, or it cannot be called by threads. */
	int (*init)(int *rank, int *size, int *tag_most);

	/* MPI_Finalize: waits for all ranks, which have to call it too. */
	int (*finalize)(void);

	/* MPI_Isend, MPI_Irecv. A negative rank to receive from is any. */
	int (*send)(struct gt_mpi_request *out, const void *p, int bytes, int rank, int tag);
	int (*receive)(struct gt_mpi_request *out, void *p, int bytes, int rank, int tag);

	/* MPI_Test, which drives all others on, too. *done: it is over, and was its last use. */
	int (*test)(struct gt_mpi_request *request, int *done);

	/* MPI_Cancel of a receive, to be followed by tests; then MPI_Request_free, the last use. */
	int (*cancel)(struct gt_mpi_request *request);
	int (*forget)(struct gt_mpi_request *request);

	/* The text of an error code of MPI's. */
	void (*explain)(int error, char *text, int room);
};

#endif
