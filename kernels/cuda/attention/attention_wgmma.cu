/* attention_wgmma.cu - self-attention for 16-bit types on Hopper GPUs. */
#include "kernels/cuda/attention/attention_wgmma.cuh"

#if GT_HAS_WGMMA
/*
 * The formulas and units are those of attention_held.cu. A warpgroup overlaps its own work: while
 * the tensor cores add the weighted values of one tile, its threads compute the exponentials of the
 * next one. x are scores, p probabilities without their common factor:
 *
 *   tensor cores   x0 = q k0     x1 = q k1, y += p0 v0     x2 = q k2, y += p1 v1     y += p2 v2
 *   threads               p0 from x0          p1 from x1             p2 from x2
 *
 * Source: Shah et al. 2024, "FlashAttention-3" (arXiv 2407.08608), section 3.2.
 */
template <class T> struct wgmma_args {
	T *y;
	float *lse;
	const T *qkv;
	gt_attention_sizes s;
};

/* A warpgroup's rows so far. The sums y still lack the newest tile, which has the factors p. `sum`
 * is of the calling lane's columns alone. */
template <class S> struct wgmma_rows {
	gt_group_sums y[S::PANELS];
	gt_held<typename S::type> p[GT_GROUP_TILES];
	float largest[2], sum[2];
};

/* Hide the scores of keys that the query does not see: query i and key j are the first. */
static __device__ __forceinline__ void mask(
    gt_group_sums &x, int i, int j, const gt_attention_sizes &s)
{
	GT_UNROLL
	for (int n = 0; n < GT_GROUP_TILES * GT_TILE_LANE; n++) {
		int e = n % GT_TILE_LANE;
		int key = j + n / GT_TILE_LANE * GT_TILE + gt_tile_col(e);

		if (key > (s.full ? (int)s.T - 1 : i + gt_group_row(e)))
			x[n / GT_TILE_LANE][e] = -INFINITY;
	}
}

/*
 * Return whether sums must shrink: whether a score of the tile is larger, by more than GROWTH, than
 * the largest score so far of its row. The answer is the same for all lanes of a warp. If it is
 * true, update r.largest, shrink r.sum, and set shrink[] to the factors for r.y, by which the
 * caller shrinks it. Scores are multiplied by c. If it is false, r.largest stays, although scores
 * may be larger by up to GROWTH: their exponentials are at most 2^GROWTH, so sums lose no
 * precision. Example: the largest score so far is 10. A score of 12 becomes exp2(2) = 4. A score of
 * 30 becomes the largest score, and the sums shrink by exp2(-20).
 */
template <class S>
static __device__ __forceinline__ bool outgrow(
    const gt_group_sums &x, wgmma_rows<S> &r, float (&shrink)[2], float c)
{
	const float GROWTH = 8;
	float largest[2];
	bool grown;

	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		largest[h] = -INFINITY;
		GT_UNROLL
		for (int i = 0; i < GT_GROUP_TILES * 4; i++)
			largest[h] = fmaxf(largest[h], x[i / 4][i % 2 + i / 2 % 2 * 4 + h * 2]);
		largest[h] = gt_held_row_largest(largest[h]) * c;
	}
	grown = __any_sync(
	    0xffffffffu, largest[0] > r.largest[0] + GROWTH || largest[1] > r.largest[1] + GROWTH);
	GT_UNROLL
	for (int h = 0; h < 2 && grown; h++) {
		largest[h] = fmaxf(r.largest[h], largest[h]);
		shrink[h] = gt_exp2(r.largest[h] - largest[h]);
		r.largest[h] = largest[h];
		r.sum[h] *= shrink[h];
	}
	return grown;
}

/* Scores x of the tile from key j on become p. */
template <class S>
static __device__ __forceinline__ void take_scores(
    gt_warpgroup &w, gt_group_sums &x, wgmma_rows<S> &r, int i, int j, const gt_attention_sizes &s)
{
	float shrink[2], c = (float)s.scale * gt_log2_e;
	bool grown;

	if (j + S::TILE > (s.full ? (int)s.T : i + 1))
		mask(x, i, j, s);
	grown = outgrow<S>(x, r, shrink, c);
	GT_UNROLL
	for (int n = 0; n < GT_GROUP_TILES * GT_TILE_LANE; n++) {
		int h = n / 2 % 2;
		float &v = x[n / GT_TILE_LANE][n % GT_TILE_LANE];

		v = gt_exp2(v * c - r.largest[h]);
		r.sum[h] += v;
	}
	w.compute(x);
	w.wait<0>(r.y);
	GT_UNROLL
	for (int n = 0; n < S::CHUNKS * GT_TILE_LANE && grown; n++) {
		int e = n % GT_TILE_LANE, chunk = n / GT_TILE_LANE;

		r.y[chunk / GT_GROUP_TILES][chunk % GT_GROUP_TILES][e] *= shrink[e / 2 % 2];
	}
	gt_wgmma_hold(r.p, x);
}

/* see_first() computes the scores of the first tile of keys, and their factors p. see() does this
 * for tile t, and meanwhile adds the values of tile t - 1 to the sums. */
template <class S>
static __device__ __forceinline__ void see_first(gt_warpgroup &w,
    const gt_held<typename S::type> (&q)[S::CHUNKS], wgmma_rows<S> &r,
    const gt_wgmma_tiles<S> &from, int i, const gt_attention_sizes &s)
{
	gt_group_sums x;

	w.begin();
	gt_wgmma_score<S>(w, x, q, from.first(0));
	w.commit();
	w.wait<0>(x);
	take_scores<S>(w, x, r, i, 0, s);
}

