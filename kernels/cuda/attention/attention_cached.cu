/* attention_cached.cu - attention of new tokens over the cached keys and values of a text. */
#include "kernels/cuda/core/fault.cuh"
#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * A block has one new token of one head, and writes its key and value into the caches. It reads
 * keys and values from the caches up to `past`, and those of new tokens from qkv, so that it waits
 * for no other block. Its warps take keys in turns, some at a time, each with an online softmax of
 * its own (Milakov and Gimelshein 2018, arXiv 1805.02867); in the end they are put together in the
 * order of warps. The number of keys is in device memory alone, so a grid does not depend on it.
 * New tokens that do not fit into the caches are a fault: results are NaN, the caches stay as they
 * are.
 */
enum {
	WARPS = 8,
	KEYS = 4,        /* keys that a warp reads at a time */
	COLS = 256,      /* columns of a block's result; a larger head has several blocks */
	MINE = COLS / 32 /* columns of a lane */
};

template <class T> struct cached_args {
	T *y;
	const T *qkv;
	const int32_t *past;
	T *keys, *values;
	int64_t T_, heads, kv_heads, D, capacity;
	double scale, cap; /* cap: 0, or that of scores */
	int64_t window;    /* 0: none */
	struct gt_fault_slot *faults;
};

/* A block's token. */
template <class T> struct token {
	int64_t work, t, past, col;
	const T *new_keys, *new_values; /* the first new token's; tokens are `stride` apart */
	T *keys, *values;               /* the cache of this head */
	bool writes; /* this head is the first that shares the cache, and writes to it */
	const T *q;
	T *y;
	int64_t stride;

	__device__ __forceinline__ explicit token(const cached_args<T> &a)
	{
		int64_t C = a.heads * a.D, b, head, kv;

		work = blockIdx.x / a.T_;
		t = blockIdx.x % a.T_;
		b = work / a.heads;
		head = work % a.heads;
		past = *a.past;
		col = (int64_t)blockIdx.y * COLS;
		kv = head / (a.heads / a.kv_heads);
		writes = head % (a.heads / a.kv_heads) == 0;
		stride = C + 2 * a.kv_heads * a.D;
		q = a.qkv + b * a.T_ * stride;
		new_keys = q + C + kv * a.D;
		new_values = new_keys + a.kv_heads * a.D;
		q += t * stride + head * a.D;
		keys = a.keys + (b * a.kv_heads + kv) * a.capacity * a.D;
		values = a.values + (b * a.kv_heads + kv) * a.capacity * a.D;
		y = a.y + (b * a.T_ + t) * C + head * a.D;
	}

	__device__ __forceinline__ const T *key(int64_t j, int64_t D) const
	{
		return j < past ? keys + j * D : new_keys + (j - past) * stride;
	}

	__device__ __forceinline__ const T *value(int64_t j, int64_t D) const
	{
		return j < past ? values + j * D : new_values + (j - past) * stride;
	}
};

/* A warp's softmax so far. */
template <class W> struct part {
	W largest, sum, y[MINE];
};

/* Take keys [j, j + KEYS) below `count`. */
template <class T>
static __device__ __forceinline__ void take_cached_keys(part<typename gt_wide<T>::type> &r,
    const cached_args<T> &a, const token<T> &at, int64_t j, int64_t count)
{
	typedef typename gt_wide<T>::type wide;
	int lane = (int)threadIdx.x % 32;
	wide score[KEYS] = {}, largest = r.largest, shrink;

	for (int64_t d = lane; d < a.D; d += 32)
		for (int n = 0; n < KEYS; n++)
			if (j + n < count)
				score[n] += gt_load(at.q[d]) * gt_load(at.key(j + n, a.D)[d]);
	for (int n = 0; n < KEYS; n++) {
		score[n] = j + n < count ? gt_warp_sum(score[n]) * (wide)a.scale : -(wide)INFINITY;
		if (a.cap > 0 && j + n < count)
			score[n] = (wide)a.cap * tanh(score[n] / (wide)a.cap);
		largest = score[n] > largest ? score[n] : largest;
	}
	/*
	 * Key j itself is below `count`, so `largest` is not -infinity, unless a score is NaN or
	 * -infinity itself.
	 */
	shrink = gt_exp(r.largest - largest);
	r.largest = largest;
	r.sum *= shrink;
	for (int c = 0; c < MINE; c++)
		r.y[c] *= shrink;
	for (int n = 0; n < KEYS; n++) {
		wide p = gt_exp(score[n] - largest);

		if (j + n >= count)
			continue;
		r.sum += p;
		for (int c = 0; c < MINE; c++)
			if (at.col + c * 32 + lane < a.D)
				r.y[c] += p * gt_load(at.value(j + n, a.D)[at.col + c * 32 + lane]);
	}
}

