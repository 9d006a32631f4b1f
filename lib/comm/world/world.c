/* world.c - the rank and world size of this process, from the environment. */
#include "lib/comm/world/world.h"

#include <limits.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "lib/comm/world/environment.h"

/* How each launcher names the four numbers. A family is there when its `mark` is; torchrun's, when
 * both of RANK and WORLD_SIZE are. Where there is no name for a local number, it is found
 * otherwise. */
static const struct family {
	enum gt_world_source source;
	const char *mark, *rank, *size, *local_rank, *local_size;
} families[] = {
	{ GT_WORLD_GTRAIN, "GTRAIN_RESTART", "RANK", "WORLD_SIZE", "LOCAL_RANK",
	    "LOCAL_WORLD_SIZE" },
	{ GT_WORLD_TORCHRUN, "RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
	{ GT_WORLD_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	    "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
	{ GT_WORLD_MPI, "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
	    "MPI_LOCALNRANKS" },
	{ GT_WORLD_MPI, "PMI_LOCAL_RANK", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK",
	    "PMI_LOCAL_SIZE" },
	{ GT_WORLD_SLURM, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
	    "SLURM_LOCALID", NULL },
	{ GT_WORLD_SLURM, "SLURM_PROCID", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL },
	{ GT_WORLD_MPI, "PMI_RANK", "PMI_RANK", "PMI_SIZE", NULL, NULL },
};

enum { FAMILIES = sizeof(families) / sizeof(*families) };

static const char *const source_names[] = { "alone", "gtrain", "torchrun", "mpi", "slurm",
	"TF_CONFIG" };

const char *gt_world_source_name(enum gt_world_source source)
{
	return source_names[source];
}

const char *gt_world_address_source(const struct gt_world *world)
{
	return world->source == GT_WORLD_TF_CONFIG ? "the first chief or worker of TF_CONFIG"
	                                           : "MASTER_ADDR and MASTER_PORT";
}

const char *gt_world_variable(const struct gt_world_env *env, const char *name)
{
	const char *value = name ? env->get(env->self, name) : NULL;

	return value && *value ? value : NULL;
}

int gt_world_number(int *out, const struct gt_world_env *env, const char *name, int low, int high,
    struct gt_err *err)
{
	const char *value = gt_world_variable(env, name);
	int64_t number;

	if (!value)
		return gt_err_set(err, GT_EINVAL, "%s is not set", name);
	if (!gt_text_parse_int(&number, value))
		return gt_err_set(err, GT_EINVAL, "%s='%s': not a number", name, value);
	if (number < low || number > high)
		return gt_err_set(
		    err, GT_EINVAL, "%s=%s: not from %d to %d", name, value, low, high);
	*out = (int)number;
	return 0;
}

int gt_world_set_address(struct gt_world *world, const char *address, size_t length,
    const char *name, struct gt_err *err)
{
	if (length > 2 && address[0] == '[' && address[length - 1] == ']') {
		address++;
		length -= 2;
	}
	if (!length || length >= sizeof(world->address))
		return gt_err_set(err, GT_EINVAL, "%s: an address of %zu characters", name, length);
	memcpy(world->address, address, length);
	world->address[length] = '\0';
	return 0;
}

static bool is_there(const struct family *f, const struct gt_world_env *env)
{
	return gt_world_variable(env, f->mark) &&
	       (f->source != GT_WORLD_SLURM || gt_world_in_slurm_step(env)) &&
	       (f->source != GT_WORLD_TORCHRUN || gt_world_variable(env, f->size));
}

static const struct family *find_from(const struct family *f, const struct gt_world_env *env)
{
	while (f < families + FAMILIES && !is_there(f, env))
		f++;
	return f < families + FAMILIES ? f : NULL;
}

/*
 * A batch script may export RANK and WORLD_SIZE, computed from its own SLURM_PROCID, to all tasks
 * that srun or mpirun starts:
 *
 *   task 0   RANK=0 WORLD_SIZE=2   SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2
 *   task 1   RANK=0 WORLD_SIZE=2   SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2
 *
 * So where a second launcher counts as many ranks, its numbers are used. torchrun itself, which
 * srun may have started once per node, also sets LOCAL_WORLD_SIZE.
 */
static const struct family *find_family(const struct gt_world_env *env)
{
	const struct family *first = find_from(families, env), *second;
	struct gt_err ignored = GT_ERR_INIT;
	int size, other_size;

	if (!first || first->source != GT_WORLD_TORCHRUN ||
	    gt_world_variable(env, first->local_size))
		return first;
	second = find_from(first + 1, env);
	if (second && !gt_world_number(&size, env, first->size, 1, GT_WORLD_MAX_RANKS, &ignored) &&
	    !gt_world_number(&other_size, env, second->size, 1, GT_WORLD_MAX_RANKS, &ignored) &&
	    size == other_size)
		return second;
	return first;
}

/* No variable gives the number of ranks on this host: all are here, if rank 0 is, or if no variable
 * mentions another host. */
static bool is_one_host(const struct gt_world *world, const struct gt_world_env *env)
{
	const char *address = gt_world_variable(env, "MASTER_ADDR");
	struct gt_world named;

	if (world->size == 1)
		return true;
	if (address)
		return !gt_world_set_address(
		           &named, address, strlen(address), "MASTER_ADDR", GT_ERR_IGNORED) &&
		       gt_world_is_this_host(named.address);
	return world->source == GT_WORLD_MPI ||
	       (world->source == GT_WORLD_SLURM && !gt_world_slurm_nodes(env));
}

/* An address of this host does not tell that all ranks are here: it is an address of rank 0's host.
 * One of the loopback interface does. */
static bool is_assumed(const struct gt_world *world, const struct gt_world_env *env)
{
	const char *address = gt_world_variable(env, "MASTER_ADDR");
	struct gt_world named;

	if (world->size == 1 || world->source == GT_WORLD_MPI)
		return false;
	if (!address)
		return world->local_size < world->size;
	return !gt_world_set_address(
	           &named, address, strlen(address), "MASTER_ADDR", GT_ERR_IGNORED) &&
	       !gt_world_is_loopback(named.address);
}

static int fail_local_size(const struct gt_world *world, const char *name, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "%s is not set", name);
	return gt_err_hint(err,
	    "set it to the number of ranks on this host, or set MASTER_ADDR to 127.0.0.1 if all %d "
	    "ranks are on this host",
	    world->size);
}

static int read_local_size(struct gt_world *world, const struct gt_world_env *env,
    const struct family *family, struct gt_err *err)
{
	int rc = 0;

	world->local_size = 0;
	if (gt_world_variable(env, family->local_size))
		return gt_world_number(
		    &world->local_size, env, family->local_size, 1, world->size, err);
	if (family->source == GT_WORLD_SLURM)
		rc = gt_world_slurm_local_size(&world->local_size, env, err);
	if (rc || world->local_size)
		return rc;
	world->local_size = is_one_host(world, env) ? world->size : 1;
	world->assumes_hosts = is_assumed(world, env);
	if (family->source != GT_WORLD_SLURM && world->local_size != world->size &&
	    gt_world_variable(env, family->local_rank))
		return fail_local_size(world, family->local_size, err);
	return 0;
}

static int read_local(struct gt_world *world, const struct gt_world_env *env,
    const struct family *family, struct gt_err *err)
{
	bool has_rank = gt_world_variable(env, family->local_rank);
	bool has_size = gt_world_variable(env, family->local_size);
	int rc = read_local_size(world, env, family, err);

	if (rc)
		return rc;
	/* Slurm may give the number of tasks per node of the job. A step may have fewer tasks. */
	if (world->local_size > world->size)
		world->local_size = world->size;
	if (!has_rank && has_size && world->local_size != 1 && world->local_size != world->size)
		return gt_err_set(err, GT_EINVAL, "%s is not set", family->local_rank);
	if (!has_rank) {
		world->local_rank = world->local_size == world->size ? world->rank : 0;
		return 0;
	}
	rc = gt_world_number(
	    &world->local_rank, env, family->local_rank, 0, world->local_size - 1, err);
	if (rc)
		gt_err_hint(
		    err, "there are %d ranks on this host, numbered from 0", world->local_size);
	return rc;
}

static int read_numbers(struct gt_world *world, const struct gt_world_env *env,
    const struct family *family, struct gt_err *err)
{
	int rc;

	world->source = family->source;
	if ((rc = gt_world_number(&world->size, env, family->size, 1, GT_WORLD_MAX_RANKS, err)) ||
	    (rc = gt_world_number(&world->rank, env, family->rank, 0, GT_WORLD_MAX_RANKS, err))) {
		gt_err_hint(err, "%s has to set %s and %s together",
		    gt_world_source_name(family->source), family->rank, family->size);
		return rc;
	}
	if (world->rank >= world->size) {
		gt_err_set(err, GT_EINVAL, "%s=%d: not below %s=%d", family->rank, world->rank,
		    family->size, world->size);
		return gt_err_hint(err, "ranks are numbered from 0");
	}
	return read_local(world, env, family, err);
}

/* FNV-1a of the variables that identify the job, into 15000..29999. All ranks see the first of
 * these that any of them sees; a step of Slurm is known by two. */
static int port_of_job(const struct gt_world_env *env)
{
	static const char *const ids[][2] = { { "OMPI_MCA_ess_base_jobid", NULL },
		{ "PMIX_NAMESPACE", NULL }, { "PMI_JOBID", NULL },
		{ "SLURM_JOB_ID", "SLURM_STEP_ID" } };
	uint32_t hash = 2166136261u;
	size_t i = 0;

	while (i < 3 && !gt_world_variable(env, ids[i][0]))
		i++;
	for (int part = 0; part < 2; part++)
		for (const char *p = gt_world_variable(env, ids[i][part]); p && *p; p++)
			hash = (hash ^ (unsigned char)*p) * 16777619u;
	return 15000 + (int)(hash % 15000);
}

static int read_address(struct gt_world *world, const struct gt_world_env *env, struct gt_err *err)
{
	const char *address = gt_world_variable(env, "MASTER_ADDR");

	if (address)
		return gt_world_set_address(world, address, strlen(address), "MASTER_ADDR", err);
	if (world->source == GT_WORLD_SLURM && world->local_size != world->size)
		return gt_world_slurm_address(world, env, err);
	if (world->source != GT_WORLD_TORCHRUN && world->local_size == world->size)
		return gt_world_set_address(world, "127.0.0.1", 9, "MASTER_ADDR", err);
	if (world->source == GT_WORLD_MPI)
		return 0;
	gt_err_set(err, GT_EINVAL, "MASTER_ADDR is not set");
	return gt_err_hint(err, "it is the host of rank 0, 127.0.0.1 when all ranks are on one");
}

static int read_port(struct gt_world *world, const struct gt_world_env *env, struct gt_err *err)
{
	const char *agent = gt_world_variable(env, "TORCHELASTIC_USE_AGENT_STORE");
	bool taken = world->source == GT_WORLD_TORCHRUN && agent && !strcmp(agent, "True");
	int rc;

	if (!gt_world_variable(env, "MASTER_PORT") &&
	    (world->source == GT_WORLD_MPI || world->source == GT_WORLD_SLURM)) {
		world->port = port_of_job(env);
		return 0;
	}
	rc = gt_world_number(&world->port, env, "MASTER_PORT", 1, taken ? 65534 : 65535, err);
	if (rc)
		return gt_err_hint(err, "it is a TCP port that is free on the host of rank 0");
	world->port += taken;
	return 0;
}

/* Ranks on several hosts cannot share a random number by themselves. All know the job's id and
 * port, and processes of other jobs rarely do. */
static void derive_secret(struct gt_world *world, const struct gt_world_env *env)
{
	static const char *const ids[] = { "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID" };
	unsigned char digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;
	char port[16];

	sha256_init(&sha);
	snprintf(port, sizeof(port), "%d", world->port);
	sha256_update(&sha, strlen(port) + 1, (const uint8_t *)port);
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		const char *id = gt_world_variable(env, ids[i]);

		id = id ? id : "";
		sha256_update(&sha, strlen(id) + 1, (const uint8_t *)id);
	}
	sha256_digest(&sha, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(world->secret + 2 * i, 3, "%02x", digest[i]);
	world->derives_secret = true;
}

/* Beside the four numbers: the variables that our launcher and torchrun add. */
static int read_extras(struct gt_world *world, const struct gt_world_env *env, struct gt_err *err)
{
	const char *restart = world->source == GT_WORLD_GTRAIN     ? "GTRAIN_RESTART"
	                      : world->source == GT_WORLD_TORCHRUN ? "TORCHELASTIC_RESTART_COUNT"
	                      : world->source == GT_WORLD_SLURM    ? "SLURM_RESTART_COUNT"
	                                                           : NULL;
	const char *secret = gt_world_variable(env, "GTRAIN_SECRET");
	int rc = 0;

	if (secret && strlen(secret) >= sizeof(world->secret)) {
		gt_err_set(err, GT_EINVAL, "GTRAIN_SECRET has %zu characters", strlen(secret));
		return gt_err_hint(
		    err, "%zu at most, as `openssl rand -hex 32` gives", sizeof(world->secret) - 1);
	}
	if (secret)
		strcpy(world->secret, secret);
	else if (world->address[0] && !gt_world_on_one_host(world))
		derive_secret(world, env);
	if (gt_world_variable(env, restart))
		rc = gt_world_number(&world->restart, env, restart, 0, 1 << 30, err);
	if (!rc && world->source == GT_WORLD_GTRAIN && !world->rank &&
	    gt_world_variable(env, "GTRAIN_LISTEN_FD"))
		rc = gt_world_number(&world->listen_fd, env, "GTRAIN_LISTEN_FD", 3, 1 << 20, err);
	return rc;
}

/*
 * One of RANK and WORLD_SIZE alone numbers no process: it is left over from a container or from a
 * batch script. WORLD_SIZE has to agree with the launcher; without a launcher, it is the WORLD_SIZE
 * or the RANK of a single process.
 */
static int check_leftover(
    const struct gt_world *world, const struct gt_world_env *env, struct gt_err *err)
{
	const char *rank = gt_world_variable(env, "RANK");
	const char *size = gt_world_variable(env, "WORLD_SIZE");
	int number;

	if (!rank == !size || (rank && world->source != GT_WORLD_ALONE))
		return 0;
	if (gt_world_number(&number, env, rank ? "RANK" : "WORLD_SIZE", 0, INT_MAX, err))
		return err->code;
	if (number == (rank ? 0 : world->size))
		return 0;
	if (world->source != GT_WORLD_ALONE) {
		gt_err_set(err, GT_EINVAL, "WORLD_SIZE=%d, but %s has started %d ranks", number,
		    gt_world_source_name(world->source), world->size);
		return gt_err_hint(err, "unset WORLD_SIZE to train on these ranks");
	}
	gt_err_set(err, GT_EINVAL, "%s=%d, but %s is not set", rank ? "RANK" : "WORLD_SIZE", number,
	    rank ? "WORLD_SIZE" : "RANK");
	return gt_err_hint(err,
	    "unset %s to train on one process, or start the ranks by {nproc} or by `torchrun "
	    "--no-python`, which sets both",
	    rank ? "RANK" : "WORLD_SIZE");
}

static int read_source(struct gt_world *world, const struct gt_world_env *env, struct gt_err *err)
{
	const struct family *family = find_family(env);
	const char *tf_config = gt_world_variable(env, "TF_CONFIG");
	int rc;

	if (!family)
		return tf_config ? gt_world_tf_config(world, tf_config, err) : 0;
	rc = read_numbers(world, env, family, err);
	if (!rc && world->size > 1 && !(rc = read_address(world, env, err)))
		rc = read_port(world, env, err);
	return rc;
}

/*
 * Set *out from the variables that get() returns.
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
 * MASTER_ADDR is a name of this host, it may ask the name service, which can take seconds. Unless
 * MASTER_ADDR is an address of the loopback interface, assumes_hosts is set: rank 0 of a job on
 * several hosts is at this address, too, so the ranks compare their hosts when they meet (comm.c).
 *
 * GTRAIN_SECRET, the secret of the job, is read for every source. If it is not set, and the ranks
 * may be on several hosts, the secret is a hash of the job's port, TORCHELASTIC_RUN_ID and
 * SLURM_JOB_ID.
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
int gt_world_from(struct gt_world *out, gt_world_get_fn *get, void *self, struct gt_err *err)
{
	const struct gt_world_env env = { get, self };
	struct gt_world world = { .size = 1, .local_size = 1 };
	int rc;

	*out = (struct gt_world){ 0 };
	rc = read_source(&world, &env, err);
	if (!rc)
		rc = check_leftover(&world, &env, err);
	if (!rc)
		rc = read_extras(&world, &env, err);
	if (rc && !err->hint[0])
		gt_err_hint(err,
		    "the launcher of the ranks sets this variable; without a launcher, "
		    "unset it: {nproc} starts ranks");
	if (rc)
		return rc;
	*out = world;
	return 0;
}

static const char *get_environment(void *self, const char *name)
{
	(void)self;
	return getenv(name);
}

int gt_world_from_environment(struct gt_world *out, struct gt_err *err)
{
	return gt_world_from(out, get_environment, NULL, err);
}
