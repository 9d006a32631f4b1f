/* nccl.cc - stands in for NCCL, over the memory and the streams of the simulator. */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <unistd.h>

#include "tests/cudasim/lib/nccl_ranks.h"

/*
 * A library of its own, which gtrain opens as it opens the real one; the functions of the simulator
 * that it calls are the program's. Its ranks are threads or processes (nccl_ranks.h). As with the
 * real one:
 *
 * - Nothing blocks, so ranks connect in the background: at first, and once more at the first call
 *   of each kind. The work of a call is queued in the background, too: when the rank has asked for
 *   the status and, at the first call of its kind, all ranks have called it. Until then the
 *   communicator takes no other call.
 * - Calls between ncclGroupStart() and ncclGroupEnd() are one kernel: it begins when the stream has
 *   reached it, its messages go on in any order, and it ends when all of them have ended. Not
 *   simulated: several collectives or several messages in one direction, or several streams.
 * - A kernel waits on the GPU for those of the other ranks: it holds as many places
 *   (CUDASIM_PLACES) as its communicator has blocks, 32 by default. If calls differ, or a rank has
 *   aborted, GPUs wait until their own rank aborts, too.
 * - Calls on different communicators of a GPU begin in any order, so they are a fault unless the
 *   rank puts them in an order: the stream of a call waits for the call before, or the thread has
 *   waited for it, or NCCL_LAUNCH_ORDER_IMPLICIT is 1 and the version is 2.26 or newer: then a
 *   kernel begins when the one before has begun or, as with drivers older than CUDA 12.3, has
 *   ended (cudasim_nccl.serial). Ranks whose orders differ wait for each other. (NCCL User Guide,
 *   "Using multiple NCCL communicators concurrently".)
 * - If the process of a rank dies, GPUs wait as well. The other ranks get an error in the
 *   background, as ranks do that are connected by a network, unless CUDASIM_NCCL is "silent".
 * - Two ranks on one GPU are refused, unless NCCL_MULTI_RANK_GPU_ENABLE is set. Buffers have to be
 *   device memory that is open to the GPUs of other ranks of the process, which reach it unless
 *   CUDASIM_PEERS is "no".
 * - Sums go round a ring, so that their order depends on the element's place; those of 16 bits are
 *   rounded at every rank. The maximum of a NaN and a number is the number.
 *
 * cudasim_nccl (cudasim.h) plants errors.
 */

struct communicator {
	std::shared_ptr<member> ranks;
	int parting;                    /* looks until it has parted */
	bool lost;                      /* a rank, which is the error */
	uint64_t calls;                 /* of the host */
	std::map<int, bool> connected;  /* kinds of collectives, below 0; channels of messages */
	std::shared_ptr<launch> queued; /* in the background; NULL: none is */
};

/* The group of calls that a thread has begun. */
static thread_local struct {
	int depth, error;
	struct communicator *comm; /* of all calls */
	std::shared_ptr<launch> calls;
} grouped;

/* The latest launch of a thread, which is a rank, on each GPU, and their number. */
static thread_local struct {
	std::shared_ptr<launch> last;
	uint64_t count;
} launched[CUDASIM_DEVICES];

/* Blocks of a kernel, unless the communicator's configuration says otherwise. */
enum { BLOCKS = 32 };

/* ---- calls ---- */

static int version_of_library()
{
	return cudasim_nccl.version ? cudasim_nccl.version : 23007;
}

static bool have_joined(const member &m)
{
	for (int r = 0; r < (int)m.size; r++)
		if (!m.seats[r].joined)
			return false;
	return true;
}

/* Whether ranks share a GPU although the environment does not allow it. */
static bool share_a_gpu(const member &m)
{
	const char *several = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

	if (several && atoi(several) && version_of_library() >= GT_NCCL_SHARING)
		return false;
	for (int r = 0; r < (int)m.size; r++)
		for (int other = 0; other < r; other++)
			if (m.seats[r].device == m.seats[other].device)
				return true;
	return false;
}

static void look_for_lost_ranks(communicator *c)
{
	const char *text = getenv("CUDASIM_NCCL");

	if ((text && !strcmp(text, "silent")) || nccl_lost_rank(*c->ranks) < 0)
		return;
	c->lost = true;
	c->ranks->error = GT_NCCL_REMOTE_ERROR;
}

