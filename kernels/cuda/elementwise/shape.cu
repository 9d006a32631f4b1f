/* shape.cu - reorder, subsample, image_normalize, and rows of tokens; with gradients. */
#include "kernels/cuda/core/channels.cuh"

/* ---- reorder ---- */

enum { TILE = 32, TILE_ROWS = 8, MOST_TILES = 32768 };

/* y [images, cols, rows] = x [images, rows, cols]. A tile goes through shared memory, so that both
 * sides go by whole rows of it; a column more keeps a warp off a single bank. V is an unsigned
 * integer as large as an element. */
template <class V>
static __global__ void transpose(V *y, const V *x, int64_t images, int64_t rows, int64_t cols)
{
	GT_SHARED(V, tile, TILE * (TILE + 1));
	int64_t tiles = (rows + TILE - 1) / TILE;
	int lane = (int)threadIdx.x, first = (int)threadIdx.y;
	int64_t c0 = (int64_t)blockIdx.x * TILE;

	for (int64_t t = blockIdx.y; t < tiles * images; t += gridDim.y) {
		int64_t image = t / tiles * rows * cols, r0 = t % tiles * TILE;

		for (int i = first; i < TILE; i += TILE_ROWS)
			if (r0 + i < rows && c0 + lane < cols)
				tile[i * (TILE + 1) + lane] =
				    x[image + (r0 + i) * cols + c0 + lane];
		__syncthreads();
		for (int i = first; i < TILE; i += TILE_ROWS)
			if (c0 + i < cols && r0 + lane < rows)
				y[image + (c0 + i) * rows + r0 + lane] =
				    tile[lane * (TILE + 1) + i];
		__syncthreads();
	}
}

template <class T> static int run_reorder(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_bits<T>::type bits;
	const struct gt_tensor *x = &call->in[0];
	int64_t n = gt_tensor_elements(x), area, rows, cols;

	if (!n)
		return 0;
	if (x->ndim != 4 || x->layout == call->out[0].layout)
		return gt_cuda_check(
		    cudaMemcpyAsync(call->out[0].data, x->data, (size_t)n * sizeof(T),
		        cudaMemcpyDeviceToDevice, call->stream->queue),
		    call->stream->index, "cudaMemcpyAsync", err);
	area = x->shape[2] * x->shape[3];
	rows = x->layout == GT_PLAIN ? x->shape[1] : area;
	cols = x->layout == GT_PLAIN ? area : x->shape[1];
	GT_LAUNCH((transpose<bits>),
	    dim3((unsigned)gt_ceil_div(cols, TILE),
	        gt_min_blocks(gt_ceil_div(rows, TILE) * x->shape[0], MOST_TILES)),
	    dim3(TILE, TILE_ROWS), 0, call->stream->queue, gt_out_data<bits>(call),
	    gt_in_data<bits>(call, 0), x->shape[0], rows, cols);
	return gt_cuda_launched(call->stream, "reorder", err);
}

/* ---- subsample ---- */

/* The large image, and the small one that has all of its channels from `front` on. */
struct sizes {
	int64_t channels, height, width;
	int64_t small_channels, small_height, small_width;
	int64_t stride, front, count; /* count: elements of the output */
};

static struct sizes subsample_sizes(
    const struct gt_call *call, const struct gt_tensor *large, const struct gt_tensor *small)
{
	return { large->shape[1], large->shape[2], large->shape[3], small->shape[1],
		small->shape[2], small->shape[3], call->attrs.subsample.stride,
		call->attrs.subsample.front, gt_tensor_elements(&call->out[0]) };
}

/* A thread for each element of the output. */
template <class V> static __global__ void subsample(V *y, const V *x, struct sizes s)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, pixel = i / s.small_channels;
	int64_t c = i % s.small_channels - s.front;
	int64_t column = pixel % s.small_width * s.stride, row = pixel / s.small_width;

	if (i >= s.count)
		return;
	row = row / s.small_height * s.height + row % s.small_height * s.stride;
	y[i] = c >= 0 && c < s.channels ? x[(row * s.width + column) * s.channels + c] : 0;
}

