/* update.cu - updates of parameters by SGD, Adam and Adan, and the table of kernels of a step. */
#include "kernels/cuda/core/map.cuh"
#define GT_ADAN_FUNCTION static __device__ __forceinline__
#include "kernels/adan.h"

/*
 * One launch updates up to ROWS ranges. Their table is an argument of the kernel; the arguments of
 * a kernel have 4096 bytes at most. Ranges are cut into chunks of CHUNK elements. A block updates
 * one chunk, and looks up its row:
 *
 *   count of the range    9000  10  4096  4097
 *   chunks                   9   1     4     5
 *   the first of them        0   9    10    14
 *
 * Block 18 belongs to the last row, and updates its element 4096.
 */
enum { ROWS = 44, CHUNK = 1024, UPDATE_THREADS = 256, PACK = 4 };

struct update_row {
	float *p;
	const float *g;
	float *states[GT_RANGE_STATES];
	uint16_t *copy;
	int64_t count;
	float weight_decay, lr_scale;
	int first;  /* chunk */
	int packed; /* all arrays are aligned for PACK elements at a time */
};

struct update_table {
	int rows, chunks;
	struct update_row row[ROWS];
};

/*
 * A functor for updates of ranges is derived from this type, and has the number STATES of its
 * states. Each thread calls begin() first, with the options of its range, for the values of the
 * step. If begin() returns false, the step is skipped. Then f(p, g, state 0, ..., state 3) updates
 * an element; a state that it lacks is a variable without use.
 */
struct update_f {
	struct gt_update_options o; /* those that all ranges share */
	const struct gt_step_scalars *s;
	float lr, factor, decay;

	update_f(const struct gt_update_options *options, const struct gt_step_scalars *scalars)
	    : o(*options), s(scalars), lr(0), factor(0), decay(0)
	{
	}

	__device__ bool begin(float weight_decay, float lr_scale)
	{
		lr = s->block.lr * lr_scale;
		factor = s->result.grad_factor;
		decay = weight_decay;
		return !s->result.skip;
	}
};

struct sgd_plain_f : update_f {
	enum { STATES = 0 };

	using update_f::update_f;

	__device__ void operator()(float &p, float g, float &, float &, float &, float &)
	{
		p -= lr * (g * factor + decay * p);
	}
};

struct sgd_momentum_f : update_f {
	enum { STATES = 1 };
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

	__device__ bool begin(float weight_decay, float lr_scale)
	{
		first = s->result.steps == 1;
		return update_f::begin(weight_decay, lr_scale);
	}

	__device__ void operator()(float &p, float g, float &buf, float &, float &, float &)
	{
		float d = g * factor + decay * p;

		/* The first step is not dampened, as in torch.optim.SGD. */
		buf = first ? d : o.momentum * buf + fresh * d;
		p -= lr * (own * d + ahead * buf);
	}
};

struct adam_f : update_f {
	enum { STATES = 2 };
	float beta1, fresh1, beta2, fresh2, step, unbias, shrink;

	adam_f(const struct gt_update_options *options, const struct gt_step_scalars *scalars)
	    : update_f(options, scalars), beta1((float)options->beta1),
	      fresh1((float)(1 - options->beta1)), beta2((float)options->beta2),
	      fresh2((float)(1 - options->beta2)), step(0), unbias(0), shrink(1)
	{
	}

	__device__ bool begin(float weight_decay, float lr_scale)
	{
		bool goes = update_f::begin(weight_decay, lr_scale);

		if (o.use_fallback_lr)
			lr = s->block.fallback_lr * lr_scale;
		step = lr / s->result.bias1;
		unbias = 1.0f / s->result.bias2_sqrt;
		/* Decay goes to the parameter (AdamW) or to the gradient (Adam). */
		shrink = o.decoupled ? 1.0f - lr * weight_decay : 1.0f;
		decay = o.decoupled ? 0.0f : weight_decay;
		return goes;
	}

	__device__ void operator()(float &p, float g, float &m, float &v, float &, float &)
	{
		float d = g * factor + decay * p;

		m = beta1 * m + fresh1 * d;
		v = beta2 * v + fresh2 * d * d;
		p = p * shrink - step * (m / (sqrtf(v) * unbias + o.eps));
	}
};

struct adan_f : update_f {
	enum { STATES = 4 };
	struct gt_adan a;

	adan_f(const struct gt_update_options *options, const struct gt_step_scalars *scalars)
	    : update_f(options, scalars), a()
	{
	}

	__device__ bool begin(float weight_decay, float lr_scale)
	{
		a = gt_adan_begin(s, s->block.lr * lr_scale, weight_decay, o.eps);
		return !s->result.skip;
	}

	__device__ void operator()(float &p, float g, float &m, float &v, float &n, float &last)
	{
		gt_adan_element(&a, &p, g, &m, &v, &n, &last);
	}
};

/* Return the index of the last row with first <= chunk: the row that the chunk belongs to. */
static __device__ __forceinline__ int row_of(const struct update_table &t, int chunk)
{
	int row = 0;

	for (int step = 32; step; step /= 2)
		if (row + step < t.rows && t.row[row + step].first <= chunk)
			row += step;
	return row;
}

static_assert(ROWS <= 64, "the steps add up to 63");

