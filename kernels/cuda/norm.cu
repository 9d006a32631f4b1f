/* norm.cu - layer_norm, by itself and behind a sum, their gradients, and that of a bias. */
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/last_block.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"

/* A warp has a row. A lane reads PACK elements at a time, or one by one where PACK does not divide
 * the length of rows. All types add up in the same order, so a result of 16 bits is that of
 * float32, rounded. Statistics, weights and sums are in the type of gt_wide. Formulas:
 * lib/graph/ops/ops.h. */
enum { WARPS = 4, PACK = 8 };

template <class T, int W> using reader = typename gt_map_buffer<T, true, false>::template lanes<W>;
template <class T, int W> using writer = typename gt_map_buffer<T, false, true>::template lanes<W>;
template <class T, int W> using updater = typename gt_map_buffer<T, true, true>::template lanes<W>;

/* The sum of f(element) over a row. */
template <int W, class T, class F>
static __device__ __forceinline__ typename gt_wide<T>::type sum_row(const T *x, int64_t cols, F f)
{
	reader<T, W> v = { (T *)x, {} };
	typename gt_wide<T>::type sum = 0;

	for (int64_t c = threadIdx.x % 32 * W; c < cols; c += 32 * W) {
		v.load(c);
		for (int k = 0; k < W; k++)
			sum += f(v.v[k]);
	}
	return gt_warp_sum(sum);
}

/* y is T, and so is an addend; the normalised value is S, which may be the wide type: a sum, or the
 * residual itself. */
template <class T, class S> struct norm_args {
	typedef typename gt_wide<T>::type wide;
	T *y;
	S *sum; /* nullptr: the residual is normalised */
	wide *mean, *rstd;
	const T *x;
	const S *residual;
	const wide *weight, *bias;
	int64_t rows, cols;
	double eps;
};

/*
 * A row of the sum. Each lane reads back its own writes, so no barrier is needed. The sum is
 * rounded to S when it is written, and the rounded values are normalised: the gradient reads the
 * same values.
 */
template <int W, class T, class S>
static __device__ __forceinline__ void add_row(S *sum, const T *x, const S *residual, int64_t cols)
{
	reader<T, W> a = { (T *)x, {} };
	reader<S, W> b = { (S *)residual, {} };
	writer<S, W> to = { sum, {} };

	for (int64_t c = threadIdx.x % 32 * W; c < cols; c += 32 * W) {
		a.load(c);
		b.load(c);
		for (int k = 0; k < W; k++)
			to.v[k] = a.v[k] + b.v[k];
		to.store(c);
	}
}

template <class T, class S, int W> static __global__ void layer_norm(norm_args<T, S> a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
	int lane = (int)threadIdx.x % 32;
	reader<S, W> x = { (a.sum ? a.sum : (S *)a.residual) + r * a.cols, {} };
	writer<T, W> y = { a.y + r * a.cols, {} };
	reader<wide, W> weight = { (wide *)a.weight, {} }, bias = { (wide *)a.bias, {} };
	wide mean, square, rstd;

	if (r >= a.rows)
		return;
	if (a.sum)
		add_row<W>(x.p, a.x + r * a.cols, a.residual + r * a.cols, a.cols);
	mean = sum_row<W>(x.p, a.cols, [](wide v) { return v; }) / (wide)a.cols;
	square = sum_row<W>(x.p, a.cols, [mean](wide v) { return (v - mean) * (v - mean); });
	rstd = 1 / sqrt(square / (wide)a.cols + (wide)a.eps);
	if (lane == 0) {
		a.mean[r] = mean;
		a.rstd[r] = rstd;
	}
	for (int64_t c = lane * W; c < a.cols; c += 32 * W) {
		x.load(c);
		weight.load(c);
		if (a.bias)
			bias.load(c);
		for (int k = 0; k < W; k++)
			y.v[k] = (x.v[k] - mean) * rstd * weight.v[k] + (a.bias ? bias.v[k] : 0);
		y.store(c);
	}
}

/* ---- gradients ---- */

/*
 * A block has a chunk of rows, and takes a few at a time. A thread has PACK elements of each, or
 * some packs where rows are long. It loads those of all these rows before it uses the first of
 * them, as it waits for memory most of the time. The block adds up the sums of each row; then the
 * thread makes its elements of dx, and adds to the sums of its columns for dweight and dbias. HELD:
 * a thread has one pack, which it keeps; else it reads its packs again, from a cache.
 *
 * Blocks are in groups. The block that ends last in its group adds up the sums of the group. The
 * last of these blocks adds up the sums of all groups. Chance decides which blocks these are, but
 * the order of the additions is fixed. Source: NVIDIA's sample threadFenceReduction.
 */