static int status_of(communicator *c)
{
	const member &m = *c->ranks;

	if (!m.error)
		look_for_lost_ranks(c);
	if (m.error)
		return m.error;
	if (!have_joined(m) || (c->parting && c->parting--))
		return GT_NCCL_IN_PROGRESS;
	if (share_a_gpu(m))
		return GT_NCCL_INVALID_USAGE;
	return c->queued ? GT_NCCL_IN_PROGRESS : GT_NCCL_SUCCESS;
}

/* Queue the work of a launch, once its ranks are connected. */
static void go_on(communicator *c)
{
	if (!c->queued || c->ranks->error)
		return;
	for (const call &k : c->queued->calls)
		if (k.connects && !nccl_all_have(*c->ranks, k, &seat::called))
			return;
	nccl_queue(c->queued);
	c->queued.reset();
}

/* Buffers of a rank are read and written by the GPU of its neighbour, if that is of the same
 * process and the driver says that it can. */
static bool fits(const member &m, const void *p, size_t bytes)
{
	int mine = m.own().device;

	for (int r = 0; r < (int)m.size; r++) {
		int peer = m.seats[r].device, can = 0;

		if (m.seats[r].process == m.own().process)
			cudaDeviceCanAccessPeer(&can, peer, mine);
		if (can && !cudasim_reaches(peer, mine))
			return false;
	}
	return cudasim_is_device(p, bytes);
}

static bool orders_implicitly()
{
	const char *text = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");

	return version_of_library() >= GT_NCCL_ORDERING && text && atoi(text);
}

/* Put a launch behind the one before on the GPU, or see that the rank has done so. */
static void put_in_order(const std::shared_ptr<launch> &l)
{
	int device = l->by->own().device;
	auto &of_gpu = launched[device];
	const launch *last = of_gpu.last.get();
	cudasim_stream *stream = cudasim_stream_of(l->stream);

	if (last && last->by != l->by && !last->by->own().left) {
		if (orders_implicitly()) {
			l->serial = cudasim_nccl.serial;
			l->behind = of_gpu.last;
		} else if (std::max(stream->known, cudasim_synced) < last->number) {
			cudasim_set_fault(device, "calls on two communicators of NCCL, and neither "
			                          "is behind the other");
		}
	}
	l->number = ++of_gpu.count;
	stream->known = l->number;
	of_gpu.last = l;
}

/* Start what a thread of NCCL does in the background. */
static int launch_calls(communicator *c, const std::shared_ptr<launch> &l)
{
	member &m = *c->ranks;

	l->by = c->ranks;
	l->turn = m.launches++;
	l->taken.resize(l->calls.size());
	cudasim_nccl.launches++;
	put_in_order(l);
	c->queued = l;
	return GT_NCCL_IN_PROGRESS;
}

static int enter(communicator *c, call k, cudaStream_t stream)
{
	member &m = *c->ranks;
	bool &connected = c->connected[k.channel ? k.channel : -1 - k.kind];
	std::shared_ptr<launch> l = grouped.depth ? grouped.calls : std::make_shared<launch>();

	if (grouped.depth && (grouped.comm ? grouped.comm != c || l->stream != stream : false))
		return GT_NCCL_INVALID_USAGE;
	for (const call &other : l->calls)
		if (other.channel == k.channel)
			return GT_NCCL_INVALID_USAGE;
	k.number = m.own().called[k.channel]++;
	k.hangs = cudasim_nccl.hangs && (long)c->calls == cudasim_nccl.hangs;
	k.fails = cudasim_nccl.fails && (long)c->calls == cudasim_nccl.fails &&
	          m.rank == cudasim_nccl.rank;
	k.connects = !connected;
	connected = true;
	l->stream = stream;
	l->calls.push_back(k);
	if (!grouped.depth)
		return launch_calls(c, l);
	grouped.comm = c;
	return GT_NCCL_SUCCESS;
}

/* A call begins: whether it may. With the lock. */
static int fail_call(communicator *c)
{
	int device = -1;

	c->calls++;
	cudasim_nccl.calls++;
	if (cudaGetDevice(&device) != cudaSuccess || device != c->ranks->own().device)
		return GT_NCCL_INVALID_USAGE;
	if (status_of(c) != GT_NCCL_SUCCESS)
		return c->ranks->error ? c->ranks->error : GT_NCCL_INVALID_USAGE;
	return cudasim_nccl.refuses && (long)c->calls == cudasim_nccl.refuses &&
	               c->ranks->rank == cudasim_nccl.rank
	           ? GT_NCCL_INVALID_ARGUMENT
	           : GT_NCCL_SUCCESS;
}

