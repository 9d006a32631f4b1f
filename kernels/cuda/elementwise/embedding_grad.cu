/* embedding_grad.cu - the gradient of embedding: rows of dy added up by token id. */
#include "kernels/cuda/core/fault.cuh"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/reduce.cuh"
#include "kernels/cuda/core/rows.cuh"

/*
 * First the tokens are sorted by id, those of one id in the order of the text; then a warp has a
 * row of the table and adds up its tokens in this order. So it gives the CPU's sums. A row with
 * many tokens (a space, padding) is added up by all warps of its block, each a part of the list,
 * and their sums are added in the order of the list.
 *
 * To sort, a block has RANGE rows of the table and reads all ids, twice. The first time it counts
 * the tokens of each of its rows, and those of rows before: so it knows without asking others where
 * its rows' lists begin. The second time it fills them. Ids are few and stay in the cache.
 *
 * Example, a table of 3 rows:
 *   ids     2 0 2 0 0
 *   order   1 3 4 0 2      tokens, sorted
 *   starts  0 3 3 5        where the list of each row begins; last, the end of all
 */
enum {
	RANGE = 256, /* rows of a block that sorts; a thread has one */
	EACH = 4,    /* ids of a thread at a time */
	CHUNK = RANGE * EACH,
	WARPS = 8,   /* rows of a block that adds up */
	LONG = 64,   /* tokens of a row that one warp still adds up alone */
	AT_ONCE = 4, /* rows of dy that a warp loads before it adds the first */
	BYTES = 16
};

/* ---- sort ---- */

struct token_sort {
	int32_t *order, *starts;
	const int32_t *ids;
	int64_t tokens, length;
	/* first: the shard's first row of the table; rows: rows of the shard; whole: rows of
	 * the table */
	int64_t first, rows, whole;
	struct gt_fault_slot *faults;
};

/* A thread's ids of the chunk that begins at token `base`; -1 past the end. */
static __device__ __forceinline__ void load_ids(int32_t *id, const token_sort &a, int64_t base)
{
	int64_t i = base + threadIdx.x * EACH;

	if (i + EACH <= a.tokens) {
		gt_pack<int32_t, EACH> pack = *(const gt_pack<int32_t, EACH> *)(a.ids + i);

		for (int k = 0; k < EACH; k++)
			id[k] = pack.at[k];
		return;
	}
	for (int k = 0; k < EACH; k++)
		id[k] = i + k < a.tokens ? a.ids[i + k] : -1;
}

/*
 * The sum of x over the threads before this one, and over all of them. shared is [32]. In a warp
 * a lane adds the sum of the lane 1, 2, 4, ... before it (Hillis and Steele, "Data parallel
 * algorithms", CACM 29(12), 1986). Example, four lanes with 1 2 3 4: after step 1 they have 1 3 5
 * 7, after step 2 they have 1 3 6 10; less the own number that is 0 1 3 6.
 */
static __device__ int sum_before(int x, int *shared, int *all)
{
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, sum = x, before = 0;

	for (int step = 1; step < 32; step *= 2) {
		int other = __shfl_sync(0xffffffffu, sum, lane < step ? lane : lane - step);

		sum += lane < step ? 0 : other;
	}
	if (lane == 31)
		shared[warp] = sum;
	__syncthreads();
	*all = 0;
	for (int w = 0; w < RANGE / 32; w++) {
		before += w < warp ? shared[w] : 0;
		*all += shared[w];
	}
	__syncthreads();
	return before + sum - x;
}

/* Count the tokens of each row from `low` on. Returns how many of this thread's tokens belong to
 * rows before. The first block reports ids outside of the table. */
static __device__ int count_tokens(int *counts, const token_sort &a, int64_t low, int rows)
{
	int32_t id[EACH];
	int before = 0;

	for (int64_t base = 0; base < a.tokens; base += CHUNK) {
		load_ids(id, a, base);
		for (int k = 0; k < EACH; k++) {
			int64_t i = base + threadIdx.x * EACH + k;

			before += id[k] >= a.first && id[k] < low;
			if (id[k] >= low && id[k] < low + rows)
				atomicAdd(counts + (id[k] - low), 1);
			if (blockIdx.x == 0 && i < a.tokens && (id[k] < 0 || id[k] >= a.whole))
				gt_report_fault(a.faults, GT_FAULT_ID, id[k], i / a.length,
				    i % a.length, a.whole);
		}
	}
	return before;
}

