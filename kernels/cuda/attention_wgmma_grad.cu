/* attention_wgmma_grad.cu - the gradient of attention for 16-bit types on Hopper GPUs. */
#include "kernels/cuda/attention_wgmma.cuh"

#if GT_HAS_WGMMA
/*
 * The formulas, and the division into blocks for dq and blocks for dk and dv, are those of
 * attention_held_grad.cu. The own rows of a warpgroup are factors in registers. Heads of 128
 * columns do not leave registers for them, so there they stay in shared memory.
 *
 * The last products of a tile run on while the threads go to the next tile; its first wait covers
 * them.
 */
template <class T> struct wgmma_grad_args {
	T *dqkv;
	const T *dy, *qkv;
	const float *lse, *delta; /* [B, heads, T] */
	gt_attention_sizes s;
};

template <class S> struct wgmma_grad {
	enum {
		/* Behind the tiles: lse and delta of the queries of each tile. */
		BYTES = S::BYTES + S::STAGES * 2 * S::TILE * (int)sizeof(float),
	};
};

/*
 * Turn the score x = q . k into the probability p, and g, the gradient of p, into the gradient of
 * the score, still without the factor 1 / sqrt(D). c is the factor of scores and lse is in units of
 * log 2. differentiate() in attention_grad.cu explains delta.
 */
static __device__ __forceinline__ float probability(float x, float c, float lse)
{
	return gt_exp2(x * c - lse);
}

/* ---- dq ---- */

/* One tile of keys and values, from key j on, for the queries from i on. */
template <class S>
static __device__ __forceinline__ void see_keys(gt_warpgroup &w,
    const gt_held<typename S::type> (&q)[S::CHUNKS],
    const gt_held<typename S::type> (&dy)[S::CHUNKS], gt_group_sums (&dq)[S::PANELS],
    gt_held<typename S::type> (&ds)[GT_GROUP_TILES], const typename S::type *keys,
    const float (&lse)[2], const float (&delta)[2], int i, int j, const gt_attention_sizes &s)
{
	bool edge = j + S::TILE > (s.full ? (int)s.T : i + 1);
	float c = (float)s.scale * gt_log2_e;
	gt_group_sums x, g;

	w.begin();
	gt_wgmma_score<S>(w, x, q, keys);
	w.commit();
	gt_wgmma_score<S>(w, g, dy, keys + S::MATRIX);
	w.commit();
	w.template wait<1>(x);
	GT_UNROLL
	for (int n = 0; n < GT_GROUP_TILES * GT_TILE_LANE; n++) {
		int e = n % GT_TILE_LANE, h = e / 2 % 2;
		int key = j + n / GT_TILE_LANE * GT_TILE + gt_tile_col(e);
		float &p = x[n / GT_TILE_LANE][e];

		p = probability(p, c, lse[h]);
		if (edge && key > (s.full ? (int)s.T - 1 : i + gt_group_row(e)))
			p = 0;
	}
	w.compute(x);
	w.template wait<0>(g);
	GT_UNROLL
	for (int n = 0; n < GT_GROUP_TILES * GT_TILE_LANE; n++) {
		int e = n % GT_TILE_LANE;

		g[n / GT_TILE_LANE][e] =
		    x[n / GT_TILE_LANE][e] * (g[n / GT_TILE_LANE][e] - delta[e / 2 % 2]);
	}
	gt_wgmma_hold(ds, g);
	w.begin(dq, ds);
	gt_wgmma_weigh<S>(w, dq, ds, keys);
	w.commit();
}

template <class S>
static __device__ __forceinline__ void grad_queries(
    const wgmma_grad_args<typename S::type> &a, typename S::type *shared)
{
	typedef typename S::type T;
	const gt_attention_sizes &s = a.s;
	int work = (int)(blockIdx.x / s.blocks);
	/* Blocks with the most keys start first. */
	int first = (int)(s.blocks - 1 - blockIdx.x % s.blocks) * S::OWN;
	int b = work / (int)s.heads, head = work % (int)s.heads;
	int i = first + (int)threadIdx.x / GT_GROUP_THREADS * GT_GROUP_ROWS;
	int end = s.full || first + S::OWN > (int)s.T ? (int)s.T : first + S::OWN;
	int tiles = (end + S::TILE - 1) / S::TILE;
	int seen = i >= (int)s.T ? 0 : s.full ? tiles : i / S::TILE + 1; /* by this warpgroup */
	int64_t at = (b * s.heads + head) * s.T;
	const T *q = a.qkv + b * s.T * s.stride + head * s.D;
	const T *k = a.qkv + s.keys_of(b, head / s.group), *v = k + s.kv_heads * s.D;
	gt_wgmma_tiles<S> from = { shared, end, {} };
	gt_held<T> own[S::CHUNKS], dy[S::CHUNKS], ds[GT_GROUP_TILES];
	gt_group_sums dq[S::PANELS] = {};
	float lse[2], delta[2];
	gt_warpgroup w;
	int t = 0;

	from.own(own, q, s.stride, first, s);
	from.own(dy, a.dy + b * s.T * s.C + head * s.D, s.C, first, s);
	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		int row = i + gt_group_row(h * 2);

		lse[h] = row < (int)s.T ? a.lse[at + row] * gt_log2_e : INFINITY;
		delta[h] = row < (int)s.T ? a.delta[at + row] : 0;
	}
	for (int n = 0; n < S::AHEAD; n++)
		from.begin(n, k, s.stride, v, s.stride, n * S::TILE, s);
	for (; t < seen; t++) {
		from.turn(t, k, s.stride, v, s.stride, (t + S::AHEAD) * S::TILE, s);
		see_keys<S>(w, own, dy, dq, ds, from.first(t), lse, delta, i, t * S::TILE, s);
	}
	w.template wait<0>(dq);
	for (; t < tiles; t++)
		from.turn(t, k, s.stride, v, s.stride, (t + S::AHEAD) * S::TILE, s);
	gt_wgmma_write<S>(
	    a.dqkv + (q - a.qkv), s.stride, i, s, dq, { (float)s.scale, (float)s.scale });
}

