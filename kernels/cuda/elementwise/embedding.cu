/* embedding.cu - embedding, and the gradient of its positions. */
#include "kernels/cuda/core/fault.cuh"
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/rows.cuh"

/* A lane has 16 bytes of a row at a time, or one element where rows have another length. */
enum { WARPS = 8, THREADS = 256, BYTES = 16 };

template <class T, int W> using reader = typename gt_map_buffer<T, true, false>::template lanes<W>;
template <class T, int W> using writer = typename gt_map_buffer<T, false, true>::template lanes<W>;

/* ---- embedding: a warp has a token ---- */

template <class T, class Y> struct embedding_args {
	Y *y;
	const T *table, *position;
	const int32_t *ids, *past, *places; /* places: rows of position, NULL: from past on */
	int64_t tokens, length, cols;
	/* first: the shard's first row of the table; rows: rows of the shard; whole: rows of
	 * the table */
	int64_t first, rows, whole;
	int64_t positions;
	struct gt_fault_slot *faults;
};

/* The row of token i in this shard; -1: its result is zero. `place` is its row of positions. Lane 0
 * reports faults. */
template <class T, class Y>
static __device__ __forceinline__ int64_t find_row(
    const embedding_args<T, Y> &a, int64_t i, int64_t past, int64_t place)
{
	int64_t id = a.ids[i];
	bool is_bad = id < 0 || id >= a.whole;
	bool is_outside = a.places && (place < 0 || place >= a.positions);
	bool is_beyond = a.position && !a.places && (past < 0 || past > a.positions - a.length);

	if (is_outside && threadIdx.x % 32 == 0)
		gt_report_fault(
		    a.faults, GT_FAULT_ID, place, i / a.length, i % a.length, a.positions);
	if (is_bad && threadIdx.x % 32 == 0)
		gt_report_fault(a.faults, GT_FAULT_ID, id, i / a.length, i % a.length, a.whole);
	if (is_beyond && threadIdx.x % 32 == 0)
		gt_report_fault(a.faults, GT_FAULT_POSITIONS, a.length, past, a.positions);
	if (is_beyond || is_outside || id < a.first || id >= a.first + a.rows)
		return -1;
	return id - a.first;
}

template <class T, class Y, int W> static __global__ void embedding(embedding_args<T, Y> a)
{
	int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, past, place, row;
	reader<T, W> x = { (T *)a.table, {} }, at = { (T *)a.position, {} };
	writer<Y, W> y = { a.y + i * a.cols, {} };

	if (i >= a.tokens)
		return;
	past = a.past ? *a.past : 0;
	place = a.places ? a.places[i] : past + i % a.length;
	row = find_row(a, i, past, place);
	for (int64_t c = threadIdx.x % 32 * W; c < a.cols; c += 32 * W) {
		if (row >= 0)
			x.load(row * a.cols + c);
		if (row >= 0 && a.position)
			at.load(place * a.cols + c);
		for (int k = 0; k < W; k++)
			y.v[k] = a.position ? x.v[k] + at.v[k] : x.v[k];
		y.store(c);
	}
}

template <class T, class Y> static int look_up(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *ids = &call->in[1], *position = gt_optional_input(call, 2);
	int64_t rows = call->in[0].shape[0], whole = call->attrs.embedding.whole;
	embedding_args<T, Y> a = { gt_out_data<Y>(call), gt_in_data<T>(call, 0),
		gt_in_data<T>(call, 2), gt_in_data<int32_t>(call, 1), gt_in_data<int32_t>(call, 3),
		gt_in_data<int32_t>(call, 4), gt_tensor_elements(ids), gt_tensor_last(ids),
		gt_tensor_last(&call->in[0]), call->attrs.embedding.first, rows,
		whole ? whole : rows, position ? position->shape[0] : 0, call->stream->faults };
	unsigned blocks = (unsigned)((a.tokens + WARPS - 1) / WARPS);
	constexpr int W = BYTES / (int)sizeof(T);

	if (!blocks)
		return 0;
	if (a.cols % W == 0)
		GT_LAUNCH((embedding<T, Y, W>), blocks, WARPS * 32, 0, call->stream->queue, a);
	else
		GT_LAUNCH((embedding<T, Y, 1>), blocks, WARPS * 32, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "embedding", err);
}

template <class T> static int run_embedding(struct gt_call *call, struct gt_err *err)
{
	return look_up<T, T>(call, err);
}

/* The output may have 16 bits. */
template <> int run_embedding<float>(struct gt_call *call, struct gt_err *err)
{
	if (call->out[0].dtype == GT_BF16)
		return look_up<float, gt_bf16>(call, err);
	if (call->out[0].dtype == GT_F16)
		return look_up<float, gt_f16>(call, err);
	return look_up<float, float>(call, err);
}

/* ---- position_grad: a thread has some columns, and adds up the samples in their order ---- */

template <class T, class G> struct position_grad_args {
	G *dposition;
	const T *dy;
	int64_t batch, step; /* samples, and the elements of one */
	int64_t live, all;   /* elements of dposition that have a sum, and all of them */
};

template <class T, class G, int W> static __global__ void position_grad(position_grad_args<T, G> a)
{
	int64_t e = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * W;
	reader<T, W> dy = { (T *)a.dy, {} };
	writer<G, W> sum = { a.dposition, {} };

	if (e >= a.all)
		return;
	for (int64_t b = 0; b < a.batch && e < a.live; b++) {
		dy.load(b * a.step + e);
		for (int k = 0; k < W; k++)
			sum.v[k] += dy.v[k];
	}
	sum.store(e);
}

template <class T, class G> static int add_samples(struct gt_call *call, struct gt_err *err)
{
	const int64_t *shape = call->in[0].shape;
	int64_t cols = shape[2], rows = call->out[0].shape[0];
	position_grad_args<T, G> a = { gt_out_data<G>(call), gt_in_data<T>(call, 0), shape[0],
		shape[1] * cols, (shape[1] < rows ? shape[1] : rows) * cols, rows * cols };
	constexpr int W = BYTES / (int)sizeof(G);
	int64_t packs = cols % W == 0 ? a.all / W : a.all;
	unsigned blocks = (unsigned)((packs + THREADS - 1) / THREADS);

	if (!blocks)
		return 0;
	if (cols % W == 0)
		GT_LAUNCH((position_grad<T, G, W>), blocks, THREADS, 0, call->stream->queue, a);
	else
		GT_LAUNCH((position_grad<T, G, 1>), blocks, THREADS, 0, call->stream->queue, a);
	return gt_cuda_launched(call->stream, "position_grad", err);
}

/* The gradient has the type of dy, or the wide one. */
template <class T> static int run_position_grad(struct gt_call *call, struct gt_err *err)
{
	if (call->out[0].dtype == call->in[0].dtype)
		return add_samples<T, T>(call, err);
	return add_samples<T, typename gt_wide<T>::type>(call, err);
}

const struct gt_kernel gt_cuda_embedding_kernels[] = {
	GT_ROWS(embedding, nullptr, nullptr),
	GT_ROWS(position_grad, nullptr, nullptr),
	{},
};
