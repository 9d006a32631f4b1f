/* attention_held.cu - self-attention for 16-bit types: queries, scores and sums in registers. */
#include "kernels/cuda/attention/attention_held.cuh"

/*
 * The kernels for 16-bit types keep all data of a block's own rows (for example queries; see
 * attention.cuh) in registers: the elements of the rows, their scores, and their results (gt_held,
 * mma.cuh). Only the rows of the other matrices (for example keys and values) pass through shared
 * memory, in tiles: while a block computes with one tile, it copies the next one (async.cuh).
 * Source: Dao 2023, "FlashAttention-2" (arXiv 2307.08691).
 *
 * The kernels need rows whose length is a multiple of 16 bytes, and heads of at most 128 columns.
 * attention.cuh has the tiles of the kernels for all other types and sizes.
 *
 *   COLS    columns of a head, rounded up: 64 or 128
 *   M       tiles of 16 own rows per warp. With two, each element that is read from shared memory
 *           takes part in twice as many products. Only the forward kernel with 64 columns and
 *           without dropout has enough registers for two.
 *   OWN     own rows of a block
 *   TILE    rows of the other matrices in a tile
 */

/* A block has the rows of some queries and goes over the keys that they see, as in attention.cu. If
 * a tile has a larger score than all tiles before, the block multiplies the sums so far by a factor
 * below 1; weigh_scores() there has an example. Here scores are in units of log 2: with c = log2(e)
 * / sqrt(D), exp(score - largest score) is 2 to the power of c q . k - largest, which takes a
 * multiply-add and one other instruction. */
template <class T> struct held_args {
	T *y;
	float *lse;
	const T *qkv;
	gt_attention_sizes s;
	gt_attention_draw draw;
};

/* A warp's scores of a tile, and its rows so far. `sum` is of the calling lane's columns alone. */
template <class S> struct held_rows {
	typedef float scores[S::TILE / GT_TILE][S::M][GT_TILE_LANE];
	float largest[S::M][2], sum[S::M][2];
};

/* Hide the scores of keys that the query does not see: query i and key j are the first. */
template <class S>
static __device__ __forceinline__ void mask(
    typename held_rows<S>::scores &x, int i, int j, const gt_attention_sizes &s)
{
	GT_UNROLL
	for (int n = 0; n < S::TILE / GT_TILE; n++) {
		GT_UNROLL
		for (int k = 0; k < S::M * GT_TILE_LANE; k++) {
			int m = k / GT_TILE_LANE, e = k % GT_TILE_LANE;
			int query = i + m * GT_TILE + gt_tile_row(e);

			if (j + n * GT_TILE + gt_tile_col(e) > (s.full ? (int)s.T - 1 : query))
				x[n][m][e] = -INFINITY;
		}
	}
}

/*
 * Scores become exponentials; the sums made so far shrink. Every query sees key 0, which is in the
 * first tile, so that after it no row's largest score is -infinity.
 */
template <class S>
static __device__ __forceinline__ void weigh(typename held_rows<S>::scores &x, held_rows<S> &r,
    float (&y)[S::CHUNKS][S::M][GT_TILE_LANE], float c)
{
	GT_UNROLL
	for (int k = 0; k < S::M * 2; k++) {
		int m = k / 2, h = k % 2;
		float largest = -INFINITY, shrink;

		GT_UNROLL
		for (int i = 0; i < S::TILE / GT_TILE * 4; i++)
			largest = fmaxf(largest, x[i / 4][m][i % 2 + i / 2 % 2 * 4 + h * 2]);
		largest = fmaxf(r.largest[m][h], gt_held_row_largest(largest) * c);
		shrink = gt_exp2(r.largest[m][h] - largest);
		r.largest[m][h] = largest;
		r.sum[m][h] *= shrink;
		GT_UNROLL
		for (int i = 0; i < S::TILE / GT_TILE * 4; i++) {
			float *v = &x[i / 4][m][i % 2 + i / 2 % 2 * 4 + h * 2];

			*v = gt_exp2(*v * c - largest);
			r.sum[m][h] += *v;
		}
		GT_UNROLL
		for (int i = 0; i < S::CHUNKS * 4; i++)
			y[i / 4][m][i % 2 + i / 2 % 2 * 4 + h * 2] *= shrink;
	}
}

template <class S>
static __device__ __forceinline__ void drop_held_scores(typename held_rows<S>::scores &x,
    const gt_attention_dropper &draw, int i, int j, const gt_attention_sizes &s)
{
	constexpr int TILES = S::TILE / GT_TILE;

	GT_UNROLL
	for (int m = 0; m < S::M; m++) {
		uint32_t kept = draw.draw<TILES, false>(i + m * GT_TILE, j, s.T);

		GT_UNROLL
		for (int at = 0; at < TILES * GT_TILE_LANE; at++)
			x[at / GT_TILE_LANE][m][at % GT_TILE_LANE] *= draw.factor<float>(kept, at);
	}
}

/* One tile of keys and values, in shared memory. */
template <class S, bool DROPS>
static __device__ __forceinline__ void see(const typename S::type *keys,
    const gt_held<typename S::type> (&q)[S::CHUNKS][S::M], held_rows<S> &r,
    float (&y)[S::CHUNKS][S::M][GT_TILE_LANE], const gt_attention_dropper &draw, int i, int j,
    const gt_attention_sizes &s)
{
	typename held_rows<S>::scores x;

	gt_held_score<S>(x, q, keys);
	if (j + S::TILE > (s.full ? (int)s.T : i + 1))
		mask<S>(x, i, j, s);
	weigh<S>(x, r, y, (float)s.scale * gt_log2_e);
	if (DROPS)
		drop_held_scores<S>(x, draw, i, j, s);
	gt_held_weigh<S>(y, x, keys + S::TILE * S::LD);
}