static int check_and_enter(
    communicator *c, const call &k, size_t ins, size_t outs, cudaStream_t stream)
{
	size_t bytes = k.count * nccl_size_of(k.dtype);
	int rc = fail_call(c);

	if (rc)
		return rc;
	if (k.peer < 0 || (size_t)k.peer >= c->ranks->size ||
	    (is_message(k) && k.peer == c->ranks->rank) ||
	    (ins && !fits(*c->ranks, k.in, ins * bytes)) ||
	    (outs && !fits(*c->ranks, k.out, outs * bytes)))
		return GT_NCCL_INVALID_ARGUMENT;
	return enter(c, k, stream);
}

/* `ins` and `outs`: the elements that are read and written, as a multiple of the count. */
static int collect(void *comm, const call &k, size_t ins, size_t outs, cudaStream_t stream)
{
	guard g(cudasim_lock);
	int rc = check_and_enter((communicator *)comm, k, ins, outs, stream);

	if (grouped.depth && rc)
		grouped.error = rc;
	return rc;
}

extern "C" int ncclGroupStart()
{
	if (!grouped.depth++) {
		grouped.error = GT_NCCL_SUCCESS;
		grouped.comm = nullptr;
		grouped.calls = std::make_shared<launch>();
	}
	return GT_NCCL_SUCCESS;
}

extern "C" int ncclGroupEnd()
{
	guard g(cudasim_lock);

	if (!grouped.depth)
		return GT_NCCL_INVALID_USAGE;
	if (--grouped.depth || grouped.error || !grouped.comm)
		return grouped.error;
	return launch_calls(grouped.comm, grouped.calls);
}

static call call_of(
    int kind, const void *in, void *out, size_t count, int dtype, int reduction, int peer)
{
	call c = {};

	c.kind = kind;
	c.in = in;
	c.out = out;
	c.count = count;
	c.dtype = dtype;
	c.reduction = reduction;
	c.peer = peer;
	c.channel = kind == SEND ? 2 * peer + 1 : kind == RECEIVE ? 2 * peer + 2 : 0;
	return c;
}

static size_t size_of(void *comm)
{
	return ((communicator *)comm)->ranks->size;
}

static bool is_rank(void *comm, int rank)
{
	return ((communicator *)comm)->ranks->rank == rank;
}

extern "C" int ncclAllReduce(const void *in, void *out, size_t count, int dtype, int reduction,
    void *comm, cudaStream_t stream)
{
	return collect(
	    comm, call_of(ALL_REDUCE, in, out, count, dtype, reduction, 0), 1, 1, stream);
}

extern "C" int ncclReduce(const void *in, void *out, size_t count, int dtype, int reduction,
    int root, void *comm, cudaStream_t stream)
{
	return collect(comm, call_of(REDUCE, in, out, count, dtype, reduction, root), 1,
	    is_rank(comm, root), stream);
}

extern "C" int ncclReduceScatter(const void *in, void *out, size_t count, int dtype, int reduction,
    void *comm, cudaStream_t stream)
{
	return collect(comm, call_of(REDUCE_SCATTER, in, out, count, dtype, reduction, 0),
	    size_of(comm), 1, stream);
}

extern "C" int ncclAllGather(
    const void *in, void *out, size_t count, int dtype, void *comm, cudaStream_t stream)
{
	return collect(
	    comm, call_of(ALL_GATHER, in, out, count, dtype, 0, 0), 1, size_of(comm), stream);
}

extern "C" int ncclBroadcast(
    const void *in, void *out, size_t count, int dtype, int root, void *comm, cudaStream_t stream)
{
	return collect(comm, call_of(BROADCAST, in, out, count, dtype, 0, root),
	    is_rank(comm, root), 1, stream);
}

extern "C" int ncclSend(
    const void *in, size_t count, int dtype, int peer, void *comm, cudaStream_t stream)
{
	return collect(comm, call_of(SEND, in, nullptr, count, dtype, 0, peer), 1, 0, stream);
}

extern "C" int ncclRecv(
    void *out, size_t count, int dtype, int peer, void *comm, cudaStream_t stream)
{
	return collect(comm, call_of(RECEIVE, nullptr, out, count, dtype, 0, peer), 0, 1, stream);
}

