/* mpi.h - groups on MPI: ranks on several hosts, started by mpirun. */
#ifndef GT_COMM_MPI_MPI_H
#define GT_COMM_MPI_MPI_H

#include "lib/comm/group.h"

/*
 * MPI carries the bytes; what a collective is, stays group.h's: elements are added here, as a tree
 * over the ranks, which MPI_Allreduce does not promise, so that the result has the bits that `shm`
 * has; and ranks that are late or of another opinion are named, where MPI would wait.
 *
 * Every collective begins with a slip from each rank to each: what it calls, and the data as far as
 * they are small (some KiB), which is all then. Of larger ones each rank reduces its slice:
 *
 *   all-reduce      slices to those who reduce them, results to all: each rank sends and receives
 *                   2 (n - 1) / n times the buffer, piece by piece, one ahead of the other
 *   reduce          the same, with results to one alone
 *   reduce-scatter  the first half of it; all-gather: the second
 *   broadcast       slices from the root to all, and from each to all
 *
 * That is n - 1 messages per rank, call and half: as little as can be in bytes and in steps, more
 * messages than a tree has. Waiting polls MPI, at first without a pause, after a while with. MPI
 * gets on with its work in these polls alone: what is started in the background has a thread that
 * does so.
 *
 * After an error, what MPI had begun to move gets a fifth of a second to come to its end. What does
 * not, may still arrive in its buffer when MPI is called: so the process should end soon.
 */

struct gt_mpi; /* MPI in this process, which has it once */

struct gt_mpi_options {
	double timeout_s;   /* a peer that is later than this is lost; 0: 600 */
	size_t piece_bytes; /* of what goes through staging at a time, the same on all; 0: 4 MiB */
};

/*
 * Open libgtrain-mpi.so (beside the program, in ../lib/gtrain from there, or what the variable
 * GTRAIN_MPI names) and begin MPI. `*size` ranks have been started by mpirun, this one is `*rank`;
 * a process that nobody started so is rank 0 of 1. Once per process; MPI may end the process itself
 * when it cannot begin. GT_ENOTSUP: there is no such library.
 */
int gt_mpi_open(struct gt_mpi **out, int *rank, int *size, struct gt_err *err);

/* A group of all ranks: a collective call. It, and groups split from it, are freed before `mpi`.
 * Splits of different groups of a process do not run at the same time. */
int gt_mpi_group(struct gt_group **out, struct gt_mpi *mpi, const struct gt_mpi_options *options,
    struct gt_err *err);

/*
 * End MPI: a collective call of `all`, which is from gt_mpi_group() and stays to be freed. Whoever
 * ends well has to call it before the process ends, or mpirun takes that for a failure. After an
 * error don't: MPI_Finalize would wait for those who are lost. A process may simply end then, with
 * a status other than 0, upon which mpirun ends the others.
 */
int gt_mpi_finish(struct gt_mpi *mpi, struct gt_group *all, struct gt_err *err);

/* Free what is held here. NULL is fine. */
void gt_mpi_free(struct gt_mpi *mpi);

#endif
