/* pool.c - max_pool2d, avg_pool2d and their gradients, on channels-last images. */
#include "kernels/cpu/parallel.h"

/* A window's first row or column as seen from output o: what of [0, k) lies inside [0, size). */
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