/* y of all warps' parts: `largest` and `sum` [WARPS], y [WARPS][COLS], in shared memory. */
template <class T, class W>
static __device__ __forceinline__ void put_together(
    const cached_args<T> &a, const token<T> &at, const W *largest, const W *sum, const W *y)
{
	int c = (int)threadIdx.x;
	W top = -(W)INFINITY, all = 0, out = 0;

	for (int w = 0; w < WARPS; w++)
		top = largest[w] > top ? largest[w] : top;
	for (int w = 0; w < WARPS; w++) {
		/* A warp without keys, unlike one whose scores are NaN, has the sum 0. */
		W factor = sum[w] == 0 ? 0 : gt_exp(largest[w] - top);

		all += factor * sum[w];
		out += factor * y[w * COLS + c];
	}
	if (at.col + c < a.D)
		gt_store(at.y + at.col + c, out / all);
}

template <class T> static __global__ void attention_cached(cached_args<T> a)
{
	typedef typename gt_wide<T>::type wide;
	GT_SHARED(wide, largest, WARPS);
	GT_SHARED(wide, sum, WARPS);
	GT_SHARED(wide, y, WARPS * COLS);
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	token<T> at(a);
	int64_t count = at.past + at.t + 1, d = at.col + threadIdx.x;
	int64_t first = a.window && count > a.window ? count - a.window : 0;
	part<wide> r = { -(wide)INFINITY, 0, {} };

	if (at.past < 0 || at.past > a.capacity - a.T_) {
		if (threadIdx.x == 0)
			gt_report_fault(a.faults, GT_FAULT_CACHE, a.T_, at.past, a.capacity);
		if (d < a.D)
			gt_store(at.y + d, (wide)NAN);
		return;
	}
	/*
	 * No block reads this token's key and value from the caches: each takes those of new
	 * tokens from qkv, so the order of blocks does not matter.
	 */
	if (at.writes && d < a.D) {
		at.keys[(count - 1) * a.D + d] = at.new_keys[at.t * at.stride + d];
		at.values[(count - 1) * a.D + d] = at.new_values[at.t * at.stride + d];
	}
	for (int64_t j = first + warp * KEYS; j < count; j += WARPS * KEYS)
		take_cached_keys(r, a, at, j, count);
	if (lane == 0) {
		largest[warp] = r.largest;
		sum[warp] = r.sum;
	}
	for (int c = 0; c < MINE; c++)
		y[warp * COLS + c * 32 + lane] = r.y[c];
	__syncthreads();
	put_together<T, wide>(a, at, largest, sum, y);
}

template <class T> static int run_attention_cached(struct gt_call *call, struct gt_err *err)
{
	const int64_t *qkv = call->in[0].shape, *keys = call->in[2].shape;
	cached_args<T> a = { gt_out_data<T>(call), gt_in_data<T>(call, 0),
		gt_in_data<int32_t>(call, 1), (T *)call->in[2].data, (T *)call->in[3].data, qkv[1],
		call->attrs.attention.heads, keys[1], keys[3], keys[2], 1 / sqrt((double)keys[3]),
		call->attrs.attention.cap, call->attrs.attention.window, call->stream->faults };
	int64_t tokens = qkv[0] * qkv[1] * a.heads;

	static_assert(COLS == WARPS * 32, "a thread has a column");
	if (!tokens)
		return 0;
	GT_LAUNCH((attention_cached<T>),
	    dim3((unsigned)tokens, (unsigned)((a.D + COLS - 1) / COLS)), WARPS * 32, 0,
	    call->stream->queue, a);
	return gt_cuda_launched(call->stream, "attention_cached", err);
}

const struct gt_kernel gt_cuda_attention_cached_kernels[] = {
	GT_ROWS(attention_cached, nullptr, nullptr),
	{},
};
