/* communicator.c - NCCL's communicators: check ranks, connect and disconnect them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/nccl/inside.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"

/* Longest wait for NCCL to finalize a communicator whose collectives have all ended. */
static const double parting_s = 2;

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

/* All ranks fail together: with the error of the first that has one. */
struct verdict {
	int32_t code;
	char text[sizeof(((struct gt_err *)0)->text)];
	char hint[sizeof(((struct gt_err *)0)->hint)];
};

static struct verdict verdict_of(const struct gt_err *err)
{
	struct verdict v = { .code = err->code };

	if (!err->code)
		return v;
	memcpy(v.text, err->text, sizeof(v.text));
	memcpy(v.hint, err->hint, sizeof(v.hint));
	return v;
}

static int pass_verdict(const struct verdict *v, int rank, struct gt_err *err)
{
	gt_err_set(err, v->code, "%.*s", (int)sizeof(v->text) - 1, v->text);
	if (v->hint[0])
		gt_err_hint(err, "%.*s", (int)sizeof(v->hint) - 1, v->hint);
	return rank ? gt_err_prefix(err, "rank %d", rank) : err->code;
}

static int gather(
    struct gt_group *host, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	const struct gt_collective c = { GT_ALL_GATHER, mine, all, (int64_t)bytes, GT_U8,
		.what = "nccl" };

	return gt_group_run(host, &c, err);
}

/* The same of every rank, in *all, the caller's to free. A rank that has no memory for it tells the
 * others, and all fail: nobody waits for a rank that does not come. *all is NULL on failure. */
static int gather_new(
    struct gt_group *host, const void *mine, size_t bytes, void **all, struct gt_err *err)
{
	struct gt_err own = GT_ERR_INIT;
	int64_t failed;
	int rc;

	*all = gt_calloc((size_t)host->size, bytes, &own);
	failed = !*all;
	rc = gt_all_reduce(host, &failed, 1, GT_I64, GT_MAX, err);
	if (!rc && failed)
		rc =
		    gt_err_set(err, GT_ENOMEM, "a rank has no memory to connect the ranks by NCCL");
	if (!rc)
		rc = gather(host, mine, bytes, *all, err);
	if (rc) {
		free(*all);
		*all = NULL;
	}
	return rc;
}

/* All ranks go on, or fail with the error of the first that has one in *mine. */
static int agree(struct gt_group *host, const struct gt_err *mine, struct gt_err *err)
{
	struct verdict own = verdict_of(mine), *all;
	void *gathered;
	int rc = gather_new(host, &own, sizeof(own), &gathered, err);

	all = gathered;
	for (int r = 0; !rc && r < host->size; r++)
		if (all[r].code)
			rc = pass_verdict(&all[r], r, err);
	free(all);
	return rc;
}

/* ---- checking the ranks ---- */

struct card {
	struct verdict verdict;
	int32_t version, index;
	char gpu[16];     /* "cuda:0" */
	char bus[32];     /* where it is in its host */
	char host[128];   /* also of containers with the same name */
	char process[64]; /* id and its namespace, as other containers may use the same ids */
};

static void read_host(char *out, size_t room)
{
	char name[64] = "", boot[48] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	gethostname(name, sizeof(name) - 1);
	if (f) {
		if (!fgets(boot, sizeof(boot), f))
			boot[0] = '\0';
		fclose(f);
	}
	snprintf(out, room, "%s %s", name, boot);
}

static void read_process(char *out, size_t room)
{
	char numbers[40] = ""; /* the namespace of process ids: "pid:[4026531836]" */

	if (readlink("/proc/self/ns/pid", numbers, sizeof(numbers) - 1) < 0)
		numbers[0] = '\0';
	snprintf(out, room, "%d of %s", (int)getpid(), numbers);
}

static struct card card_of(const struct gt_device *device)
{
	struct gt_err err = GT_ERR_INIT;
	struct card card = { .index = device->index };
	int version = 0;