/* Update W neighbouring elements, from element i on. C: the type of the copy; float: none. */
template <int W, class C, class F>
static __device__ __forceinline__ void update_lanes(F &f, const struct update_row &r, int64_t i)
{
	constexpr bool FIRST = F::STATES > 0, SECOND = F::STATES > 1, COPY = sizeof(C) < 4;
	constexpr bool THIRD = F::STATES > 2, FOURTH = F::STATES > 3;
	typename gt_map_buffer<float, true, true>::template lanes<W> p{ r.p, {} };
	typename gt_map_buffer<float, true, false>::template lanes<W> g{ (float *)r.g, {} };
	typename gt_map_buffer<float, FIRST, FIRST>::template lanes<W> m{ r.states[0], {} };
	typename gt_map_buffer<float, SECOND, SECOND>::template lanes<W> v{ r.states[1], {} };
	typename gt_map_buffer<float, THIRD, THIRD>::template lanes<W> x{ r.states[2], {} };
	typename gt_map_buffer<float, FOURTH, FOURTH>::template lanes<W> y{ r.states[3], {} };
	typename gt_map_buffer<C, false, COPY>::template lanes<W> copy{ (C *)r.copy, {} };

	p.load(i), g.load(i), m.load(i), v.load(i), x.load(i), y.load(i);
	for (int k = 0; k < W; k++) {
		f(p.v[k], g.v[k], m.v[k], v.v[k], x.v[k], y.v[k]);
		copy.v[k] = p.v[k];
	}
	p.store(i), m.store(i), v.store(i), x.store(i), y.store(i), copy.store(i);
}

template <class C, class F>
static __global__ void __launch_bounds__(UPDATE_THREADS, F::STATES > 2   ? 4
                                                         : F::STATES > 1 ? 6
                                                                         : 8)
    update_kernel(F f, const struct update_table t)
{
	const struct update_row r = t.row[row_of(t, (int)blockIdx.x)];
	int64_t from = (int64_t)((int)blockIdx.x - r.first) * CHUNK, left = r.count - from;
	int count = left < CHUNK ? (int)left : CHUNK;
	int packed = r.packed ? count / PACK * PACK : 0;

	if (!f.begin(r.weight_decay, r.lr_scale))
		return;
	for (int i = (int)threadIdx.x * PACK; i < packed; i += UPDATE_THREADS * PACK)
		update_lanes<PACK, C>(f, r, from + i);
	for (int i = packed + (int)threadIdx.x; i < count; i += UPDATE_THREADS)
		update_lanes<1, C>(f, r, from + i);
}

static bool aligned(const struct gt_update_range *r)
{
	uintptr_t floats = (uintptr_t)r->p | (uintptr_t)r->g;

	for (int i = 0; i < GT_RANGE_STATES; i++)
		floats |= (uintptr_t)r->states[i];
	return floats % (PACK * sizeof(float)) == 0 &&
	       (uintptr_t)r->o->copy % (PACK * sizeof(uint16_t)) == 0;
}

static void add_table_row(struct update_table *t, const struct gt_update_range *r)
{
	struct update_row *row = &t->row[t->rows++];

	row->p = r->p;
	row->g = r->g;
	for (int i = 0; i < GT_RANGE_STATES; i++)
		row->states[i] = r->states[i];
	row->copy = r->o->copy;
	row->count = r->count;
	row->weight_decay = r->o->weight_decay;
	row->lr_scale = r->o->lr_scale;
	row->first = t->chunks;
	row->packed = aligned(r);
	t->chunks += (int)((r->count + CHUNK - 1) / CHUNK);
}

template <class C, class F>
static int launch_update(struct gt_stream *stream, const char *name, const F &f,
    const struct update_table &t, struct gt_err *err)
{
	static_assert(sizeof(F) + sizeof(t) + alignof(update_table) <= 4096, "arguments");
	GT_LAUNCH(
	    (update_kernel<C, F>), (unsigned)t.chunks, UPDATE_THREADS, 0, stream->queue, f, t);
	return gt_cuda_launched(stream, name, err);
}

template <class F>
static int update_ranges(struct gt_stream *stream, const char *name, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < u->n;) {
		const struct gt_update_options *o = u->ranges->o;
		const F f(o, s);
		struct update_table t = {};

		for (; i < u->n && t.rows < ROWS; i++)
			if (u->ranges[i].count)
				add_table_row(&t, &u->ranges[i]);
		if (!t.rows)
			break;
		if (!o->copy)
			rc = launch_update<float>(stream, name, f, t, err);
		else if (o->copy_type == GT_F16)
			rc = launch_update<gt_f16>(stream, name, f, t, err);
		else
			rc = launch_update<gt_bf16>(stream, name, f, t, err);
	}
	return rc;
}

static int update_sgd(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	if (u->n && u->ranges->states[0])
		return update_ranges<sgd_momentum_f>(stream, "sgd", u, s, err);
	return update_ranges<sgd_plain_f>(stream, "sgd", u, s, err);
}

static int update_adam(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	return update_ranges<adam_f>(stream, "adam", u, s, err);
}

static int update_adan(struct gt_stream *stream, const struct gt_update *u,
    const struct gt_step_scalars *s, struct gt_err *err)
{
	return update_ranges<adan_f>(stream, "adan", u, s, err);
}

const struct gt_update_kernel gt_cuda_sgd = { update_sgd, NULL, NULL };
const struct gt_update_kernel gt_cuda_adam = { update_adam, NULL, NULL };
const struct gt_update_kernel gt_cuda_adan = { update_adan, NULL, NULL };

/* In the order of the struct's members. */
#define UPDATE(NAME, name) &gt_cuda_##name,
const struct gt_step_kernels gt_cuda_steps = { gt_cuda_begin_step, gt_cuda_add_losses,
	gt_cuda_squares, gt_cuda_begin_update, gt_cuda_copy_rows, { GT_UPDATES(UPDATE) } };
