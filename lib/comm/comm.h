/* comm.h - connect the ranks of a run: choose how they exchange data, and make a group of them. */
#ifndef GT_COMM_COMM_H
#define GT_COMM_COMM_H

#include "lib/comm/group.h"
#include "lib/comm/mpi/mpi.h"
#include "lib/comm/rendezvous/rendezvous.h"
#include "lib/comm/ring/ring.h"
#include "lib/comm/shm/shm.h"
#include "lib/comm/tcp/tcp.h"

/* The user's choice of how ranks exchange data. */
enum gt_comm_backend {
	/* choose automatically. Between CPUs: `shm` if all ranks are on one host, otherwise `mpi`
	 * if mpirun has started them, and `tcp` if not.
	 * Between GPUs: `nccl` or `ring`; if the GPUs can use neither, `staged`, which copies data
	 * through host memory (device_group.h). */
	GT_COMM_AUTO,
	GT_COMM_SHM, /* shared memory of one host */
	/* a ring of ranks on one host, between CPUs or GPUs (`auto` never chooses a ring between
	 * CPUs) */
	GT_COMM_RING,
	GT_COMM_TCP, /* TCP, for ranks on several hosts */
	GT_COMM_MPI, /* MPI, for ranks on several hosts that mpirun has started */
	/* `nccl` between GPUs: fail if the devices cannot use NCCL; for host memory as `auto` */
	GT_COMM_NCCL,
	GT_COMM_BACKENDS
};

/* "auto", "shm", "ring", "tcp", "mpi", "nccl", NULL. An enum gt_comm_backend is the index of its
 * name. */
extern const char *const gt_comm_backend_names[GT_COMM_BACKENDS + 1];

/* Return the name of the way (a kind of group for device memory: device_group.h) that this backend
 * requires. Return NULL for GT_COMM_AUTO, which uses the fastest way. */
const char *gt_comm_way(enum gt_comm_backend backend);

struct gt_comm_options {
	enum gt_comm_backend backend;
	/* settings that must be the same on all ranks, one per line, as "KEY VALUE"
	 * (gt_rendezvous_meet()) */
	const char *agreement;
	double timeout_s; /* give up on a rank that does not respond within this time */
	/* the user's command, such as "gtrain train ...", for the hints of errors; or NULL */
	const char *command;
};

/* A rank's connection with all other ranks. */
struct gt_comm {
	struct gt_world world;            /* with the local numbers that are known now */
	struct gt_group *group;           /* the group of all ranks, for host memory */
	struct gt_rendezvous *rendezvous; /* NULL if there is only one rank, or with MPI */
	/* a function that gathers some bytes of every rank: gt_rendezvous_exchange() */
	struct gt_exchange exchange;
	struct gt_messenger *messenger; /* MPI or TCP; NULL with `shm` and `ring` */
};

/*
 * Connect with all ranks of the run, and make a group of all ranks in out->group. *world describes
 * the run: this rank, the number of ranks and their hosts (world/world.h). This is a collective
 * call: all ranks must call it. If it returns 0, call gt_comm_leave() at the end. Until then do not
 * move *out, because out->exchange points to *out.
 *
 * Errors:
 *   GT_EINVAL    `shm` or `ring` on several hosts; or MPI's rank or number of ranks differs from
 *                *world; or the agreements of two ranks differ
 *   GT_EIO       a rank has not connected in time
 * and the other errors of gt_rendezvous_meet(), gt_tcp_open() and gt_mpi_open().
 */
int gt_comm_join(struct gt_comm *out, const struct gt_world *world,
    const struct gt_comm_options *options, struct gt_err *err);

/* End the communication of a run that has succeeded: a collective call. Each rank must call this
 * before its process ends. Do not call it after an error: with MPI, it would wait for the lost
 * ranks. */
int gt_comm_finish(struct gt_comm *comm, struct gt_err *err);

/* Free the group and all connections of this rank. */
void gt_comm_leave(struct gt_comm *comm);

/* Write the mpirun command that starts the ranks of *world to `out`, an array of `size` bytes.
 * `command` is the user's command, such as "gtrain train ..."; NULL: unknown. The mpirun command
 * names the hosts if they are known. If it is too long, it is cut off after a word, and " ..." is
 * appended. */
void gt_comm_mpirun_line(char *out, size_t size, const struct gt_world *world, const char *command);

#endif
