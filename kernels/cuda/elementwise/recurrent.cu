/* recurrent.cu - a layer of an LSTM or GRU over all steps, and its gradient. */
#include <cstdlib>

#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/rows.cuh"
#include "kernels/cuda/library/fastest.h"
#include "kernels/cuda/library/product.h"

extern "C" {
#include "lib/base/mem.h"
}

/*
 * Formulas: lib/graph/ops/recurrent_ops.c. A step is a product by the library, and a kernel whose
 * threads compute one hidden feature of one sample each: all of its gates. The kernel also leaves
 * its results in the workspace, without gaps between rows, for the product of the next step.
 */
enum { STEP_THREADS = 128 };

struct recurrent_state {
	struct gt_product *product;
	/* bytes into the workspace: results of products, factors of products, and what a gradient
	 * hands on besides */
	size_t sums_at, factor_at, carry_at, work_at;
	int64_t samples, steps, hidden, gates;
};

static void release_recurrent(struct gt_call *call)
{
	struct recurrent_state *r = (struct recurrent_state *)call->state;

	if (r)
		gt_product_free(r->product);
	free(r);
	call->state = nullptr;
}

/* Place the buffers, whose rows have so many elements for each hidden feature. */
static void lay_out_recurrent(
    struct gt_call *call, struct recurrent_state *r, enum gt_dtype dtype, bool backward)
{
	size_t states = (size_t)(r->samples * r->hidden), gates = states * (size_t)r->gates;
	size_t wide = gt_dtype_size(gt_dtype_wide(dtype)), size = gt_dtype_size(dtype);

	r->sums_at = 0;
	r->factor_at = gt_aligned_bytes((backward ? states : gates) * wide);
	r->carry_at = r->factor_at + gt_aligned_bytes((backward ? gates : states) * size);
	r->work_at = r->carry_at + gt_aligned_bytes(backward ? states * wide : 0);
	call->workspace_bytes = r->work_at + gt_product_workspace(r->product);
}

/* The sums of a step are states times the transposed weight, or gradients of gates times the
 * weight. `initial`: a product belongs to the initial states, too. */
static int prepare_recurrent(struct gt_call *call, const struct gt_tensor *states,
    const struct gt_tensor *w, bool backward, bool initial, struct gt_err *err)
{
	struct recurrent_state *r = (struct recurrent_state *)gt_calloc(1, sizeof(*r), err);
	struct gt_product_shape s = {};

	if (!r)
		return GT_ENOMEM;
	call->state = r;
	r->samples = states->shape[0];
	r->steps = states->shape[1];
	r->hidden = states->shape[2];
	r->gates = w->shape[0] / w->shape[1];
	s.dtype = w->dtype;
	s.wide = gt_dtype_wide(s.dtype) != s.dtype;
	s.tf32 = call->attrs.recurrent.tf32;
	s.untimed = call->untimed;
	s.trans_b = !backward;
	s.m = r->samples;
	s.n = backward ? r->hidden : r->gates * r->hidden;
	s.k = backward ? r->gates * r->hidden : r->hidden;
	if (gt_product_new(&r->product, &s, err)) {
		release_recurrent(call);
		return err->code;
	}
	call->launches = (int)(r->steps + (backward && initial));
	gt_product_add_cost(r->product, r->steps - 1 + initial, call);
	lay_out_recurrent(call, r, s.dtype, backward);
	return 0;
}

static int prepare_forward(struct gt_call *call, struct gt_err *err)
{
	return prepare_recurrent(
	    call, &call->out[0], &call->in[1], false, gt_optional_input(call, 3) != nullptr, err);
}

static int prepare_backward(struct gt_call *call, struct gt_err *err)
{
	return prepare_recurrent(
	    call, &call->in[2], &call->in[0], true, call->attrs.recurrent.initial, err);
}

/* ---- steps ---- */

/* Where the elements of a step are: hidden feature j of sample b. */
struct recurrent_place {
	int64_t steps, hidden, samples;
	int64_t at, before; /* the step, and the one before it, in the tensors; -1: none */

	/* The element of a tensor with a row of `width` blocks of features for each step. */
	__device__ __forceinline__ int64_t element(int64_t i, int64_t step, int width) const
	{
		return (i / hidden * steps + step) * width * hidden + i % hidden;
	}
};

/* Call f for element i of the states of a step. */
template <class F> static __global__ void recurrent_step(F f, int64_t count)
{
	int64_t i = (int64_t)blockIdx.x * STEP_THREADS + threadIdx.x;

	if (i < count)
		f(i);
}

