/* calls.h - private: a table of MPI functions, which a separate shared library exports. */
#ifndef GT_COMM_MPI_CALLS_H
#define GT_COMM_MPI_CALLS_H

#include <stdint.h>

#include "lib/comm/messages/messages.h" /* a request: MPI's handle, a pointer or an integer */

/*
 * MPI defines no binary interface: each MPI library has its own types of handles. So only calls.c
 * is compiled with mpicc. It becomes the shared library libgtrain-mpi.so, which exports this table
 * and nothing else. The program opens this library only if a group of ranks over MPI is requested,
 * so it also runs on hosts without MPI.
 *
 * Any thread may call the functions of the table. A lock serializes the calls, as
 * MPI_THREAD_SERIALIZED requires. Only init and finalize block. The functions return 0, or an error
 * code of MPI.
 */

#define GT_MPI_CALLS_VERSION 1
#define GT_MPI_CALLS_SYMBOL  "gt_mpi_calls"

struct gt_mpi_calls {
	uint32_t version, bytes; /* GT_MPI_CALLS_VERSION; size of this struct */

	/* Call MPI_Init_thread. Set *rank, *size (number of ranks) and *tag_max (the largest tag).
	 * Return -1 if MPI was already initialized or finalized, or if this MPI cannot be called by
	 * threads. */
	int (*init)(int *rank, int *size, int *tag_max);

	/* Call MPI_Finalize. MPI_Finalize waits until all ranks have called it. */
	int (*finalize)(void);

	/* send() calls MPI_Isend, and receive() calls MPI_Irecv. With a negative `rank`, receive()
	 * accepts a message from any rank. */
	int (*send)(struct gt_msg_request *out, const void *p, int bytes, int rank, int tag);
	int (*receive)(struct gt_msg_request *out, void *p, int bytes, int rank, int tag);

	/* Call MPI_Test. During this call MPI also works on all other requests. If *done is set to
	 * 1, the request has ended and must not be used again. */
	int (*test)(struct gt_msg_request *request, int *done);

	/* Call MPI_Cancel for a receive. Call test() for the request afterwards. */
	int (*cancel)(struct gt_msg_request *request);

	/* Call MPI_Request_free. The request must not be used afterwards. */
	int (*forget)(struct gt_msg_request *request);

	/* Write the text of an error code of MPI to `text`, an array of `size` bytes. */
	void (*explain)(int error, char *text, int size);
};

#endif
