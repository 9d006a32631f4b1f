/* attention_grad.cu - the gradient of attention: probabilities made again, a tile at a time. */
#include "kernels/cuda/attention/attention_held.cuh"

/*
 * Let p = exp(score - lse), z the factor of dropout, and delta_i = dy_i . y_i. Then
 *
 *   ds[i, j] = p[i, j] (z[i, j] dy_i . v_j - delta_i) / sqrt(D)
 *   dq_i = sum_j ds[i, j] k_j;  dk_j = sum_i ds[i, j] q_i;  dv_j = sum_i p[i, j] z[i, j] dy_i
 *
 * A block for dq has the rows of some queries and goes over keys. A block for dk and dv has the
 * rows of some keys and goes over the queries of all heads that share them, with all scores
 * transposed. So no two blocks add to the same number. Source: Dao 2023, "FlashAttention-2" (arXiv
 * 2307.08691), section 3.1.2.
 */
template <class T> struct attention_grad_args {
	typedef typename gt_wide<T>::type wide;
	T *dqkv;
	const T *dy, *qkv, *y;
	const wide *lse;
	wide *delta; /* [B, heads, T] */
	gt_attention_sizes s;
	gt_attention_draw draw;
};

enum { DELTA_THREADS = 128, DELTA_LANES = 8 };

/* DELTA_LANES neighbouring lanes have a row of one head; V elements are loaded at a time. Rows are
 * in the order of memory: a token's heads lie side by side. */
template <class T, int V> static __global__ void find_delta(attention_grad_args<T> a)
{
	typedef typename gt_map_buffer<T, true, false>::template lanes<V> pack;
	const gt_attention_sizes &s = a.s;
	int64_t r = ((int64_t)blockIdx.x * DELTA_THREADS + threadIdx.x) / DELTA_LANES;
	int64_t head = r % s.heads, t = r / s.heads % s.T, b = r / s.heads / s.T;
	bool inside = r < s.B * s.heads * s.T;
	pack dy = { (T *)a.dy + r * s.D, {} }, y = { (T *)a.y + r * s.D, {} };
	typename gt_wide<T>::type sum = 0;

	for (int64_t d = threadIdx.x % DELTA_LANES * V; inside && d < s.D; d += DELTA_LANES * V) {
		dy.load(d);
		y.load(d);
		for (int k = 0; k < V; k++)
			sum += dy.v[k] * y.v[k];
	}
	for (int step = DELTA_LANES / 2; step; step /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, step);
	if (inside && threadIdx.x % DELTA_LANES == 0)
		a.delta[(b * s.heads + head) * s.T + t] = sum;
}

template <class T> static void launch_delta(const attention_grad_args<T> &a, cudaStream_t queue)
{
	constexpr int V = 16 / sizeof(T), ROWS = DELTA_THREADS / DELTA_LANES;
	unsigned grid = (unsigned)((a.s.B * a.s.heads * a.s.T + ROWS - 1) / ROWS);

	if (a.s.D % V == 0)
		GT_LAUNCH((find_delta<T, V>), grid, DELTA_THREADS, 0, queue, a);
	else
		GT_LAUNCH((find_delta<T, 1>), grid, DELTA_THREADS, 0, queue, a);
}

