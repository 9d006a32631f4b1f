/* check.c - a ring of GPUs: find whether ranks can reach each other's memory, by trying. */
#include <stdlib.h>

#include "kernels/cuda/group/ranks.h"
#include "kernels/cuda/ring/ring.h"
#include "lib/base/mem.h"

/* ---- checking the ranks ---- */

static int fail_host(const struct gt_cuda_ring_info *infos, int rank, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP,
	    "ranks 0 and %d are on two hosts (%.40s, %.40s), and a ring "
	    "connects the GPUs of one",
	    rank, infos[0].rank.host, infos[rank].rank.host);
	return gt_err_hint(err, "{backend} nccl or tcp connects hosts");
}

static int hint_host(struct gt_err *err)
{
	return gt_err_hint(err, "use {backend} shm, which copies data by way of the host");
}

static int fail_far(
    const struct gt_cuda_ring_info *infos, int mine, int other, const char *why, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP,
	    "%s (%s) of rank %d cannot access the memory of %s (%s) of rank %d%s",
	    infos[mine].rank.gpu, infos[mine].rank.bus, mine, infos[other].rank.gpu,
	    infos[other].rank.bus, other, why);
	return hint_host(err);
}

/*
 * Whether this GPU can reach that of a rank in another process, as far as this process can tell:
 * cudaIpcOpenMemHandle() also opens memory of a GPU that the process does not see, so
 * try_all() decides. It enables access, too; cudaDeviceEnablePeerAccess() would make a context on
 * the other GPU, which takes hundreds of MiB there. The other GPU may have another number here.
 */
static bool may_reach(const struct gt_cuda_rank_info *mine, const struct gt_cuda_rank_info *other)
{
	int index, reaches = 1;

	if (cudaDeviceGetByPCIBusId(&index, other->bus) != cudaSuccess ||
	    cudaDeviceCanAccessPeer(&reaches, mine->index, index) != cudaSuccess)
		cudaGetLastError();
	return reaches;
}

static int reach(const struct gt_cuda_ring_info *infos, int mine, int other, struct gt_err *err)
{
	const struct gt_cuda_rank_info *a = &infos[mine].rank, *b = &infos[other].rank;
	bool direct = false;

	if (gt_cuda_same_gpu(a, b))
		return 0;
	if (gt_cuda_same_bus(a, b))
		return fail_far(infos, mine, other, ", another instance of that GPU", err);
	if (!gt_cuda_same_process(a, b))
		direct = may_reach(a, b);
	else if (gt_cuda_peer_open(a->index, b->index, &direct, err))
		return err->code;
	return direct ? 0 : fail_far(infos, mine, other, "", err);
}

static int reach_all(const struct gt_cuda_ring_info *infos, int size, int mine, struct gt_err *err)
{
	int rc = 0;

	for (int r = 0; !rc && r < size; r++)
		if (!gt_cuda_same_host(&infos[r].rank, &infos[0].rank))
			rc = fail_host(infos, r, err);
	for (int r = 0; !rc && r < size; r++)
		if (r != mine)
			rc = reach(infos, mine, r, err);
	return rc;
}

int gt_cuda_ring_check_alone(const struct gt_device *device, struct gt_err *err)
{
	gt_cuda_wait_value_fn *unused;

	return gt_cuda_find_wait_value(&unused, device->index, err);
}

static void check_rank(struct gt_group *world, const struct gt_device *device, struct gt_err *err)
{
	if (!world->ops->share)
		gt_err_set(err, GT_ENOTSUP,
		    "a ring of GPUs needs ranks that share host memory, and those of '%s' do not",
		    world->ops->name);
	else
		gt_cuda_ring_check_alone(device, err);
}

int gt_cuda_ring_check_infos(
    const struct gt_cuda_ring_info *infos, int size, int mine, struct gt_err *err)
{
	int rc = 0;

	for (int r = 0; !rc && r < size; r++)
		if (infos[r].rank.error.code)
			rc = gt_cuda_rank_error_pass(&infos[r].rank.error, r, mine, err);
	return rc;
}

/* ---- trying ---- */

/*
 * Each rank writes a pattern to a little memory of every other rank, as a ring will do, and finds
 * in its own what the others wrote. Containers may keep processes from each other's memory; and
 * with a wrong setting of the IOMMU or of PCIe bridges, the driver says that GPUs reach each other,
 * but copies corrupt data (NVIDIA, "NCCL troubleshooting", "GPU-to-GPU communication"). The memory
 * must be of cudaMalloc(), whose memory alone cudaIpcGetMemHandle() takes.
 *
 *   inbox [size][TRIED_BYTES]   a pattern of each rank
 *   pattern [TRIED_BYTES]       this rank's own, which it copies
 *   halt                        0 (kernels.h)
 */
enum { TRIED_BYTES = 4096, HALT_BYTES = 256 };

static size_t tried_bytes(int size)
{
	return (size_t)(size + 1) * TRIED_BYTES + HALT_BYTES;
}

