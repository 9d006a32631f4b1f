/* comm.h - connect a rank with all other ranks: rendezvous, and the group of all ranks. */
#ifndef GT_COMM_COMM_H
#define GT_COMM_COMM_H

#include "lib/comm/group.h"
#include "lib/comm/mpi/mpi.h"
#include "lib/comm/rendezvous/rendezvous.h"
#include "lib/comm/ring/ring.h"
#include "lib/comm/shm/shm.h"

enum gt_comm_backend {
	/* shm if all ranks are on one host, otherwise mpi; between GPUs nccl or ring */
	GT_COMM_AUTO,
	GT_COMM_SHM,
	GT_COMM_RING, /* on one host; auto chooses it only between GPUs */
	GT_COMM_MPI,
	GT_COMM_NCCL, /* like auto, but fails if nccl cannot be used between GPUs */
	GT_COMM_BACKENDS
};

/* "auto", "shm", "ring", "mpi", "nccl", NULL: the number of a name is its enum gt_comm_backend. */
extern const char *const gt_comm_backend_names[GT_COMM_BACKENDS + 1];

/* The name of the kind of device groups that this backend asks for (device_group.h); NULL: the
 * fastest. */
const char *gt_comm_way(enum gt_comm_backend backend);

struct gt_comm_options {
	enum gt_comm_backend backend;
	const char *agreement; /* as for gt_rendezvous_meet() */
	double timeout_s;
	const char *command; /* "gtrain train ...", for hints; or NULL */
};

struct gt_comm {
	struct gt_world world;
	struct gt_group *group;           /* of all ranks */
	struct gt_rendezvous *rendezvous; /* NULL if there is only one rank, or with MPI */
	struct gt_exchange exchange;
	struct gt_mpi *mpi; /* or NULL */
};

/*
 * Meet the ranks of this world and form the group of all of them: a collective call. Do not move
 * `out` until gt_comm_leave(), which must be called only if this returned 0. Errors: those of
 * rendezvous and group; GT_ENOTSUP for ranks on several hosts that were not started by mpirun, with
 * the mpirun command in the message; GT_EINVAL for shm or ring on several hosts, and where MPI
 * knows of other ranks than the world.
 */
int gt_comm_join(struct gt_comm *out, const struct gt_world *world,
    const struct gt_comm_options *options, struct gt_err *err);

/* Call this on all ranks that have succeeded, before they end. It is a collective call. Do not call
 * it after an error (gt_mpi_finish()). */
int gt_comm_finish(struct gt_comm *comm, struct gt_err *err);
void gt_comm_leave(struct gt_comm *comm);

/* Write the command line that starts the ranks of this world with mpirun, with the hosts if they
 * are known. If the command is too long for `size` bytes, it is cut off between words, with dots.
 */
void gt_comm_mpirun_line(char *out, size_t room, const struct gt_world *world, const char *command);

#endif