	snprintf(card.gpu, sizeof(card.gpu), "%s:%d", device->backend->name, device->index);
	read_host(card.host, sizeof(card.host));
	read_process(card.process, sizeof(card.process));
	if (!gt_nccl_open(&version, &err))
		gt_cuda_check(cudaDeviceGetPCIBusId(card.bus, sizeof(card.bus), device->index),
		    device->index, "cudaDeviceGetPCIBusId", &err);
	card.version = version;
	card.verdict = verdict_of(&err);
	return card;
}

static int refuse_versions(const struct card *cards, int rank, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP, "rank 0 has NCCL %s, but rank %d %s",
	    gt_nccl_version_text(cards[0].version).s, rank,
	    gt_nccl_version_text(cards[rank].version).s);
	return gt_err_hint(err, "install the same version of the package libnccl2 on all hosts");
}

static int refuse_shared(const struct card *cards, int one, int other, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP,
	    "ranks %d and %d share the GPU %s (%s), and NCCL takes one rank for each GPU", one,
	    other, cards[other].gpu, cards[other].bus);
	return gt_err_hint(err,
	    "give each rank a GPU of its own, by {device} and {nproc}; or let ranks that share "
	    "one go by way of the host: {backend} shm");
}

static int compare(const struct card *cards, int size, struct gt_err *err)
{
	for (int r = 0; r < size; r++)
		if (cards[r].verdict.code)
			return pass_verdict(&cards[r].verdict, r, err);
	for (int r = 1; r < size; r++) {
		if (cards[r].version != cards[0].version)
			return refuse_versions(cards, r, err);
		for (int other = 0; other < r; other++)
			if (!strcmp(cards[r].bus, cards[other].bus) &&
			    !strcmp(cards[r].host, cards[other].host))
				return refuse_shared(cards, other, r, err);
	}
	return 0;
}

/*
 * If ranks are threads of one process, NCCL lets their GPUs read and write each other's buffers
 * (NVIDIA, "NCCL environment variables", NCCL_P2P_DIRECT_DISABLE). GPUs can access memory of pools,
 * as gtrain's is, only after the pool is opened to them.
 */
static int open_to_threads(
    const struct gt_group *world, const struct card *cards, struct gt_err *err)
{
	const struct card *mine = &cards[world->rank];
	bool direct;
	int rc = 0;

	for (int r = 0; !rc && r < world->size; r++)
		if (r != world->rank && !strcmp(cards[r].process, mine->process) &&
		    !strcmp(cards[r].host, mine->host))
			rc = gt_cuda_peer_open(mine->index, cards[r].index, &direct, err);
	return rc;
}

int gt_nccl_check_ranks(struct gt_group *world, const struct gt_device *device, struct gt_err *err)
{
	struct card mine = card_of(device);
	struct card *all;
	struct gt_err own = GT_ERR_INIT;
	void *gathered;
	int rc = gather_new(world, &mine, sizeof(mine), &gathered, err);

	all = gathered;
	if (!rc)
		rc = compare(all, world->size, err);
	if (!rc) {
		open_to_threads(world, all, &own);
		rc = agree(world, &own, err);
	}
	free(all);
	return rc;
}

/* ---- calls that go on in the background ---- */

void gt_nccl_rest(double *pause_s)
{
	static const double least_s = 20e-6, most_s = 1e-3;

	nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * *pause_s) }, NULL);
	*pause_s = *pause_s < least_s ? least_s : *pause_s < most_s ? *pause_s * 1.1 : most_s;
}

/* The status of the communicator's last call, which may still be in progress. */
static int status_of(struct gt_nccl_group *g)
{
	int status = GT_NCCL_SUCCESS, rc = GT_NCCL_SUCCESS;

	pthread_mutex_lock(&g->calls);
	if (g->comm)
		rc = gt_nccl->CommGetAsyncError(g->comm, &status);
	pthread_mutex_unlock(&g->calls);
	return rc ? rc : status;
}

static int set_background_error(
    struct gt_nccl_group *g, int status, const char *what, struct gt_err *err)
{
	pthread_mutex_lock(&g->calls);
	set_error(status, g->comm, what, err);
	pthread_mutex_unlock(&g->calls);
	return gt_err_prefix(err, "rank %d", g->group.rank);
}