template <class S>
static __device__ __forceinline__ void see(gt_warpgroup &w,
    const gt_held<typename S::type> (&q)[S::CHUNKS], wgmma_rows<S> &r,
    const gt_wgmma_tiles<S> &from, int t, int i, const gt_attention_sizes &s)
{
	gt_group_sums x;

	w.begin(r.y, r.p);
	gt_wgmma_score<S>(w, x, q, from.first(t));
	w.commit();
	gt_wgmma_weigh<S>(w, r.y, r.p, from.second(t - 1));
	w.commit();
	w.wait<1>(x);
	take_scores<S>(w, x, r, i, t * S::TILE, s);
}

/* Add the values of the last tile, and write y and lse. */
template <class S>
static __device__ __forceinline__ void finish_wgmma_rows(gt_warpgroup &w, wgmma_rows<S> &r,
    const typename S::type *values, const wgmma_args<typename S::type> &a, int b, int head, int i)
{
	const gt_attention_sizes &s = a.s;
	float factor[2];

	w.begin(r.y, r.p);
	gt_wgmma_weigh<S>(w, r.y, r.p, values);
	w.commit();
	GT_UNROLL
	for (int h = 0; h < 2; h++) {
		float sum = gt_held_row_sum(r.sum[h]);
		int row = i + gt_group_row(h * 2);

		factor[h] = 1 / sum;
		if (threadIdx.x % 4 == 0 && row < (int)s.T)
			a.lse[(b * s.heads + head) * s.T + row] =
			    r.largest[h] * gt_ln_2 + logf(sum);
	}
	w.wait<0>(r.y);
	gt_wgmma_write<S>(a.y + b * s.T * s.C + head * s.D, s.C, i, s, r.y, factor);
}

/* Heads of 64 columns leave registers for two blocks on a multiprocessor: while one of the four
 * warpgroups computes exponentials, the tensor cores work for another. */
template <class S>
static __global__ void __launch_bounds__(S::THREADS, S::COLS > 64 ? 1 : 2)
    attention_wgmma(wgmma_args<typename S::type> a)
{
	typedef typename S::type T;
	const gt_attention_sizes &s = a.s;
	GT_DYNAMIC_SHARED(T, shared);
	/* Blocks with the most keys start first, so that no long block is left over at the end. */
	int work = (int)(blockIdx.x / s.blocks);
	int first = (int)(s.blocks - 1 - blockIdx.x % s.blocks) * S::OWN;
	int b = work / (int)s.heads, head = work % (int)s.heads;
	int i = first + (int)threadIdx.x / GT_GROUP_THREADS * GT_GROUP_ROWS;
	int end = s.full || first + S::OWN > (int)s.T ? (int)s.T : first + S::OWN;
	/* tiles that the block goes over, and that this warpgroup sees */
	int tiles = (end + S::TILE - 1) / S::TILE, seen = tiles;
	const T *q = a.qkv + b * s.T * s.stride + head * s.D;
	const T *k = a.qkv + s.keys_of(b, head / s.group), *v = k + s.kv_heads * s.D;
	gt_wgmma_tiles<S> from = {};
	gt_held<T> own[S::CHUNKS];
	wgmma_rows<S> r = { {}, {}, { -INFINITY, -INFINITY }, {} };
	gt_warpgroup w;

	if (i >= (int)s.T)
		seen = 0;
	else if (!s.full)
		seen = i / S::TILE + 1;
	from.shared = gt_panel_base(shared);
	from.x = k;
	from.y = v;
	from.x_stride = from.y_stride = (int)s.stride;
	from.start(0, end, s);
	from.copy_own(0, q, s.stride, first, s);
	for (int t = 0; t < S::AHEAD; t++)
		from.copy(t);
	from.wait_own();
	from.own(own, 0);
	for (int t = 0; t < tiles; t++) {
		from.wait();
		from.copy(t + S::AHEAD);
		if (t == 0 && seen)
			see_first<S>(w, own, r, from, i, s);
		else if (t < seen)
			see<S>(w, own, r, from, t, i, s);
	}
	if (seen)
		finish_wgmma_rows<S>(w, r, from.second(seen - 1), a, b, head, i);
}

/* ---- launches ---- */

template <class S> static void launch(struct gt_call *call)
{
	typedef typename S::type T;
	wgmma_args<T> a = { gt_out_data<T>(call), gt_out_data<float>(call, 1),
		gt_in_data<T>(call, 0), gt_attention_sizes_of(call, &call->in[0], S::OWN) };
	unsigned grid = (unsigned)(a.s.B * a.s.heads * a.s.blocks);

	if (grid)
		GT_WGMMA_LAUNCH(attention_wgmma<S>, grid, S, S::BYTES, call->stream->queue, a);
}

template <class T> static bool launch_for_size(struct gt_call *call)
{
	gt_attention_sizes s = gt_attention_sizes_of(call, &call->in[0], 1);

	if (!gt_wgmma_fits(call, s))
		return false;
	if (s.D > 64)
		launch<gt_wgmma_shape<T, 128, 2>>(call);
	else
		launch<gt_wgmma_shape<T, 64, 2>>(call);
	return true;
}

bool gt_wgmma_attention(struct gt_call *call)
{
	switch (call->in[0].dtype) {
	case GT_BF16:
		return launch_for_size<gt_bf16>(call);
	case GT_F16:
		return launch_for_size<gt_f16>(call);
	default:
		return false;
	}
}
#else
bool gt_wgmma_attention(struct gt_call *)
{
	return false;
}
#endif
