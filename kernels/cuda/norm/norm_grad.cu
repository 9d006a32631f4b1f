/* norm_grad.cu - the gradients of layer_norm and add_layer_norm. */
#include <type_traits>

#include "kernels/cuda/core/last_block.h"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * A block has a chunk of rows. Its threads are in teams, and each team processes one row at a time.
 * A thread of a team has one pack of neighbouring columns:
 *
 *   load the thread's pack of the team's next row
 *   add up the two sums of the present row over the team
 *   compute dx, and add to the sums of the thread's own columns, for dweight and dbias
 *
 * So loads are under way all the time, also while threads wait for each other. The sums of columns
 * stay in registers until the chunk ends; then the block adds up those of its teams. Example, 768
 * columns: 96 threads have the 96 packs of a row, and a block has 4 teams. Longer rows have more
 * packs than a block has threads: see gt_norm_grad_long().
 *
 * Blocks are in groups. The block that ends last in its group adds up the sums of the group. The
 * last of these blocks adds up the sums of all groups. Chance decides which blocks these are, but
 * the order of the additions is fixed. Source: NVIDIA's sample threadFenceReduction. Neither chunks
 * nor teams depend on the type, as long as it is not float64: a result of 16 bits is that of
 * float32, rounded. Formulas: lib/graph/ops/norm.c.
 */
enum {
	GT_NORM_WARPS = 12, /* most warps of a block */
	GT_NORM_THREADS = GT_NORM_WARPS * 32,
	/* The largest number of chunks, in groups of 16. Large GPUs have 132 multiprocessors, which
	 * run two blocks each, and 16384 rows are 256 chunks of 64. */
	GT_NORM_CHUNKS = 256,
	GT_NORM_CHUNK_ROWS = 8, /* at least */
	GT_NORM_SHARED = 40 * 1024
};

/* The elements of a pack. */
template <class WIDE> constexpr int gt_norm_pack()
{
	return sizeof(WIDE) == 8 ? 4 : 8;
}

template <class T, class S> struct gt_norm_grad_args {
	typedef typename gt_wide<T>::type wide;
	S *dx;
	T *low;        /* dx once more, or nullptr */
	wide *partial; /* [chunks, 2, cols] */
	const T *dy;
	const S *x, *dsum; /* dsum is added to dx, unless it is nullptr */
	const wide *weight, *mean, *rstd;
	int64_t rows, cols;
	wide share;            /* 1 / cols */
	int64_t length;        /* rows of a chunk */
	bool shared;           /* the sums of a chunk fit into shared memory */
	int64_t size;          /* chunks of a group */
	wide *dweight, *dbias; /* dbias: or nullptr */
	double *groups;        /* [groups, 2, cols] */
	unsigned *counters;    /* zero: one for the groups, and one for each of them */
};

/* d as a tensor of S keeps it. */
template <class S>
static __device__ __forceinline__ typename gt_wide<S>::type gt_norm_kept(
    typename gt_wide<S>::type d)
{
	S s;

	gt_store(&s, d);
	return gt_load(s);
}

/* Sums that the compiler does not join with a product before them into a multiply-add. */
static __device__ __forceinline__ float gt_norm_add(float a, float b)
{
	return __fadd_rn(a, b);
}

static __device__ __forceinline__ double gt_norm_add(double a, double b)
{
	return __dadd_rn(a, b);
}

/* a * b + c, rounded once. The code says where: a compiler's own choice may differ between types,
 * and a result of 16 bits then is not that of float32, rounded. */
static __device__ __forceinline__ float gt_norm_fma(float a, float b, float c)
{
	return fmaf(a, b, c);
}

static __device__ __forceinline__ double gt_norm_fma(double a, double b, double c)
{
	return fma(a, b, c);
}

/* W elements as they lie in memory. In registers, numbers of 16 bits would take up a whole one
 * each; as words they share one until get() returns them. */
template <class T, int W> struct gt_norm_elements {
	typename std::conditional<W == 1, gt_pack<T, 1>, gt_pack<uint32_t, W * sizeof(T) / 4>>::type
	    words;

	__device__ __forceinline__ void load(const T *from)
	{
		words = *(const decltype(words) *)from;
	}

	__device__ __forceinline__ void fill(typename gt_wide<T>::type v)
	{
		gt_pack<T, W> pack;

		for (int k = 0; k < W; k++)
			gt_store(&pack.at[k], v);
		memcpy(&words, &pack, sizeof(words));
	}

	__device__ __forceinline__ void get(typename gt_wide<T>::type *v) const
	{
		gt_pack<T, W> pack;

		memcpy(&pack, &words, sizeof(pack));
		for (int k = 0; k < W; k++)
			v[k] = gt_load(pack.at[k]);
	}
};