/* A block's head, its matrices in memory and in shared memory. */
template <class S> struct head_place {
	typedef typename S::type T;
	typedef typename S::wide wide;
	int b, head; /* 32 bits, as a grid's blocks have: registers are scarce here */
	int64_t block, stride, first, mine;
	const T *q, *k, *v, *dy;
	T *out;
	const wide *lse, *delta;
	T *own, *more, *tile, *p; /* p: this warp's */
	int row;                  /* this warp's first row of `own` */

	/* The block's sample and head are the work-th of `heads` for each sample. */
	__device__ __forceinline__ head_place(
	    const attention_grad_args<T> &a, T *shared, int64_t heads)
	{
		const gt_attention_sizes &s = a.s;
		int work = (int)(blockIdx.x / s.blocks);

		block = blockIdx.x % s.blocks;
		b = work / (int)heads;
		head = work % (int)heads;
		stride = s.stride;
		mine = (int64_t)blockIdx.y * S::CHUNK;
		row = (int)threadIdx.x / 32 * GT_TILE;
		own = shared;
		more = own + S::OWN * S::LD;
		tile = more + S::OWN * S::LD;
		p = tile + S::TILE * S::LD + row * S::P_LD;
	}

	__device__ __forceinline__ void take_queries(
	    const attention_grad_args<T> &a, int64_t of_head)
	{
		const gt_attention_sizes &s = a.s;

		q = a.qkv + b * s.T * stride + of_head * s.D;
		dy = a.dy + b * s.T * s.C + of_head * s.D;
		lse = a.lse + (b * s.heads + of_head) * s.T;
		delta = a.delta + (b * s.heads + of_head) * s.T;
	}

	__device__ __forceinline__ void next_queries(const gt_attention_sizes &s)
	{
		q += s.D;
		dy += s.D;
		lse += s.T;
		delta += s.T;
	}

	__device__ __forceinline__ void take_keys(const attention_grad_args<T> &a, int64_t kv)
	{
		k = a.qkv + a.s.keys_of(b, kv);
		v = k + a.s.kv_heads * a.s.D;
	}
};

/*
 * x = a own rows by b's tile, g = those of c by those of d: scores and the gradients of
 * probabilities, or both transposed. `tile` ends as d's last columns. b's rows and d's take turns
 * in it, with a barrier before and behind each copy; own rows are copied once, by the first tile,
 * if all their columns fit.
 */
template <class S>
static __device__ __forceinline__ void score_both(head_place<S> &at, const gt_attention_sizes &s,
    typename S::scores &x, typename S::scores &g, const typename S::type *const (&from)[4],
    const int64_t (&stride)[4], int64_t other, bool begins)
{
	for (int64_t col = 0; col < s.D; col += S::CHUNK) {
		int width = gt_attention_width<S>(col, s.D);

		__syncthreads();
		if (begins || s.D > S::CHUNK) {
			gt_attention_fetch<S>(at.own, from[0], stride[0], at.first, S::OWN, s, col);
			gt_attention_fetch<S>(
			    at.more, from[2], stride[2], at.first, S::OWN, s, col);
		}
		gt_attention_fetch<S>(at.tile, from[1], stride[1], other, S::TILE, s, col);
		__syncthreads();
		gt_attention_score<S>(x, at.own + at.row * S::LD, at.tile, width);
		__syncthreads();
		gt_attention_fetch<S>(at.tile, from[3], stride[3], other, S::TILE, s, col);
		__syncthreads();
		gt_attention_score<S>(g, at.more + at.row * S::LD, at.tile, width);
	}
}

/* sum += x times the tile whose rows begin at `other`, this block's columns. */
template <class S>
static __device__ __forceinline__ void add_product(head_place<S> &at, const gt_attention_sizes &s,
    typename S::results &sum, const typename S::scores &x, const typename S::type *from,
    int64_t stride, int64_t other)
{
	__syncthreads();
	gt_attention_put<S>(at.p, x);
	gt_attention_fetch<S>(at.tile, from, stride, other, S::TILE, s, at.mine);
	__syncthreads();
	gt_attention_weigh<S>(sum, at.p, at.tile, gt_attention_width<S>(at.mine, s.D));
}

/* Replace the score of query i and key j by p z, and the gradient g of p z by the gradient of the
 * score, without its factor 1 / sqrt(D). The gradient of a softmax is p_j (dp_j - sum over k of p_k
 * dp_k), with dp_k = z_k dy . v_k. That sum is dy . y, as y is the sum over k of p_k z_k v_k; it is
 * delta. So no tile needs the others, and no matrix of scores is kept. */
template <bool PACKED, class W>
static __device__ __forceinline__ void differentiate(
    W &x, W &g, int64_t b, int64_t i, int64_t j, W lse, W delta, const gt_attention_sizes &s, W z)
{
	bool counts = j <= s.last_key(i) && i < s.T && (!PACKED || j >= s.first_key(b, i));
	W p = counts ? gt_exp(x * (W)s.scale - lse) : 0;

	x = p * z;
	g = counts ? p * (z * g - delta) : 0;
}

