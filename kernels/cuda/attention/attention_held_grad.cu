/* attention_held_grad.cu - the gradient of attention for 16-bit types. */
#include "kernels/cuda/attention/attention_held.cuh"

/*
 * Formulas: attention_grad.cu. One block has the rows of some queries and goes over the keys that
 * they see, for dq; another those of some keys and goes over the queries of all heads that share
 * them, for dk and dv, with all scores transposed. So no two blocks add to the same number. Scores
 * are in units of log 2, as in attention_held.cu.
 *
 * A tile is worked on in steps of STEP rows: the scores of a step and their gradients are in
 * registers. With heads of 128 columns there are not enough registers for all of dk and dv: two
 * blocks share them, and each computes all scores.
 */
template <class T> struct held_grad_args {
	T *dqkv;
	const T *dy, *qkv;
	const float *lse, *delta; /* [B, heads, T] */
	gt_attention_sizes s;
	gt_attention_draw draw;
};

enum { RESULTS = 64 };

template <class S> struct held_grad {
	enum {
		STEP_TILES = S::COLS > 64 ? 2 : 1,
		STEP = STEP_TILES * GT_TILE,
		ACROSS = S::COLS / RESULTS,
		/* lse and delta of the queries of both tiles follow the tiles */
		BYTES = S::BYTES + 4 * S::TILE * (int)sizeof(float)
	};
	typedef float scores[STEP_TILES][S::M][GT_TILE_LANE];
	static_assert(S::M == 1, "there are registers for one tile of own rows");
	static_assert(2 * S::OWN * S::LD <= 2 * S::STAGE, "own rows fit into the tiles' memory");
	static_assert(BYTES <= 48 * 1024, "more shared memory than a launch may have");
};

/* Read this warp's own rows of two matrices, by way of shared memory. */
template <class S>
static __device__ __forceinline__ void take_own(gt_held<typename S::type> (&x)[S::CHUNKS][1],
    gt_held<typename S::type> (&y)[S::CHUNKS][1], typename S::type *shared,
    const typename S::type *from_x, int64_t x_stride, const typename S::type *from_y,
    int64_t y_stride, int first, const gt_attention_sizes &s)
{
	gt_async_copies copies;

	gt_held_fetch_two<S, S::OWN>(copies, shared, from_x, x_stride, from_y, y_stride, first, s);
	copies.template wait<0>();
	__syncthreads();
	gt_held_own<S>(x, shared);
	gt_held_own<S>(y, shared + S::OWN * S::LD);
	__syncthreads();
}

/*
 * Turn the score x = q . k into the probability p times dropout's factor z, and g, the gradient of
 * p z, into the gradient of the score, still without the factor 1 / sqrt(D). c is the factor of
 * scores and lse is in units of log 2. differentiate() in attention_grad.cu explains delta.
 */
static __device__ __forceinline__ void differentiate(
    float &x, float &g, float c, float lse, float delta, float z)
{
	float p = gt_exp2(x * c - lse);

	x = p * z;
	g = p * (z * g - delta);
}

/* ---- dq ---- */