/* ---- dk and dv ---- */

/* Tiles of queries: their q and dy in shared memory, and their lse and delta, which pass through a
 * register. The heads of queries that share the block's keys follow each other. */
template <class S> struct wgmma_queries {
	gt_wgmma_tiles<S> tiles;
	int b, head, i; /* of the tile that is copied next */
	int begin, end; /* the first query that sees one of the keys; behind the last head */
	float next;     /* the number that this thread is about to store */

	/* [2][TILE]: of tile t, lse and delta */
	__device__ __forceinline__ float *numbers(int t) const
	{
		return (float *)(tiles.shared + S::STAGES * S::STAGE) + t % S::STAGES * 2 * S::TILE;
	}

	/* Begin to copy the next tile, as tile t. */
	__device__ __forceinline__ void copy(const wgmma_grad_args<typename S::type> &a, int t)
	{
		const gt_attention_sizes &s = a.s;
		int row = i + (int)threadIdx.x % S::TILE;
		bool first = (int)threadIdx.x < S::TILE;

		/* Rows behind the last query get lse = infinity, so their probability is 0. */
		next = first ? INFINITY : 0;
		if (row < (int)s.T && head < end)
			next = (first ? a.lse : a.delta)[(b * s.heads + head) * s.T + row] *
			       (first ? gt_log2_e : 1);
		tiles.begin(t, a.qkv + b * s.T * s.stride + head * s.D, s.stride,
		    a.dy + b * s.T * s.C + head * s.D, s.C, head < end ? i : (int)s.T, s);
		i += S::TILE;
		if (i >= (int)s.T) {
			i = begin;
			head++;
		}
	}

	/* Store the numbers of the tile that was copied last, as those of tile t. */
	__device__ __forceinline__ void store(int t)
	{
		if ((int)threadIdx.x < 2 * S::TILE)
			numbers(t)[threadIdx.x] = next;
	}

	__device__ __forceinline__ void start(const wgmma_grad_args<typename S::type> &a)
	{
		for (int t = 0; t < S::AHEAD; t++) {
			if (t)
				store(t - 1);
			copy(a, t);
		}
	}

	/* Wait for tile t, and begin to copy one more. */
	__device__ __forceinline__ void turn(const wgmma_grad_args<typename S::type> &a, int t)
	{
		store(t + S::AHEAD - 1);
		tiles.wait();
		copy(a, t + S::AHEAD);
	}
};

/* One tile: the scores of this warpgroup's keys from j on with the queries from i on. */
template <class S>
static __device__ __forceinline__ void see_queries(gt_warpgroup &w,
    const gt_held<typename S::type> (&k)[S::CHUNKS],
    const gt_held<typename S::type> (&v)[S::CHUNKS], gt_group_sums (&dk)[S::PANELS],
    gt_group_sums (&dv)[S::PANELS], gt_held<typename S::type> (&ds)[GT_GROUP_TILES],
    const typename S::type *q, const float *lse, int i, int j, const gt_attention_sizes &s)
{
	typedef gt_pack<float, 2> two;
	const typename S::type *dy = q + S::MATRIX;
	const float *delta = lse + S::TILE;
	bool edge = !s.full && i < j + GT_GROUP_ROWS - 1;
	float c = (float)s.scale * gt_log2_e;
	gt_held<typename S::type> p[GT_GROUP_TILES];
	gt_group_sums x, g;

	w.begin();
	gt_wgmma_score<S>(w, x, k, q);
	w.commit();
	gt_wgmma_score<S>(w, g, v, dy);
	w.commit();
	w.template wait<1>(x);
	GT_UNROLL
	for (int n = 0; n < GT_GROUP_TILES * 2; n++) {
		int at = n / 2 * GT_TILE + gt_tile_col(n % 2 * 4);
		two l = *(const two *)(lse + at);

		GT_UNROLL
		for (int m = 0; m < 4; m++) {
			int e = n % 2 * 4 + m;
			float &score = x[n / 2][e];

			score = probability(score, c, l.at[m % 2]);
			if (edge && j + gt_group_row(e) > i + at + m % 2)
				score = 0;
		}
	}
	gt_wgmma_hold(p, x);
	w.begin(dv, p);
	gt_wgmma_weigh<S>(w, dv, p, dy);
	w.commit();
	w.template wait<1>(g);
	GT_UNROLL
	for (int n = 0; n < GT_GROUP_TILES * 2; n++) {
		two d = *(const two *)(delta + n / 2 * GT_TILE + gt_tile_col(n % 2 * 4));

		GT_UNROLL
		for (int m = 0; m < 4; m++) {
			int e = n % 2 * 4 + m;

			g[n / 2][e] = x[n / 2][e] * (g[n / 2][e] - d.at[m % 2]);
		}
	}
	gt_wgmma_hold(ds, g);
	w.begin(dk, ds);
	gt_wgmma_weigh<S>(w, dk, ds, q);
	w.commit();
	w.template wait<1>(dv);
}

