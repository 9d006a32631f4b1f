/* communicator.c - GPUs connected by NCCL: check ranks, connect them, call, and disconnect them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cuda/group/group.h"
#include "kernels/cuda/group/ranks.h"
#include "kernels/cuda/nccl/api.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/thread_pool.h"

/* Longest wait for NCCL to finalize a communicator whose collectives have all ended, and for it to
 * abort one. */
static const double disconnect_s = 2, aborting_s = 0.5;

/* How often NCCL is asked whether a call is queued before the thread sleeps: this takes less than 1
 * ms. */
enum { SPINS = 4000 };

enum { TOKEN_BYTES = 256 };

/* Most blocks of a kernel for messages, of up to 32 by default. The kernel may wait for a stage of
 * a pipeline while the GPU computes, and its blocks hold multiprocessors as long. */
enum { MESSAGE_BLOCKS = 4 };

struct nccl {
	pthread_mutex_t calls; /* held during a call of the communicator: one at a time */
	void *comm;            /* NULL: there is none, or none any more */
	void *token;           /* device memory that a barrier all-reduces */
	bool aborts;           /* the thread `abort` aborts the communicator */
	pthread_t abort;
};

/* ---- errors ---- */

/* NCCL's own words; `comm` may be NULL. */
static int set_error(int status, void *comm, const char *what, struct gt_err *err)
{
	const char *last = gt_nccl->GetLastError(comm);
	int length = last ? (int)strcspn(last, "\n") : 0;

	gt_err_set(err, GT_EDEVICE, "%s: %s%s%.*s", what, gt_nccl->GetErrorString(status),
	    length ? ": " : "", length, last);
	return gt_err_hint(err, "NCCL_DEBUG=INFO in the environment makes NCCL say more");
}

/* ---- checking the ranks ---- */

struct rank_info {
	struct gt_cuda_rank_info rank;
	int32_t version;
	bool shares; /* NCCL takes several ranks for the rank's GPU */
};

/*
 * NCCL takes one rank for each GPU, unless the user sets a variable that newer versions read
 * (NVIDIA, "NCCL environment variables", NCCL_MULTI_RANK_GPU_ENABLE: "since 2.30, experimental").
 */
static bool takes_several(int version)
{
	const char *text = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

	return version >= GT_NCCL_SHARING && text && strtol(text, NULL, 0);
}

static struct rank_info rank_info_of(const struct gt_device *device)
{
	struct gt_err err = GT_ERR_INIT;
	int version = 0, rc = gt_nccl_open(&version, &err);
	struct rank_info info = { .rank = gt_cuda_rank_info_of(device, &err) };

	info.version = rc ? 0 : version;
	info.shares = takes_several(info.version);
	return info;
}

static int fail_versions(const struct rank_info *infos, int rank, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP, "rank 0 has NCCL %s, but rank %d %s",
	    gt_nccl_version_text(infos[0].version).s, rank,
	    gt_nccl_version_text(infos[rank].version).s);
	return gt_err_hint(err, "install the same version of the package libnccl2 on all hosts");
}

static int fail_shared(const struct rank_info *infos, int one, int other, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP,
	    "ranks %d and %d share the GPU %s (%s), and NCCL takes one rank for each GPU", one,
	    other, infos[other].rank.gpu, infos[other].rank.bus);
	return gt_err_hint(err,
	    "give each rank its own GPU, with {device} and {nproc}; or use {backend} ring; or, with "
	    "NCCL 2.30 or newer, set NCCL_MULTI_RANK_GPU_ENABLE=1");
}

static int compare_rank_infos(const struct rank_info *infos, int size, int mine, struct gt_err *err)
{
	for (int r = 0; r < size; r++)
		if (infos[r].rank.error.code)
			return gt_cuda_rank_error_pass(&infos[r].rank.error, r, mine, err);
	for (int r = 1; r < size; r++) {
		if (infos[r].version != infos[0].version)
			return fail_versions(infos, r, err);
		for (int other = 0; other < r; other++)
			/* NCCL compares bus ids, too: it refuses two instances of a GPU. */
			if (gt_cuda_same_bus(&infos[r].rank, &infos[other].rank) &&
			    !(infos[r].shares && infos[other].shares))
				return fail_shared(infos, other, r, err);
	}
	return 0;
}

