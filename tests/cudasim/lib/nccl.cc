/* nccl.cc - stands in for NCCL, over the memory and the streams of the simulator. */
#include "kernels/cuda/nccl/api.h"

#include <cstring>
#include <map>
#include <vector>

#include "lib/base/half.h"
#include "tests/cudasim/inside.h"

/*
 * A library of its own, which gtrain opens as it opens the real one; the functions of the simulator
 * that it calls are the program's. Ranks are threads of it. As with the real one:
 *
 * - Nothing blocks, so ranks connect in the background: at first, and once more at the first call
 *   of each kind. The work of that call is queued when all ranks have called it.
 * - A collective begins when the streams of all ranks have reached it. If calls differ, or a rank
 *   has died or aborted, GPUs wait until their own rank aborts, too.
 * - Two ranks on one GPU are refused. Buffers have to be device memory that is open to the other
 *   GPUs, which reach it unless CUDASIM_PEERS is "no".
 * - Sums go round a ring, so that their order depends on the element's place; those of 16 bits are
 *   rounded at every rank. The maximum of a NaN and a number is the number.
 *
 * cudasim_nccl (cudasim.h) plants errors.
 */

struct call {
	int kind; /* its place in the table of functions */
	const void *in;
	void *out;
	size_t count;
	int dtype, reduction, root;
};

enum { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, MESSAGE };

/*
 * The calls of all ranks that belong together. A message has two: the sender's and the receiver's.
 */
struct encounter {
	std::vector<call> calls;
	std::vector<bool> called, reached;
	std::vector<cudaStream_t> held; /* work that the streams have not been given yet */
	std::shared_ptr<int> fails;     /* where to store an error when all have come; or NULL */
	bool broken, done;

	explicit encounter(size_t n)
	    : calls(n), called(n), reached(n), held(n), fails(nullptr), broken(false), done(false)
	{
	}
};

/* Collectives by their numbers; messages by sender, receiver and number. */
struct name {
	int from, to;
	uint64_t number;
	bool operator<(const name &o) const
	{
		return from != o.from ? from < o.from : to != o.to ? to < o.to : number < o.number;
	}
};

struct clique {
	size_t size, joined;
	std::vector<int> devices;
	bool shared;
	std::map<name, std::shared_ptr<encounter>> encounters;
};

struct communicator {
	std::shared_ptr<clique> all;
	int rank;
	int parting; /* looks until it has parted */
	std::shared_ptr<bool> aborted;
	std::shared_ptr<int> error; /* in the background */
	uint64_t calls;
	std::map<int, uint64_t> sent, received;
	std::shared_ptr<encounter> connects; /* the call that does */
	std::map<int, bool> connected;       /* kinds; messages: with a peer */
};

static std::map<uint64_t, std::shared_ptr<clique>> cliques;

static size_t size_of(int dtype)
{
	switch (dtype) {
	case GT_NCCL_U8:
		return 1;
	case GT_NCCL_F16:
	case GT_NCCL_BF16:
		return 2;
	case GT_NCCL_I32:
	case GT_NCCL_F32:
		return 4;
	default:
		return 8;
	}
}

/* ---- arithmetic ---- */

struct real {
	double x;
	int64_t i;
};

static real load(const char *p, int dtype)
{
	real r = {};
	uint16_t half;
	float x;
	int32_t i;

	if (dtype == GT_NCCL_F64) {
		memcpy(&r.x, p, 8);
	} else if (dtype == GT_NCCL_F32) {
		memcpy(&x, p, 4);
		r.x = x;
	} else if (dtype == GT_NCCL_I32) {
		memcpy(&i, p, 4);
		r.i = i;
	} else if (dtype == GT_NCCL_I64) {
		memcpy(&r.i, p, 8);
	} else {
		memcpy(&half, p, 2);
		r.x = dtype == GT_NCCL_F16 ? gt_float_of_f16(half) : gt_float_of_bf16(half);
	}
	return r;
}

static void store(char *p, int dtype, real r)
{
	float x = (float)r.x;
	int32_t i = (int32_t)r.i;
	uint16_t half;

	if (dtype == GT_NCCL_F64) {
		memcpy(p, &r.x, 8);
	} else if (dtype == GT_NCCL_F32) {
		memcpy(p, &x, 4);
	} else if (dtype == GT_NCCL_I32) {
		memcpy(p, &i, 4);
	} else if (dtype == GT_NCCL_I64) {
		memcpy(p, &r.i, 8);
	} else {
		half = dtype == GT_NCCL_F16 ? gt_f16_of_float(x) : gt_bf16_of_float(x);
		memcpy(p, &half, 2);
	}
}

