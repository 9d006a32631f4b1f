/* range.cu - ranges of flat buffers: sums, means, 16-bit types, and a search. */
#include "kernels/cuda/core/map.cuh"

/* ---- sums ---- */

struct add_to_f : gt_map_always {
	template <class W> __device__ void operator()(W &x, W y)
	{
		x += y;
	}
};

static int add_floats(
    struct gt_stream *stream, float *x, const float *y, int64_t count, struct gt_err *err)
{
	return gt_map(stream, "add", count, add_to_f(), err, gt_inout(x), gt_in(y));
}

/*
 * torch.lerp()'s two forms (ATen/native/Lerp.h): each is exact at its own end, so a weight of 0
 * gives y and a weight of 1 gives x.
 */
struct lerp_f : gt_map_always {
	float weight;

	__device__ void operator()(float &y, float x)
	{
		if (weight < 0.5f)
			y = y + weight * (x - y);
		else
			y = x - (1.0f - weight) * (x - y);
	}
};

static int lerp(struct gt_stream *stream, float *y, const float *x, int64_t count, float weight,
    struct gt_err *err)
{
	lerp_f f;

	f.weight = weight;
	return gt_map(stream, "lerp", count, f, err, gt_inout(y), gt_in(x));
}

struct swap_f : gt_map_always {
	__device__ void operator()(float &x, float &y)
	{
		float old = x;

		x = y;
		y = old;
	}
};

static int swap(struct gt_stream *stream, float *x, float *y, int64_t count, struct gt_err *err)
{
	return gt_map(stream, "swap", count, swap_f(), err, gt_inout(x), gt_inout(y));
}

/* ---- numbers of 16 bits ---- */

struct convert_f : gt_map_always {
	__device__ void operator()(float &y, float x)
	{
		y = x;
	}
};

static int narrow_floats(struct gt_stream *stream, uint16_t *to, const float *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	if (dtype == GT_F16)
		return gt_map(
		    stream, "narrow", count, convert_f(), err, gt_out((gt_f16 *)to), gt_in(x));
	return gt_map(stream, "narrow", count, convert_f(), err, gt_out((gt_bf16 *)to), gt_in(x));
}

static int widen(struct gt_stream *stream, float *x, const uint16_t *from, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	if (dtype == GT_F16)
		return gt_map(stream, "widen", count, convert_f(), err, gt_out(x),
		    gt_in((const gt_f16 *)from));
	return gt_map(
	    stream, "widen", count, convert_f(), err, gt_out(x), gt_in((const gt_bf16 *)from));
}

/* ---- the first number that is not finite ---- */

/* *first begins as -1, the largest of all indices without a sign. Finite numbers alone are 0 when
 * multiplied by it. */
struct find_f : gt_map_always {
	unsigned long long *first;

	template <class W> __device__ void operator()(int64_t i, W x)
	{
		if (!(x * 0 == 0))
			atomicMin(first, (unsigned long long)i);
	}
};

static int find_nonfinite(struct gt_stream *stream, int64_t *first, const void *x, int64_t count,
    enum gt_dtype dtype, struct gt_err *err)
{
	find_f f;
	int rc;

	f.first = (unsigned long long *)first;
	rc = gt_cuda_check(cudaMemsetAsync(first, 0xff, sizeof(*first), stream->queue),
	    stream->index, "cudaMemsetAsync", err);
	if (!rc && dtype == GT_F32)
		rc = gt_map(
		    stream, "find_nonfinite", count, f, err, gt_index(), gt_in((const float *)x));
	if (!rc && dtype == GT_F64)
		rc = gt_map(
		    stream, "find_nonfinite", count, f, err, gt_index(), gt_in((const double *)x));
	return rc;
}

/* In the order of the struct's members. */
const struct gt_range_kernels gt_cuda_ranges = { add_floats, lerp, swap, narrow_floats, widen,
	find_nonfinite };
