/* world.h - read the rank and world size of this process from the launcher's variables. */
#ifndef GT_COMM_WORLD_WORLD_H
#define GT_COMM_WORLD_WORLD_H

#include "lib/base/err.h"

#define GT_WORLD_MAX_RANKS 1024

/* The launcher that has set the environment variables. */
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
	int rank, size; /* this rank; number of ranks on all hosts, at most GT_WORLD_MAX_RANKS */
	/* local_rank: index of this rank among the ranks of this host, from 0 on. local_size:
	 * number of ranks on this host, which is less than `size` if there are several hosts. */
	int local_rank, local_size;
	char address[256]; /* host name or IP address of rank 0; "" if there is only one rank */
	char hosts[256];   /* all hosts, as for mpirun's --host: "a:2,b:2"; "": unknown */
	int port;          /* port of rank 0; 0 if there is only one rank */
	char secret[65];   /* secret of the job, or "" */
	int restart;       /* how often the launcher has restarted the job */
	int listen_fd;     /* rank 0: a socket that already listens on the port; 0: none */
};

/*
 * Set *out from the environment variables of this process.
 *
 * Source. The sources are tried in the order of enum gt_world_source, from GT_WORLD_GTRAIN on. The
 * first source whose variables are set is used. There are two exceptions. If PMI_RANK is set
 * without variables for local ranks, GT_WORLD_SLURM is tried before GT_WORLD_MPI. If RANK and
 * WORLD_SIZE are set without LOCAL_WORLD_SIZE, and MPI or Slurm has started WORLD_SIZE ranks, then
 * MPI's or Slurm's variables are used: a batch script may have exported one RANK to all of them.
 * GT_WORLD_SLURM is used only for processes that srun starts. Processes that Slurm's batch script
 * starts directly also have Slurm's variables, but these do not number the processes.
 *
 * Left-over variables. If only one of RANK and WORLD_SIZE is set, this is not torchrun. RANK=0 or
 * WORLD_SIZE=1 is then one process, or a task of another launcher. A WORLD_SIZE that differs from
 * the number of ranks is an error.
 *
 * Address. The address of rank 0 is MASTER_ADDR, without brackets. If this is not set:
 *
 *   gtrain      127.0.0.1 if there is one host; otherwise an error
 *   torchrun    an error, unless there is only one rank
 *   MPI         127.0.0.1 if there is one host; otherwise none, because MPI needs none
 *   Slurm       127.0.0.1 if there is one host; otherwise the first host in the node list of the
 *               step or the job
 *
 * Port. The port of rank 0 is MASTER_PORT. If MASTER_PORT is not set, this is an error for gtrain's
 * launcher and for torchrun. For MPI and Slurm, the port is then a hash of the job's id, from 15000
 * to 29999. So all ranks of a job use the same port, and two jobs rarely use the same one. The
 * ports of this range are below the range of ports that Linux assigns automatically. If torchrun
 * uses MASTER_PORT for its own store (TORCHELASTIC_USE_AGENT_STORE=True), the port is one above
 * MASTER_PORT.
 *
 * TF_CONFIG. With this source, address and port always come from the first chief or worker in
 * TF_CONFIG.
 *
 * Local ranks. Some schedulers set only the rank and the number of ranks. Then this function
 * assumes that all ranks are on one host in three cases: MASTER_ADDR is an address or a name of
 * this host; MASTER_ADDR is not set, and the source is MPI; MASTER_ADDR is not set, and Slurm gives
 * no list of nodes. In all other cases, it assumes that each host has one rank. To find out whether
 * MASTER_ADDR is a name of this host, it may ask the name service, which can take seconds.
 *
 * GTRAIN_SECRET, the secret of the job, is read for every source.
 *
 * Errors: GT_EINVAL in three cases: a number is not a decimal integer or is out of range; variables
 * contradict each other (for example, the rank is not less than the number of ranks); a variable is
 * missing. The error names the variable and its value.
 *
 * Sources of these rules: torchrun's manual (docs.pytorch.org, elastic/run); Open MPI's manual
 * (docs.open-mpi.org, tuning apps, environment variables); MPICH's Hydra and Cray PALS for PMI_*;
 * sbatch(1) and srun(1), output environment variables; TensorFlow's guide, distributed training,
 * TF_CONFIG.
 */
int gt_world_from_environment(struct gt_world *out, struct gt_err *err);

/* A function that returns the value of the variable `name`, or NULL if it is not set. */
typedef const char *gt_world_get_fn(void *self, const char *name);
/* Set *out from any set of variables, as gt_world_from_environment() does. get(self, NAME) returns
 * the value of the variable NAME. */
int gt_world_from(struct gt_world *out, gt_world_get_fn *get, void *self, struct gt_err *err);

/* Return the name of a source for messages: "torchrun", for example. */
const char *gt_world_source_name(enum gt_world_source source);

/* Return the names of the variables that give the address and the port of rank 0, for messages. */
const char *gt_world_address_source(const struct gt_world *world);

#endif