template <class S, bool DROPS>
static __device__ __forceinline__ void grad_queries(
    const held_grad_args<typename S::type> &a, typename S::type *shared)
{
	typedef typename S::type T;
	const gt_attention_sizes &s = a.s;
	int work = (int)(blockIdx.x / s.blocks);
	/* Blocks with the most keys start first. */
	int first = (int)(s.blocks - 1 - blockIdx.x % s.blocks) * S::OWN;
	int b = work / (int)s.heads, head = work % (int)s.heads;
	int i = first + (int)threadIdx.x / 32 * GT_TILE;
	int end = s.full || first + S::OWN > (int)s.T ? (int)s.T : first + S::OWN;
	int seen = s.full || i + GT_TILE > end ? end : i + GT_TILE; /* by this warp */
	int64_t at = (b * s.heads + head) * s.T;
	const T *q = a.qkv + b * s.T * s.stride + head * s.D;
	const T *k = a.qkv + s.keys_of(b, head / s.group), *v = k + s.kv_heads * s.D;
	const gt_attention_dropper draw = { a.draw, b, head };
	gt_held<T> own[S::CHUNKS][1], dy[S::CHUNKS][1];
	float dq[S::CHUNKS][1][GT_TILE_LANE] = {}, lse[2], delta[2];
	float c = (float)s.scale * gt_log2_e;
	gt_async_copies copies;

	if (blockIdx.y) /* the other blocks have columns of dk and dv */
		return;
	take_own<S>(own, dy, shared, q, s.stride, a.dy + b * s.T * s.C + head * s.D, s.C, first, s);
	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		int row = i + gt_tile_row(h * 2);

		lse[h] = row < (int)s.T ? a.lse[at + row] * gt_log2_e : INFINITY;
		delta[h] = row < (int)s.T ? a.delta[at + row] : 0;
	}
	gt_held_fetch_two<S, S::TILE>(copies, shared, k, s.stride, v, s.stride, 0, s);
	for (int j = 0, t = 0; j < end; j += S::TILE, t ^= 1) {
		T *next = shared + (t ^ 1) * S::STAGE;

		copies.template wait<0>();
		__syncthreads();
		if (j + S::TILE < end)
			gt_held_fetch_two<S, S::TILE>(
			    copies, next, k, s.stride, v, s.stride, j + S::TILE, s);
		if (i >= (int)s.T)
			continue;
		GT_NO_UNROLL
		for (int part = 0; part < S::TILE && j + part < seen; part += held_grad<S>::STEP) {
			const T *keys = shared + t * S::STAGE + part * S::LD;
			bool edge = j + part + held_grad<S>::STEP > (s.full ? end : i + 1);
			typename held_grad<S>::scores x, g;
			uint32_t kept = ~0u;

			gt_held_score<S>(x, own, keys);
			gt_held_score<S>(g, dy, keys + S::TILE * S::LD);
			if (DROPS)
				kept = draw.draw<held_grad<S>::STEP_TILES, false>(i, j + part, s.T);
			GT_UNROLL
			for (int n = 0; n < held_grad<S>::STEP_TILES * GT_TILE_LANE; n++) {
				int e = n % GT_TILE_LANE, h = e / 2 % 2;
				float &score = x[n / GT_TILE_LANE][0][e];
				int query = i + gt_tile_row(e);
				int key = j + part + n / GT_TILE_LANE * GT_TILE + gt_tile_col(e);

				if (edge && key > (s.full ? (int)s.T - 1 : query))
					score = -INFINITY;
				differentiate(score, g[n / GT_TILE_LANE][0][e], c, lse[h], delta[h],
				    DROPS ? draw.factor<float>(kept, n) : 1);
			}
			gt_held_weigh<S>(dq, g, keys);
		}
	}
	gt_held_write<S>(
	    a.dqkv + (q - a.qkv), s.stride, i, 0, s, dq, { { (float)s.scale, (float)s.scale } });
}

/* ---- dk and dv ---- */

/*
 * Tiles of queries: their q and dy in shared memory, and their lse and delta. Registers are scarce
 * here, so addresses are computed again for each tile.
 */
