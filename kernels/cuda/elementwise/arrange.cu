/* arrange.cu - copies by strides: a thread per element, or transpositions in shared memory. */
#include "kernels/cuda/core/channels.cuh"

extern "C" {
#include "lib/graph/arrangement.h"
}

/*
 * Each piece of an arrangement (lib/graph/arrangement.h) is a launch. Elements are moved by their
 * sizes, of up to 16 bytes: gt_arrange_piece_widen() makes neighbours one element where both sides
 * allow it. Threads that follow each other have elements that follow each other in the output.
 * Where such elements are far from each other in the input, but those of another dimension are
 * neighbours, tiles of these two dimensions go through shared memory.
 */
enum {
	ARRANGE_THREADS = 256,
	ARRANGE_AT_ONCE = 4, /* elements of a thread */
	ARRANGE_LARGEST = 16,
	ARRANGE_TILE = 32,
	ARRANGE_TILE_ROWS = 8, /* rows of a tile that a block copies at a time */
	ARRANGE_LEAST = 16     /* a transposition has so many rows and columns */
};

/* ---- division by numbers that the host knows ---- */

/* Divides n < 2^31 by `by`, which is not above 2^31, by a product: Granlund and Montgomery,
 * "Division by invariant integers using multiplication", PLDI 1994, figure 4.1. */
struct arrange_divider {
	uint32_t by, factor, shift;
};

static struct arrange_divider arrange_divider_of(int64_t by)
{
	struct arrange_divider d = { (uint32_t)by, 0, 0 };

	while (((int64_t)1 << d.shift) < by)
		d.shift++;
	d.factor = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << d.shift) - (uint64_t)by)) /
	                          (uint64_t)by +
	                      1);
	return d;
}

/* Divide n, and return the remainder. */
static __device__ __forceinline__ uint32_t divide(uint32_t &n, const struct arrange_divider &d)
{
	uint32_t quotient = ((uint32_t)((uint64_t)n * d.factor >> 32) + n) >> d.shift;
	uint32_t rest = n - quotient * d.by;

	n = quotient;
	return rest;
}

/* ---- places ---- */

/* The dimensions of a piece, or of its planes, and where its elements are. */
struct arrange_places {
	int ndim;
	struct arrange_divider shape[GT_MAX_DIMS];
	int64_t from_first, to_first, from[GT_MAX_DIMS], to[GT_MAX_DIMS];
};

static struct arrange_places arrange_places_of(const struct gt_arrange_piece *p)
{
	struct arrange_places s = {};

	s.ndim = (int)p->ndim;
	s.from_first = p->from.first;
	s.to_first = p->to.first;
	for (int i = 0; i < s.ndim; i++) {
		s.shape[i] = arrange_divider_of(p->shape[i]);
		s.from[i] = p->from.strides[i];
		s.to[i] = p->to.strides[i];
	}
	return s;
}

/* Find element i of a piece. Indices of the arrays are known to the compiler once it has unrolled
 * the loop, so that threads need no copies of the kernel's arguments. */
static __device__ __forceinline__ void find_element_places(
    int64_t &from, int64_t &to, const struct arrange_places &s, uint32_t i)
{
	from = s.from_first;
	to = s.to_first;
	for (int k = GT_MAX_DIMS - 1; k >= 0; k--)
		if (k < s.ndim) {
			uint32_t at = divide(i, s.shape[k]);

			from += at * s.from[k];
			to += at * s.to[k];
		}
}

/* ---- single elements ---- */

template <class V>
static __global__ void arrange_elements(V *y, const V *x, struct arrange_places s, uint32_t count)
{
	uint32_t first = blockIdx.x * (ARRANGE_THREADS * ARRANGE_AT_ONCE) + threadIdx.x;
	int64_t from[ARRANGE_AT_ONCE], to[ARRANGE_AT_ONCE];
	V v[ARRANGE_AT_ONCE];

	for (int k = 0; k < ARRANGE_AT_ONCE; k++) {
		uint32_t i = first + k * ARRANGE_THREADS;

		if (i < count) {
			find_element_places(from[k], to[k], s, i);
			v[k] = x[from[k]];
		}
	}
	for (int k = 0; k < ARRANGE_AT_ONCE; k++)
		if (first + k * ARRANGE_THREADS < count)
			y[to[k]] = v[k];
}

/* ---- transpositions ---- */

/* Planes [rows, cols], whose columns are neighbours in the output and whose rows are neighbours in
 * the input. `planes` has the other dimensions. */
struct arrange_planes {
	struct arrange_places planes;
	uint32_t rows, cols;
	struct arrange_divider row_tiles, col_tiles;
	int64_t to_row, from_col;
};

/* A block has a tile; a column more keeps a warp off a single bank. */
template <class V> static __global__ void arrange_tiles(V *y, const V *x, struct arrange_planes p)
{
	GT_SHARED(V, tile, ARRANGE_TILE * (ARRANGE_TILE + 1));
	uint32_t plane = blockIdx.x, lane = threadIdx.x, first = threadIdx.y;
	uint32_t c0 = divide(plane, p.col_tiles) * ARRANGE_TILE;
	uint32_t r0 = divide(plane, p.row_tiles) * ARRANGE_TILE;
	int64_t from, to;

	find_element_places(from, to, p.planes, plane);
	for (uint32_t c = first; c < ARRANGE_TILE; c += ARRANGE_TILE_ROWS)
		if (c0 + c < p.cols && r0 + lane < p.rows)
			tile[c * (ARRANGE_TILE + 1) + lane] =
			    x[from + (c0 + c) * p.from_col + r0 + lane];
	__syncthreads();
	for (uint32_t r = first; r < ARRANGE_TILE; r += ARRANGE_TILE_ROWS)
		if (r0 + r < p.rows && c0 + lane < p.cols)
			y[to + (r0 + r) * p.to_row + c0 + lane] =
			    tile[lane * (ARRANGE_TILE + 1) + r];
}

