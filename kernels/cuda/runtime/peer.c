/* peer.c - copies between the memories of two GPUs. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/runtime/host_call.h"

/*
 * Two grants: cudaDeviceEnablePeerAccess() is for memory of cudaMalloc(). Peers reach memory of
 * cudaMallocAsync() only if its pool grants them access; a run allocates almost all its memory this
 * way. (CUDA C++ Programming Guide, "Device Accessibility for Multi-GPU Support".) The driver
 * grants the first for a limited number of peers, 8 on hosts without NVSwitch (ibid., "Peer-to-Peer
 * Memory Access"); copies to those beyond it go through the host.
 */
static int grant(int index, int peer, bool *granted, struct gt_err *err)
{
	const struct cudaMemAccessDesc access = {
		.location = { .type = cudaMemLocationTypeDevice, .id = index },
		.flags = cudaMemAccessFlagsProtReadWrite,
	};
	cudaError_t e = cudaDeviceEnablePeerAccess(peer, 0);
	cudaMemPool_t pool;
	int rc;

	*granted = e != cudaErrorTooManyPeers;
	if (e == cudaErrorPeerAccessAlreadyEnabled || e == cudaErrorTooManyPeers)
		e = cudaGetLastError() == e ? cudaSuccess : e;
	if (!e && !*granted)
		return 0;
	rc = gt_cuda_check(e, index, "cudaDeviceEnablePeerAccess", err);
	if (!rc)
		rc = gt_cuda_check(cudaDeviceGetDefaultMemPool(&pool, peer), index,
		    "cudaDeviceGetDefaultMemPool", err);
	return rc ? rc
	          : gt_cuda_check(
	                cudaMemPoolSetAccess(pool, &access, 1), index, "cudaMemPoolSetAccess", err);
}

int gt_cuda_peer_open(int index, int peer, bool *direct, struct gt_err *err)
{
	int reaches = 0, rc = gt_cuda_check(cudaDeviceCanAccessPeer(&reaches, index, peer), index,
	                     "cudaDeviceCanAccessPeer", err);

	*direct = !rc && reaches;
	return *direct ? grant(index, peer, direct, err) : rc;
}

int gt_cuda_copy_peer(struct gt_stream *stream, void *to, int to_index, const void *from,
    int from_index, size_t bytes, struct gt_err *err)
{
	if (!bytes)
		return 0;
	if (gt_cuda_check(cudaMemcpyPeerAsync(to, to_index, from, from_index, bytes, stream->queue),
	        stream->index, "cudaMemcpyPeerAsync", err))
		return err->code;
	return gt_cuda_call_error(stream->index, err);
}
