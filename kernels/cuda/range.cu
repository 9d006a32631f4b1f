/* range.cu - updates of flat buffers, sums, halves, and a search: the table of range kernels. */
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/muon_products.h"

/* ---- sums ---- */

struct add_to_f : gt_map_always {
	template <class W> __device__ void operator()(W &x, W y)
	{
		x += y;
	}
};

static int add(
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

/* ---- updates ---- */

/* The values of the step that updates read; they do nothing in a step that is skipped. */
struct update_f {
	struct gt_update_options o;
	const struct gt_step_scalars *s;
	float lr, factor;

	update_f(const struct gt_update_options *options, const struct gt_step_scalars *scalars)
	    : o(*options), s(scalars), lr(0), factor(0)
	{
	}

	__device__ bool begin_update()
	{
		lr = (o.use_fallback_lr ? s->block.fallback_lr : s->block.lr) * o.lr_scale;
		factor = s->result.grad_factor;
		return !s->result.skip;
	}
};

struct sgd_plain_f : update_f {
	using update_f::update_f;

	__device__ bool begin()
	{
		bool goes = begin_update();

		lr = s->block.lr * o.lr_scale;
		return goes;
	}

	__device__ void operator()(float &p, float g)
	{
		p -= lr * (g * factor + o.weight_decay * p);
	}
};

struct sgd_momentum_f : update_f {
	/* The step is ahead * buffer + own * the gradient. */
	float fresh, ahead, own;
	bool first;

	sgd_momentum_f(
	    const struct gt_update_options *options, const struct gt_step_scalars *scalars)
	    : update_f(options, scalars), fresh(1.0f - options->dampening),
	      ahead(options->nesterov ? options->momentum : 1.0f),
	      own(options->nesterov ? 1.0f : 0.0f), first(false)
	{
	}

	__device__ bool begin()
	{
		bool goes = begin_update();

		lr = s->block.lr * o.lr_scale;
		first = s->result.steps == 1;
		return goes;
	}

	__device__ void operator()(float &p, float g, float &buf)
	{
		float d = g * factor + o.weight_decay * p;

		/* The first step is not dampened, as in torch.optim.SGD. */
		buf = first ? d : o.momentum * buf + fresh * d;
		p -= lr * (own * d + ahead * buf);
	}
};

static int sgd(struct gt_stream *stream, float *p, const float *g, float *buf, int64_t count,
    const struct gt_update_options *o, const struct gt_step_scalars *s, struct gt_err *err)
{
	if (!buf)
		return gt_map_update(stream, "sgd", count, sgd_plain_f(o, s), o, err, p, gt_in(g));
	return gt_map_update(
	    stream, "sgd", count, sgd_momentum_f(o, s), o, err, p, gt_in(g), gt_inout(buf));
}

struct adam_f : update_f {
	float beta1, fresh1, beta2, fresh2, step, unbias, shrink, decay;

	adam_f(const struct gt_update_options *options, const struct gt_step_scalars *scalars)
	    : update_f(options, scalars), beta1((float)options->beta1),
	      fresh1((float)(1 - options->beta1)), beta2((float)options->beta2),
	      fresh2((float)(1 - options->beta2)), step(0), unbias(0), shrink(1), decay(0)
	{
	}

	__device__ bool begin()
	{
		bool goes = begin_update();

		step = lr / s->result.bias1;
		unbias = 1.0f / s->result.bias2_sqrt;
		/* Decay goes to the parameter (AdamW) or to the gradient (Adam). */
		shrink = o.decoupled ? 1.0f - lr * o.weight_decay : 1.0f;
		decay = o.decoupled ? 0.0f : o.weight_decay;
		return goes;
	}

	__device__ void operator()(float &p, float g, float &m, float &v)
	{
		float d = g * factor + decay * p;

		m = beta1 * m + fresh1 * d;
		v = beta2 * v + fresh2 * d * d;
		p = p * shrink - step * (m / (sqrtf(v) * unbias + o.eps));
	}
};

static int adam(struct gt_stream *stream, float *p, const float *g, float *m, float *v,
    int64_t count, const struct gt_update_options *o, const struct gt_step_scalars *s,
    struct gt_err *err)
{
	return gt_map_update(
	    stream, "adam", count, adam_f(o, s), o, err, p, gt_in(g), gt_inout(m), gt_inout(v));
}

/* ---- numbers of 16 bits ---- */

struct convert_f : gt_map_always {
	__device__ void operator()(float &y, float x)
	{
		y = x;
	}
};

static int narrow(struct gt_stream *stream, uint16_t *to, const float *x, int64_t count,
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
const struct gt_range_kernels gt_cuda_ranges = { add, gt_cuda_begin_step, gt_cuda_add_losses,
	gt_cuda_squares, gt_cuda_begin_update, sgd, adam, gt_muon_products_add, gt_cuda_muon, lerp,
	swap, narrow, widen, find_nonfinite };