/*
 * If ranks are threads of one process, NCCL lets their GPUs read and write each other's buffers
 * (NVIDIA, "NCCL environment variables", NCCL_P2P_DIRECT_DISABLE). GPUs can access memory of pools,
 * as gtrain's is, only after the pool is opened to them.
 */
static int open_to_threads(
    const struct gt_group *world, const struct rank_info *infos, struct gt_err *err)
{
	const struct gt_cuda_rank_info *mine = &infos[world->rank].rank;
	bool direct;
	int rc = 0;

	for (int r = 0; !rc && r < world->size; r++)
		if (r != world->rank && gt_cuda_same_process(&infos[r].rank, mine))
			rc = gt_cuda_peer_open(mine->index, infos[r].rank.index, &direct, err);
	return rc;
}

static int check_alone(const struct gt_device *device, struct gt_err *err)
{
	(void)device;
	return gt_nccl_open(NULL, err);
}

static int check_nccl_ranks(
    struct gt_group *world, const struct gt_device *device, struct gt_err *err)
{
	struct rank_info mine = rank_info_of(device);
	struct rank_info *all;
	struct gt_err own = GT_ERR_INIT;
	void *gathered;
	int rc = gt_cuda_gather_new(world, &mine, sizeof(mine), &gathered, err);

	all = gathered;
	if (!rc)
		rc = compare_rank_infos(all, world->size, world->rank, err);
	if (!rc) {
		open_to_threads(world, all, &own);
		rc = gt_cuda_agree(world, &own, err);
	}
	free(all);
	return rc;
}

/* ---- calls that go on in the background ---- */

/* The status of the communicator's last call, which may still be in progress. */
static int status_of(struct gt_cuda_group *g)
{
	struct nccl *n = g->link;
	int status = GT_NCCL_SUCCESS, rc = GT_NCCL_SUCCESS;

	pthread_mutex_lock(&n->calls);
	if (n->comm)
		rc = gt_nccl->CommGetAsyncError(n->comm, &status);
	pthread_mutex_unlock(&n->calls);
	return rc ? rc : status;
}

static int set_background_error(
    struct gt_cuda_group *g, int status, const char *what, struct gt_err *err)
{
	struct nccl *n = g->link;

	pthread_mutex_lock(&n->calls);
	set_error(status, n->comm, what, err);
	pthread_mutex_unlock(&n->calls);
	return gt_err_prefix(err, "rank %d", g->group.rank);
}

static int background(struct gt_cuda_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int status = status_of(g);

	if (status == GT_NCCL_SUCCESS || status == GT_NCCL_IN_PROGRESS)
		return 0;
	return set_background_error(g, status, gt_collective_text(c).s, err);
}

/*
 * Wait until NCCL has queued the call that returned `status`. NCCL may have to connect the ranks
 * first. No timeout here: the watch makes the group fail if a rank does not come. If NCCL notices
 * that a rank has died, the watch gets remote_s to name that rank; any other error is that of the
 * call.
 */
static int wait_until_queued(
    struct gt_cuda_group *g, int status, const struct gt_collective *c, struct gt_err *err)
{
	static const double remote_s = 2;
	double pause_s = 0, since = 0;

