/* calls.h - inside comm: the few functions of MPI that groups need, as a table in a library. */
#ifndef GT_COMM_MPI_CALLS_H
#define GT_COMM_MPI_CALLS_H

#include <stdint.h>

/*
 * MPI has no binary interface: each library has its own handles. So only calls.c is compiled with
 * mpicc, into libgtrain-mpi.so, whose only symbol is this table. The program opens this library
 * when a group on MPI is requested, and needs no MPI otherwise.
 *
 * Only init and finalize wait. Any thread may call these functions: a lock serializes them, as
 * MPI_THREAD_SERIALIZED requires. They return 0 or MPI's error.
 */

#define GT_MPI_CALLS_VERSION 1
#define GT_MPI_CALLS_SYMBOL  "gt_mpi_calls"

/* MPI's handle of a request, a pointer or a number. Callers use 0 for no request. */
struct gt_mpi_request {
	uint64_t handle;
};

struct gt_mpi_calls {
	uint32_t version, bytes; /* GT_MPI_CALLS_VERSION, of this struct */

	/* MPI_Init_thread. Sets *rank, *size and the largest tag, *tag_most. Returns -1 if MPI was
	 * initialised or finalised before, or cannot be called by threads. */
	int (*init)(int *rank, int *size, int *tag_most);

	/* MPI_Finalize: waits for all ranks, which have to call it too. */
	int (*finalize)(void);

	/* MPI_Isend, MPI_Irecv. A negative rank means a message from any rank. */
	int (*send)(struct gt_mpi_request *out, const void *p, int bytes, int rank, int tag);
	int (*receive)(struct gt_mpi_request *out, void *p, int bytes, int rank, int tag);

	/* MPI_Test, which also makes progress with all other requests. If *done is set, the request
	 * has ended and must not be used again. */
	int (*test)(struct gt_mpi_request *request, int *done);

	/* cancel: MPI_Cancel of a receive; call test() afterwards. forget: MPI_Request_free, after
	 * which the request must not be used. */
	int (*cancel)(struct gt_mpi_request *request);
	int (*forget)(struct gt_mpi_request *request);

	/* The text of an error code of MPI's. */
	void (*explain)(int error, char *text, int room);
};

#endif
