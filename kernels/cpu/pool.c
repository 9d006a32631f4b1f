/* pool.c - max_pool2d, avg_pool2d and their gradients, on channels-last images. */
#include "kernels/cpu/parallel.h"

/* A window's first row or column as seen from output o, and the part of [0, k) that lies inside [0,
 * size). */
struct span {
	int64_t start, from, to;
};

static inline struct span span_of(int64_t o, int k, int stride, int pad, int64_t size)
{
	struct span s = { .start = o * stride - pad };

	s.from = gt_max(0, -s.start);
	s.to = gt_min(k, size - s.start);
	return s;
}

/* The outputs whose window covers input i: from `from` up to, not including, `to`. */
static inline struct span cover_of(int64_t i, int k, int stride, int pad, int64_t outputs)
{
	struct span s = { .start = i + pad };

	s.from = s.start < k ? 0 : (s.start - k) / stride + 1;
	s.to = gt_min(outputs, s.start / stride + 1);
	return s;
}

/*
 * Few channels do not fill a vector: windows of 2 x 2 side by side, the usual ones, then get loops
 * over a row of the image, in pieces of so many elements.
 */
enum { GT_FEW_CHANNELS = 32, GT_FEW_ELEMENTS = 512 };

static inline bool is_narrow(const struct gt_call *call, int64_t channels)
{
	return call->attrs.pool.kernel == 2 && call->attrs.pool.stride == 2 &&
	       call->attrs.pool.pad == 0 && channels < GT_FEW_CHANNELS;
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