/* W columns of one row. Without load(), all are zero, and add nothing to sums. A dsum that is
 * absent is -0: added to any number, 0 and -0 among them, it leaves the number's bits. */
template <class T, class S, int W> struct gt_norm_grad_pack {
	typedef typename gt_wide<T>::type wide;
	gt_norm_elements<T, W> dy;
	gt_norm_elements<S, W> x, dsum;
	wide mean, rstd;

	__device__ __forceinline__ void load(
	    const gt_norm_grad_args<T, S> &a, int64_t row, int64_t column)
	{
		int64_t at = row * a.cols + column;

		dy.load(a.dy + at);
		x.load(a.x + at);
		if (a.dsum)
			dsum.load(a.dsum + at);
		else
			dsum.fill(-(wide)0);
		mean = a.mean[row];
		rstd = a.rstd[row];
	}

	/* Add to the two sums of the row, of g and of g times the normalised x; and to the sums of
	 * columns, dw[W] and db[W]. */
	__device__ __forceinline__ void add_up(
	    wide (&sums)[2], wide *dw, wide *db, const wide *weight) const
	{
		wide d[W], v[W];

		dy.get(d);
		x.get(v);
		for (int k = 0; k < W; k++) {
			wide hat = (v[k] - mean) * rstd;

			sums[0] = gt_norm_fma(d[k], weight[k], sums[0]);
			sums[1] = gt_norm_fma(d[k] * weight[k], hat, sums[1]);
			dw[k] = gt_norm_fma(d[k], hat, dw[k]);
			db[k] += d[k];
		}
	}

	/* Store dx. The gradient is rounded before dsum is added, as by two separate ops. */
	__device__ __forceinline__ void store(const gt_norm_grad_args<T, S> &a, int64_t row,
	    int64_t column, const wide (&sums)[2], const wide *weight) const
	{
		typename gt_map_buffer<S, false, true>::template lanes<W> to = { a.dx, {} };
		typename gt_map_buffer<T, false, true>::template lanes<W> low = { a.low, {} };
		int64_t at = row * a.cols + column;
		wide d[W], v[W], s[W], mean_g = sums[0] * a.share, mean_dot = sums[1] * a.share;

		dy.get(d);
		x.get(v);
		dsum.get(s);
		for (int k = 0; k < W; k++) {
			wide hat = (v[k] - mean) * rstd;
			wide g = gt_norm_fma(d[k], weight[k], -mean_g);
			wide grad = rstd * gt_norm_fma(-hat, mean_dot, g);

			to.v[k] = low.v[k] = gt_norm_add(s[k], gt_norm_kept<S>(grad));
		}
		to.store(at);
		if (a.low)
			low.store(at);
	}
};

/* Add up the two sums of a row over the team's warps. All threads of the block call this. `shared`
 * is for the sums of each warp; it must not be that of the call before, which another warp may
 * still read. */
template <class WIDE>
static __device__ __forceinline__ void gt_norm_add_warps(WIDE (&sums)[2], gt_pack<WIDE, 2> *shared)
{
	int warps = (int)blockDim.x / 32, warp = (int)threadIdx.x / 32;

	for (int i = 0; i < 2; i++)
		sums[i] = gt_warp_sum(sums[i]);
	if (warps == 1)
		return;
	shared += (int)threadIdx.y * warps;
	if (threadIdx.x % 32 == 0)
		shared[warp] = { { sums[0], sums[1] } };
	__syncthreads();
	sums[0] = sums[1] = 0;
	/* The compiler unrolls the first loop: teams of four warps, 1024 columns, are common. */
	for (int w = 0; w < 4; w++)
		if (w < warps) {
			sums[0] += shared[w].at[0];
			sums[1] += shared[w].at[1];
		}
	for (int w = 4; w < warps; w++) {
		sums[0] += shared[w].at[0];
		sums[1] += shared[w].at[1];
	}
}

/* The calling thread's number in its block. */
static __device__ __forceinline__ int gt_norm_thread()
{
	return (int)(threadIdx.y * blockDim.x + threadIdx.x);
}