static real rounded(real r, int dtype)
{
	char bytes[8];

	store(bytes, dtype, r);
	return load(bytes, dtype);
}

static real combine(real a, real b, int reduction)
{
	if (reduction == GT_NCCL_MAX)
		return { fmax(a.x, b.x), a.i > b.i ? a.i : b.i };
	return { a.x + b.x, (int64_t)((uint64_t)a.i + (uint64_t)b.i) };
}

/* Element `at` of the whole, in the order in which it goes round. */
static real reduce(const encounter &e, size_t at, size_t all)
{
	const call &c = e.calls[0];
	size_t n = e.calls.size(), first = (at * n / all + 1) % n;
	real sum = {};

	for (size_t k = 0; k < n; k++) {
		const char *p = (const char *)e.calls[(first + k) % n].in;
		real x = load(p + at * size_of(c.dtype), c.dtype);

		if (c.reduction == GT_NCCL_AVG)
			x.x = rounded({ x.x / (double)n, 0 }, c.dtype).x;
		sum = k ? rounded(combine(sum, x, c.reduction), c.dtype) : x;
	}
	if (c.reduction == GT_NCCL_AVG)
		sum.i /= (int64_t)n;
	return sum;
}

/* ---- the work ---- */

static std::vector<char> reduce_all(const encounter &e)
{
	const call &c = e.calls[0];
	size_t all = c.count * (c.kind == REDUCE_SCATTER ? e.calls.size() : 1);
	std::vector<char> out(all * size_of(c.dtype));

	for (size_t i = 0; i < all; i++)
		store(&out[i * size_of(c.dtype)], c.dtype, reduce(e, i, all));
	return out;
}

static std::vector<char> gather_all(const encounter &e)
{
	size_t bytes = e.calls[0].count * size_of(e.calls[0].dtype);
	std::vector<char> out;

	for (const call &c : e.calls)
		out.insert(out.end(), (const char *)c.in, (const char *)c.in + bytes);
	return out;
}

static std::vector<char> one_of_all(const encounter &e, size_t which)
{
	const call &c = e.calls[which];

	return std::vector<char>(
	    (const char *)c.in, (const char *)c.in + c.count * size_of(c.dtype));
}

/* Read all there is, then write. */
static void work(encounter *e)
{
	const call &first = e->calls[0];
	size_t bytes = first.count * size_of(first.dtype);
	bool reduces =
	    first.kind == ALL_REDUCE || first.kind == REDUCE || first.kind == REDUCE_SCATTER;
	std::vector<char> result =
	    reduces ? reduce_all(*e)
	    : first.kind == ALL_GATHER
	        ? gather_all(*e)
	        : one_of_all(*e, first.kind == BROADCAST ? (size_t)first.root : 0);

	for (size_t r = 0; r < e->calls.size(); r++) {
		const call &c = e->calls[r];

		if ((c.kind == REDUCE && (size_t)c.root != r) || (c.kind == MESSAGE && !r))
			continue;
		if (c.kind == REDUCE_SCATTER)
			memcpy(c.out, &result[r * bytes], bytes);
		else
			memcpy(c.out, result.data(), result.size());
	}
}

static bool all_of(const std::vector<bool> &v)
{
	for (bool b : v)
		if (!b)
			return false;
	return true;
}

static bool are_alike(const encounter &e)
{
	for (const call &c : e.calls)
		if (c.kind != e.calls[0].kind || c.count != e.calls[0].count ||
		    c.dtype != e.calls[0].dtype || c.reduction != e.calls[0].reduction ||
		    (c.kind != MESSAGE && c.root != e.calls[0].root))
			return false;
	return true;
}

static void queue(const std::shared_ptr<encounter> &e, size_t which, cudaStream_t stream,
    const std::shared_ptr<bool> &aborted)
{
	auto may = [e, which, aborted] {
		e->reached[which] = true;
		if (e->fails && all_of(e->reached))
			*e->fails = GT_NCCL_REMOTE_ERROR;
		return *aborted || e->done || (!e->broken && all_of(e->reached) && are_alike(*e));
	};
	auto run = [e] {
		if (!e->done && !e->broken && all_of(e->reached) && are_alike(*e)) {
			work(e.get());
			e->done = true;
		}
	};
	item i = {};

	i.kind = item::GATE;
	i.behind = std::make_shared<gate>(gate{ may, run });
	cudasim_queue(stream, i);
}

/* ---- calls ---- */

