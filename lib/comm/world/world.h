/* world.h - the rank and world size of this process, as launchers put them into the environment. */
#ifndef GT_COMM_WORLD_WORLD_H
#define GT_COMM_WORLD_WORLD_H

#include "lib/base/err.h"

#define GT_WORLD_MAX_RANKS 1024

enum gt_world_source {
	GT_WORLD_ALONE,    /* no environment: one rank */
	GT_WORLD_GTRAIN,   /* our own launcher */
	GT_WORLD_TORCHRUN, /* RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE */
	GT_WORLD_MPI,      /* OMPI_COMM_WORLD_*, PMI_* */
	GT_WORLD_SLURM,    /* SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID */
	GT_WORLD_TF_CONFIG /* JSON: cluster, task */
};

struct gt_world {
	enum gt_world_source source;
	int rank, size;             /* among all; size at most GT_WORLD_MAX_RANKS */
	int local_rank, local_size; /* on this host; local_size < size: there are several hosts */
	char address[256];          /* of rank 0, a name or a number; "" with one rank */
	char hosts[256];            /* all, as mpirun's --host takes them: "a:2,b:2"; "": unknown */
	int port;                   /* 0 with one rank */
	char secret[65];            /* of the job, or "" */
	int restart;                /* number of restarts of the job by the launcher */
	int listen_fd;              /* rank 0: a socket that listens there already; 0: none */
};

/*
 * Read the environment. The first source in the order above that is set is used. Numbers must be
 * exact. Contradictions (a rank not below the size, an invalid port, an incomplete set of
 * variables) are GT_EINVAL; the error names the variable and its value.
 *
 * Address and port are those of MASTER_ADDR and MASTER_PORT, and where these are missing:
 *   torchrun  an error, unless there is but one rank
 *   MPI       127.0.0.1 on one host; none on several, as MPI knows its own
 *   Slurm     127.0.0.1 on one host, else the first host of the step's or the job's node list
 *   TF_CONFIG its first chief's or worker's, always
 * Without MASTER_PORT, MPI and Slurm take a port from 15000 to 29999, below those that Linux gives
 * away by itself, made of the job's id: all ranks find the same one, two jobs rarely do. Where
 * torchrun keeps MASTER_PORT for its own store (TORCHELASTIC_USE_AGENT_STORE=True), the next port
 * is taken.
 *
 * Where local ranks are not given (RANK and WORLD_SIZE alone, as some schedulers set them): a
 * loopback address means one host, any other one rank per host; of MPI and of Slurm, no address and
 * no list of nodes mean one host. GTRAIN_SECRET is read with all sources. Slurm's batch script
 * itself is not a rank; tasks of srun are.
 *
 * Sources: torchrun's manual (docs.pytorch.org, elastic/run); Open MPI's (docs.open-mpi.org,
 * tuning apps, environment variables); MPICH's Hydra and Cray PALS for PMI_*; sbatch(1) and
 * srun(1), output environment variables; TensorFlow's guide, distributed training, TF_CONFIG.
 */
int gt_world_from_environment(struct gt_world *out, struct gt_err *err);

/* The same of any variables: get(self, NAME) is NULL where there is none. */
typedef const char *gt_world_get_fn(void *self, const char *name);
int gt_world_from(struct gt_world *out, gt_world_get_fn *get, void *self, struct gt_err *err);

/* "torchrun", for messages. */
const char *gt_world_source_name(enum gt_world_source source);

#endif