/* Store the tokens of a chunk that belong to these rows, in their order. Returns how many. The
 * barriers of the sum keep a thread from writing before all have read the last chunk's list. */
static __device__ int collect_tokens(
    int *row, int32_t *token, int *shared, const token_sort &a, int64_t base, int64_t low, int rows)
{
	int32_t id[EACH];
	int mine = 0, at, all;

	load_ids(id, a, base);
	for (int k = 0; k < EACH; k++)
		mine += id[k] >= low && id[k] < low + rows;
	at = sum_before(mine, shared, &all);
	for (int k = 0; k < EACH; k++)
		if (id[k] >= low && id[k] < low + rows) {
			row[at] = (int)(id[k] - low);
			token[at++] = (int32_t)(base + threadIdx.x * EACH + k);
		}
	__syncthreads();
	return all;
}

static __global__ void sort_tokens(token_sort a)
{
	GT_SHARED(int, counts, RANGE);
	GT_SHARED(int, row, CHUNK);
	GT_SHARED(int32_t, token, CHUNK);
	GT_SHARED(int, shared, 32);
	int64_t begin = (int64_t)blockIdx.x * RANGE, low = a.first + begin;
	int t = (int)threadIdx.x, rows = a.rows - begin < RANGE ? (int)(a.rows - begin) : RANGE;
	int before, all, to;

	counts[t] = 0;
	__syncthreads();
	before = gt_block_sum(count_tokens(counts, a, low, rows), shared);
	to = before + sum_before(counts[t], shared, &all);
	if (t < rows)
		a.starts[begin + t] = to;
	if (t == 0 && begin + rows == a.rows)
		a.starts[a.rows] = before + all;
	for (int64_t base = 0; base < a.tokens; base += CHUNK) {
		int n = collect_tokens(row, token, shared, a, base, low, rows);

		for (int k = 0; k < n; k++)
			if (row[k] == t)
				a.order[to++] = token[k];
	}
}

/* ---- add up ---- */

/* G is T or, for 16 bits, the wide type. */
template <class T, class G> struct embedding_grad_args {
	G *dtable;
	const G *acc;
	const T *dy;
	const int32_t *order, *starts;
	int64_t rows, cols;
};

template <class T, int W> using pack_of = typename gt_map_buffer<T, true, true>::template lanes<W>;

/* Add the rows of dy in [begin, end) of the list to sum, for columns from c on. */
template <class T, class G, int W>
static __device__ __forceinline__ void add_tokens(typename gt_wide<T>::type *sum,
    const embedding_grad_args<T, G> &a, int64_t c, int begin, int end)
{
	int lane = (int)threadIdx.x % 32;

	for (int first = begin; first < end; first += 32) {
		int token = first + lane < end ? a.order[first + lane] : 0;
		int n = end - first < 32 ? end - first : 32;

		for (int j = 0; j < n; j += AT_ONCE) {
			pack_of<T, W> dy[AT_ONCE] = {};

			for (int f = 0; f < AT_ONCE; f++) {
				int64_t i = __shfl_sync(0xffffffffu, token, j + f);

				dy[f].p = (T *)a.dy;
				if (j + f < n && c < a.cols)
					dy[f].load(i * a.cols + c);
			}
			for (int f = 0; f < AT_ONCE; f++)
				for (int k = 0; k < W && j + f < n; k++)
					sum[k] += dy[f].v[k];
		}
	}
}

/* The sums of a row before its tokens are added: acc, or zeros. */
template <class T, class G, int W>
static __device__ __forceinline__ void load_acc(
    pack_of<G, W> &sum, const embedding_grad_args<T, G> &a, int64_t row, int64_t c)
{
	sum.p = (G *)a.acc;
	for (int k = 0; k < W; k++)
		sum.v[k] = 0;
	if (a.acc && c < a.cols)
		sum.load(row * a.cols + c);
	sum.p = a.dtable;
}

/* A row of few tokens; a row of none is left alone where dtable is acc itself. */
template <class T, class G, int W>
static __device__ __forceinline__ void add_short(
    const embedding_grad_args<T, G> &a, int64_t row, int64_t c, int begin, int end)
{
	pack_of<G, W> sum;

	if (end - begin > LONG || (begin == end && a.acc == a.dtable))
		return;
	load_acc<T, G, W>(sum, a, row, c);
	add_tokens<T, G, W>(sum.v, a, c, begin, end);
	if (c < a.cols)
		sum.store(row * a.cols + c);
}