/* Work that was held back until the ranks were connected. */
static int status_of(communicator *c)
{
	if (*c->error)
		return *c->error;
	if (c->all->joined < c->all->size || (c->parting && c->parting--))
		return GT_NCCL_IN_PROGRESS;
	if (c->all->shared)
		return GT_NCCL_INVALID_USAGE;
	if (!c->connects)
		return GT_NCCL_SUCCESS;
	if (!all_of(c->connects->called))
		return GT_NCCL_IN_PROGRESS;
	for (size_t r = 0; r < c->connects->calls.size(); r++)
		if (c->connects->held[r] && (c->connects->calls[0].kind != MESSAGE
		                                    ? (int)r == c->rank
		                                    : c->connects->calls[r].root != c->rank)) {
			queue(c->connects, r, c->connects->held[r], c->aborted);
			c->connects->held[r] = nullptr;
		}
	c->connects = nullptr;
	return GT_NCCL_SUCCESS;
}

/* The GPU of a rank's neighbour reads and writes its buffers, if the driver says that it can. */
static bool fits(const communicator *c, const void *p, size_t bytes)
{
	int mine = c->all->devices[(size_t)c->rank];

	for (int peer : c->all->devices) {
		int can = 0;

		cudaDeviceCanAccessPeer(&can, peer, mine);
		if (can && !cudasim_reaches(peer, mine))
			return false;
	}
	return cudasim_is_device(p, bytes);
}

static int enter(communicator *c, const call &like, const name &which, size_t seat, int connection,
    cudaStream_t stream)
{
	size_t n = like.kind == MESSAGE ? 2 : c->all->size;
	std::shared_ptr<encounter> &e = c->all->encounters[which];

	if (!e)
		e = std::make_shared<encounter>(n);
	e->calls[seat] = like;
	e->called[seat] = true;
	e->broken = e->broken || (cudasim_nccl.hangs && (long)c->calls == cudasim_nccl.hangs);
	if (cudasim_nccl.fails && (long)c->calls == cudasim_nccl.fails &&
	    c->rank == cudasim_nccl.rank) {
		e->broken = true;
		e->fails = c->error;
	}
	if (c->connected[connection]) {
		queue(e, seat, stream, c->aborted);
		return GT_NCCL_SUCCESS;
	}
	c->connected[connection] = true;
	c->connects = e;
	e->held[seat] = stream;
	return GT_NCCL_IN_PROGRESS;
}

/* A call begins: whether it may. With the lock. */
static int fail_call(communicator *c)
{
	int device = -1;

	c->calls++;
	cudasim_nccl.calls++;
	if (cudaGetDevice(&device) != cudaSuccess || device != c->all->devices[(size_t)c->rank])
		return GT_NCCL_INVALID_USAGE;
	if (status_of(c) != GT_NCCL_SUCCESS)
		return GT_NCCL_INVALID_USAGE;
	return cudasim_nccl.refuses && (long)c->calls == cudasim_nccl.refuses &&
	               c->rank == cudasim_nccl.rank
	           ? GT_NCCL_INVALID_ARGUMENT
	           : GT_NCCL_SUCCESS;
}

static int collect(communicator *c, const call &k, size_t ins, size_t outs, cudaStream_t stream)
{
	guard g(cudasim_lock);
	bool reads = k.kind != BROADCAST || k.root == c->rank;
	bool writes = k.kind != REDUCE || k.root == c->rank;
	int rc = fail_call(c);

	if (rc)
		return rc;
	if ((reads && !fits(c, k.in, ins * k.count * size_of(k.dtype))) ||
	    (writes && !fits(c, k.out, outs * k.count * size_of(k.dtype))))
		return GT_NCCL_INVALID_ARGUMENT;
	return enter(c, k, { -1, -1, c->sent[-1]++ }, (size_t)c->rank, -1 - k.kind, stream);
}

extern "C" int ncclAllReduce(const void *in, void *out, size_t count, int dtype, int reduction,
    void *comm, cudaStream_t stream)
{
	return collect((communicator *)comm, { ALL_REDUCE, in, out, count, dtype, reduction, 0 }, 1,
	    1, stream);
}

extern "C" int ncclReduce(const void *in, void *out, size_t count, int dtype, int reduction,
    int root, void *comm, cudaStream_t stream)
{
	return collect(
	    (communicator *)comm, { REDUCE, in, out, count, dtype, reduction, root }, 1, 1, stream);
}

extern "C" int ncclReduceScatter(const void *in, void *out, size_t count, int dtype, int reduction,
    void *comm, cudaStream_t stream)
{
	communicator *c = (communicator *)comm;

	return collect(
	    c, { REDUCE_SCATTER, in, out, count, dtype, reduction, 0 }, c->all->size, 1, stream);
}