/* Return the dimension of a transposition's rows, or -1. */
static int find_transposed_rows(const struct gt_arrange_piece *p)
{
	int64_t col = p->ndim - 1;

	for (int i = 0; i < col; i++)
		if (p->from.strides[i] == 1 && p->to.strides[col] == 1 &&
		    p->shape[i] >= ARRANGE_LEAST && p->shape[col] >= ARRANGE_LEAST)
			return i;
	return -1;
}

/* Take the rows and the columns out of the dimensions of a piece. */
static struct arrange_planes arrange_planes_of(const struct gt_arrange_piece *piece, int row)
{
	struct gt_arrange_piece rest = *piece;
	struct arrange_planes p = {};
	int64_t col = piece->ndim - 1;

	p.rows = (uint32_t)piece->shape[row];
	p.cols = (uint32_t)piece->shape[col];
	p.row_tiles = arrange_divider_of(gt_ceil_div(p.rows, ARRANGE_TILE));
	p.col_tiles = arrange_divider_of(gt_ceil_div(p.cols, ARRANGE_TILE));
	p.to_row = piece->to.strides[row];
	p.from_col = piece->from.strides[col];
	rest.shape[row] = rest.shape[col] = 1;
	p.planes = arrange_places_of(&rest);
	return p;
}

/* ---- launches ---- */

template <class V>
static void launch_piece(struct gt_call *call, const struct gt_arrange_piece *piece)
{
	V *y = gt_out_data<V>(call);
	const V *x = gt_in_data<V>(call, (int)piece->input);
	int64_t count = gt_arrange_piece_elements(piece);
	int row = find_transposed_rows(piece);

	if (row >= 0) {
		struct arrange_planes p = arrange_planes_of(piece, row);
		int64_t planes = count / piece->shape[row] / piece->shape[piece->ndim - 1];

		GT_LAUNCH((arrange_tiles<V>), (unsigned)(planes * p.row_tiles.by * p.col_tiles.by),
		    dim3(ARRANGE_TILE, ARRANGE_TILE_ROWS), 0, call->stream->queue, y, x, p);
		return;
	}
	GT_LAUNCH((arrange_elements<V>),
	    (unsigned)gt_ceil_div(count, ARRANGE_THREADS * ARRANGE_AT_ONCE), ARRANGE_THREADS, 0,
	    call->stream->queue, y, x, arrange_places_of(piece), (uint32_t)count);
}

/* Elements of 16 bytes. */
typedef gt_pack<uint32_t, 4> arrange_large;

static void launch_by_size(struct gt_call *call, const struct gt_arrange_piece *piece, int size)
{
	if (size == 1)
		launch_piece<uint8_t>(call, piece);
	else if (size == 2)
		launch_piece<uint16_t>(call, piece);
	else if (size == 4)
		launch_piece<uint32_t>(call, piece);
	else if (size == 8)
		launch_piece<uint64_t>(call, piece);
	else
		launch_piece<arrange_large>(call, piece);
}

static int zero_output(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *y = &call->out[0];
	size_t bytes = (size_t)gt_tensor_elements(y) * gt_dtype_size(y->dtype);

	return gt_cuda_check(cudaMemsetAsync(y->data, 0, bytes, call->stream->queue),
	    call->stream->index, "cudaMemsetAsync", err);
}

static int run_arrange(struct gt_call *call, struct gt_err *err)
{
	const struct gt_arrangement *a = call->attrs.arrange.arrangement;
	int size = (int)gt_dtype_size(call->out[0].dtype);

	if (gt_arrangement_copied(a) < gt_arrangement_elements(a) && zero_output(call, err))
		return err->code;
	for (int64_t k = 0; k < a->count; k++) {
		struct gt_arrange_piece piece = a->pieces[k];

		launch_by_size(call, &piece, gt_arrange_piece_widen(&piece, size, ARRANGE_LARGEST));
	}
	return gt_cuda_launched(call->stream, "arrange", err);
}

/* Threads count the elements of a piece by numbers below 2^31. */
static int prepare_arrange(struct gt_call *call, struct gt_err *err)
{
	const struct gt_arrangement *a = call->attrs.arrange.arrangement;

	call->launches = (int)a->count;
	for (int64_t k = 0; k < a->count; k++) {
		struct gt_arrange_piece piece = a->pieces[k];
		int64_t count;

		gt_arrange_piece_widen(
		    &piece, (int)gt_dtype_size(call->out[0].dtype), ARRANGE_LARGEST);
		count = gt_arrange_piece_elements(&piece);
		if (count > INT32_MAX)
			return gt_err_set(err, GT_ENOTSUP, "a copy of %lld elements, at most %d",
			    (long long)count, INT32_MAX);
	}
	return 0;
}

/* Integers have the row of float32 (struct gt_kernel). */
const struct gt_kernel gt_cuda_arrange_kernels[] = {
	GT_ROW(arrange, GT_F32, run_arrange, nullptr, prepare_arrange),
	GT_ROW(arrange, GT_F64, run_arrange, nullptr, prepare_arrange),
	GT_ROW(arrange, GT_BF16, run_arrange, nullptr, prepare_arrange),
	GT_ROW(arrange, GT_F16, run_arrange, nullptr, prepare_arrange),
	{},
};