/*
 * A row of many tokens, by the whole block; parts is [WARPS][32 W]. The list is cut by its length
 * alone, and parts are added in the order of warps, so the sum has the same bits in each run.
 */
template <class T, class G, int W>
static __device__ void add_long(const embedding_grad_args<T, G> &a, int64_t row, int64_t c,
    int begin, int end, typename gt_wide<T>::type *parts)
{
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
	int each = (end - begin + WARPS - 1) / WARPS, from = begin + warp * each;
	typename gt_wide<T>::type part[W] = {};
	pack_of<G, W> sum;

	add_tokens<T, G, W>(part, a, c, from, from + each < end ? from + each : end);
	for (int k = 0; k < W; k++)
		parts[(warp * W + k) * 32 + lane] = part[k];
	__syncthreads();
	if (warp == 0 && c < a.cols) {
		load_acc<T, G, W>(sum, a, row, c);
		for (int w = 0; w < WARPS; w++)
			for (int k = 0; k < W; k++)
				sum.v[k] += parts[(w * W + k) * 32 + lane];
		sum.store(row * a.cols + c);
	}
	__syncthreads();
}

template <class T, class G, int W>
static __global__ void embedding_grad(embedding_grad_args<T, G> a)
{
	GT_SHARED(typename gt_wide<T>::type, parts, WARPS * 32 * W);
	int64_t first = (int64_t)blockIdx.x * WARPS, row = first + threadIdx.x / 32;
	int64_t c = ((int64_t)blockIdx.y * 32 + threadIdx.x % 32) * W;

	if (row < a.rows)
		add_short<T, G, W>(a, row, c, a.starts[row], a.starts[row + 1]);
	for (int64_t r = first; r < first + WARPS && r < a.rows; r++)
		if (a.starts[r + 1] - a.starts[r] > LONG)
			add_long<T, G, W>(a, r, c, a.starts[r], a.starts[r + 1], parts);
}

/* ---- rows ---- */

static int prepare_embedding_grad(struct gt_call *call, struct gt_err *err)
{
	int64_t tokens = gt_tensor_elements(&call->in[1]), rows = call->out[0].shape[0];

	if (tokens > INT32_MAX)
		return gt_err_set(
		    err, GT_ENOTSUP, "%lld tokens, at most %d", (long long)tokens, INT32_MAX);
	call->launches = 2;
	call->workspace_bytes = (size_t)(tokens + rows + 1) * sizeof(int32_t);
	return 0;
}

template <class T, class G, int W>
static void launch_sums(struct gt_stream *stream, const embedding_grad_args<T, G> &a)
{
	dim3 grid(
	    (unsigned)((a.rows + WARPS - 1) / WARPS), (unsigned)((a.cols + 32 * W - 1) / (32 * W)));

	GT_LAUNCH((embedding_grad<T, G, W>), grid, WARPS * 32, 0, stream->queue, a);
}

template <class T, class G> static int add_up(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *ids = &call->in[1];
	int64_t rows = call->out[0].shape[0], whole = call->attrs.embedding.whole;
	int32_t *starts = (int32_t *)call->workspace, *order = starts + rows + 1;
	token_sort sort = { order, starts, gt_in_data<int32_t>(call, 1), gt_tensor_elements(ids),
		gt_tensor_last(ids), call->attrs.embedding.first, rows, whole ? whole : rows,
		call->stream->faults };
	embedding_grad_args<T, G> a = { gt_out_data<G>(call), gt_in_data<G>(call, 2),
		gt_in_data<T>(call, 0), order, starts, rows, gt_tensor_last(&call->out[0]) };
	constexpr int W = BYTES / (int)sizeof(G);

	if (!rows || !a.cols)
		return 0;
	GT_LAUNCH(sort_tokens, (unsigned)((rows + RANGE - 1) / RANGE), RANGE, 0,
	    call->stream->queue, sort);
	if (a.cols % W == 0)
		launch_sums<T, G, W>(call->stream, a);
	else
		launch_sums<T, G, 1>(call->stream, a);
	return gt_cuda_launched(call->stream, "embedding_grad", err);
}

template <class T> static int run_embedding_grad(struct gt_call *call, struct gt_err *err)
{
	if (call->out[0].dtype == call->in[0].dtype)
		return add_up<T, T>(call, err);
	return add_up<T, typename gt_wide<T>::type>(call, err);
}

const struct gt_kernel gt_cuda_embedding_grad_kernels[] = {
	GT_ROWS(embedding_grad, nullptr, prepare_embedding_grad),
	{},
};