/*
 * Return whether this block is the last of `count` blocks that call this. All threads of a block
 * get the same answer. The threads of the last block see the writes of the other blocks. The first
 * fence makes this block's writes visible before it is counted. The second one keeps reads from
 * being done before the count, or by an L1 cache that was filled before it (CUDA C++ Programming
 * Guide, "Memory Fence Functions" has this example; PTX ISA, "Memory Consistency Model"). The last
 * block sets the counter back, for the next launch.
 */
static __device__ bool gt_norm_is_last(unsigned *counter, int64_t count)
{
	GT_SHARED(bool, last, 1);

	__threadfence();
	__syncthreads();
	if (gt_norm_thread() == 0) {
		last[0] = atomicAdd(counter, 1u) == (unsigned)count - 1;
		if (last[0])
			*counter = 0;
	}
	__syncthreads();
	__threadfence();
	return last[0];
}

/* Add elements c to c + V - 1 of `count` rows, in double and in their order. AT_ONCE loads are
 * under way at a time: the block that ends last has nothing else to do while it waits. */
template <int V, class W>
static __device__ __forceinline__ void gt_norm_add_rows(
    double *sums, const W *rows, int64_t count, int64_t width, int64_t c)
{
	enum { AT_ONCE = 32 / sizeof(W) };

	for (int j = 0; j < V; j++)
		sums[j] = 0;
	for (int64_t k = 0; k < count; k += AT_ONCE) {
		typename gt_map_buffer<W, true, false>::template lanes<V> v[AT_ONCE];

		for (int i = 0; i < AT_ONCE; i++) {
			v[i].p = (W *)rows;
			v[i].load((k + i < count ? k + i : count - 1) * width + c);
		}
		for (int i = 0; i < AT_ONCE; i++)
			for (int j = 0; j < V; j++)
				sums[j] += k + i < count ? (double)v[i].v[j] : 0;
	}
}

/*
 * At the end of a block. Example: 8 blocks in groups of 3.
 *
 *   blocks 0 1 2   write partial sums | the last of them writes groups[0]
 *   blocks 3 4 5                      | the last of them writes groups[1]
 *   blocks 6 7                        | the last of them writes groups[2]
 *   the last of these three blocks    | dweight, dbias = groups[0] + groups[1] + groups[2]
 */
template <class T, class S, int V>
static __device__ void gt_norm_add_blocks(const gt_norm_grad_args<T, S> &a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t width = 2 * a.cols, blocks = gridDim.x, group = blockIdx.x / a.size;
	int64_t groups = (blocks + a.size - 1) / a.size, first = group * a.size;
	int64_t count = first + a.size < blocks ? a.size : blocks - first;
	int64_t step = (int64_t)blockDim.x * blockDim.y * V;
	double sums[V];

	if (!gt_norm_is_last(a.counters + 1 + group, count))
		return;
	for (int64_t c = (int64_t)gt_norm_thread() * V; c < width; c += step) {
		gt_norm_add_rows<V>(sums, a.partial + first * width, count, width, c);
		for (int j = 0; j < V; j++)
			a.groups[group * width + c + j] = sums[j];
	}
	if (!gt_norm_is_last(a.counters, groups))
		return;
	for (int64_t c = (int64_t)gt_norm_thread() * V; c < width; c += step) {
		wide *to = c < a.cols ? a.dweight : a.dbias;

		gt_norm_add_rows<V>(sums, a.groups, groups, width, c);
		for (int j = 0; j < V && to; j++)
			to[c % a.cols + j] = (wide)sums[j];
	}
}

/* Add up the sums dw[W] and db[W] of all teams of a block, in the order of teams, in
 * columns[2, cols], which is shared memory. */
template <int W, class WIDE>
static __device__ __forceinline__ void gt_norm_add_teams(
    WIDE *columns, const WIDE *dw, const WIDE *db, int64_t c, int64_t cols)
{
	typedef typename gt_map_buffer<WIDE, true, true>::template lanes<W> lanes;

	for (unsigned t = 0; t < blockDim.y; t++) {
		if (t == threadIdx.y && c < cols) {
			lanes w = { columns, {} }, b = { columns + cols, {} };

			if (t) {
				w.load(c);
				b.load(c);
			}
			for (int k = 0; k < W; k++) {
				w.v[k] += dw[k];
				b.v[k] += db[k];
			}
			w.store(c);
			b.store(c);
		}
		__syncthreads();
	}
}