/* ---- communicators ---- */

extern "C" int ncclGetVersion(int *version)
{
	*version = version_of_library();
	return GT_NCCL_SUCCESS;
}

extern "C" int ncclGetUniqueId(struct gt_nccl_id *id)
{
	struct cudasim_file file = nccl_new_file();

	memset(id, 0, sizeof(*id));
	memcpy(id->bytes, &file, sizeof(file));
	return GT_NCCL_SUCCESS;
}

/* A rank that never joins is there, and never says so. */
static communicator *join(
    const struct cudasim_file &file, int size, int rank, int device, int blocks)
{
	std::shared_ptr<member> ranks = nccl_open(file, (size_t)size, rank);
	communicator *c;

	if (!ranks)
		return nullptr;
	c = new communicator{};
	c->ranks = ranks;
	ranks->blocks = blocks;
	ranks->own().device = device;
	ranks->own().process = getpid();
	ranks->own().joined = !cudasim_nccl.never_joins || rank != cudasim_nccl.rank;
	return c;
}

/* Older versions do not know this member. */
static int blocks_of(const struct gt_nccl_config *config)
{
	return version_of_library() < GT_NCCL_CONFIG || config->max_blocks == GT_NCCL_UNSET
	           ? BLOCKS
	           : config->max_blocks;
}

extern "C" int ncclCommInitRankConfig(
    void **comm, int size, struct gt_nccl_id id, int rank, struct gt_nccl_config *config)
{
	guard g(cudasim_lock);
	struct cudasim_file file;
	int device = -1;

	*comm = nullptr;
	memcpy(&file, id.bytes, sizeof(file));
	if (config->size != sizeof(*config) || config->magic != gt_nccl_magic ||
	    config->version < GT_NCCL_CONFIG || config->blocking || !file.process || rank < 0 ||
	    rank >= size || size > CUDASIM_DEVICES || cudaGetDevice(&device) != cudaSuccess)
		return GT_NCCL_INVALID_ARGUMENT;
	*comm = join(file, size, rank, device, blocks_of(config));
	return *comm ? GT_NCCL_IN_PROGRESS : GT_NCCL_REMOTE_ERROR;
}

extern "C" int ncclCommGetAsyncError(void *comm, int *status)
{
	guard g(cudasim_lock);

	go_on((communicator *)comm);
	*status = status_of((communicator *)comm);
	return GT_NCCL_SUCCESS;
}

extern "C" int ncclCommFinalize(void *comm)
{
	guard g(cudasim_lock);
	communicator *c = (communicator *)comm;

	c->parting = 3;
	return status_of(c);
}

static int leave(void *comm)
{
	communicator *c = (communicator *)comm;

	/* Others may be behind one that is never queued. */
	if (c->queued)
		c->queued->begun = c->queued->ended = true;
	c->ranks->own().left = true;
	delete c;
	return GT_NCCL_SUCCESS;
}

extern "C" int ncclCommDestroy(void *comm)
{
	guard g(cudasim_lock);

	cudasim_nccl.destroyed++;
	return leave(comm);
}

extern "C" int ncclCommAbort(void *comm)
{
	std::unique_lock<std::mutex> g(cudasim_lock);

	cudasim_nccl.aborted++;
	((communicator *)comm)->ranks->aborted = true;
	for (int ms = 0; ms < 20000 && cudasim_nccl.aborted < cudasim_nccl.abort_waits; ms++) {
		g.unlock();
		usleep(1000);
		g.lock();
	}
	return leave(comm);
}

extern "C" const char *ncclGetErrorString(int status)
{
	switch (status) {
	case GT_NCCL_SUCCESS:
		return "no error";
	case GT_NCCL_INVALID_ARGUMENT:
		return "invalid argument";
	case GT_NCCL_INVALID_USAGE:
		return "invalid usage";
	case GT_NCCL_REMOTE_ERROR:
		return "remote process exited or there was a network error";
	default:
		return "unknown result code";
	}
}

extern "C" const char *ncclGetLastError(void *comm)
{
	const communicator *c = (const communicator *)comm;
	guard g(cudasim_lock);

	if (c && c->lost)
		return "socketProgress: Connection closed by remote peer";
	return c && c->ranks->error ? "a planted error\nand its second line" : "";
}
