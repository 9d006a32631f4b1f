/* ranks.c - ranks with GPUs exchange descriptions of their GPUs, and their errors. */
#include "kernels/cuda/group/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/mem.h"

/* ---- errors ---- */

struct gt_cuda_rank_error gt_cuda_rank_error_of(const struct gt_err *err)
{
	struct gt_cuda_rank_error v = { .code = err->code };

	if (!err->code)
		return v;
	memcpy(v.text, err->text, sizeof(v.text));
	memcpy(v.hint, err->hint, sizeof(v.hint));
	return v;
}

int gt_cuda_rank_error_pass(
    const struct gt_cuda_rank_error *v, int rank, int mine, struct gt_err *err)
{
	gt_err_set(err, v->code, "%.*s", (int)sizeof(v->text) - 1, v->text);
	if (v->hint[0])
		gt_err_hint(err, "%.*s", (int)sizeof(v->hint) - 1, v->hint);
	if (rank == mine)
		return err->code;
	gt_err_prefix(err, "rank %d", rank);
	return gt_err_follow(err);
}

static int gather_from_hosts(
    struct gt_group *host, const void *mine, size_t bytes, void *all, struct gt_err *err)
{
	const struct gt_collective c = { GT_ALL_GATHER, mine, all, (int64_t)bytes, GT_U8,
		.what = "GPUs" };

	return gt_group_run(host, &c, err);
}

/*
 * Memory is asked for before the gather, and the outcome of all ranks is compared first: a rank
 * that left here alone would leave the others in the gather.
 */
int gt_cuda_gather_new(
    struct gt_group *host, const void *mine, size_t bytes, void **all, struct gt_err *err)
{
	struct gt_err own = GT_ERR_INIT;
	int64_t failed;
	int rc;

	*all = gt_calloc((size_t)host->size, bytes, &own);
	failed = !*all;
	rc = gt_all_reduce(host, &failed, 1, GT_I64, GT_MAX, err);
	if (!rc && own.code) {
		*err = own;
		rc = err->code;
	} else if (!rc && failed) {
		gt_err_set(err, GT_ENOMEM, "another rank has no memory to connect the GPUs");
		rc = gt_err_follow(err);
	}
	if (!rc)
		rc = gather_from_hosts(host, mine, bytes, *all, err);
	if (rc) {
		free(*all);
		*all = NULL;
	}
	return rc;
}

int gt_cuda_agree(struct gt_group *host, const struct gt_err *mine, struct gt_err *err)
{
	struct gt_cuda_rank_error own = gt_cuda_rank_error_of(mine), *all;
	void *gathered;
	int rc = gt_cuda_gather_new(host, &own, sizeof(own), &gathered, err);

	all = gathered;
	for (int r = 0; !rc && r < host->size; r++)
		if (all[r].code)
			rc = gt_cuda_rank_error_pass(&all[r], r, host->rank, err);
	free(all);
	return rc;
}

/* ---- descriptions of ranks ---- */

/*
 * Several hosts may have one name, as containers often do. The kernel draws a boot_id at each
 * start (random(4)), which tells them apart.
 */
static void read_host(char *out, size_t size)
{
	char name[64] = "", boot[48] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	gethostname(name, sizeof(name) - 1);
	if (f) {
		if (!fgets(boot, sizeof(boot), f))
			boot[0] = '\0';
		fclose(f);
	}
	snprintf(out, size, "%s %s", name, boot);
}

static void read_process(char *out, size_t size)
{
	char numbers[40] = ""; /* the namespace of process ids: "pid:[4026531836]" */

	if (readlink("/proc/self/ns/pid", numbers, sizeof(numbers) - 1) < 0)
		numbers[0] = '\0';
	snprintf(out, size, "%d of %s", (int)getpid(), numbers);
}

struct gt_cuda_rank_info gt_cuda_rank_info_of(const struct gt_device *device, struct gt_err *err)
{
	struct gt_cuda_rank_info info = { .index = device->index };

	snprintf(info.gpu, sizeof(info.gpu), "%s:%d", device->backend->name, device->index);
	read_host(info.host, sizeof(info.host));
	read_process(info.process, sizeof(info.process));
	if (!err->code)
		gt_cuda_check(cudaDeviceGetPCIBusId(info.bus, sizeof(info.bus), device->index),
		    device->index, "cudaDeviceGetPCIBusId", err);
	if (!err->code)
		gt_device_identify(device, info.identity, err);
	info.error = gt_cuda_rank_error_of(err);
	return info;
}

bool gt_cuda_same_host(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b)
{
	return !strcmp(a->host, b->host);
}

bool gt_cuda_same_gpu(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b)
{
	return !strcmp(a->identity, b->identity) && gt_cuda_same_host(a, b);
}

bool gt_cuda_same_bus(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b)
{
	return !strcmp(a->bus, b->bus) && gt_cuda_same_host(a, b);
}

bool gt_cuda_same_process(const struct gt_cuda_rank_info *a, const struct gt_cuda_rank_info *b)
{
	return !strcmp(a->process, b->process) && gt_cuda_same_host(a, b);
}