enum {
	GRAD_WARPS = 12, /* at most, in a block; more would leave too few registers */
	GRAD_THREADS = GRAD_WARPS * 32,
	GRAD_AT_ONCE = 3, /* rows, at most */
	/* Of a chunk: 16384 rows are 512 blocks, 4 for each multiprocessor of a large GPU. */
	GRAD_ROWS = 32,
	SHARED_BYTES = 40 * 1024
};

template <class T, class S> struct norm_grad_args {
	typedef typename gt_wide<T>::type wide;
	S *dx;
	T *low;        /* dx once more, or nullptr */
	wide *partial; /* [chunks, 2, cols] */
	const T *dy;
	const S *x, *dsum; /* dsum is added to dx if `adds`; else it is x, which is loaded anyway */
	const wide *weight, *mean, *rstd;
	struct gt_column_chunks m;
	bool adds;
	bool shared;           /* the sums of a chunk fit into shared memory */
	int64_t size;          /* chunks of a group */
	wide *dweight, *dbias; /* dbias: or nullptr */
	double *groups;        /* [groups, 2, cols] */
	unsigned *counters;    /* zero: one for the groups, and one for each of them */
};

/* d as a tensor of S keeps it. */
template <class S>
static __device__ __forceinline__ typename gt_wide<S>::type kept(typename gt_wide<S>::type d)
{
	S s;

	gt_store(&s, d);
	return gt_load(s);
}

/* Sums that the compiler does not join with a product before them into a multiply-add. */
static __device__ __forceinline__ float add(float a, float b)
{
	return __fadd_rn(a, b);
}

static __device__ __forceinline__ double add(double a, double b)
{
	return __dadd_rn(a, b);
}

/* Some rows, from r on, and one thread's part of them. */
template <class T, class S, int W> struct norm_grad_rows {
	typedef typename gt_wide<T>::type wide;
	enum { N = W * sizeof(S) == 16 ? GRAD_AT_ONCE : W * sizeof(S) <= 32 ? 2 : 1 };
	const norm_grad_args<T, S> &a;
	int64_t r, end; /* of the chunk */
	wide mean[N], rstd[N], sum[N], dot[N];
	reader<T, W> dy[N];
	reader<S, W> x[N], dsum[N];

	__device__ __forceinline__ norm_grad_rows(
	    const norm_grad_args<T, S> &args, int64_t begin, int64_t e)
	    : a(args), r(begin), end(e)
	{
		for (int i = 0; i < N; i++) {
			mean[i] = a.mean[row(i)];
			rstd[i] = a.rstd[row(i)];
			sum[i] = dot[i] = 0;
		}
	}

	/* Row i. Past the end of the chunk it is the last row once more, which is not stored. */
	__device__ __forceinline__ int64_t row(int i) const
	{
		return r + i < end ? r + i : end - 1;
	}

	__device__ __forceinline__ void load(int64_t c)
	{
		for (int i = 0; i < N; i++) {
			dy[i].p = (T *)a.dy;
			x[i].p = (S *)a.x;
			dy[i].load(row(i) * a.m.cols + c);
			x[i].load(row(i) * a.m.cols + c);
		}
	}

	__device__ __forceinline__ void load_dsum(int64_t c)
	{
		for (int i = 0; i < N; i++) {
			dsum[i].p = (S *)a.dsum;
			dsum[i].load(row(i) * a.m.cols + c);
		}
	}

	__device__ __forceinline__ void add_up(int64_t c)
	{
		reader<wide, W> weight = { (wide *)a.weight, {} };

		weight.load(c);
		for (int i = 0; i < N; i++)
			for (int k = 0; k < W; k++) {
				wide g = dy[i].v[k] * weight.v[k];

				sum[i] += g;
				dot[i] += g * ((x[i].v[k] - mean[i]) * rstd[i]);
			}
	}

	/* Means over a row. `shared` is for 2 N values of each warp; it must not be that of the
	 * call before, which another warp may still read. */
	__device__ __forceinline__ void finish_sums(wide *shared)
	{
		int warp = (int)threadIdx.x / 32, warps = (int)blockDim.x / 32;
		wide share = 1 / (wide)a.m.cols;

		for (int i = 0; i < N; i++) {
			sum[i] = gt_warp_sum(sum[i]);
			dot[i] = gt_warp_sum(dot[i]);
			if (threadIdx.x % 32 == 0) {
				shared[2 * N * warp + 2 * i] = sum[i];
				shared[2 * N * warp + 2 * i + 1] = dot[i];
			}
			sum[i] = dot[i] = 0;
		}
		__syncthreads();
		for (int w = 0; w < warps; w++)
			for (int i = 0; i < N; i++) {
				sum[i] += shared[2 * N * w + 2 * i];
				dot[i] += shared[2 * N * w + 2 * i + 1];
			}
		for (int i = 0; i < N; i++) {
			sum[i] *= share;
			dot[i] *= share;
		}
	}

	/* Add to the sums of columns, sums[c] and sums[cols + c], and store dx. d is rounded before
	 * dsum is added, as by two separate ops. */
	__device__ __forceinline__ void store(wide *sums, int64_t c) const
	{
		updater<wide, W> dw = { sums, {} }, db = { sums + a.m.cols, {} };
		reader<wide, W> weight = { (wide *)a.weight, {} };
		writer<S, W> dx = { a.dx, {} };
		writer<T, W> low = { a.low, {} };

		weight.load(c);
		dw.load(c);
		db.load(c);
		for (int i = 0; i < N && r + i < end; i++) {
			for (int k = 0; k < W; k++) {
				wide hat = (x[i].v[k] - mean[i]) * rstd[i];
				wide d =
				    rstd[i] * (dy[i].v[k] * weight.v[k] - sum[i] - hat * dot[i]);
				wide with = add(dsum[i].v[k], kept<S>(d));

				dw.v[k] += dy[i].v[k] * hat;
				db.v[k] += dy[i].v[k];
				dx.v[k] = low.v[k] = a.adds ? with : d;
			}
			dx.store((r + i) * a.m.cols + c);
			if (a.low)
				low.store((r + i) * a.m.cols + c);
		}
		dw.store(c);
		db.store(c);
	}
};