/*
 * A thread for each element of dx, which has at most one summand: nothing is added up, and places
 * that no output has taken become 0 in the same pass.
 */
template <class V> static __global__ void subsample_grad(V *dx, const V *dy, struct sizes s)
{
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, pixel = i / s.channels;
	int64_t column = pixel % s.width, row = pixel / s.width % s.height, image;

	if (i >= s.count)
		return;
	image = pixel / s.width / s.height;
	if (column % s.stride || row % s.stride) {
		dx[i] = 0;
		return;
	}
	row = image * s.small_height + row / s.stride;
	dx[i] = dy[(row * s.small_width + column / s.stride) * s.small_channels + s.front +
	           i % s.channels];
}

enum { SHAPE_THREADS = 256 };

template <class T> static int run_subsample(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_bits<T>::type bits;
	struct sizes s = subsample_sizes(call, &call->in[0], &call->out[0]);

	if (!s.count)
		return 0;
	GT_LAUNCH((subsample<bits>), (unsigned)gt_ceil_div(s.count, SHAPE_THREADS), SHAPE_THREADS,
	    0, call->stream->queue, gt_out_data<bits>(call), gt_in_data<bits>(call, 0), s);
	return gt_cuda_launched(call->stream, "subsample", err);
}

template <class T> static int run_subsample_grad(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_bits<T>::type bits;
	struct sizes s = subsample_sizes(call, &call->out[0], &call->in[0]);

	if (!s.count)
		return 0;
	GT_LAUNCH((subsample_grad<bits>), (unsigned)gt_ceil_div(s.count, SHAPE_THREADS),
	    SHAPE_THREADS, 0, call->stream->queue, gt_out_data<bits>(call),
	    gt_in_data<bits>(call, 0), s);
	return gt_cuda_launched(call->stream, "subsample_grad", err);
}

/* ---- last_position ---- */

template <class V> struct last_position_f : gt_map_always {
	const V *x;
	const int32_t *at; /* NULL: the last one */
	int64_t length, cols;

	__device__ void operator()(V &y, int64_t i)
	{
		int64_t b = i / cols, t = length - 1;

		if (at && at[b] < t)
			t = at[b] < 0 ? 0 : at[b];
		y = x[(b * length + t) * cols + i % cols];
	}
};

template <class T> static int run_last_position(struct gt_call *call, struct gt_err *err)
{
	typedef typename gt_bits<T>::type bits;
	last_position_f<bits> f;

	f.x = gt_in_data<bits>(call, 0);
	f.at = call->inputs > 1 ? gt_in_data<int32_t>(call, 1) : nullptr;
	f.length = call->in[0].shape[1];
	f.cols = call->in[0].shape[2];
	return gt_map(call->stream, "last_position", gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(gt_out_data<bits>(call)), gt_index());
}

/* ---- patches as tokens ---- */

/* Tokens of a sample, their columns, and how far apart an image's channels and pixels are. */
struct token_sizes {
	int64_t batch, tokens, cols, channel, pixel;

	token_sizes(const struct gt_tensor *image, const struct gt_tensor *rows)
	    : batch(rows->shape[0]), tokens(rows->shape[1]), cols(rows->shape[2]),
	      channel(image->layout == GT_CHANNELS_LAST ? 1 : tokens - 1),
	      pixel(image->layout == GT_CHANNELS_LAST ? cols : 1)
	{
	}

	/* Return the index of token t > 0, column c, in the image of sample b. */
	__device__ int64_t at(int64_t b, int64_t t, int64_t c) const
	{
		return b * (tokens - 1) * cols + (t - 1) * pixel + c * channel;
	}
};