template <class S> struct query_tiles {
	typename S::type *shared;
	float next; /* the number that this thread is about to store */
	gt_async_copies copies;

	/* [2][2][TILE]: of both tiles, lse and delta */
	__device__ __forceinline__ float *numbers(int t) const
	{
		return (float *)(shared + 2 * S::STAGE) + t * 2 * S::TILE;
	}

	/* Begin to get the queries of a head from i on; numbers pass through a register. */
	__device__ __forceinline__ void begin(
	    const held_grad_args<typename S::type> &a, int b, int head, int t, int i)
	{
		const gt_attention_sizes &s = a.s;
		typename S::type *to = shared + t * S::STAGE;
		int row = i + (int)threadIdx.x % S::TILE;
		bool first = (int)threadIdx.x < S::TILE;

		gt_held_fetch_two<S, S::TILE>(copies, to, a.qkv + b * s.T * s.stride + head * s.D,
		    s.stride, a.dy + b * s.T * s.C + head * s.D, s.C, i, s);
		/* Rows behind the last query get lse = infinity, so their probability is 0. */
		next = first ? INFINITY : 0;
		if (row < (int)s.T)
			next = (first ? a.lse : a.delta)[(b * s.heads + head) * s.T + row] *
			       (first ? gt_log2_e : 1);
	}

	__device__ __forceinline__ void end(int t)
	{
		if ((int)threadIdx.x < 2 * S::TILE)
			numbers(t)[threadIdx.x] = next;
		copies.template wait<0>();
		__syncthreads();
	}
};

/* One step: the scores of this warp's keys with the queries from `part` on of tile t. */
template <class S, bool DROPS>
static __device__ __forceinline__ void see_queries(const query_tiles<S> &from, int t, int part,
    const gt_held<typename S::type> (&k)[S::CHUNKS][1],
    const gt_held<typename S::type> (&v)[S::CHUNKS][1],
    float (&dk)[RESULTS / GT_TILE][1][GT_TILE_LANE],
    float (&dv)[RESULTS / GT_TILE][1][GT_TILE_LANE], const gt_attention_dropper &draw, int i, int j,
    const gt_attention_sizes &s)
{
	const typename S::type *q = from.shared + t * S::STAGE + part * S::LD;
	const typename S::type *dy = q + S::TILE * S::LD;
	const float *lse = from.numbers(t) + part, *delta = lse + S::TILE;
	bool edge = !s.full && i < j + GT_TILE - 1;
	float c = (float)s.scale * gt_log2_e;
	int col = (int)blockIdx.y * RESULTS;
	typename held_grad<S>::scores x, g;
	uint32_t kept = ~0u;

	gt_held_score<S>(x, k, q);
	gt_held_score<S>(g, v, dy);
	if (DROPS)
		kept = draw.draw<held_grad<S>::STEP_TILES, true>(i, j, s.T);
	GT_UNROLL
	for (int n = 0; n < held_grad<S>::STEP_TILES * GT_TILE_LANE; n++) {
		int e = n % GT_TILE_LANE, at = n / GT_TILE_LANE * GT_TILE + gt_tile_col(e);
		float &score = x[n / GT_TILE_LANE][0][e];
		int key = j + gt_tile_row(e);

		if (edge && key > i + at)
			score = -INFINITY;
		differentiate(score, g[n / GT_TILE_LANE][0][e], c, lse[at], delta[at],
		    DROPS ? draw.factor<float>(kept, n) : 1);
	}
	gt_held_weigh<S>(dv, x, dy + col);
	gt_held_weigh<S>(dk, g, q + col);
}