/*
 * Whether this block is the last of `count` to come here, for all of its threads, which then see
 * the writes of the others. The first fence makes this block's writes visible before it is
 * counted, the second keeps reads from being done before the count, or by an L1 cache that was
 * filled before it (CUDA C++ Programming Guide, "Memory Fence Functions" has this example;
 * PTX ISA, "Memory Consistency Model"). The last block sets the counter back, for the
 * next launch.
 */
static __device__ bool is_last(unsigned *counter, int64_t count)
{
	GT_SHARED(bool, last, 1);

	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
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
static __device__ __forceinline__ void add_rows(
    double *sums, const W *rows, int64_t count, int64_t width, int64_t c)
{
	enum { AT_ONCE = 8 };

	for (int j = 0; j < V; j++)
		sums[j] = 0;
	for (int64_t k = 0; k < count; k += AT_ONCE) {
		reader<W, V> v[AT_ONCE];

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
static __device__ void add_up_blocks(const norm_grad_args<T, S> &a)
{
	typedef typename gt_wide<T>::type wide;
	int64_t width = 2 * a.m.cols, blocks = gridDim.x, group = blockIdx.x / a.size;
	int64_t groups = (blocks + a.size - 1) / a.size, first = group * a.size;
	int64_t count = first + a.size < blocks ? a.size : blocks - first;
	double sums[V];

	if (!is_last(a.counters + 1 + group, count))
		return;
	for (int64_t c = (int64_t)threadIdx.x * V; c < width; c += blockDim.x * V) {
		add_rows<V>(sums, a.partial + first * width, count, width, c);
		for (int j = 0; j < V; j++)
			a.groups[group * width + c + j] = sums[j];
	}
	if (!is_last(a.counters, groups))
		return;
	for (int64_t c = (int64_t)threadIdx.x * V; c < width; c += blockDim.x * V) {
		wide *to = c < a.m.cols ? a.dweight : a.dbias;

		add_rows<V>(sums, a.groups, groups, width, c);
		for (int j = 0; j < V && to; j++)
			to[c % a.m.cols + j] = (wide)sums[j];
	}
}

template <class T, class S, int W, bool HELD>
static __global__ void __launch_bounds__(GRAD_THREADS) layer_norm_grad(norm_grad_args<T, S> a)
{
	typedef typename gt_wide<T>::type wide;
	GT_DYNAMIC_SHARED(wide, columns);
	GT_SHARED(wide, of_rows, 2 * 2 * GRAD_AT_ONCE * GRAD_WARPS);
	int64_t cols = a.m.cols, begin = (int64_t)blockIdx.x * a.m.length;
	int64_t end = begin + a.m.length < a.m.rows ? begin + a.m.length : a.m.rows;
	int64_t first = (int64_t)threadIdx.x * W, step = (int64_t)blockDim.x * W, half = 0;
	wide *partial = a.partial + (int64_t)blockIdx.x * 2 * cols,
	     *sums = a.shared ? columns : partial;

	for (int64_t c = first; c < cols; c += step)
		for (int k = 0; k < W; k++)
			sums[c + k] = sums[cols + c + k] = 0;
	for (int64_t r = begin; r < end; r += norm_grad_rows<T, S, W>::N) {
		norm_grad_rows<T, S, W> v(a, r, end);

		for (int64_t c = first; c < cols; c = HELD ? cols : c + step) {
			v.load(c);
			if (HELD)
				v.load_dsum(c);
			v.add_up(c);
		}
		v.finish_sums(of_rows + half);
		half = 2 * GRAD_AT_ONCE * GRAD_WARPS - half;
		for (int64_t c = first; c < cols; c = HELD ? cols : c + step) {
			if (!HELD) {
				v.load(c);
				v.load_dsum(c);
			}
			v.store(sums, c);
		}
	}
	for (int64_t c = first; a.shared && c < cols; c += step)
		for (int k = 0; k < W; k++) {
			partial[c + k] = sums[c + k];
			partial[cols + c + k] = sums[cols + c + k];
		}
	add_up_blocks<T, S, W == 1 ? 1 : 4>(a);
}

/* ---- rows ---- */

template <class T, class S>
static int launch_norm(struct gt_call *call, const norm_args<T, S> &a, struct gt_err *err)
{
	unsigned blocks = (unsigned)((a.rows + WARPS - 1) / WARPS);

	if (!blocks)
		return 0;
	if (a.cols % PACK == 0)
		GT_LAUNCH((layer_norm<T, S, PACK>), blocks, WARPS * 32, 0, call->stream->queue, a);
	else
		GT_LAUNCH((layer_norm<T, S, 1>), blocks, WARPS * 32, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

template <class T, class S> static int run_norm(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	norm_args<T, S> a = { gt_out_data<T>(call), nullptr, gt_out_data<wide>(call, 1),
		gt_out_data<wide>(call, 2), nullptr, gt_in_data<S>(call, 0),
		gt_in_data<wide>(call, 1), gt_in_data<wide>(call, 2), gt_tensor_rows(&call->in[0]),
		gt_tensor_last(&call->in[0]), call->attrs.norm.eps };

	return launch_norm(call, a, err);
}

/* S is the input's type. */
template <class S> static int run_layer_norm(struct gt_call *call, struct gt_err *err)
{
	return run_norm<S, S>(call, err);
}

template <> int run_layer_norm<float>(struct gt_call *call, struct gt_err *err)
{
	if (call->out[0].dtype == GT_BF16)
		return run_norm<gt_bf16, float>(call, err);
	if (call->out[0].dtype == GT_F16)
		return run_norm<gt_f16, float>(call, err);
	return run_norm<float, float>(call, err);
}

template <class T, class S> static int run_sum(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	norm_args<T, S> a = { gt_out_data<T>(call), gt_out_data<S>(call, 1),
		gt_out_data<wide>(call, 2), gt_out_data<wide>(call, 3), gt_in_data<T>(call, 0),
		gt_in_data<S>(call, 1), gt_in_data<wide>(call, 2), gt_in_data<wide>(call, 3),
		gt_tensor_rows(&call->in[0]), gt_tensor_last(&call->in[0]), call->attrs.norm.eps };

	return launch_norm(call, a, err);
}

template <class T> static int run_add_layer_norm(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;

	if (call->in[1].dtype == call->in[0].dtype)
		return run_sum<T, T>(call, err);
	return run_sum<T, wide>(call, err);
}

/* Chunks, at least one, which writes zeros where there are no rows; and how many of them are a
 * group: about as many as there are groups. */
struct grad_chunks {
	struct gt_column_chunks m;
	int64_t blocks, size, groups;
};

static struct grad_chunks grad_chunks_of(const struct gt_tensor *x)
{
	struct grad_chunks g = {
		gt_column_chunks_of(gt_tensor_rows(x), gt_tensor_last(x), GRAD_ROWS), 0, 1, 0
	};

	static_assert(
	    (GT_CUDA_BLOCK_COUNTERS - 1) * (GT_CUDA_BLOCK_COUNTERS - 1) >= GT_COLUMN_CHUNKS,
	    "a counter each");
	g.blocks = g.m.count ? g.m.count : 1;
	while (g.size * g.size < g.blocks)
		g.size++;
	g.groups = (g.blocks + g.size - 1) / g.size;
	return g;
}

/* The sums of groups lie before those of chunks. */
static size_t group_bytes(const struct grad_chunks &g)
{
	return (size_t)(g.groups * 2 * g.m.cols) * sizeof(double);
}

/* Inputs of both gradients are the same, as are outputs 0 to 2. Output 3 of add_layer_norm_grad may
 * be absent, as it is of layer_norm_grad. */
template <class T, class S> static int run_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_wide<T>::type wide;
	struct grad_chunks g = grad_chunks_of(&call->in[1]);
	size_t bytes = (size_t)g.m.cols * 2 * sizeof(wide);
	bool shared = bytes <= SHARED_BYTES, packs = g.m.cols % PACK == 0;
	int64_t warps = (g.m.cols / (packs ? PACK : 1) + 31) / 32;
	unsigned blocks = (unsigned)g.blocks, threads = 32 * gt_min_blocks(warps, GRAD_WARPS);
	const S *dsum = gt_in_data<S>(call, 5);
	norm_grad_args<T, S> a = { gt_out_data<S>(call), gt_out_data<T>(call, 3),
		(wide *)((char *)call->workspace + group_bytes(g)), gt_in_data<T>(call, 0),
		gt_in_data<S>(call, 1), dsum ? dsum : gt_in_data<S>(call, 1),
		gt_in_data<wide>(call, 2), gt_in_data<wide>(call, 3), gt_in_data<wide>(call, 4),
		g.m, dsum != nullptr, shared, g.size, gt_out_data<wide>(call, 1),
		gt_out_data<wide>(call, 2), (double *)call->workspace,
		gt_cuda_block_counters(call->stream) };

	if (!g.m.cols)
		return 0;
	if (!packs)
		GT_LAUNCH((layer_norm_grad<T, S, 1, false>), blocks, threads, shared ? bytes : 0,
		    call->stream->queue, a);
	else if (warps > GRAD_WARPS)
		GT_LAUNCH((layer_norm_grad<T, S, PACK, false>), blocks, threads, shared ? bytes : 0,
		    call->stream->queue, a);
	else
		GT_LAUNCH((layer_norm_grad<T, S, PACK, true>), blocks, threads, shared ? bytes : 0,
		    call->stream->queue, a);
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
	size_t size = call->in[1].dtype == GT_F64 ? sizeof(double) : sizeof(float);

	(void)err;
	call->workspace_bytes = group_bytes(g) + (size_t)(g.blocks * 2 * g.m.cols) * size;
	return 0;
}

/* ---- bias_grad: images lie channels-last, so the channel is the last dimension of all ---- */

static struct gt_column_chunks chunks_of_channels(const struct gt_tensor *t)
{
	int64_t cols = t->ndim == 4 ? t->shape[1] : gt_tensor_last(t);

	return gt_column_chunks_of(cols ? gt_tensor_elements(t) / cols : 0, cols);
}

template <class T> static int run_bias_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_column_chunks m = chunks_of_channels(&call->in[0]);
	gt_column_f<T> f = { gt_in_data<T>(call, 0), m.cols };
	T *const sums[] = { gt_out_data<T>(call) };

	gt_sum_columns(call->stream, sums, (typename gt_wide<T>::type *)call->workspace, f, &m);
	return gt_cuda_launched(call->stream, "bias_grad", err);
}

static int prepare_bias_grad(struct gt_call *call, struct gt_err *err)
{
	struct gt_column_chunks m = chunks_of_channels(&call->in[0]);

	(void)err;
	call->launches = 2;
	call->workspace_bytes = gt_column_bytes(&m, 1, call->in[0].dtype);
	return 0;
}

static bool accepts_channels_last(const struct gt_call *call)
{
	return call->in[0].ndim != 4 || call->in[0].layout == GT_CHANNELS_LAST;
}

const struct gt_kernel gt_cuda_norm_kernels[] = {
	GT_ROWS(layer_norm, nullptr, nullptr),
	GT_ROWS(layer_norm_grad, nullptr, prepare_layer_norm_grad),
	GT_ROWS(add_layer_norm, nullptr, nullptr),
	GT_ROWS(add_layer_norm_grad, nullptr, prepare_layer_norm_grad),
	GT_ROWS(bias_grad, accepts_channels_last, prepare_bias_grad),
	{},
};
