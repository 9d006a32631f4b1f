/* attention_wgmma_grad.cu - the gradient of attention for 16-bit types on Hopper GPUs. */
#include "kernels/cuda/attention/attention_wgmma.cuh"

#if GT_HAS_WGMMA
/*
 * The formulas, and the division into blocks for dq and blocks for dk and dv, are those of
 * attention_held_grad.cu. A block is one warpgroup, and two blocks share a multiprocessor: with the
 * same two warpgroups in one block, which wait for each other at each tile, the gradient takes 13 %
 * longer. The own rows are factors in registers; there are too few registers for heads of more than
 * 64 columns.
 *
 * The last product of a tile runs on while the threads go to the next tile. The first wait() of the
 * next tile waits for it. So the loop over the tiles that a warpgroup sees has no branch around the
 * products: with one, ptxas reports that it serializes the products (C7515). Tiles that a warpgroup
 * does not see have a loop of their own. With one warpgroup in a block there are no such tiles.
 */
template <class T> struct wgmma_grad_args {
	T *dqkv;
	const T *dy, *qkv;
	const float *lse, *delta; /* [B, heads, T] */
	gt_attention_sizes s;
};

template <class S> struct wgmma_grad {
	enum {
		/* lse and delta of the queries of each tile follow the tiles */
		BYTES = S::BYTES + S::STAGES * 2 * S::TILE * (int)sizeof(float),
	};
};

/* Return the probability of the score x = q . k. c is the factor of scores, and lse is in units of
 * log 2. */
static __device__ __forceinline__ float probability(float x, float c, float lse)
{
	return gt_exp2(x * c - lse);
}

/* Return the gradient of a score, still without the factor 1 / sqrt(D). p is the probability, and g
 * its gradient. differentiate() in attention_grad.cu explains delta. */
static __device__ __forceinline__ float score_grad(float p, float g, float delta)
{
	return p * (g - delta);
}

/* ---- dq ---- */

/* Tile t of keys and values, for the queries from i on. */
template <class S>
static __device__ __forceinline__ void see_keys(gt_warpgroup &w,
    const gt_held<typename S::type> (&q)[S::CHUNKS],
    const gt_held<typename S::type> (&dy)[S::CHUNKS], gt_group_sums (&dq)[S::PANELS],
    gt_held<typename S::type> (&ds)[GT_GROUP_TILES], const gt_wgmma_tiles<S> &from,
    const float (&lse)[2], const float (&delta)[2], int i, int t, const gt_attention_sizes &s)
{
	const typename S::type *keys = from.first(t);
	int j = t * S::TILE;
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
		    score_grad(x[n / GT_TILE_LANE][e], g[n / GT_TILE_LANE][e], delta[e / 2 % 2]);
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
	gt_wgmma_tiles<S> from = {};
	gt_held<T> own[S::CHUNKS], dy[S::CHUNKS], ds[GT_GROUP_TILES];
	gt_group_sums dq[S::PANELS] = {};
	float lse[2], delta[2];
	gt_warpgroup w;
	int t = 0;

	from.shared = shared;
	from.x = k;
	from.y = v;
	from.x_stride = from.y_stride = (int)s.stride;
	from.start(0, end, s);
	from.copy_own(0, q, s.stride, first, s);
	from.copy_own(1, a.dy + b * s.T * s.C + head * s.D, s.C, first, s);
	for (int n = 0; n < S::AHEAD; n++)
		from.copy(n);
	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		int row = i + gt_group_row(h * 2);

		lse[h] = row < (int)s.T ? a.lse[at + row] * gt_log2_e : INFINITY;
		delta[h] = row < (int)s.T ? a.delta[at + row] : 0;
	}
	from.wait_own();
	from.own(own, 0);
	from.own(dy, 1);
	for (; t < seen; t++) {
		from.wait();
		from.copy(t + S::AHEAD);
		see_keys<S>(w, own, dy, dq, ds, from, lse, delta, i, t, s);
	}
	w.template wait<0>(dq);
	for (; t < tiles; t++) {
		from.wait();
		from.copy(t + S::AHEAD);
	}
	gt_wgmma_write<S>(
	    a.dqkv + (q - a.qkv), s.stride, i, s, dq, { (float)s.scale, (float)s.scale });
}

/* ---- dk and dv ---- */

/*
 * Tiles of queries. copy() starts the copies of q and dy to shared memory, and reads lse or delta
 * into a register, which store() later writes to shared memory. The tiles go over all heads of
 * queries that share the block's keys. Example: 150 queries, causal, keys from 64 on, 2 heads.
 *
 *   tile 0   head 0, queries 64 to 127     tile 1   head 0, queries 128 to 149, and 42 empty rows
 *   tile 2   head 1, queries 64 to 127     tile 3   head 1, queries 128 to 149, and 42 empty rows
 *   further tiles are empty
 */