/* Write y and lse of a warp's rows. All four lanes of a row used the same factors. */
template <class S>
static __device__ __forceinline__ void finish_held_rows(const held_args<typename S::type> &a,
    const float (&y)[S::CHUNKS][S::M][GT_TILE_LANE], held_rows<S> &r, int b, int head, int i)
{
	const gt_attention_sizes &s = a.s;
	float factor[S::M][2];

	GT_UNROLL
	for (int k = 0; k < S::M * 2; k++) {
		int m = k / 2, h = k % 2, row = i + m * GT_TILE + gt_tile_row(h * 2);
		float sum = gt_held_row_sum(r.sum[m][h]);

		factor[m][h] = 1 / sum;
		if (threadIdx.x % 4 == 0 && row < (int)s.T)
			a.lse[(b * s.heads + head) * s.T + row] =
			    r.largest[m][h] * gt_ln_2 + logf(sum);
	}
	gt_held_write<S>(a.y + b * s.T * s.C + head * s.D, s.C, i, 0, s, y, factor);
}

template <class S, bool DROPS>
static __global__ void __launch_bounds__(S::THREADS, S::M == 1 && !DROPS ? 3 : 2)
    attention_held(held_args<typename S::type> a)
{
	typedef typename S::type T;
	const gt_attention_sizes &s = a.s;
	GT_DYNAMIC_SHARED(T, shared);
	/* Blocks with the most keys start first, so that no long block is left over at the end. */
	int work = (int)(blockIdx.x / s.blocks);
	int first = (int)(s.blocks - 1 - blockIdx.x % s.blocks) * S::OWN;
	int b = work / (int)s.heads, head = work % (int)s.heads;
	int i = first + (int)threadIdx.x / 32 * S::M * GT_TILE;
	int end = s.full || first + S::OWN > (int)s.T ? (int)s.T : first + S::OWN;
	const T *q = a.qkv + b * s.T * s.stride + head * s.D;
	const T *k = a.qkv + s.keys_of(b, head / s.group), *v = k + s.kv_heads * s.D;
	const gt_attention_dropper draw = { a.draw, b, head };
	gt_held<T> own[S::CHUNKS][S::M];
	float y[S::CHUNKS][S::M][GT_TILE_LANE] = {};
	held_rows<S> r;
	gt_async_copies copies;

	GT_UNROLL
	for (int n = 0; n < S::M * 2; n++) {
		r.largest[n / 2][n % 2] = -INFINITY;
		r.sum[n / 2][n % 2] = 0;
	}
	gt_held_fetch<S, S::OWN>(copies, shared, q, s.stride, first, s);
	copies.commit();
	copies.template wait<0>();
	__syncthreads();
	gt_held_own<S>(own, shared);
	__syncthreads();
	gt_held_fetch_two<S, S::TILE>(copies, shared, k, s.stride, v, s.stride, 0, s);
	for (int j = 0, t = 0; j < end; j += S::TILE, t ^= 1) {
		T *next = shared + (t ^ 1) * S::STAGE;

		/* After the barrier, this tile is complete. No warp still reads the tile before it,
		 * so the next copies may overwrite that one. */
		copies.template wait<0>();
		__syncthreads();
		if (j + S::TILE < end)
			gt_held_fetch_two<S, S::TILE>(
			    copies, next, k, s.stride, v, s.stride, j + S::TILE, s);
		if (i < (int)s.T && (s.full || j < i + S::M * GT_TILE))
			see<S, DROPS>(shared + t * S::STAGE, own, r, y, draw, i, j, s);
	}
	finish_held_rows<S>(a, y, r, b, head, i);
}

/* ---- launches ---- */

template <class S, bool DROPS> static void launch(struct gt_call *call)
{
	typedef typename S::type T;
	held_args<T> a = { gt_out_data<T>(call), gt_out_data<float>(call, 1),
		gt_in_data<T>(call, 0), gt_attention_sizes_of(call, &call->in[0], S::OWN),
		gt_attention_draw_of(call, 1) };
	unsigned grid = (unsigned)(a.s.B * a.s.heads * a.s.blocks);

	if (grid)
		GT_LAUNCH(
		    (attention_held<S, DROPS>), grid, S::THREADS, S::BYTES, call->stream->queue, a);
}

/* Random numbers take the registers of a second tile of own rows. */
template <class T> static bool launch_for_size(struct gt_call *call)
{
	gt_attention_sizes s = gt_attention_sizes_of(call, &call->in[0], 1);
	bool drops = call->attrs.attention.p > 0;

	if (!gt_held_fits(s))
		return false;
	if (s.D > 64 && drops)
		launch<gt_held_shape<T, 128, 1>, true>(call);
	else if (s.D > 64)
		launch<gt_held_shape<T, 128, 1>, false>(call);
	else if (drops)
		launch<gt_held_shape<T, 64, 1>, true>(call);
	else
		launch<gt_held_shape<T, 64, 2>, false>(call);
	return true;
}

bool gt_held_attention(struct gt_call *call)
{
	if (gt_optional_input(call, 2)) /* documents */
		return false;
	if (gt_wgmma_attention(call))
		return true;
	switch (call->in[0].dtype) {
	case GT_BF16:
		return launch_for_size<gt_bf16>(call);
	case GT_F16:
		return launch_for_size<gt_f16>(call);
	default:
		return false;
	}
}