template <class F> static int queue_step(struct gt_call *call, F f, struct gt_err *err)
{
	const struct recurrent_state *r = (const struct recurrent_state *)call->state;
	int64_t count = r->samples * r->hidden;

	GT_LAUNCH((recurrent_step<F>), (unsigned)((count + STEP_THREADS - 1) / STEP_THREADS),
	    STEP_THREADS, 0, call->stream->queue, f, count);
	return gt_cuda_launched(call->stream, call->kernel->op, err);
}

static recurrent_place place_of(const struct gt_call *call, int64_t step)
{
	const struct recurrent_state *r = (const struct recurrent_state *)call->state;
	bool reverse = call->attrs.recurrent.reverse;
	int64_t at = reverse ? r->steps - 1 - step : step;

	return { r->steps, r->hidden, r->samples, at, step ? at + (reverse ? 1 : -1) : -1 };
}

/* The buffers of the workspace. */
template <class T> struct recurrent_buffers {
	typedef typename gt_wide<T>::type wide;
	wide *sums;  /* results of products */
	T *factor;   /* a factor of the next product */
	wide *carry; /* gradients: of cells, or of states that pass the update gate */
	void *work;

	explicit recurrent_buffers(const struct gt_call *call)
	{
		const struct recurrent_state *r = (const struct recurrent_state *)call->state;
		char *memory = (char *)call->workspace;

		sums = (wide *)(memory + r->sums_at);
		factor = (T *)(memory + r->factor_at);
		carry = (wide *)(memory + r->carry_at);
		work = memory + r->work_at;
	}
};

/* sums = a times the weight, or its transpose. */
template <class T>
static int multiply(struct gt_call *call, const recurrent_buffers<T> &m, const T *a, const void *w,
    struct gt_err *err)
{
	const struct recurrent_state *r = (const struct recurrent_state *)call->state;

	return gt_product_run(r->product, call->stream, m.sums, a, w, m.sums, 1, 0, m.work, err);
}

/* Return an element of a tensor, 0 without one. */
template <class W, class T> static __device__ __forceinline__ W load_or_0(const T *x, int64_t i)
{
	return x ? (W)gt_load(x[i]) : (W)0;
}

template <class W> static __device__ __forceinline__ W sigmoid(W x)
{
	return 1 / (1 + gt_exp(-x));
}

/* ---- forward ---- */

/* What both kinds of layers read and write. */
template <class T> struct forward_f {
	typedef typename gt_wide<T>::type wide;
	recurrent_place place;
	const T *x, *bias, *initial;
	const wide *sums; /* [samples, gates, hidden]; nullptr before the first product: zeros */
	T *y, *factor;
	wide *extra, *gates; /* extra: cells, or sums */

	forward_f(const struct gt_call *call, const recurrent_buffers<T> &m, int64_t step)
	    : place(place_of(call, step)), x(gt_in_data<T>(call, 0)), bias(gt_in_data<T>(call, 2)),
	      initial(gt_in_data<T>(call, 3)), sums(step || initial ? m.sums : nullptr),
	      y(gt_out_data<T>(call)), factor(m.factor), extra(gt_out_data<wide>(call, 1)),
	      gates(gt_out_data<wide>(call, 2))
	{
	}

	/* Gate k of element i: the product over states, and the bias. */
	__device__ __forceinline__ wide hidden_sum(int64_t i, int k, int count) const
	{
		int64_t j = i % place.hidden, at = i / place.hidden * count * place.hidden + j;

		return load_or_0<wide>(bias, k * place.hidden + j) +
		       load_or_0<wide>(sums, at + k * place.hidden);
	}

	__device__ __forceinline__ void finish(int64_t i, wide state) const
	{
		gt_store(y + place.element(i, place.at, 1), state);
		gt_store(factor + i, state);
	}
};

template <class T> struct lstm_f : forward_f<T> {
	typedef typename gt_wide<T>::type wide;
	const T *cell;

	lstm_f(const struct gt_call *call, const recurrent_buffers<T> &m, int64_t step)
	    : forward_f<T>(call, m, step), cell(gt_in_data<T>(call, 4))
	{
	}

	__device__ void operator()(int64_t i) const
	{
		const recurrent_place &p = this->place;
		int64_t at = p.element(i, p.at, 4);
		wide gate[4], c;

		for (int k = 0; k < 4; k++) {
			wide sum =
			    (wide)gt_load(this->x[at + k * p.hidden]) + this->hidden_sum(i, k, 4);

			gate[k] = k == 2 ? gt_tanh(sum) : sigmoid(sum);
		}
		for (int k = 0; k < 4; k++)
			this->gates[at + k * p.hidden] = gate[k];
		c = p.before < 0 ? load_or_0<wide>(cell, i)
		                 : this->extra[p.element(i, p.before, 1)];
		c = gate[1] * c + gate[0] * gate[2];
		this->extra[p.element(i, p.at, 1)] = c;
		this->finish(i, gate[3] * gt_tanh(c));
	}
};

