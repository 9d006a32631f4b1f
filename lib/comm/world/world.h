/* world.h - read the rank and world size of this process from the launcher's variables. */
#ifndef GT_COMM_WORLD_WORLD_H
#define GT_COMM_WORLD_WORLD_H

#include <stdbool.h>

#include "lib/base/err.h"

#define GT_WORLD_MAX_RANKS 1024

/* who has set the environment variables */
enum gt_world_source {
	GT_WORLD_ALONE,    /* no launcher: one rank */
	GT_WORLD_GTRAIN,   /* gtrain's own launcher (lib/comm/launch/launch.h) */
	GT_WORLD_TORCHRUN, /* RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE */
	GT_WORLD_MPI,      /* OMPI_COMM_WORLD_*, PMI_* */
	GT_WORLD_SLURM,    /* SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID */
	GT_WORLD_TF_CONFIG /* JSON: cluster, task */
};

/* The position of this process among all ranks of its job, and the address of rank 0. */
struct gt_world {
	enum gt_world_source source;
	int rank, size; /* this rank; number of all ranks, at most GT_WORLD_MAX_RANKS */
	/* index among the ranks of this host; their number */
	int local_rank, local_size;
	char address[256]; /* of rank 0; "" if there is only one rank */
	char hosts[256];   /* as for mpirun's --host: "a:2,b:2"; "": unknown */
	int port;          /* of rank 0; 0 if there is only one rank */
	char secret[65];   /* secret of the job, or "" */
	/* the secret is derived from what the launcher tells all ranks, as no secret is given */
	bool derives_secret;
	/* no variable gives the number of ranks on this host: the local numbers are assumed */
	bool assumes_hosts;
	int restart;   /* how often the launcher has restarted the job */
	int listen_fd; /* rank 0: a socket that already listens on the port; 0: none */
};

/* Return whether all ranks are known to be on this host. */
static inline bool gt_world_on_one_host(const struct gt_world *world)
{
	return world->local_size == world->size && !world->assumes_hosts;
}

/* Set *out from the environment variables of this process, by the rules in world.c. It may ask the
 * name service whether MASTER_ADDR is this host, which can take seconds. GT_EINVAL names the
 * variable that is wrong or missing. */
int gt_world_from_environment(struct gt_world *out, struct gt_err *err);

/* Return the value of the variable `name`, or NULL if it is not set. */
typedef const char *gt_world_get_fn(void *self, const char *name);
/* gt_world_from_environment() for any set of variables. */
int gt_world_from(struct gt_world *out, gt_world_get_fn *get, void *self, struct gt_err *err);

/* for messages: "torchrun" */
const char *gt_world_source_name(enum gt_world_source source);

/* for messages: the variables that give the address and port of rank 0 */
const char *gt_world_address_source(const struct gt_world *world);

#endif