template <class S, bool DROPS>
static __device__ __forceinline__ void grad_keys(
    const held_grad_args<typename S::type> &a, typename S::type *shared)
{
	typedef typename S::type T;
	const gt_attention_sizes &s = a.s;
	int work = (int)(blockIdx.x / s.blocks), first = (int)(blockIdx.x % s.blocks) * S::OWN;
	int b = work / (int)s.kv_heads, kv = work % (int)s.kv_heads, head = kv * (int)s.group;
	int j = first + (int)threadIdx.x / 32 * GT_TILE, col = (int)blockIdx.y * RESULTS;
	int64_t at = s.keys_of(b, kv);
	gt_attention_dropper draw = { a.draw, b, head };
	gt_held<T> k[S::CHUNKS][1], v[S::CHUNKS][1];
	float dk[RESULTS / GT_TILE][1][GT_TILE_LANE] = {},
	                   dv[RESULTS / GT_TILE][1][GT_TILE_LANE] = {};
	query_tiles<S> from = { shared, 0, {} };

	if (b >= s.B || col >= s.D) /* there are blocks for all heads of queries */
		return;
	take_own<S>(
	    k, v, shared, a.qkv + at, s.stride, a.qkv + at + s.kv_heads * s.D, s.stride, first, s);
	/*
	 * The heads of queries that share these keys lie side by side, and dk and dv are the sums
	 * over all of them: one block adds them up, in their order.
	 */
	for (int left = (int)s.group;; head++) {
		/* Earlier queries see none of these keys. */
		int i = s.full ? 0 : first, t = 0;

		from.begin(a, b, head, t, i);
		for (; i < (int)s.T; i += S::TILE, t ^= 1) {
			from.end(t);
			if (i + S::TILE < (int)s.T)
				from.begin(a, b, head, t ^ 1, i + S::TILE);
			GT_NO_UNROLL
			for (int part = 0; part < S::TILE && j < (int)s.T;
			     part += held_grad<S>::STEP)
				if (i + part < (int)s.T &&
				    (s.full || j < i + part + held_grad<S>::STEP))
					see_queries<S, DROPS>(
					    from, t, part, k, v, dk, dv, draw, i + part, j, s);
		}
		if (--left == 0)
			break;
		draw.head++;
		__syncthreads(); /* other warps may still read the last tile */
	}
	at = s.keys_of(b, kv);
	gt_held_write<S>(
	    a.dqkv + at, s.stride, j, col, s, dk, { { (float)s.scale, (float)s.scale } });
	gt_held_write<S>(a.dqkv + at + s.kv_heads * s.D, s.stride, j, col, s, dv, { { 1, 1 } });
}

/* Both have the same grid, and neither waits for the other. */
template <class S, bool DROPS>
static __global__ void __launch_bounds__(S::THREADS, S::COLS > 64 || DROPS ? 2 : 3)
    grad_held(held_grad_args<typename S::type> a)
{
	GT_DYNAMIC_SHARED(typename S::type, shared);

	if (blockIdx.z)
		grad_keys<S, DROPS>(a, shared);
	else
		grad_queries<S, DROPS>(a, shared);
}

/* ---- launches ---- */

template <class S> static void launch(struct gt_call *call, const float *delta)
{
	typedef typename S::type T;
	held_grad_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<float>(call, 3), delta,
		gt_attention_sizes_of(call, &call->in[1], S::OWN), gt_attention_draw_of(call, 4) };
	dim3 grid((unsigned)(a.s.B * a.s.heads * a.s.blocks), held_grad<S>::ACROSS, 2);
	const size_t bytes = held_grad<S>::BYTES;
	cudaStream_t queue = call->stream->queue;

	if (a.draw.rng)
		GT_LAUNCH((grad_held<S, true>), grid, S::THREADS, bytes, queue, a);
	else
		GT_LAUNCH((grad_held<S, false>), grid, S::THREADS, bytes, queue, a);
}

template <class T> static bool launch_for_size(struct gt_call *call, const float *delta)
{
	gt_attention_sizes s = gt_attention_sizes_of(call, &call->in[1], 1);

	if (!gt_held_fits(s))
		return false;
	if (s.D > 64)
		launch<gt_held_shape<T, 128, 1>>(call, delta);
	else
		launch<gt_held_shape<T, 64, 1>>(call, delta);
	return true;
}

bool gt_held_attention_grad(struct gt_call *call, const float *delta)
{
	if (gt_optional_input(call, 5)) /* documents */
		return false;
	if (gt_wgmma_attention_grad(call, delta))
		return true;
	switch (call->in[1].dtype) {
	case GT_BF16:
		return launch_for_size<gt_bf16>(call, delta);
	case GT_F16:
		return launch_for_size<gt_f16>(call, delta);
	default:
		return false;
	}
}