	/* Most calls are queued within microseconds, and the shortest sleep takes 50. */
	for (int i = 0; i < SPINS && status == GT_NCCL_IN_PROGRESS && !g->failed; i++)
		status = status_of(g);
	while (status == GT_NCCL_IN_PROGRESS || status == GT_NCCL_REMOTE_ERROR) {
		if (gt_cuda_group_failed(g, err))
			return err->code;
		if (status == GT_NCCL_IN_PROGRESS) {
			status = status_of(g);
			since = gt_clock_s();
		} else if (!since) {
			since = gt_clock_s();
		} else if (gt_clock_s() - since > remote_s) {
			break;
		}
		gt_cuda_group_pause(&pause_s);
	}
	if (gt_cuda_group_failed(g, err))
		return err->code;
	if (status == GT_NCCL_SUCCESS)
		return 0;
	return set_background_error(g, status, gt_collective_text(c).s, err);
}

/* ---- NCCL's calls ---- */

static const int types[GT_DTYPE_COUNT] = {
	[GT_F32] = GT_NCCL_F32,
	[GT_F64] = GT_NCCL_F64,
	[GT_F16] = GT_NCCL_F16,
	[GT_BF16] = GT_NCCL_BF16,
	[GT_I32] = GT_NCCL_I32,
	[GT_I64] = GT_NCCL_I64,
};

static const int reductions[] = {
	[GT_SUM] = GT_NCCL_SUM,
	[GT_AVG] = GT_NCCL_AVG,
	[GT_MAX] = GT_NCCL_MAX,
};

/* Call NCCL; the caller holds `calls`. Collectives that only move data move bytes of any type. */
static int queue_nccl_call(const struct gt_cuda_group *g, const struct gt_collective *c)
{
	const struct nccl *n = g->link;
	size_t count = (size_t)c->count, bytes = count * gt_dtype_size(c->dtype);
	int type = types[c->dtype], reduction = reductions[c->reduction];
	cudaStream_t stream = g->stream->queue;

	switch (c->kind) {
	case GT_ALL_REDUCE:
		return gt_nccl->AllReduce(c->in, c->out, count, type, reduction, n->comm, stream);
	case GT_REDUCE:
		return gt_nccl->Reduce(
		    c->in, c->out, count, type, reduction, c->peer, n->comm, stream);
	case GT_REDUCE_SCATTER:
		return gt_nccl->ReduceScatter(
		    c->in, c->out, count, type, reduction, n->comm, stream);
	case GT_ALL_GATHER:
		return gt_nccl->AllGather(c->in, c->out, bytes, GT_NCCL_U8, n->comm, stream);
	case GT_BROADCAST:
		return gt_nccl->Broadcast(
		    c->in, c->out, bytes, GT_NCCL_U8, c->peer, n->comm, stream);
	case GT_SEND:
		return gt_nccl->Send(c->in, bytes, GT_NCCL_U8, c->peer, n->comm, stream);
	case GT_RECV:
		return gt_nccl->Recv(c->out, bytes, GT_NCCL_U8, c->peer, n->comm, stream);
	case GT_BARRIER: /* NCCL has none: all ranks reduce a number */
		break;
	}
	return gt_nccl->AllReduce(n->token, n->token, 1, GT_NCCL_I32, GT_NCCL_MAX, n->comm, stream);
}

static bool is_fine(int status)
{
	return status == GT_NCCL_SUCCESS || status == GT_NCCL_IN_PROGRESS;
}

/* Messages of an exchange are a group of NCCL: one kernel, in which they go on independently of
 * each other (NVIDIA, "Point-to-point communication"). */
static int queue_nccl_calls(const struct gt_cuda_group *g, const struct gt_collective *c, int count)
{
	int status, ended;

	if (count == 1)
		return queue_nccl_call(g, c);
	status = gt_nccl->GroupStart();
	for (int i = 0; is_fine(status) && i < count; i++)
		if (c[i].count)
			status = queue_nccl_call(g, &c[i]);
	ended = gt_nccl->GroupEnd();
	return is_fine(status) ? ended : status;
}

static int run_nccl_calls(
    struct gt_cuda_group *g, const struct gt_collective *c, int count, struct gt_err *err)
{
	struct nccl *n = g->link;
	int status = GT_NCCL_SUCCESS;