int gt_nccl_background(struct gt_nccl_group *g, const struct gt_collective *c, struct gt_err *err)
{
	int status = status_of(g);

	if (status == GT_NCCL_SUCCESS || status == GT_NCCL_IN_PROGRESS)
		return 0;
	return set_background_error(g, status, gt_collective_text(c).s, err);
}

/* No timeout here: the watch makes the group fail if a rank does not come. */
int gt_nccl_settle(
    struct gt_nccl_group *g, int status, const struct gt_collective *c, struct gt_err *err)
{
	double pause_s = 0;

	while (status == GT_NCCL_IN_PROGRESS) {
		if (gt_nccl_failed(g, err))
			return err->code;
		gt_nccl_rest(&pause_s);
		status = status_of(g);
	}
	if (gt_nccl_failed(g, err))
		return err->code;
	if (status == GT_NCCL_SUCCESS)
		return 0;
	return set_background_error(g, status, gt_collective_text(c).s, err);
}

/* ---- connecting ---- */

/* Rank 0's id, or why it has none. */
struct invitation {
	struct verdict verdict;
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
		i.verdict = verdict_of(&own);
	}
	if (gt_group_run(host, &c, err))
		return err->code;
	*id = i.id;
	return i.verdict.code ? pass_verdict(&i.verdict, 0, err) : 0;
}

static int wait_for_others(struct gt_nccl_group *g, int status, struct gt_err *err)
{
	double until = gt_clock_s() + g->group.timeout_s, pause_s = 0;
	bool gone;

	while (status == GT_NCCL_IN_PROGRESS) {
		if (gt_group_look(g->host, &gone, err))
			return err->code;
		if (gt_clock_s() > until) {
			gt_err_set(err, GT_EIO,
			    "NCCL has not connected the ranks in %g s (rank %d of %d)",
			    g->group.timeout_s, g->group.rank, g->group.size);
			return gt_err_hint(
			    err, "NCCL_DEBUG=INFO in the environment makes NCCL say more");
		}
		gt_nccl_rest(&pause_s);
		status = status_of(g);
	}
	return status == GT_NCCL_SUCCESS ? 0 : set_error(status, g->comm, "ncclCommInitRank", err);
}

int gt_nccl_connect(struct gt_nccl_group *g, struct gt_err *err)
{
	struct gt_nccl_config config = {
		.size = sizeof(config), .magic = gt_nccl_magic, .version = GT_NCCL_VERSION
	};
	struct gt_err mine = GT_ERR_INIT;
	struct gt_nccl_id id;
	int status, rc = invite(g->host, &id, err);

	if (rc)
		return rc;
	status = gt_nccl->CommInitRankConfig(&g->comm, g->group.size, id, g->group.rank, &config);
	wait_for_others(g, status, &mine);
	rc = agree(g->host, &mine, err);
	if (rc)
		gt_nccl_abort(g);
	return rc;
}

/* ---- parting ---- */

static void *take(struct gt_nccl_group *g)
{
	void *comm;

	pthread_mutex_lock(&g->calls);
	comm = g->comm;
	g->comm = NULL;
	pthread_mutex_unlock(&g->calls);
	return comm;
}

/* Takes the lock `calls`, as NCCL allows no other call on the communicator meanwhile. */
void gt_nccl_abort(struct gt_nccl_group *g)
{
	pthread_mutex_lock(&g->calls);
	if (g->comm)
		gt_nccl->CommAbort(g->comm);
	g->comm = NULL;
	pthread_mutex_unlock(&g->calls);
}

/* Wait at most parting_s for the other ranks; then abort, so that no rank waits for ever. */
void gt_nccl_disconnect(struct gt_nccl_group *g)
{
	double until = gt_clock_s() + parting_s, pause_s = 0;
	void *comm = take(g);
	int status;

	if (!comm)
		return;
	status = gt_nccl->CommFinalize(comm);
	while (status == GT_NCCL_IN_PROGRESS && gt_clock_s() < until) {
		gt_nccl_rest(&pause_s);
		if (gt_nccl->CommGetAsyncError(comm, &status) != GT_NCCL_SUCCESS)
			break;
	}
	if (status == GT_NCCL_SUCCESS)
		gt_nccl->CommDestroy(comm);
	else
		gt_nccl->CommAbort(comm);
}