template <class T, int CHUNK, bool PACKED>
static __device__ __forceinline__ void grad_queries(const attention_grad_args<T> &a, T *shared)
{
	typedef gt_attention_shape<T, CHUNK> S;
	typedef typename S::wide wide;
	const gt_attention_sizes &s = a.s;
	head_place<S> at(a, shared, s.heads);
	const gt_attention_dropper draw = { a.draw, at.b, at.head };
	typename S::results dq = {};
	wide lse[2] = {}, delta[2] = {};

	at.take_queries(a, at.head);
	at.take_keys(a, at.head / s.group);
	at.out = a.dqkv + (at.q - a.qkv);
	at.block = s.blocks - 1 - at.block; /* the longest first */
	at.first = at.block * S::OWN;
	for (int h = 0; h < 2; h++) {
		int64_t i = at.first + at.row + gt_tile_row(h * 2);

		lse[h] = i < s.T ? at.lse[i] : 0;
		delta[h] = i < s.T ? at.delta[i] : 0;
	}
	int64_t begin = PACKED ? s.first_tile(at.b, at.first, S::TILE) : 0;

	for (int64_t j = begin; j < s.T && (s.full || j < at.first + S::OWN); j += S::TILE) {
		typename S::scores x = {}, g = {};

		score_both<S>(at, s, x, g, { at.q, at.k, at.dy, at.v },
		    { at.stride, at.stride, s.C, at.stride }, j, j == begin);
		GT_UNROLL
		for (int n = 0; n < S::TILES; n++) {
			uint32_t kept =
			    draw.draw<1, false>(at.first + at.row, j + n * GT_TILE, s.T);

			GT_UNROLL
			for (int e = 0; e < GT_TILE_LANE; e++)
				differentiate<PACKED>(x[n][e], g[n][e], at.b,
				    at.first + at.row + gt_tile_row(e),
				    j + n * GT_TILE + gt_tile_col(e), lse[e / 2 % 2],
				    delta[e / 2 % 2], s, draw.factor<wide>(kept, e));
		}
		add_product<S>(at, s, dq, g, at.k, at.stride, j);
	}
	gt_attention_write<S>(
	    at.out, at.stride, at.first + at.row, at.mine, s, dq, { (wide)s.scale, (wide)s.scale });
}

/* Add the parts of dk and dv that come from the queries of one head. */
template <class S, bool PACKED>
static __device__ __forceinline__ void add_queries(head_place<S> &at, const gt_attention_sizes &s,
    const gt_attention_dropper &draw, typename S::results &dk, typename S::results &dv)
{
	/*
	 * Earlier queries see none of these keys. at.first is a multiple of OWN, and so of TILE:
	 * no tile begins before it.
	 */
	int64_t first = s.full ? 0 : at.first;

	for (int64_t i = first; i < s.T; i += S::TILE) {
		typename S::scores x = {}, g = {};

		score_both<S>(at, s, x, g, { at.k, at.q, at.v, at.dy },
		    { at.stride, at.stride, at.stride, s.C }, i, i == first);
		GT_UNROLL
		for (int n = 0; n < S::TILES; n++) {
			uint32_t kept = draw.draw<1, true>(i + n * GT_TILE, at.first + at.row, s.T);

			GT_UNROLL
			for (int e = 0; e < GT_TILE_LANE; e++) {
				int64_t query = i + n * GT_TILE + gt_tile_col(e);
				bool there = query < s.T;

				differentiate<PACKED>(x[n][e], g[n][e], at.b, query,
				    at.first + at.row + gt_tile_row(e), there ? at.lse[query] : 0,
				    there ? at.delta[query] : 0, s,
				    draw.factor<typename S::wide>(kept, e));
			}
		}
		add_product<S>(at, s, dv, x, at.dy, s.C, i);
		add_product<S>(at, s, dk, g, at.q, at.stride, i);
	}
}