/* The state before is that of the buffer, except for the first step. */
template <class T> struct gru_f : forward_f<T> {
	typedef typename gt_wide<T>::type wide;
	using forward_f<T>::forward_f;

	__device__ void operator()(int64_t i) const
	{
		const recurrent_place &p = this->place;
		int64_t at = p.element(i, p.at, 3);
		wide r, z, sum = this->hidden_sum(i, 2, 3), next, state;

		r = sigmoid((wide)gt_load(this->x[at]) + this->hidden_sum(i, 0, 3));
		z = sigmoid((wide)gt_load(this->x[at + p.hidden]) + this->hidden_sum(i, 1, 3));
		next = gt_tanh((wide)gt_load(this->x[at + 2 * p.hidden]) + r * sum);
		state = p.before < 0 ? load_or_0<wide>(this->initial, i)
		                     : (wide)gt_load(this->y[p.element(i, p.before, 1)]);
		this->gates[at] = r;
		this->gates[at + p.hidden] = z;
		this->gates[at + 2 * p.hidden] = next;
		this->extra[p.element(i, p.at, 1)] = sum;
		this->finish(i, next + z * (state - next));
	}
};

template <class T, template <class> class F>
static int run_forward(struct gt_call *call, struct gt_err *err)
{
	const struct recurrent_state *r = (const struct recurrent_state *)call->state;
	const recurrent_buffers<T> m(call);
	const T *state = gt_in_data<T>(call, 3);

	for (int64_t step = 0; step < r->steps; step++) {
		if (state && multiply<T>(call, m, state, call->in[1].data, err))
			return err->code;
		if (queue_step(call, F<T>(call, m, step), err))
			return err->code;
		state = m.factor;
	}
	return 0;
}

template <class T> static int run_lstm(struct gt_call *call, struct gt_err *err)
{
	return run_forward<T, lstm_f>(call, err);
}

template <class T> static int run_gru(struct gt_call *call, struct gt_err *err)
{
	return run_forward<T, gru_f>(call, err);
}

/* ---- gradients, from the last step to the first ---- */

template <class T> struct backward_f {
	typedef typename gt_wide<T>::type wide;
	recurrent_place place;
	const wide *gates, *extra; /* extra: cells, or sums */
	const wide *sums;          /* the gradient of the states; nullptr for the last step: 0 */
	T *d_gates, *factor;
	wide *carry;

	backward_f(const struct gt_call *call, const recurrent_buffers<T> &m, int64_t step)
	    : place(place_of(call, step)), gates(gt_in_data<wide>(call, 1)),
	      extra(gt_in_data<wide>(call, 2)),
	      sums(step + 1 < call->in[1].shape[1] ? m.sums : nullptr),
	      d_gates(gt_out_data<T>(call)), factor(m.factor), carry(m.carry)
	{
	}

	/* Store the gradient of gate k, of `count`, as a factor of the product. */
	__device__ __forceinline__ void set_factor(int64_t i, int k, int count, wide d) const
	{
		gt_store(
		    factor + (i / place.hidden * count + k) * place.hidden + i % place.hidden, d);
	}
};

template <class T> struct lstm_grad_f : backward_f<T> {
	typedef typename gt_wide<T>::type wide;
	const T *dy, *initial;
	const wide *d_cells;

	lstm_grad_f(const struct gt_call *call, const recurrent_buffers<T> &m, int64_t step)
	    : backward_f<T>(call, m, step), dy(gt_in_data<T>(call, 3)),
	      initial(gt_in_data<T>(call, 5)), d_cells(gt_in_data<wide>(call, 4))
	{
	}

	__device__ void operator()(int64_t i) const
	{
		const recurrent_place &p = this->place;
		int64_t row = p.element(i, p.at, 1), at = p.element(i, p.at, 4);
		wide gate[4], d[4], dh, dc, c = gt_tanh(this->extra[row]), before;

		for (int k = 0; k < 4; k++)
			gate[k] = this->gates[at + k * p.hidden];
		before = p.before < 0 ? load_or_0<wide>(initial, i)
		                      : this->extra[p.element(i, p.before, 1)];
		dh = load_or_0<wide>(dy, row) + load_or_0<wide>(this->sums, i);
		dc = load_or_0<wide>(d_cells, row) + (this->sums ? this->carry[i] : (wide)0) +
		     dh * gate[3] * (1 - c * c);
		d[0] = dc * gate[2] * gate[0] * (1 - gate[0]);
		d[1] = dc * before * gate[1] * (1 - gate[1]);
		d[2] = dc * gate[0] * (1 - gate[2] * gate[2]);
		d[3] = dh * c * gate[3] * (1 - gate[3]);
		for (int k = 0; k < 4; k++) {
			gt_store(this->d_gates + at + k * p.hidden, d[k]);
			this->set_factor(i, k, 4, d[k]);
		}
		this->carry[i] = dc * gate[1];
	}
};

