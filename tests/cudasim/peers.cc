/* peers.cc - the simulator's copies between devices, and the driver's answers about them. */
#include "tests/cudasim/inside.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

struct cudasim_pool {
	bool open[CUDASIM_DEVICES]; /* to these devices */
};

static cudasim_pool pools[CUDASIM_DEVICES];
static bool enabled[CUDASIM_DEVICES][CUDASIM_DEVICES];
static int opened; /* of `enabled` */

int cudasim_peers()
{
	return opened;
}

static bool peers_are(const char *word)
{
	const char *text = getenv("CUDASIM_PEERS");

	return !strcmp(text ? text : "yes", word);
}

/* Memory of a pool: it is looked for by where it begins, and pieces of it are as good. */
static bool is_of(const void *p, size_t bytes, int device)
{
	int there = cudasim_device_of(p);

	return cudasim_is_device(p, bytes) && (there < 0 || there == device);
}

bool cudasim_has_no_peers()
{
	return peers_are("no");
}

static bool is_device(int device)
{
	int count;

	return cudaGetDeviceCount(&count) == cudaSuccess && device >= 0 && device < count;
}

cudaError_t cudaDeviceCanAccessPeer(int *out, int device, int peer)
{
	if (!is_device(device) || !is_device(peer))
		return cudasim_return(cudaErrorInvalidDevice);
	*out = device != peer && !peers_are("no");
	return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	guard g(cudasim_lock);
	bool *there;

	if (!is_device(peer) || peer == cudasim_device || peers_are("no") || flags)
		return cudasim_return(cudaErrorInvalidDevice);
	if (peers_are("full"))
		return cudasim_return(cudaErrorTooManyPeers);
	there = &enabled[cudasim_device][peer];
	if (*there)
		return cudasim_return(cudaErrorPeerAccessAlreadyEnabled);
	*there = true;
	opened++;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int device)
{
	if (!is_device(device))
		return cudasim_return(cudaErrorInvalidDevice);
	*out = &pools[device];
	return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(
    cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count)
{
	guard g(cudasim_lock);

	for (size_t i = 0; i < count; i++) {
		if (!is_device(access[i].location.id) || peers_are("no"))
			return cudasim_return(cudaErrorInvalidDevice);
		pool->open[access[i].location.id] = true;
	}
	return cudaSuccess;
}

bool cudasim_reaches(int device, int peer)
{
	return device == peer || pools[peer].open[device];
}

static bool is_straight(int to, int from)
{
	return to != from && (pools[to].open[from] || pools[from].open[to]);
}

static std::vector<std::string> kept; /* shared blocks of other devices, before a kernel */

void cudasim_keep_peers(int device)
{
	kept.clear();
	if (peers_are("wrong"))
		cudasim_each_shared(
		    device, [](char *p, size_t bytes) { kept.push_back(std::string(p, bytes)); });
}

void cudasim_spoil_peers(int device)
{
	auto was = kept.begin();

	if (kept.empty())
		return;
	cudasim_each_shared(device, [&was](char *p, size_t bytes) {
		size_t first = 0, last = bytes;

		while (first < bytes && p[first] == (*was)[first])
			first++;
		while (last > first && p[last - 1] == (*was)[last - 1])
			last--;
		if (first < last)
			p[(first + last) / 2] ^= 0x5a;
		was++;
	});
}

/* A wrong byte: between two devices alone, and only on the straight way. */
static cudaError_t spoil(void *to, size_t bytes, cudaStream_t stream)
{
	item i = {};

	i.kind = item::FILL;
	i.to = (char *)to + bytes / 2;
	i.value = 0xa5;
	i.bytes = 1;
	return cudasim_queue(stream, i);
}

cudaError_t cudaMemcpyPeerAsync(
    void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream)
{
	item i = {};
	guard g(cudasim_lock);
	cudaError_t e;

	i.kind = item::COPY;
	i.to = to;
	i.from = from;
	i.bytes = bytes;
	if (!bytes)
		return cudaSuccess;
	if (!is_of(to, bytes, to_device) || !is_of(from, bytes, from_device))
		return cudasim_return(cudaErrorInvalidValue);
	e = cudasim_queue(stream, i);
	if (e == cudaSuccess && is_straight(to_device, from_device) && peers_are("wrong"))
		e = spoil(to, bytes, stream);
	return e;
}