static unsigned char tried_byte(int sender, int i)
{
	return (unsigned char)((unsigned)i * 37 + ((unsigned)i >> 8) * 11 + (unsigned)sender * 101 +
	                       13);
}

/* Set `tried` to memory with this rank's pattern, and zeros in place of the others'. */
static int make_tried(
    void **tried, const struct gt_group *world, const struct gt_device *device, struct gt_err *err)
{
	size_t bytes = tried_bytes(world->size);
	unsigned char *host = gt_calloc(1, bytes, err);

	for (int i = 0; host && i < TRIED_BYTES; i++)
		host[world->size * TRIED_BYTES + i] = tried_byte(world->rank, i);
	if (host && !gt_cuda_check(cudaMalloc(tried, bytes), device->index, "cudaMalloc", err))
		gt_device_write(device, *tried, host, bytes, err);
	free(host);
	return err->code;
}

/* Copy this rank's pattern to the memory of another one. */
static int write_to(const struct gt_cuda_ring_info *infos, const struct gt_group *world, int other,
    const struct gt_device *device, struct gt_err *err)
{
	const struct gt_cuda_ring_info *mine = &infos[world->rank];
	unsigned char *pattern = mine->window + world->size * TRIED_BYTES;
	bool far = !gt_cuda_same_process(&infos[other].rank, &mine->rank);
	void *p = infos[other].window, *to;

	if (far && gt_cuda_check(cudaIpcOpenMemHandle(
	                             &p, infos[other].handle, cudaIpcMemLazyEnablePeerAccess),
	               mine->rank.index, "cudaIpcOpenMemHandle", err)) {
		gt_err_prefix(err, "memory of rank %d", other);
		return hint_host(err);
	}
	to = (unsigned char *)p + world->rank * TRIED_BYTES;
	if (!gt_cuda_ring_copy(device->compute, (const uint32_t *)(pattern + TRIED_BYTES), &to, 1,
	        pattern, TRIED_BYTES, err))
		device->backend->stream_sync(device->compute, err);
	if (far && cudaIpcCloseMemHandle(p) != cudaSuccess)
		cudaGetLastError();
	return err->code;
}

static int fail_wrong(
    const struct gt_cuda_ring_info *infos, int mine, int other, int at, struct gt_err *err)
{
	gt_err_set(err, GT_ENOTSUP,
	    "data of %s (%s) of rank %d arrive wrong on %s (%s) of rank %d (byte %d of %d)",
	    infos[other].rank.gpu, infos[other].rank.bus, other, infos[mine].rank.gpu,
	    infos[mine].rank.bus, mine, at, TRIED_BYTES);
	return gt_err_hint(
	    err, "'gtrain probe --check' says how to mend this; until then use {backend} shm");
}

/* Compare the patterns that the others wrote. */
static int read_tried(const struct gt_cuda_ring_info *infos, const struct gt_group *world,
    const struct gt_device *device, struct gt_err *err)
{
	size_t bytes = (size_t)world->size * TRIED_BYTES;
	unsigned char *host = gt_calloc(1, bytes, err);
	int rc =
	    host ? gt_device_read(device, host, infos[world->rank].window, bytes, err) : err->code;

	for (int r = 0; !rc && r < world->size; r++)
		for (int i = 0; !rc && r != world->rank && i < TRIED_BYTES; i++)
			if (host[r * TRIED_BYTES + i] != tried_byte(r, i))
				rc = fail_wrong(infos, world->rank, r, i, err);
	free(host);
	return rc;
}

/* All write before any of them reads. */
static int try_all(struct gt_group *world, const struct gt_cuda_ring_info *infos,
    const struct gt_device *device, struct gt_err *err)
{
	struct gt_err own = GT_ERR_INIT;
	int rc = reach_all(infos, world->size, world->rank, &own);

	for (int r = 0; !rc && r < world->size; r++)
		if (r != world->rank)
			rc = write_to(infos, world, r, device, &own);
	if (gt_cuda_agree(world, &own, err))
		return err->code;
	read_tried(infos, world, device, &own);
	return gt_cuda_agree(world, &own, err);
}

int gt_cuda_ring_check(struct gt_group *world, const struct gt_device *device, struct gt_err *err)
{
	struct gt_err own = GT_ERR_INIT;
	struct gt_cuda_ring_info mine = { .window = NULL };
	void *tried = NULL, *all;
	int rc;

	check_rank(world, device, &own);
	if (!own.code && !make_tried(&tried, world, device, &own))
		gt_cuda_check(cudaIpcGetMemHandle(&mine.handle, tried), device->index,
		    "cudaIpcGetMemHandle", &own);
	mine.window = tried;
	mine.rank = gt_cuda_rank_info_of(device, &own);
	rc = gt_cuda_gather_new(world, &mine, sizeof(mine), &all, err);
	if (!rc)
		rc = gt_cuda_ring_check_infos(all, world->size, world->rank, err);
	if (!rc)
		rc = try_all(world, all, device, err);
	free(all);
	if (cudaFree(tried) != cudaSuccess)
		cudaGetLastError();
	return rc;
}
