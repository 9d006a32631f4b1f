/* resample.c - images of another size, and the gradient, on channels-last images. */
#include <math.h>

#include "kernels/cpu/parallel.h"

/* A row or column of the result: (1 - weight) * row `from` of the input + weight * row `to`. The
 * numbers are the same for all types, and products in double are exact, so that they do not depend
 * on instructions that round once for a product and a sum. */
struct resample_tap {
	int64_t from, to;
	double weight;
};

/* Rows or columns: `in` of the images that are read by the forward op, `out` of its result. */
struct resample_axis {
	int64_t in, out;
	struct resample_tap *taps; /* [out] */
};

struct resample {
	struct resample_axis rows, columns;
	int64_t images, channels;
};

static inline struct resample_tap tap_at(const struct gt_call *call, int dim, int64_t in, int64_t i)
{
	float scale = call->attrs.resample.scale[dim];
	struct resample_tap t = { 0 };
	double at = (double)scale * (double)i;

	if (!call->attrs.resample.linear) {
		t.from = t.to = gt_min((int64_t)floorf(scale * (float)i), in - 1);
		return t;
	}
	if (!call->attrs.resample.align)
		at = fmax((double)scale * ((double)i + 0.5) - 0.5, 0);
	t.from = gt_min((int64_t)at, in - 1);
	t.to = gt_min(t.from + 1, in - 1);
	t.weight = fmin(at - (double)t.from, 1);
	return t;
}

/* x is the forward op's input, or its gradient; y its output, or that one's. The taps are in the
 * workspace. */
static inline struct resample resample_of(
    const struct gt_call *call, const struct gt_tensor *x, const struct gt_tensor *y)
{
	struct resample r = { .images = x->shape[0], .channels = x->shape[1] };
	struct resample_axis *axes[] = { &r.rows, &r.columns };
	struct resample_tap *taps = call->workspace;

	for (int dim = 0; dim < 2; dim++) {
		struct resample_axis *a = axes[dim];

		*a = (struct resample_axis){ x->shape[2 + dim], y->shape[2 + dim], taps };
		for (int64_t i = 0; i < a->out; i++)
			a->taps[i] = tap_at(call, dim, a->in, i);
		taps += a->out;
	}
	return r;
}

/* The size of the result is an attribute of both ops. */
static int prepare_resample(struct gt_call *call, struct gt_err *err)
{
	const int *size = call->attrs.resample.size;

	(void)err;
	call->workspace_bytes = (size_t)(size[0] + size[1]) * sizeof(struct resample_tap);
	return 0;
}

/* Return the first tap that reads row or column `at` of the input, or a later one. Taps ascend. */
static inline int64_t first_tap(const struct resample_axis *a, int64_t at)
{
	int64_t low = 0, high = a->out;

	while (low < high) {
		int64_t middle = (low + high) / 2;

		if (a->taps[middle].to < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#define REAL_BITS 32
#include "kernels/cpu/resample.inc"
#define REAL_BITS 64
#include "kernels/cpu/resample.inc"

const struct gt_kernel GT_ISA(gt_cpu_resample_kernels)[] = {
	GT_ROWS(resample, .accepts = gt_accept_channels_last, .prepare = prepare_resample),
	GT_ROWS(resample_grad, .accepts = gt_accept_channels_last, .prepare = prepare_resample),
	{ .op = NULL },
};