template <class T> struct patch_tokens_f : gt_map_always {
	const T *x, *token, *position;
	token_sizes s;

	explicit patch_tokens_f(const struct gt_call *call)
	    : x(gt_in_data<T>(call, 0)), token(gt_in_data<T>(call, 1)),
	      position(gt_in_data<T>(call, 2)), s(&call->in[0], &call->out[0])
	{
	}

	template <class W> __device__ void operator()(W &y, int64_t i)
	{
		int64_t c = i % s.cols, t = i / s.cols % s.tokens, b = i / s.cols / s.tokens;

		y = gt_load(t ? x[s.at(b, t, c)] : token[c]) + gt_load(position[t * s.cols + c]);
	}
};

template <class T> static int run_patch_tokens(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "patch_tokens", gt_tensor_elements(&call->out[0]),
	    patch_tokens_f<T>(call), err, gt_out(gt_out_data<T>(call)), gt_index());
}

/* An element of dposition, and that of dx in all samples: added in their order. */
template <class T> struct patch_tokens_grad_f : gt_map_always {
	const T *dy;
	T *dx, *token;
	token_sizes s;

	explicit patch_tokens_grad_f(const struct gt_call *call)
	    : dy(gt_in_data<T>(call, 0)), dx(gt_out_data<T>(call)), token(gt_out_data<T>(call, 1)),
	      s(&call->out[0], &call->in[0])
	{
	}

	template <class W> __device__ void operator()(W &sum, int64_t i)
	{
		int64_t c = i % s.cols, t = i / s.cols;

		sum = 0;
		for (int64_t b = 0; b < s.batch; b++) {
			T d = dy[(b * s.tokens + t) * s.cols + c];

			sum += gt_load(d);
			if (t)
				dx[s.at(b, t, c)] = d;
		}
		if (!t)
			gt_store(token + c, sum);
	}
};

template <class T> static int run_patch_tokens_grad(struct gt_call *call, struct gt_err *err)
{
	return gt_map(call->stream, "patch_tokens_grad", gt_tensor_elements(&call->out[2]),
	    patch_tokens_grad_f<T>(call), err, gt_out(gt_out_data<T>(call, 2)), gt_index());
}

/* ---- image_normalize ---- */

/* Elements of a thread at a time, and blocks: as many as a large GPU runs at once. */
enum { NORMALIZE_PACK = 8, NORMALIZE_BLOCKS = 132 * 6 };

/* X is uint8, or float32 of mixtures. */
template <class X> struct normalize_args {
	float *y;
	const X *x; /* [B, H, W, C] */
	int64_t count, channels, area;
	float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS];
	bool last; /* y is [B, H, W, C], too, not [B, C, H, W] */
};

static __device__ __forceinline__ float normalized(float x, float mean, float std)
{
	/* Quotients are those of IEEE, as on the host: nvcc's default. */
	return (x / 255.0f - mean) / std;
}

/*
 * Values that a block keeps in shared memory: mean and std of each channel, or, for bytes, a table
 * of all 256 results of each channel. fill() stores them, and of() returns an element of y. fill()
 * indexes a.mean and a.std only in loops that the compiler unrolls. With an index that is known
 * only at run time, each thread would first copy the kernel's arguments to its local memory.
 */
template <class X> struct normalize_shared {
	enum { SIZE = 2 * GT_MAX_CHANNELS };

	static __device__ __forceinline__ void fill(float *shared, const normalize_args<X> &a)
	{
		for (int c = 0; c < GT_MAX_CHANNELS; c++)
			if (threadIdx.x == 0) {
				shared[2 * c] = a.mean[c];
				shared[2 * c + 1] = a.std[c];
			}
	}

	static __device__ __forceinline__ float of(const float *shared, int c, X x)
	{
		return normalized((float)x, shared[2 * c], shared[2 * c + 1]);
	}
};

template <> struct normalize_shared<uint8_t> {
	enum { VALUES = 256, SIZE = VALUES * GT_MAX_CHANNELS };

	static __device__ __forceinline__ void fill(float *shared, const normalize_args<uint8_t> &a)
	{
		static_assert((int)SHAPE_THREADS == (int)VALUES, "a thread for each value");
		for (int c = 0; c < GT_MAX_CHANNELS; c++)
			if (c < a.channels)
				shared[c * VALUES + (int)threadIdx.x] =
				    normalized((float)threadIdx.x, a.mean[c], a.std[c]);
	}

	static __device__ __forceinline__ float of(const float *shared, int c, uint8_t x)
	{
		return shared[c * VALUES + x];
	}
};

