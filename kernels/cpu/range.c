/* range.c - ranges of flat buffers: sums, means, 16-bit types, and a search. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "lib/base/finite.h"
#include "lib/base/half.h"

static int add_floats(
    struct gt_stream *stream, float *x, const float *y, int64_t count, struct gt_err *err)
{
	(void)stream;
	(void)err;
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] += y[i];
	return 0;
}

static int lerp(struct gt_stream *stream, float *y, const float *x, int64_t count, float weight,
    struct gt_err *err)
{
	float rest = 1.0f - weight;

	(void)stream;
	(void)err;
	if (weight < 0.5f) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			y[i] = y[i] + weight * (x[i] - y[i]);
		return 0;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		y[i] = x[i] - rest * (x[i] - y[i]);
	return 0;
}

static int swap(struct gt_stream *stream, float *x, float *y, int64_t count, struct gt_err *err)
{
	(void)stream;
	(void)err;
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++) {
		float old = x[i];

		x[i] = y[i];
		y[i] = old;
	}
	return 0;
}

static int narrow_floats(struct gt_stream *stream, uint16_t *half, const float *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	(void)stream;
	(void)err;
	if (dtype == GT_F16) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			half[i] = gt_f16_of_float(x[i]);
		return 0;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		half[i] = gt_bf16_of_float(x[i]);
	return 0;
}

static int widen(struct gt_stream *stream, float *x, const uint16_t *half, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	(void)stream;
	(void)err;
	if (dtype == GT_F16) {
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
		for (int64_t i = 0; i < count; i++)
			x[i] = gt_float_of_f16(half[i]);
		return 0;
	}
#pragma omp parallel for simd schedule(static, GT_GRAIN) if (parallel : count >= GT_FORK_MIN)
	for (int64_t i = 0; i < count; i++)
		x[i] = gt_float_of_bf16(half[i]);
	return 0;
}

static bool all_finite(const char *x, int64_t count, enum gt_dtype dtype)
{
	return dtype == GT_F64 ? gt_finite_f64(x, (size_t)count) : gt_finite_f32(x, (size_t)count);
}

/* Each thread takes blocks in ascending order, so behind a find it has nothing more to look for. */
static int find_nonfinite(struct gt_stream *stream, int64_t *out, const void *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	int64_t size = dtype == GT_F64 ? sizeof(double) : sizeof(float), first = count;
	int64_t blocks = dtype == GT_F32 || dtype == GT_F64 ? gt_ceil_div(count, GT_GRAIN) : 0;
	const char *at = x;

	(void)stream;
	(void)err;
#pragma omp parallel for schedule(static) reduction(min : first) if (count >= GT_FORK_MIN)
	for (int64_t k = 0; k < blocks; k++) {
		int64_t i = k * GT_GRAIN, end = gt_min(i + GT_GRAIN, count);

		if (first < i || all_finite(at + i * size, end - i, dtype))
			continue;
		while (all_finite(at + i * size, 1, dtype))
			i++;
		first = i;
	}
	*out = first < count && blocks ? first : -1;
	return 0;
}

const struct gt_range_kernels GT_ISA(gt_cpu_ranges) = {
	.add = add_floats,
	.lerp = lerp,
	.swap = swap,
	.narrow = narrow_floats,
	.widen = widen,
	.find_nonfinite = find_nonfinite,
};
