/* mpi.h - groups on MPI: for ranks on several hosts, started by mpirun. */
#ifndef GT_COMM_MPI_MPI_H
#define GT_COMM_MPI_MPI_H

#include "lib/comm/group.h"

/*
 * gtrain uses only MPI's messages, and has its own collectives (collectives.c): their sums have the
 * fixed order of group.h, and errors name the rank that is late or calls something else. After an
 * error end the process soon: MPI may still write into the buffer of a receive.
 */

struct gt_mpi; /* the state of MPI in this process */

struct gt_mpi_options {
	double timeout_s; /* limit for the response of a rank; 0: 600 s */
	/* bytes per piece of a buffer, the same on all ranks; 0: 4 MiB */
	size_t piece_bytes;
};

/* Open libgtrain-mpi.so and start MPI, once per process. GT_ENOTSUP: there is no such library.
 * GT_EDEVICE or GT_EIO: MPI cannot start; MPI itself may then end the process. */
int gt_mpi_open(struct gt_mpi **out, int *rank, int *size, struct gt_err *err);

/* Make a group of all ranks: a collective call. Free it, and the groups split from it, before
 * `mpi`. Do not split two groups of this process at the same time. */
int gt_mpi_group(struct gt_group **out, struct gt_mpi *mpi, const struct gt_mpi_options *options,
    struct gt_err *err);

/* End MPI before a process that has succeeded ends: a collective call. The caller still frees
 * `all`, the group from gt_mpi_group(). Do not call this after an error: it would wait for lost
 * ranks. */
int gt_mpi_finish(struct gt_mpi *mpi, struct gt_group *all, struct gt_err *err);

/* Free `mpi`, without a call of MPI. NULL is fine. */
void gt_mpi_free(struct gt_mpi *mpi);

#endif