	pthread_mutex_lock(&n->calls);
	if (n->comm)
		status = queue_nccl_calls(g, c, count);
	pthread_mutex_unlock(&n->calls);
	return wait_until_queued(g, status, c, err);
}

/* ---- connecting ---- */

/* Rank 0's id, or why it has none. */
struct invitation {
	struct gt_cuda_rank_error error;
	struct gt_nccl_id id;
};

static int invite(struct gt_group *host, struct gt_nccl_id *id, struct gt_err *err)
{
	struct invitation i = { 0 };
	struct gt_collective c = { GT_BROADCAST, &i, &i, sizeof(i), GT_U8, .what = "nccl" };
	struct gt_err own = GT_ERR_INIT;
	int status;

	if (!host->rank) {
		status = gt_nccl->GetUniqueId(&i.id);
		if (status != GT_NCCL_SUCCESS)
			set_error(status, NULL, "ncclGetUniqueId", &own);
		i.error = gt_cuda_rank_error_of(&own);
	}
	if (gt_group_run(host, &c, err))
		return err->code;
	*id = i.id;
	return i.error.code ? gt_cuda_rank_error_pass(&i.error, 0, host->rank, err) : 0;
}

static int wait_for_others(struct gt_cuda_group *g, int status, struct gt_err *err)
{
	struct nccl *n = g->link;
	double until = gt_clock_s() + g->group.timeout_s, pause_s = 0;
	bool gone;

	while (status == GT_NCCL_IN_PROGRESS) {
		if (gt_group_check_peers(g->host, &gone, err))
			return err->code;
		if (gt_clock_s() > until) {
			gt_err_set(err, GT_EIO,
			    "NCCL has not connected the ranks in %g s (rank %d of %d)",
			    g->group.timeout_s, g->group.rank, g->group.size);
			return gt_err_hint(
			    err, "NCCL_DEBUG=INFO in the environment makes NCCL say more");
		}
		gt_cuda_group_pause(&pause_s);
		status = status_of(g);
	}
	return status == GT_NCCL_SUCCESS ? 0 : set_error(status, n->comm, "ncclCommInitRank", err);
}

static void abort_calls(struct gt_cuda_group *g);
static void disconnect(struct gt_cuda_group *g);

static int join_nccl_group(struct gt_cuda_group *g, struct nccl *n, struct gt_err *err)
{
	struct gt_nccl_config config = { .size = sizeof(config),
		.magic = gt_nccl_magic,
		.version = GT_NCCL_CONFIG,
		.cluster_size = GT_NCCL_UNSET,
		.min_blocks = GT_NCCL_UNSET,
		.max_blocks = g->messages ? MESSAGE_BLOCKS : GT_NCCL_UNSET };
	struct gt_err mine = GT_ERR_INIT;
	struct gt_nccl_id id;
	int status, rc = invite(g->host, &id, err);

	if (rc)
		return rc;
	status = gt_nccl->CommInitRankConfig(&n->comm, g->group.size, id, g->group.rank, &config);
	wait_for_others(g, status, &mine);
	return gt_cuda_agree(g->host, &mine, err);
}

/* Whether NCCL starts the kernels of different communicators in the order of the calls. */
static bool keeps_order(int version)
{
	const char *text = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");

	return version >= GT_NCCL_ORDERING && text && strtol(text, NULL, 0);
}

static int connect_ranks(struct gt_cuda_group *g, struct gt_err *err)
{
	struct nccl *n;
	int version;

	if (gt_nccl_open(&version, err))
		return err->code;
	g->in_turn = !keeps_order(version);
	n = gt_calloc(1, sizeof(*n), err);
	if (!n)
		return err->code;
	pthread_mutex_init(&n->calls, NULL);
	g->link = n;
	if (gt_device_alloc(g->device, TOKEN_BYTES, &n->token, err) || join_nccl_group(g, n, err)) {
		abort_calls(g);
		disconnect(g);
	}
	return err->code;
}

/* ---- disconnecting ---- */