/* Rows of at most as many packs as a block has threads. */
template <class T, class S, int W>
static __global__ void __launch_bounds__(GT_NORM_THREADS, sizeof(S) == 2 ? 2 : 1)
    gt_norm_grad(gt_norm_grad_args<T, S> a)
{
	typedef typename gt_wide<T>::type wide;
	typedef gt_pack<wide, 2> sums_of_row;
	GT_DYNAMIC_SHARED(wide, columns);
	GT_SHARED(sums_of_row, of_rows, 2 * GT_NORM_WARPS);
	int teams = (int)blockDim.y, team = (int)threadIdx.y, c = (int)threadIdx.x * W, half = 0;
	int64_t begin = (int64_t)blockIdx.x * a.length, left = a.rows - begin;
	/* The team's rows, counted from the first of the block's; none for a thread without
	 * columns. */
	int count = (int)(left < a.length ? left : a.length), own = c < a.cols ? count - team : 0;
	typename gt_map_buffer<wide, true, false>::template lanes<W> weight = { (wide *)a.weight,
		{} };
	gt_norm_grad_pack<T, S, W> next = {};
	wide dw[W] = {}, db[W] = {};

	if (c < a.cols)
		weight.load(c);
	if (own > 0)
		next.load(a, begin + team, c);
	for (int i = 0; i < count; i += teams) {
		gt_norm_grad_pack<T, S, W> row = next;
		wide of_row[2] = {};

		next = {};
		if (i + teams < own)
			next.load(a, begin + team + i + teams, c);
		row.add_up(of_row, dw, db, weight.v);
		gt_norm_add_warps(of_row, of_rows + half);
		half = GT_NORM_WARPS - half;
		if (i < own)
			row.store(a, begin + team + i, c, of_row, weight.v);
	}
	gt_norm_add_teams<W>(columns, dw, db, c, a.cols);
	for (int64_t i = gt_norm_thread(); i < 2 * a.cols; i += teams * (int)blockDim.x)
		a.partial[(int64_t)blockIdx.x * 2 * a.cols + i] = columns[i];
	gt_norm_add_blocks<T, S, 4>(a);
}

/* Rows of any length. A team is the block; a thread reads its packs of a row twice, the second time
 * from a cache, and keeps the sums of its columns in memory. */
template <class T, class S, int W>
static __global__ void __launch_bounds__(GT_NORM_THREADS)
    gt_norm_grad_long(gt_norm_grad_args<T, S> a)
{
	typedef typename gt_wide<T>::type wide;
	typedef gt_pack<wide, 2> sums_of_row;
	typedef typename gt_map_buffer<wide, true, true>::template lanes<W> lanes;
	GT_DYNAMIC_SHARED(wide, columns);
	GT_SHARED(sums_of_row, of_rows, 2 * GT_NORM_WARPS);
	int64_t begin = (int64_t)blockIdx.x * a.length, half = 0;
	int64_t end = begin + a.length < a.rows ? begin + a.length : a.rows;
	int64_t c0 = (int64_t)threadIdx.x * W, step = (int64_t)blockDim.x * W;
	wide *partial = a.partial + (int64_t)blockIdx.x * 2 * a.cols,
	     *sums = a.shared ? columns : partial;
	lanes weight = { (wide *)a.weight, {} }, dw = { sums, {} }, db = { sums + a.cols, {} };
	gt_norm_grad_pack<T, S, W> row = {};

	for (int64_t c = c0; c < a.cols; c += step) {
		dw.store(c);
		db.store(c);
	}
	for (int64_t r = begin; r < end; r++) {
		wide of_row[2] = {};

		for (int64_t c = c0; c < a.cols; c += step) {
			weight.load(c);
			row.load(a, r, c);
			dw.load(c);
			db.load(c);
			row.add_up(of_row, dw.v, db.v, weight.v);
			dw.store(c);
			db.store(c);
		}
		gt_norm_add_warps(of_row, of_rows + half);
		half = GT_NORM_WARPS - half;
		for (int64_t c = c0; c < a.cols; c += step) {
			weight.load(c);
			row.load(a, r, c);
			row.store(a, r, c, of_row, weight.v);
		}
	}
	__syncthreads();
	for (int64_t i = threadIdx.x; a.shared && i < 2 * a.cols; i += blockDim.x)
		partial[i] = columns[i];
	gt_norm_add_blocks<T, S, W == 1 ? 1 : 4>(a);
}

/* ---- rows ---- */

/* Division of the rows of x: `blocks` chunks of `length` rows, and `groups` groups of `size`
 * chunks. `size` is about as large as `groups`: 256 chunks are 16 groups of 16. Without rows there
 * is still one chunk, which writes zeros. */
