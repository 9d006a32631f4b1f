/* mpi.h - groups on MPI: ranks on several hosts, started by mpirun. */
#ifndef GT_COMM_MPI_MPI_H
#define GT_COMM_MPI_MPI_H

#include "lib/comm/group.h"

/*
 * MPI carries the bytes; group.h defines the collectives. Elements are added here, as a tree over
 * the ranks, so that results have the same bits as with `shm`; MPI_Allreduce does not promise this.
 * If a rank is late or calls another collective, the error names it; MPI itself would wait for
 * ever.
 *
 * Every collective begins with a slip from each rank to each other: the call, and data of up to
 * some KiB, which ends a small collective. In larger ones each rank reduces its slice:
 *
 *   all-reduce      slices to the ranks that reduce them, results to all: each rank sends and
 *                   receives 2 (n - 1) / n times the buffer, piece by piece, slices one piece ahead
 *   reduce          the same, with results to one alone
 *   reduce-scatter  the first half of it; all-gather: the second
 *   broadcast       slices from the root to all, and from each to all
 *
 * Each half of a call takes n - 1 messages per rank. The numbers of bytes and steps are the
 * smallest possible; a tree would need fewer messages. Waiting polls MPI, at first without a pause,
 * later with pauses. MPI works only during these polls, so a thread polls for collectives in the
 * background.
 *
 * After an error, messages that MPI had begun to move get a fifth of a second to end. A message
 * that does not end may still arrive in its buffer when MPI is called, so the process should end
 * soon.
 */

struct gt_mpi; /* the state of MPI in this process; there is only one */

struct gt_mpi_options {
	double timeout_s;   /* give up on a peer that does not respond within this time; 0: 600 */
	size_t piece_bytes; /* bytes staged at a time, the same on all ranks; 0: 4 MiB */
};

/*
 * Open libgtrain-mpi.so (beside the program, in ../lib/gtrain from there, or the file that
 * GTRAIN_MPI names) and begin MPI. `*size` ranks have been started by mpirun, this one is `*rank`;
 * a process that mpirun did not start is rank 0 of 1. Call this once per process. MPI may end the
 * process itself if it cannot start. GT_ENOTSUP: the library does not exist.
 */
int gt_mpi_open(struct gt_mpi **out, int *rank, int *size, struct gt_err *err);

/* Make a group of all ranks: a collective call. Free it, and groups split from it, before `mpi`.
 * Splits of different groups of a process do not run at the same time. */
int gt_mpi_group(struct gt_group **out, struct gt_mpi *mpi, const struct gt_mpi_options *options,
    struct gt_err *err);

/*
 * End MPI: a collective call of `all`, which is from gt_mpi_group() and stays to be freed. A rank
 * that succeeded calls it before the process ends; otherwise mpirun reports a failure. Do not call
 * it after an error: MPI_Finalize would wait for lost ranks. Instead, the process ends with a
 * status other than 0, and mpirun ends the other ranks.
 */
int gt_mpi_finish(struct gt_mpi *mpi, struct gt_group *all, struct gt_err *err);

/* Free `all`'s state in this process. NULL is fine. */
void gt_mpi_free(struct gt_mpi *mpi);

#endif
