/* mpi.h - groups on MPI: for ranks on several hosts, started by mpirun. */
#ifndef GT_COMM_MPI_MPI_H
#define GT_COMM_MPI_MPI_H

#include "lib/comm/group.h"

/*
 * gtrain uses MPI only to send and receive messages. The collectives of group.h are implemented on
 * top of these messages. This has two advantages over MPI's own collectives. First, sums are
 * ordered: they have a fixed order (group.h), and the same bits as with `shm`. MPI_Allreduce does
 * not guarantee an order. Second, if a rank is late or calls a different collective, the other
 * ranks get an error that names this rank. In MPI's own collectives they would wait forever.
 *
 * Every collective begins with a small message from each rank to each other rank, called a slip. A
 * slip holds a description of the call, and the data if they are at most 3 KiB; then the collective
 * needs no more messages. Larger collectives have two phases. Each rank r is responsible for one
 * slice of the buffer, slice r. n is the number of ranks; the root of a broadcast is rank `peer`:
 *
 *                   phase 1: to rank r                phase 2: from rank r
 *   all-reduce      slice r of each rank              reduced slice r, to all ranks
 *   reduce          slice r of each rank              reduced slice r, to rank `peer`
 *   reduce-scatter  slice r of each rank              -
 *   all-gather      -                                 the elements of rank r, to all ranks
 *   broadcast       slice r of the root               slice r, to all ranks except the root
 *
 * In the first three collectives, rank r reduces the slices that it has received in phase 1.
 *
 * In an all-reduce each rank sends 2 * (n - 1) / n times the bytes of the buffer, and receives the
 * same number of bytes. Buffers are cut into pieces. The slices of the next piece are sent while
 * the current piece is reduced. Each phase takes n - 1 messages per rank. These numbers of bytes
 * and of phases are the smallest possible, but a tree of ranks would need fewer messages.
 *
 * A rank that waits polls MPI, first without pauses and later with pauses. MPI makes progress only
 * during these polls. So collectives in the background run on a thread of their own, which polls.
 *
 * After an error, messages that MPI had begun to transfer get 0.2 seconds to end. If a message does
 * not end in this time, a later call of MPI may still write into the receiver's buffer. So the
 * process should end soon.
 */

struct gt_mpi; /* the state of MPI in this process; there is only one */

struct gt_mpi_options {
	double timeout_s; /* give up on a rank that does not respond within this time; 0: 600 s */
	/* bytes per piece of a buffer, from 4 KiB to 1 GiB, the same on all ranks; 0: 4 MiB */
	size_t piece_bytes;
};

/*
 * Open the library libgtrain-mpi.so and start MPI. Call this once per process.
 *
 * The library is the file that the environment variable GTRAIN_MPI names. If GTRAIN_MPI is not set,
 * the function searches for the library in the program's folder, in the folder above it, and in
 * ../lib/gtrain relative to the program's folder.
 *
 * *size is set to the number of ranks that mpirun has started, and *rank to the rank of this
 * process. Without mpirun the process is rank 0 of 1.
 *
 * Errors: GT_ENOTSUP if the library does not exist; GT_EDEVICE or GT_EIO if it cannot be opened or
 * MPI cannot start. In some of these cases MPI itself ends the process.
 */
int gt_mpi_open(struct gt_mpi **out, int *rank, int *size, struct gt_err *err);

/* Make a group of all ranks: a collective call. Free the group, and all groups that were split from
 * it, before `mpi`. Do not split two groups of this process at the same time. */
int gt_mpi_group(struct gt_group **out, struct gt_mpi *mpi, const struct gt_mpi_options *options,
    struct gt_err *err);

/*
 * End MPI: a collective call. `all` is the group from gt_mpi_group(); the caller still frees it.
 * Every rank that has succeeded must call this before its process ends. Otherwise mpirun reports a
 * failure.
 *
 * Do not call this after an error, because MPI_Finalize would wait for lost ranks. Instead, end the
 * process with a status other than 0. Then mpirun ends the other ranks.
 */
int gt_mpi_finish(struct gt_mpi *mpi, struct gt_group *all, struct gt_err *err);

/* Free the memory of `mpi`, without a call of MPI. NULL is fine. */
void gt_mpi_free(struct gt_mpi *mpi);

#endif