template <class T> struct gru_grad_f : backward_f<T> {
	typedef typename gt_wide<T>::type wide;
	const T *y, *dy, *initial;
	T *d_hidden;

	gru_grad_f(const struct gt_call *call, const recurrent_buffers<T> &m, int64_t step)
	    : backward_f<T>(call, m, step), y(gt_in_data<T>(call, 3)), dy(gt_in_data<T>(call, 4)),
	      initial(gt_in_data<T>(call, 5)), d_hidden(gt_out_data<T>(call, 1))
	{
	}

	__device__ void operator()(int64_t i) const
	{
		const recurrent_place &p = this->place;
		int64_t row = p.element(i, p.at, 1), at = p.element(i, p.at, 3);
		wide r = this->gates[at], z = this->gates[at + p.hidden];
		wide next = this->gates[at + 2 * p.hidden], before, dh, d[3];

		before = p.before < 0 ? load_or_0<wide>(initial, i)
		                      : (wide)gt_load(y[p.element(i, p.before, 1)]);
		dh = (wide)gt_load(dy[row]) + load_or_0<wide>(this->sums, i) +
		     (this->sums ? this->carry[i] : (wide)0);
		d[2] = dh * (1 - z) * (1 - next * next);
		d[0] = d[2] * this->extra[row] * r * (1 - r);
		d[1] = dh * (before - next) * z * (1 - z);
		for (int k = 0; k < 3; k++) {
			wide hidden = k == 2 ? d[k] * r : d[k];

			gt_store(this->d_gates + at + k * p.hidden, d[k]);
			gt_store(d_hidden + at + k * p.hidden, hidden);
			this->set_factor(i, k, 3, hidden);
		}
		this->carry[i] = dh * z;
	}
};

/* The gradients of initial states: of an LSTM, the product, and the gradient of the cells; of a
 * GRU, the sum of both. */
template <class T> struct initial_grad_f {
	typedef typename gt_wide<T>::type wide;
	const wide *sums, *carry;
	T *d_state, *d_cell;

	__device__ void operator()(int64_t i) const
	{
		gt_store(d_state + i, d_cell ? sums[i] : sums[i] + carry[i]);
		if (d_cell)
			gt_store(d_cell + i, carry[i]);
	}
};

/* `initial`: the first of the outputs that are gradients of initial states. */
template <class T, template <class> class F>
static int run_backward(struct gt_call *call, int initial, struct gt_err *err)
{
	const struct recurrent_state *r = (const struct recurrent_state *)call->state;
	const recurrent_buffers<T> m(call);
	initial_grad_f<T> last = { m.sums, m.carry, gt_out_data<T>(call, initial),
		initial == 1 ? gt_out_data<T>(call, 2) : nullptr };

	for (int64_t step = r->steps - 1; step >= 0; step--) {
		if (queue_step(call, F<T>(call, m, step), err))
			return err->code;
		if ((step || last.d_state) && multiply<T>(call, m, m.factor, call->in[0].data, err))
			return err->code;
	}
	return last.d_state ? queue_step(call, last, err) : 0;
}

template <class T> static int run_lstm_grad(struct gt_call *call, struct gt_err *err)
{
	return run_backward<T, lstm_grad_f>(call, 1, err);
}

template <class T> static int run_gru_grad(struct gt_call *call, struct gt_err *err)
{
	return run_backward<T, gru_grad_f>(call, 2, err);
}

#define ROW(name, prepare, type, T)                                                                \
	{                                                                                          \
#name, type, nullptr, prepare, nullptr, run_##name < T>, release_recurrent         \
	}
#define ROWS(name, prepare)                                                                        \
	ROW(name, prepare, GT_F32, float), ROW(name, prepare, GT_F64, double),                     \
	    ROW(name, prepare, GT_BF16, gt_bf16), ROW(name, prepare, GT_F16, gt_f16)

const struct gt_kernel gt_cuda_recurrent_kernels[] = {
	ROWS(lstm, prepare_forward),
	ROWS(lstm_grad, prepare_backward),
	ROWS(gru, prepare_forward),
	ROWS(gru_grad, prepare_backward),
	{},
};