template <class S> struct wgmma_queries {
	gt_wgmma_tiles<S> tiles;
	int i, begin;    /* the tile's first query; the first query that sees one of the keys */
	int heads;       /* not yet copied completely */
	float *numbers;  /* [STAGES][2][TILE]: of each tile, lse and delta */
	const float *at; /* this thread's number of the tile that is copied next */
	float next;      /* the number that this thread is about to store */

	__device__ __forceinline__ void start(
	    const wgmma_grad_args<typename S::type> &a, int b, int head, int first)
	{
		const gt_attention_sizes &s = a.s;

		i = begin = first;
		heads = (int)s.group;
		numbers = (float *)(tiles.shared + S::STAGES * S::STAGE);
		at = ((int)threadIdx.x < S::TILE ? a.lse : a.delta) + (b * s.heads + head) * s.T +
		     begin + (int)threadIdx.x % S::TILE;
		tiles.x = a.qkv + b * s.T * s.stride + head * s.D;
		tiles.y = a.dy + b * s.T * s.C + head * s.D;
		tiles.x_stride = (int)s.stride;
		tiles.y_stride = (int)s.C;
		tiles.start(begin, (int)s.T, s);
	}

	/* Begin to copy the next tile, as tile t. */
	__device__ __forceinline__ void copy(int t, const gt_attention_sizes &s)
	{
		bool first = (int)threadIdx.x < S::TILE;

		/* Rows behind the last query get lse = infinity, so their probability is 0. */
		next = first ? INFINITY : 0;
		if (i + (int)threadIdx.x % S::TILE < (int)s.T && heads > 0)
			next = *at * (first ? gt_log2_e : 1);
		tiles.copy(t);
		at += S::TILE;
		i += S::TILE;
		if (i >= (int)s.T)
			go_to_next_head(s);
	}

	__device__ __forceinline__ void go_to_next_head(const gt_attention_sizes &s)
	{
		int back = i - begin;

		tiles.x += s.D;
		tiles.y += s.D;
		tiles.row -= back;
		at += s.T - back;
		i = begin;
		if (--heads == 0)
			tiles.end = 0;
	}

	/* Store the numbers of the tile that was copied last, as those of tile t. */
	__device__ __forceinline__ void store(int t)
	{
		if ((int)threadIdx.x < 2 * S::TILE)
			numbers[t % (unsigned)S::STAGES * 2 * S::TILE + threadIdx.x] = next;
	}

	/* Copy the first tiles. */
	__device__ __forceinline__ void copy_first(const gt_attention_sizes &s)
	{
		for (int t = 0; t < S::AHEAD; t++) {
			if (t)
				store(t - 1);
			copy(t, s);
		}
	}

	/* Wait for tile t. */
	__device__ __forceinline__ void wait(int t)
	{
		store(t + S::AHEAD - 1);
		tiles.wait();
	}
};

/* Tile t: the scores of this warpgroup's keys from j on with the queries from i on. */
template <class S>
static __device__ __forceinline__ void see_queries(gt_warpgroup &w,
    const gt_held<typename S::type> (&k)[S::CHUNKS],
    const gt_held<typename S::type> (&v)[S::CHUNKS], gt_group_sums (&dk)[S::PANELS],
    gt_group_sums (&dv)[S::PANELS], gt_held<typename S::type> (&ds)[GT_GROUP_TILES],
    const wgmma_queries<S> &from, int t, int i, int j, const gt_attention_sizes &s)
{
	typedef gt_pack<float, 2> two;
	const typename S::type *q = from.tiles.first(t), *dy = q + S::MATRIX;
	const float *lse = from.numbers + t % (unsigned)S::STAGES * 2 * S::TILE;
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

			g[n / 2][e] = score_grad(x[n / 2][e], g[n / 2][e], d.at[m % 2]);
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
	wgmma_queries<S> from = {};
	gt_held<T> k[S::CHUNKS], v[S::CHUNKS], ds[GT_GROUP_TILES];
	gt_group_sums dk[S::PANELS] = {}, dv[S::PANELS] = {};
	gt_warpgroup w;

	if (b >= s.B) /* the grid is sized for heads of queries; there may be fewer of keys */
		return;
	from.tiles.shared = shared;
	from.tiles.copy_own(0, a.qkv + at, s.stride, first, s);
	from.tiles.copy_own(1, a.qkv + at + s.kv_heads * s.D, s.stride, first, s);
	from.start(a, b, head, begin);
	from.copy_first(s);
	from.tiles.wait_own();
	from.tiles.own(k, 0);
	from.tiles.own(v, 1);
	for (; head < end; head++) {
		int i = begin;

		/* Earlier queries see none of this warpgroup's keys. */
		for (; i < (int)s.T && (j >= (int)s.T || (!s.full && i < j)); i += S::TILE, t++) {
			from.wait(t);
			from.copy(t + S::AHEAD, s);
		}
		for (; i < (int)s.T; i += S::TILE, t++) {
			from.wait(t);
			from.copy(t + S::AHEAD, s);
			see_queries<S>(w, k, v, dk, dv, ds, from, t, i, j, s);
		}
		w.template wait<0>(dk);
	}
	gt_wgmma_write<S>(a.dqkv + at, s.stride, j, s, dk, { (float)s.scale, (float)s.scale });
	gt_wgmma_write<S>(a.dqkv + at + s.kv_heads * s.D, s.stride, j, s, dv, { 1, 1 });
}

/* One launch has the blocks for dk and dv and, behind them, as many blocks for dq. No block waits
 * for another. The blocks for dk and dv take longer, so they start first. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, 2 / S::GROUPS)
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

	if (s.D > 64 || !gt_wgmma_fits(call, s))
		return false;
	launch<gt_wgmma_shape<T, 64, 1>>(call, delta);
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
