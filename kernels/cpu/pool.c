/* pool.c - max_pool2d, avg_pool2d and their gradients, on channels-last images. */
#include "kernels/cpu/parallel.h"

/* One dimension of a pooling: the window, or with `divided` so many windows that divide the image
 * (lib/graph/ops/pool.c). */
struct pool_axis {
	int64_t kernel, stride, pad, dilation;
	int64_t size, windows; /* size: rows or columns in the image */
	bool divided, exclude_pad;
};

struct pool {
	struct pool_axis rows, columns;
	int64_t images, channels;
};

static inline struct pool_axis axis_of(
    const struct gt_call *call, int dim, int64_t size, int64_t windows)
{
	const struct gt_window *w = &call->attrs.pool.window;

	return (struct pool_axis){ w->kernel[dim], w->stride[dim], w->pad[dim], w->dilation[dim],
		size, windows, call->attrs.pool.parts[dim] > 0, call->attrs.pool.exclude_pad };
}

/* x is the forward op's input, or its gradient; y its output, or that one's. */
static inline struct pool pool_of(
    const struct gt_call *call, const struct gt_tensor *x, const struct gt_tensor *y)
{
	return (struct pool){ axis_of(call, 0, x->shape[2], y->shape[2]),
		axis_of(call, 1, x->shape[3], y->shape[3]), x->shape[0], x->shape[1] };
}

/* The number of taps on so many neighbouring places, the first of which has one. */
static inline int64_t taps_on(const struct pool_axis *a, int64_t places)
{
	return a->dilation == 1 ? places : gt_ceil_div(places, a->dilation);
}

/* The first row or column of a window, and the taps [from, to) that lie inside of the image. */
struct span {
	int64_t start, from, to;
};

static inline struct span span_of(const struct pool_axis *a, int64_t window)
{
	struct span s = { .start = window * a->stride - a->pad };

	if (a->divided) {
		s.start = window * a->size / a->windows;
		s.to = gt_ceil_div((window + 1) * a->size, a->windows) - s.start;
		return s;
	}
	s.from = s.start < 0 ? taps_on(a, -s.start) : 0;
	s.to = gt_min(a->kernel, taps_on(a, a->size - s.start));
	return s;
}

/* The windows [from, to) whose first and last tap have place `at` between them. `start` is the
 * place of `at` in a window that began at 0. */
static inline struct span cover_of(const struct pool_axis *a, int64_t at)
{
	struct span s = { .start = at + a->pad };
	int64_t reach = (a->kernel - 1) * a->dilation + 1;

	if (a->divided) {
		s.from = at * a->windows / a->size;
		s.to = gt_ceil_div((at + 1) * a->windows, a->size);
		return s;
	}
	s.from = s.start < reach ? 0 : (s.start - reach) / a->stride + 1;
	s.to = gt_min(a->windows, s.start / a->stride + 1);
	return s;
}

/* Set *tap to the tap of window `window` that the place of `cover` is; false: it is none. */
static inline bool tap_of(
    const struct pool_axis *a, const struct span *cover, int64_t window, int64_t *tap)
{
	int64_t first = a->divided ? window * a->size / a->windows : window * a->stride;
	int64_t distance = cover->start - first;

	*tap = a->dilation == 1 ? distance : distance / a->dilation;
	return *tap * a->dilation == distance;
}

/* The number of elements that a mean is of: the rows, or the columns, of a window that count. */
static inline int64_t count_taps(const struct pool_axis *a, int64_t window)
{
	struct span s = span_of(a, window);

	if (a->divided || a->exclude_pad)
		return s.to - s.from;
	return gt_min(a->kernel, a->size + a->pad - s.start);
}

/*
 * Few channels do not fill a vector: windows of 2 x 2 side by side, the usual ones, then get loops
 * over a row of the image, in pieces of so many elements.
 */
enum { GT_FEW_CHANNELS = 32, GT_FEW_ELEMENTS = 512 };

static inline bool is_pair(const struct pool_axis *a)
{
	return a->kernel == 2 && a->stride == 2 && a->pad == 0 && a->dilation == 1 &&
	       2 * a->windows <= a->size;
}

static inline bool is_narrow(const struct pool *p)
{
	return is_pair(&p->rows) && is_pair(&p->columns) && p->channels < GT_FEW_CHANNELS;
}

#define REAL_BITS 32
#include "kernels/cpu/pool.inc"
#define REAL_BITS 64
#include "kernels/cpu/pool.inc"

const struct gt_kernel GT_ISA(gt_cpu_pool_kernels)[] = {
	GT_ROWS(max_pool2d, .accepts = gt_accept_channels_last),
	GT_ROWS(max_pool2d_grad, .accepts = gt_accept_channels_last),
	GT_ROWS(avg_pool2d, .accepts = gt_accept_channels_last),
	GT_ROWS(avg_pool2d_grad, .accepts = gt_accept_channels_last),
	{ .op = NULL },
};