static void *take_nccl_comm(struct nccl *n)
{
	void *comm;

	pthread_mutex_lock(&n->calls);
	comm = n->comm;
	n->comm = NULL;
	pthread_mutex_unlock(&n->calls);
	return comm;
}

struct abort {
	void *comm;
	int index; /* index of the GPU */
};

/* NCCL restores the thread's current GPU after the call. Without cudaSetDevice() this would be GPU
 * 0, and the process would create a context there. */
static void *abort_one(void *arg)
{
	struct abort *a = arg;

	if (cudaSetDevice(a->index) != cudaSuccess)
		cudaGetLastError();
	gt_nccl->CommAbort(a->comm);
	free(a);
	return NULL;
}

/*
 * Let GPUs stop waiting. ncclCommAbort() tells the kernels to end, waits for them, and frees the
 * memory of the communicator, which may wait for all work of the GPU: also for the kernels of
 * another communicator of this rank, which end when that one is aborted. So each abort has a thread
 * of its own. The communicator is taken first, as NCCL allows no other call on it meanwhile.
 */
static void abort_calls(struct gt_cuda_group *g)
{
	struct nccl *n = g->link;
	void *comm = take_nccl_comm(n);
	struct abort *a;

	if (!comm)
		return;
	a = gt_calloc(1, sizeof(*a), GT_ERR_IGNORED);
	if (a) {
		*a = (struct abort){ comm, g->device->index };
		n->aborts = !gt_thread_start(&n->abort, abort_one, a, GT_ERR_IGNORED);
	}
	if (n->aborts)
		return;
	free(a);
	gt_nccl->CommAbort(comm);
}

/* Wait for the abort, if there is one, at most aborting_s. It goes on if it takes longer: it may
 * wait for another communicator, whose group is freed next. */
static void await_abort(struct nccl *n)
{
	struct timespec until;

	if (!n->aborts)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)(1e9 * aborting_s);
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	if (pthread_timedjoin_np(n->abort, NULL, &until))
		pthread_detach(n->abort);
}

/* Wait at most disconnect_s for the other ranks; then abort, so that no rank waits for ever. */
static void part(struct nccl *n)
{
	double until = gt_clock_s() + disconnect_s, pause_s = 0;
	void *comm = take_nccl_comm(n);
	int status;

	if (!comm)
		return;
	status = gt_nccl->CommFinalize(comm);
	while (status == GT_NCCL_IN_PROGRESS && gt_clock_s() < until) {
		gt_cuda_group_pause(&pause_s);
		if (gt_nccl->CommGetAsyncError(comm, &status) != GT_NCCL_SUCCESS)
			break;
	}
	if (status == GT_NCCL_SUCCESS)
		gt_nccl->CommDestroy(comm);
	else
		gt_nccl->CommAbort(comm);
}

static void disconnect(struct gt_cuda_group *g)
{
	struct nccl *n = g->link;

	part(n);
	await_abort(n);
	if (cudaStreamSynchronize(g->stream->queue) != cudaSuccess) /* a barrier writes the token */
		cudaGetLastError();
	gt_device_free(g->device, n->token, TOKEN_BYTES);
	pthread_mutex_destroy(&n->calls);
	free(n);
	g->link = NULL;
}

static const struct gt_cuda_links links = {
	.groups = &gt_nccl_groups,
	.connect = connect_ranks,
	.exchanges = true,
	.call = run_nccl_calls,
	.background = background,
	.abort = abort_calls,
	.disconnect = disconnect,
	.hint = "NCCL_DEBUG=INFO in the environment makes NCCL say more; ",
};

static int make_nccl_group(struct gt_group **group, const struct gt_device *device,
    const struct gt_device_way *way, struct gt_err *err)
{
	return gt_cuda_group_new(group, device, &links, way->messages, err);
}

/* NCCL does not tell how much device memory it takes. */
const struct gt_device_groups gt_nccl_groups = { .name = "nccl",
	.check_alone = check_alone,
	.check = check_nccl_ranks,
	.make = make_nccl_group };