/* A thread has W elements of y at a time. */
template <class X, int W> static __global__ void image_normalize(normalize_args<X> a)
{
	typedef normalize_shared<X> known;
	GT_SHARED(float, shared, known::SIZE);
	int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * W;
	int channels = (int)a.channels;

	known::fill(shared, a);
	__syncthreads();
	for (int64_t i = first; i < a.count; i += (int64_t)gridDim.x * blockDim.x * W) {
		int64_t plane = a.last ? i : i / a.area;
		int c = (int)(plane % channels);
		gt_writer<float, W> y = { a.y, {} };
		gt_pack<X, W> x;

		if (a.last)
			x = *(const gt_pack<X, W> *)(a.x + i);
		for (int k = 0; !a.last && k < W; k++)
			x.at[k] = a.x[(plane / channels * a.area + i % a.area + k) * channels + c];
		for (int k = 0; k < W; k++) {
			y.v[k] = known::of(shared, c, x.at[k]);
			c = !a.last ? c : c + 1 < channels ? c + 1 : 0;
		}
		y.store(i);
	}
}

template <int W, class X>
static void launch_normalize(struct gt_stream *stream, const normalize_args<X> &a)
{
	int64_t blocks = gt_ceil_div(a.count / W, SHAPE_THREADS);

	GT_LAUNCH((image_normalize<X, W>), gt_min_blocks(blocks, NORMALIZE_BLOCKS), SHAPE_THREADS,
	    0, stream->queue, a);
}

static int prepare_image_normalize(struct gt_call *call, struct gt_err *err)
{
	if (call->in[0].shape[3] > GT_MAX_CHANNELS)
		return gt_err_set(err, GT_ENOTSUP, "%lld channels, at most %d",
		    (long long)call->in[0].shape[3], GT_MAX_CHANNELS);
	return 0;
}

template <class X> static int run_image_normalize_of(struct gt_call *call, struct gt_err *err)
{
	const int64_t *shape = call->in[0].shape;
	normalize_args<X> a = { gt_out_data<float>(call), gt_in_data<X>(call, 0),
		gt_tensor_elements(&call->in[0]), shape[3], shape[1] * shape[2], {}, {},
		call->out[0].layout == GT_CHANNELS_LAST };

	for (int c = 0; c < GT_MAX_CHANNELS; c++) {
		a.mean[c] = call->attrs.normalize.mean[c];
		a.std[c] = call->attrs.normalize.std[c];
	}
	if (!a.count)
		return 0;
	/* A pack of a plain y does not cross the end of a channel's pixels. */
	if ((a.last ? a.count : a.area) % NORMALIZE_PACK == 0)
		launch_normalize<NORMALIZE_PACK>(call->stream, a);
	else
		launch_normalize<1>(call->stream, a);
	return gt_cuda_launched(call->stream, "image_normalize", err);
}

static int run_image_normalize(struct gt_call *call, struct gt_err *err)
{
	return call->in[0].dtype == GT_U8 ? run_image_normalize_of<uint8_t>(call, err)
	                                  : run_image_normalize_of<float>(call, err);
}

const struct gt_kernel gt_cuda_shape_kernels[] = {
	GT_ROWS(reorder, nullptr, nullptr),
	GT_ROWS(subsample, gt_accepts_channels_last, nullptr),
	GT_ROWS(subsample_grad, gt_accepts_channels_last, nullptr),
	GT_ROWS(last_position, nullptr, nullptr),
	GT_ROWS(patch_tokens, nullptr, nullptr),
	GT_ROWS(patch_tokens_grad, nullptr, nullptr),
	GT_ROW(image_normalize, GT_F32, run_image_normalize, nullptr, prepare_image_normalize),
	{},
};