extern "C" int ncclAllGather(
    const void *in, void *out, size_t count, int dtype, void *comm, cudaStream_t stream)
{
	communicator *c = (communicator *)comm;

	return collect(c, { ALL_GATHER, in, out, count, dtype, 0, 0 }, 1, c->all->size, stream);
}

extern "C" int ncclBroadcast(
    const void *in, void *out, size_t count, int dtype, int root, void *comm, cudaStream_t stream)
{
	return collect(
	    (communicator *)comm, { BROADCAST, in, out, count, dtype, 0, root }, 1, 1, stream);
}

/* `root` is the other end. */
static int message(communicator *c, const call &k, bool sends, cudaStream_t stream)
{
	guard g(cudasim_lock);
	int peer = k.root, rc = fail_call(c);
	uint64_t number;

	if (rc)
		return rc;
	if (peer < 0 || (size_t)peer >= c->all->size || peer == c->rank ||
	    !fits(c, sends ? k.in : k.out, k.count * size_of(k.dtype)))
		return GT_NCCL_INVALID_ARGUMENT;
	number = sends ? c->sent[peer]++ : c->received[peer]++;
	return enter(c, k, { sends ? c->rank : peer, sends ? peer : c->rank, number },
	    sends ? 0 : 1, sends ? 2 * peer : 2 * peer + 1, stream);
}

extern "C" int ncclSend(
    const void *in, size_t count, int dtype, int peer, void *comm, cudaStream_t stream)
{
	return message(
	    (communicator *)comm, { MESSAGE, in, nullptr, count, dtype, 0, peer }, true, stream);
}

extern "C" int ncclRecv(
    void *out, size_t count, int dtype, int peer, void *comm, cudaStream_t stream)
{
	return message(
	    (communicator *)comm, { MESSAGE, nullptr, out, count, dtype, 0, peer }, false, stream);
}

/* ---- communicators ---- */

extern "C" int ncclGetVersion(int *version)
{
	*version = cudasim_nccl.version ? cudasim_nccl.version : 22809;
	return GT_NCCL_SUCCESS;
}

extern "C" int ncclGetUniqueId(struct gt_nccl_id *id)
{
	static uint64_t last;
	guard g(cudasim_lock);

	memset(id, 0, sizeof(*id));
	last++;
	memcpy(id->bytes, &last, sizeof(last));
	return GT_NCCL_SUCCESS;
}

extern "C" int ncclCommInitRankConfig(
    void **comm, int size, struct gt_nccl_id id, int rank, struct gt_nccl_config *config)
{
	guard g(cudasim_lock);
	communicator *c;
	uint64_t number;
	int device = -1;

	*comm = nullptr;
	memcpy(&number, id.bytes, sizeof(number));
	if (config->size != sizeof(*config) || config->magic != gt_nccl_magic ||
	    config->version < GT_NCCL_VERSION || config->blocking || !number || rank < 0 ||
	    rank >= size || cudaGetDevice(&device) != cudaSuccess)
		return GT_NCCL_INVALID_ARGUMENT;
	std::shared_ptr<clique> &all = cliques[number];
	if (!all) {
		all = std::make_shared<clique>();
		all->size = (size_t)size;
		all->devices.assign((size_t)size, -1);
	}
	for (int other : all->devices)
		all->shared = all->shared || other == device;
	all->devices[(size_t)rank] = device;
	all->joined++;
	*comm = c = new communicator{};
	c->all = all;
	c->rank = rank;
	c->aborted = std::make_shared<bool>(false);
	c->error = std::make_shared<int>(0);
	if (all->joined == all->size)
		cliques.erase(number);
	if (cudasim_nccl.never_joins && rank == cudasim_nccl.rank)
		c->all->joined--;
	return GT_NCCL_IN_PROGRESS;
}

extern "C" int ncclCommGetAsyncError(void *comm, int *status)
{
	guard g(cudasim_lock);

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

extern "C" int ncclCommDestroy(void *comm)
{
	guard g(cudasim_lock);

	cudasim_nccl.destroyed++;
	delete (communicator *)comm;
	return GT_NCCL_SUCCESS;
}

extern "C" int ncclCommAbort(void *comm)
{
	guard g(cudasim_lock);
	communicator *c = (communicator *)comm;

	cudasim_nccl.aborted++;
	*c->aborted = true;
	delete c;
	return GT_NCCL_SUCCESS;
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

	return c && *c->error == GT_NCCL_REMOTE_ERROR ? "a planted error\nand its second line" : "";
}
