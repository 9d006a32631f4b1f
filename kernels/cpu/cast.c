/* cast.c - one floating-point type into another. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"

/* n elements; the tensors give the types. */
typedef void cast_run(void *to, const void *from, int64_t n, const struct gt_call *call);

static void narrow_to_half(void *to, const void *from, int64_t n, const struct gt_call *call)
{
	gt_narrow(to, from, n, call->out[0].dtype);
}

static void widen(void *to, const void *from, int64_t n, const struct gt_call *call)
{
	gt_widen(to, from, n, call->in[0].dtype);
}

static void from_double(void *to, const void *from, int64_t n, const struct gt_call *call)
{
	const double *x = from;
	float *y = to;

	(void)call;
#pragma omp simd
	for (int64_t i = 0; i < n; i++)
		y[i] = (float)x[i];
}

static void to_double(void *to, const void *from, int64_t n, const struct gt_call *call)
{
	const float *x = from;
	double *y = to;

	(void)call;
#pragma omp simd
	for (int64_t i = 0; i < n; i++)
		y[i] = (double)x[i];
}

static void to_whole(void *to, const void *from, int64_t n, const struct gt_call *call)
{
	const float *x = from;
	int32_t *y = to;

	(void)call;
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] > -2147483648.0f && x[i] < 2147483648.0f ? (int32_t)x[i] : INT32_MIN;
}

static void same(void *to, const void *from, int64_t n, const struct gt_call *call)
{
	memcpy(to, from, (size_t)n * gt_dtype_size(call->in[0].dtype));
}

/* NULL: float64 has no way from or to a type of 16 bits, which would have to round once. */
static cast_run *find_cast(enum gt_dtype from, enum gt_dtype to)
{
	bool from_half = gt_dtype_wide(from) != from, to_half = gt_dtype_wide(to) != to;

	if (from == to)
		return same;
	if (to == GT_I32)
		return from == GT_F32 ? to_whole : NULL;
	if (from == GT_F32)
		return to_half ? narrow_to_half : to_double;
	if (to == GT_F32)
		return from_half ? widen : from_double;
	return NULL;
}

static bool accepts(const struct gt_call *call)
{
	return find_cast(call->in[0].dtype, call->out[0].dtype);
}

static int run_cast(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *x = &call->in[0], *y = &call->out[0];
	cast_run *cast = find_cast(x->dtype, y->dtype);
	int64_t from = (int64_t)gt_dtype_size(x->dtype), to = (int64_t)gt_dtype_size(y->dtype);
	int64_t n = gt_tensor_elements(x);

	(void)err;
#pragma omp parallel for schedule(static) if (n >= GT_FORK_MIN)
	for (int64_t i = 0; i < n; i += GT_GRAIN)
		cast((char *)y->data + i * to, (const char *)x->data + i * from,
		    gt_min(GT_GRAIN, n - i), call);
	return 0;
}

#define ROW(type)                                                                                  \
	{                                                                                          \
		.op = "cast", .dtype = type, .accepts = accepts, .run = run_cast                   \
	}

const struct gt_kernel GT_ISA(gt_cpu_cast_kernels)[] = {
	ROW(GT_F32),
	ROW(GT_F64),
	ROW(GT_BF16),
	ROW(GT_F16),
	{ .op = NULL },
};