template <class S>
static __device__ __forceinline__ void grad_keys(
    const wgmma_grad_args<typename S::type> &a, typename S::type *shared)
{
	typedef typename S::type T;
	const gt_attention_sizes &s = a.s;
	int work = (int)(blockIdx.x / s.blocks), first = (int)(blockIdx.x % s.blocks) * S::OWN;
	int b = work / (int)s.kv_heads, kv = work % (int)s.kv_heads;
	int j = first + (int)threadIdx.x / GT_GROUP_THREADS * GT_GROUP_ROWS;
	int begin = s.full ? 0 : first, t = 0;
	int head = kv * (int)s.group, end = head + (int)s.group;
	int64_t at = s.keys_of(b, kv);
	wgmma_queries<S> from = { { shared, (int)s.T, {} }, b, head, begin, begin, end, 0 };
	gt_held<T> k[S::CHUNKS], v[S::CHUNKS], ds[GT_GROUP_TILES];
	gt_group_sums dk[S::PANELS] = {}, dv[S::PANELS] = {};
	gt_warpgroup w;

	if (b >= s.B) /* there are blocks for all heads of queries */
		return;
	from.tiles.own(k, a.qkv + at, s.stride, first, s);
	from.tiles.own(v, a.qkv + at + s.kv_heads * s.D, s.stride, first, s);
	from.start(a);
	for (; head < end; head++) {
		int i = begin;

		/* Earlier queries see none of this warpgroup's keys. */
		for (; i < (int)s.T && (j >= (int)s.T || (!s.full && i < j)); i += S::TILE)
			from.turn(a, t++);
		for (; i < (int)s.T; i += S::TILE, t++) {
			from.turn(a, t);
			see_queries<S>(
			    w, k, v, dk, dv, ds, from.tiles.first(t), from.numbers(t), i, j, s);
		}
		w.template wait<0>(dk);
	}
	gt_wgmma_write<S>(a.dqkv + at, s.stride, j, s, dk, { (float)s.scale, (float)s.scale });
	gt_wgmma_write<S>(a.dqkv + at + s.kv_heads * s.D, s.stride, j, s, dv, { 1, 1 });
}

/* Both have the same grid, and neither waits for the other. Those of dk and dv take longer, so they
 * start first. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, 1)
    grad_wgmma(wgmma_grad_args<typename S::type> a)
{
	GT_DYNAMIC_SHARED(typename S::type, shared);

	if (blockIdx.z)
		grad_queries<S>(a, gt_panel_base(shared));
	else
		grad_keys<S>(a, gt_panel_base(shared));
}

/* ---- launches ---- */

template <class S> static void launch(struct gt_call *call, const float *delta)
{
	typedef typename S::type T;
	wgmma_grad_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 1), gt_in_data<float>(call, 3), delta,
		gt_attention_sizes_of(call, &call->in[1], S::OWN) };
	dim3 grid((unsigned)(a.s.B * a.s.heads * a.s.blocks), 1, 2);

	GT_WGMMA_LAUNCH(grad_wgmma<S>, grid, S, wgmma_grad<S>::BYTES, call->stream->queue, a);
}

template <class T> static bool launch_for_size(struct gt_call *call, const float *delta)
{
	gt_attention_sizes s = gt_attention_sizes_of(call, &call->in[1], 1);

	if (!gt_wgmma_fits(call, s))
		return false;
	if (s.D > 64)
		return false;
	launch<gt_wgmma_shape<T, 64>>(call, delta);
	return true;
}

bool gt_wgmma_attention_grad(struct gt_call *call, const float *delta)
{
	switch (call->in[1].dtype) {
	case GT_BF16:
		return launch_for_size<gt_bf16>(call, delta);
	case GT_F16:
		return launch_for_size<gt_f16>(call, delta);
	default:
		return false;
	}
}
#else
bool gt_wgmma_attention_grad(struct gt_call *, const float *)
{
	return false;
}
#endif