struct grad_chunks {
	int64_t length, blocks, size, groups;
};

static struct grad_chunks grad_chunks_of(const struct gt_tensor *x)
{
	const int64_t least = GT_NORM_CHUNK_ROWS, rows = gt_tensor_rows(x);
	struct grad_chunks g = { (rows + GT_NORM_CHUNKS - 1) / GT_NORM_CHUNKS, 1, 1, 0 };

	static_assert((GT_CUDA_BLOCK_COUNTERS - 1) * (GT_CUDA_BLOCK_COUNTERS - 1) >= GT_NORM_CHUNKS,
	    "a counter each");
	g.length = g.length < least ? least : g.length;
	if (rows)
		g.blocks = (rows + g.length - 1) / g.length;
	while (g.size * g.size < g.blocks)
		g.size++;
	g.groups = (g.blocks + g.size - 1) / g.size;
	return g;
}

/* The sums of groups lie before those of chunks. */
static size_t group_bytes(const struct grad_chunks &g, int64_t cols)
{
	return (size_t)(g.groups * 2 * cols) * sizeof(double);
}

/* Inputs of both gradients are the same, as are outputs 0 to 2. Output 3 of add_layer_norm_grad may
 * be absent, as it is of layer_norm_grad. */
template <class T, class S> static int run_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	constexpr int W = gt_norm_pack<wide>();
	struct grad_chunks g = grad_chunks_of(&call->in[1]);
	int64_t rows = gt_tensor_rows(&call->in[1]), cols = gt_tensor_last(&call->in[1]);
	size_t bytes = (size_t)cols * 2 * sizeof(wide);
	bool packs = cols % W == 0;
	int64_t warps = (cols / (packs ? W : 1) + 31) / 32;
	unsigned most = gt_min_blocks(warps, GT_NORM_WARPS), blocks = (unsigned)g.blocks;
	gt_norm_grad_args<T, S> a = { gt_out_data<S>(call), gt_out_data<T>(call, 3),
		(wide *)((char *)call->workspace + group_bytes(g, cols)), gt_in_data<T>(call, 0),
		gt_in_data<S>(call, 1), gt_in_data<S>(call, 5), gt_in_data<wide>(call, 2),
		gt_in_data<wide>(call, 3), gt_in_data<wide>(call, 4), rows, cols, 1 / (wide)cols,
		g.length, bytes <= GT_NORM_SHARED, g.size, gt_out_data<wide>(call, 1),
		gt_out_data<wide>(call, 2), (double *)call->workspace,
		gt_cuda_block_counters(call->stream) };

	if (!cols)
		return 0;
	bytes = a.shared ? bytes : 0;
	if (!packs)
		GT_LAUNCH(
		    (gt_norm_grad_long<T, S, 1>), blocks, 32 * most, bytes, call->stream->queue, a);
	else if (warps > GT_NORM_WARPS || !a.shared)
		GT_LAUNCH(
		    (gt_norm_grad_long<T, S, W>), blocks, 32 * most, bytes, call->stream->queue, a);
	else
		GT_LAUNCH((gt_norm_grad<T, S, W>), blocks, dim3(32 * most, GT_NORM_WARPS / most),
		    bytes, call->stream->queue, a);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

template <class T> static int run_layer_norm_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;

	if (call->in[0].dtype == call->in[1].dtype)
		return run_grad<T, T>(call, err);
	return run_grad<T, wide>(call, err);
}

template <class T> static int run_add_layer_norm_grad(struct gt_call *call, struct gt_err *err)
{
	return run_layer_norm_grad<T>(call, err);
}

static int prepare_layer_norm_grad(struct gt_call *call, struct gt_err *err)
{
	struct grad_chunks g = grad_chunks_of(&call->in[1]);
	int64_t cols = gt_tensor_last(&call->in[1]);
	size_t size = call->in[1].dtype == GT_F64 ? sizeof(double) : sizeof(float);

	(void)err;
	call->workspace_bytes = group_bytes(g, cols) + (size_t)(g.blocks * 2 * cols) * size;
	return 0;
}

const struct gt_kernel gt_cuda_norm_grad_kernels[] = {
	GT_ROWS(layer_norm_grad, nullptr, prepare_layer_norm_grad),
	GT_ROWS(add_layer_norm_grad, nullptr, prepare_layer_norm_grad),
	{},
};
