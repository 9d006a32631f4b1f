/* mpi.h - messages over MPI: for ranks that mpirun has started. */
#ifndef GT_COMM_MPI_MPI_H
#define GT_COMM_MPI_MPI_H

#include "lib/comm/messages/messages.h"

/* Open libgtrain-mpi.so and start MPI, once per process; out->rank and out->size are MPI's.
 * GT_ENOTSUP: there is no such library. GT_EDEVICE or GT_EIO: MPI cannot start; MPI itself may then
 * end the process. */
int gt_mpi_open(struct gt_messenger **out, struct gt_err *err);

#endif