template <class T, int CHUNK, bool PACKED>
static __device__ __forceinline__ void grad_keys(const attention_grad_args<T> &a, T *shared)
{
	typedef gt_attention_shape<T, CHUNK> S;
	typedef typename S::wide wide;
	const gt_attention_sizes &s = a.s;
	head_place<S> at(a, shared, s.kv_heads);
	gt_attention_dropper draw = { a.draw, at.b, at.head * (int)s.group };
	typename S::results dk = {}, dv = {};

	if (at.b >= s.B) /* there are blocks for all heads of queries */
		return;
	at.take_queries(a, at.head * s.group);
	at.take_keys(a, at.head);
	at.first = at.block * S::OWN;
	/*
	 * The heads of queries that share these keys lie side by side, and dk and dv are the sums
	 * over all of them: one block adds them up, in their order.
	 */
	for (int left = (int)s.group;;) {
		add_queries<S, PACKED>(at, s, draw, dk, dv);
		if (--left == 0)
			break;
		at.next_queries(s);
		draw.head++;
	}
	at.out = a.dqkv + (at.k - a.qkv);
	gt_attention_write<S>(
	    at.out, at.stride, at.first + at.row, at.mine, s, dk, { (wide)s.scale, (wide)s.scale });
	gt_attention_write<S>(
	    at.out + s.kv_heads * s.D, at.stride, at.first + at.row, at.mine, s, dv, { 1, 1 });
}

/* Both have the same grid, and neither waits for the other. PACKED: rows have several documents
 * (a.s.positions). */
template <class T, int CHUNK, bool PACKED>
static __global__ void __launch_bounds__(gt_attention_shape<T, CHUNK>::THREADS)
    grad_both(attention_grad_args<T> a)
{
	GT_DYNAMIC_SHARED(T, shared);

	if (blockIdx.z)
		grad_keys<T, CHUNK, PACKED>(a, shared);
	else
		grad_queries<T, CHUNK, PACKED>(a, shared);
}

/* ---- rows ---- */

template <class T, int CHUNK, bool PACKED> static void launch(struct gt_call *call)
{
	typedef gt_attention_shape<T, CHUNK> S;
	typedef typename S::wide wide;
	attention_grad_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<T>(call, 2), gt_in_data<wide>(call, 3),
		(wide *)call->workspace, gt_attention_sizes_of(call, &call->in[1], S::OWN),
		gt_attention_draw_of(call, 4) };
	dim3 grid = gt_attention_grid<S>(a.s);
	cudaStream_t queue = call->stream->queue;

	a.s.positions = gt_in_data<int32_t>(call, 5);
	if (!grid.x)
		return;
	launch_delta(a, queue);
	if (gt_held_attention_grad(call, (const float *)call->workspace))
		return;
	grid.z = 2;
	GT_LAUNCH((grad_both<T, CHUNK, PACKED>), grid, S::THREADS, S::BYTES, queue, a);
}

template <class T> static void launch_for_size(struct gt_call *call)
{
	constexpr int LARGE = sizeof(T) == 2 ? 128 : 64;

	/* Several documents need registers: too many with 128 columns, and with 64 of 32 bits. */
	if (gt_optional_input(call, 5))
		launch<T, sizeof(T) >= 4 ? 48 : 64, true>(call);
	else if (gt_attention_head_size(call, &call->in[1]) > 64)
		launch<T, LARGE, false>(call);
	else
		launch<T, 64, false>(call);
}

template <class T> static int run_attention_grad(struct gt_call *call, struct gt_err *err)
{
	if (call->attrs.attention.tf32)
		launch_for_size<typename gt_rounded<T>::type>(call);
	else
		launch_for_size<T>(call);
	return gt_cuda_launched(call->stream, "attention_grad", err);
}

static int prepare_attention_grad(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	call->launches = 2;
	call->workspace_bytes =
	    (size_t)gt_tensor_elements(&call->in[3]) * gt_dtype_size(call->in[3].dtype);
	return 0;
}

const struct gt_kernel gt_cuda_attention_grad_kernels[] = {
	GT_ROWS(attention_grad, nullptr, prepare_attention_grad),
	{},
};
