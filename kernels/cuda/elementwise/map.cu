/* map.cu - the op map: functors for single functions, and an interpreter for other programs. */
/*
 * nvcc compiles this file without contraction to multiply-adds (Makefile). So a program has the
 * same bits whether its steps are interpreted, compiled by NVRTC (map_source.c), or nodes of their
 * own.
 */
#include "kernels/cuda/core/map.cuh"
#include "kernels/cuda/core/real.cuh"
#include "kernels/cuda/core/rows.cuh"
#include "kernels/cuda/elementwise/map_formulas.inc"
#include "kernels/cuda/elementwise/map_source.h"
#include "kernels/cuda/elementwise/map_ways.h"
#include "kernels/cuda/nvrtc/kernel.h"
#include "kernels/loops.h"
#include "lib/graph/map_program.h"

/* ---- one function of whole tensors ---- */

/* The functor name_f of a function with 1, 2 or 3 arguments. */
#define MAP_F_1(name_f, formula)                                                                   \
	struct name_f : gt_map_always {                                                            \
		template <class W> __device__ void operator()(W &y, W a)                           \
		{                                                                                  \
			y = formula;                                                               \
		}                                                                                  \
	};
#define MAP_F_2(name_f, formula)                                                                   \
	struct name_f : gt_map_always {                                                            \
		template <class W> __device__ void operator()(W &y, W a, W b)                      \
		{                                                                                  \
			y = formula;                                                               \
		}                                                                                  \
	};
#define MAP_F_3(name_f, formula)                                                                   \
	struct name_f : gt_map_always {                                                            \
		template <class W> __device__ void operator()(W &y, W a, W b, W c)                 \
		{                                                                                  \
			y = formula;                                                               \
		}                                                                                  \
	};
#define GT_FUNCTION(name, arguments, flops, formula) MAP_F_##arguments(map_##name##_f, formula)
#include "lib/graph/ops/functions.inc"

/* Return argument k of the only step of a call's program. */
template <class T> static const T *single_data(const struct gt_call *call, int k)
{
	return gt_in_data<T>(call, call->attrs.map.program->step[0].from[k]);
}

template <class T, class F> static int single_1(struct gt_call *call, F f, struct gt_err *err)
{
	return gt_map(call->stream, "map", gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(gt_out_data<T>(call)), gt_in(single_data<T>(call, 0)));
}

template <class T, class F> static int single_2(struct gt_call *call, F f, struct gt_err *err)
{
	return gt_map(call->stream, "map", gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(gt_out_data<T>(call)), gt_in(single_data<T>(call, 0)),
	    gt_in(single_data<T>(call, 1)));
}

template <class T, class F> static int single_3(struct gt_call *call, F f, struct gt_err *err)
{
	return gt_map(call->stream, "map", gt_tensor_elements(&call->out[0]), f, err,
	    gt_out(gt_out_data<T>(call)), gt_in(single_data<T>(call, 0)),
	    gt_in(single_data<T>(call, 1)), gt_in(single_data<T>(call, 2)));
}

template <class T> static int run_single(struct gt_call *call, struct gt_err *err)
{
	switch (call->attrs.map.program->step[0].function) {
#define GT_FUNCTION(name, arguments, flops, formula)                                               \
	case GT_F_##name:                                                                          \
		return single_##arguments<T>(call, map_##name##_f(), err);
#include "lib/graph/ops/functions.inc"
	default:
		return gt_err_set(err, GT_EINVAL, "map: an unknown function");
	}
}

/* ---- the interpreter ---- */

/*
 * All threads of a warp follow the same steps, so the switch over functions is a uniform branch. A
 * thread computes four results in float32, its lanes, or one in float64: two would spill registers.
 * Registers of a GPU cannot be indexed, so the result of the last step is an accumulator in
 * registers, and results that a later step than the next one reads are in rows of shared memory,
 * with a column for each thread. The steps are an argument of the kernel: a captured launch keeps
 * them.
 */
enum { MAP_STEP_THREADS = 128, MAP_NOWHERE = 255 };
enum : int64_t { MAP_MOST = 1u << 31 }; /* elements of a launch: 32 bits are divided faster */
enum map_source { MAP_ACCUMULATOR, MAP_INPUT, MAP_NUMBER, MAP_ROW };

struct map_gpu_step {
	uint8_t function;
	uint8_t source[3], index[3]; /* arguments: enum map_source, and which */
	uint8_t row, output;         /* places for the result; MAP_NOWHERE: none */
};

struct map_tensor {
	void *data;
	int dtype;  /* enum gt_dtype */
	bool whole; /* its elements lie in memory in the order of the loops, without gaps */
};

struct map_args {
	uint32_t count;
	bool even; /* the lanes of a thread differ in the last dimension of the loops alone */
	int steps;
	struct map_gpu_step step[GT_MAP_STEPS];
	double number[GT_MAP_NUMBERS];
	struct map_tensor in[GT_MAP_INPUTS], out[GT_MAP_OUTPUTS];
	struct gt_loops loops; /* tensor 0: out[0]; 1 + i: in[i] */
};

/* Return element `at` of a tensor of any type. */
template <class W> __device__ __forceinline__ W load_element(const void *p, int64_t at, int dtype)
{
	switch (dtype) {
	case GT_F32:
		return (W)((const float *)p)[at];
	case GT_F64:
		return (W)((const double *)p)[at];
	case GT_BF16:
		return (W)gt_load(((const gt_bf16 *)p)[at]);
	case GT_F16:
		return (W)gt_load(((const gt_f16 *)p)[at]);
	case GT_I64:
		return (W)((const int64_t *)p)[at];
	case GT_I32:
		return (W)((const int32_t *)p)[at];
	default:
		return (W)((const uint8_t *)p)[at];
	}
}

/* Load L neighbours of type T, which are aligned. */
template <class W, int L, class T>
__device__ __forceinline__ void load_pack(W *v, const void *p, uint32_t at)
{
	gt_pack<T, L> pack = *(const gt_pack<T, L> *)((const T *)p + at);

	for (int k = 0; k < L; k++)
		v[k] = (W)gt_load(pack.at[k]);
}

/* Return where element `left` of the loops lies in tensor t. */
__device__ __forceinline__ int64_t place_of(const struct gt_loops &l, int t, uint32_t left)
{
	int64_t at = 0;

	for (int d = l.ndim - 1; d > 0; d--) {
		uint32_t size = (uint32_t)l.shape[d], next = left / size;

		at += (int64_t)(left - next * size) * l.stride[t][d];
		left = next;
	}
	return at + (int64_t)left * l.stride[t][0];
}

/* Load the elements from i on of an input; past the end, the last one again. */
template <class W, int L>
__device__ __forceinline__ void load_lanes(W *v, const map_args &a, int input, uint32_t i)
{
	const map_tensor &x = a.in[input];

	if (x.whole && i + L <= a.count && x.dtype == (sizeof(W) == 4 ? GT_F32 : GT_F64)) {
		load_pack<W, L, W>(v, x.data, i);
		return;
	}
	if (x.whole && i + L <= a.count && x.dtype == GT_BF16) {
		load_pack<W, L, gt_bf16>(v, x.data, i);
		return;
	}
	if (x.whole && i + L <= a.count && x.dtype == GT_F16) {
		load_pack<W, L, gt_f16>(v, x.data, i);
		return;
	}
	if (a.even) {
		int64_t at = place_of(a.loops, 1 + input, i);
		int64_t stride = a.loops.stride[1 + input][a.loops.ndim - 1];

		for (int k = 0; k < L; k++)
			v[k] = load_element<W>(x.data, at + k * stride, x.dtype);
		return;
	}
	for (int k = 0; k < L; k++)
		v[k] = load_element<W>(x.data,
		    place_of(a.loops, 1 + input, i + k < a.count ? i + k : a.count - 1), x.dtype);
}

template <class T, class W, int L>
__device__ __forceinline__ void store_pack(const map_args &a, T *p, uint32_t i, const W *v)
{
	gt_pack<T, L> pack;

	for (int k = 0; k < L; k++)
		gt_store(&pack.at[k], (typename gt_wide<T>::type)v[k]);
	if (i + L <= a.count)
		*(gt_pack<T, L> *)(p + i) = pack;
	else
		for (int k = 0; i + k < a.count; k++)
			p[i + k] = pack.at[k];
}

template <class W, int L>
__device__ __forceinline__ void store_lanes(const map_args &a, int output, uint32_t i, const W *v)
{
	const map_tensor &y = a.out[output];

	if (y.dtype == GT_BF16)
		store_pack<gt_bf16, W, L>(a, (gt_bf16 *)y.data, i, v);
	else if (y.dtype == GT_F16)
		store_pack<gt_f16, W, L>(a, (gt_f16 *)y.data, i, v);
	else
		store_pack<W, W, L>(a, (W *)y.data, i, v);
}

/* Set v to argument k of a step. */
template <class W, int L>
__device__ __forceinline__ void fetch_lanes(W *v, const W *acc, const gt_pack<W, L> *rows,
    const map_args &a, const map_gpu_step &s, int k, uint32_t i)
{
	int index = s.index[k];
	gt_pack<W, L> row;

	switch (s.source[k]) {
	case MAP_INPUT:
		load_lanes<W, L>(v, a, index, i);
		return;
	case MAP_ROW:
		row = rows[index * MAP_STEP_THREADS + threadIdx.x];
		for (int l = 0; l < L; l++)
			v[l] = row.at[l];
		return;
	default:
		for (int l = 0; l < L; l++)
			v[l] = s.source[k] == MAP_NUMBER ? (W)a.number[index] : acc[l];
	}
}

/* Set v to the function of x, y and z; v may be one of them. */
template <class W, int L>
__device__ __forceinline__ void apply_function(
    int function, W *v, const W *x, const W *y, const W *z)
{
#define ARGUMENTS_1 W a = x[k];
#define ARGUMENTS_2 ARGUMENTS_1 W b = y[k];
#define ARGUMENTS_3 ARGUMENTS_2 W c = z[k];
#define GT_FUNCTION(name, arguments, flops, formula)                                               \
	case GT_F_##name:                                                                          \
		for (int k = 0; k < L; k++) {                                                      \
			ARGUMENTS_##arguments;                                                     \
			v[k] = formula;                                                            \
		}                                                                                  \
		break;
	switch (function) {
#include "lib/graph/ops/functions.inc"
	}
}

template <class W, int L>
static __global__ void __launch_bounds__(MAP_STEP_THREADS) map_steps(struct map_args a)
{
	GT_DYNAMIC_SHARED(unsigned char, shared);
	gt_pack<W, L> *rows = (gt_pack<W, L> *)shared;
	uint32_t step = gridDim.x * MAP_STEP_THREADS * L;

	for (uint32_t i = (blockIdx.x * MAP_STEP_THREADS + threadIdx.x) * L; i < a.count;
	     i += step) {
		W acc[L] = {}, x[L], y[L] = {}, z[L] = {};

		for (int at = 0; at < a.steps; at++) {
			const map_gpu_step &s = a.step[at];

			fetch_lanes<W, L>(x, acc, rows, a, s, 0, i);
			if (s.source[1] != MAP_NOWHERE)
				fetch_lanes<W, L>(y, acc, rows, a, s, 1, i);
			if (s.source[2] != MAP_NOWHERE)
				fetch_lanes<W, L>(z, acc, rows, a, s, 2, i);
			apply_function<W, L>(s.function, acc, x, y, z);
			if (s.row != MAP_NOWHERE) {
				gt_pack<W, L> row;

				for (int l = 0; l < L; l++)
					row.at[l] = acc[l];
				rows[s.row * MAP_STEP_THREADS + threadIdx.x] = row;
			}
			if (s.output != MAP_NOWHERE)
				store_lanes<W, L>(a, s.output, i, acc);
		}
	}
}

/* ---- launching the interpreter ---- */

static int function_arguments(int function)
{
	static const uint8_t arguments[] = {
#define GT_FUNCTION(name, arguments, flops, formula) arguments,
#include "lib/graph/ops/functions.inc"
	};

	return arguments[function];
}

/* Return whether a step after `from`, up to the next one that writes it, reads a slot. */
static bool is_read_after(const struct gt_map_program *p, int slot, int from)
{
	for (int i = from; i < p->steps; i++) {
		const struct gt_map_step *s = &p->step[i];

		for (int k = 0; k < function_arguments(s->function); k++)
			if (s->from[k] == slot)
				return true;
		if (s->to == slot)
			return false;
	}
	return false;
}

/* Translate the steps. Return the number of rows: those of the program, then one for each output
 * that a later step reads. */
static int translate_steps(struct map_args *a, const struct gt_map_program *p)
{
	int first_number = p->inputs + p->outputs, first_row = first_number + p->numbers;

	a->steps = p->steps;
	for (int i = 0; i < p->steps; i++) {
		const struct gt_map_step *s = &p->step[i];
		struct map_gpu_step *t = &a->step[i];
		bool output = s->to < first_number;

		t->function = s->function;
		for (int k = 0; k < 3; k++) {
			int slot = s->from[k];

			if (k >= function_arguments(s->function))
				t->source[k] = MAP_NOWHERE;
			else if (i && slot == p->step[i - 1].to)
				t->source[k] = MAP_ACCUMULATOR;
			else if (slot < p->inputs)
				t->source[k] = MAP_INPUT, t->index[k] = (uint8_t)slot;
			else if (slot >= first_number && slot < first_row)
				t->source[k] = MAP_NUMBER,
				t->index[k] = (uint8_t)(slot - first_number);
			else
				t->source[k] = MAP_ROW,
				t->index[k] =
				    (uint8_t)(slot < first_number ? p->rows + slot - p->inputs
				                                  : slot - first_row);
		}
		t->output = output ? (uint8_t)(s->to - p->inputs) : (uint8_t)MAP_NOWHERE;
		t->row = MAP_NOWHERE;
		if (is_read_after(p, s->to, i + 2))
			t->row =
			    (uint8_t)(output ? p->rows + s->to - p->inputs : s->to - first_row);
	}
	return p->rows + p->outputs;
}

static void describe_map(struct map_args *a, const struct gt_call *call)
{
	const struct gt_map_program *p = call->attrs.map.program;

	for (int k = 0; k < p->numbers; k++)
		a->number[k] = p->number[k];
	gt_loops_of_map(&a->loops, call);
	for (int i = 0; i < p->inputs; i++)
		a->in[i] = { call->in[i].data, call->in[i].dtype,
			gt_loops_are_whole(&a->loops, 1 + i) };
	for (int j = 0; j < p->outputs; j++)
		a->out[j] = { call->out[j].data, call->out[j].dtype, true };
}

/* Move the tensors on by `items` items of the first dimension of the loops, of `inner` elements. */
static void skip_items(struct map_args *a, const struct gt_call *call, int64_t items, int64_t inner)
{
	for (int i = 0; i < call->inputs && call->in[i].present; i++)
		a->in[i].data =
		    (char *)a->in[i].data +
		    items * a->loops.stride[1 + i][0] * (int64_t)gt_dtype_size(call->in[i].dtype);
	for (int j = 0; j < call->outputs && call->out[j].present; j++)
		a->out[j].data = (char *)a->out[j].data +
		                 items * inner * (int64_t)gt_dtype_size(call->out[j].dtype);
}

/* Lanes of a thread (see above), for the type of the computation. */
static constexpr int map_lanes(size_t size)
{
	return size == sizeof(float) ? 4 : 1;
}

/* Return how many items of the first dimension of the loops a launch computes: at most MAP_MOST
 * elements, and a multiple of L items where packs would not be aligned otherwise. */
static int64_t items_per_launch(const struct map_args *a, const struct gt_call *call, int L)
{
	int64_t inner = gt_tensor_elements(&call->out[0]) / a->loops.shape[0];
	int64_t items = MAP_MOST / inner;

	return items - items % (inner % L ? L : 1);
}

template <class W>
static int run_steps(struct gt_call *call, struct map_args *a, struct gt_err *err)
{
	constexpr int L = map_lanes(sizeof(W));
	int64_t all = a->loops.shape[0], inner = gt_tensor_elements(&call->out[0]) / all;
	int64_t items = items_per_launch(a, call, L);
	size_t shared =
	    (size_t)translate_steps(a, call->attrs.map.program) * MAP_STEP_THREADS * L * sizeof(W);

	a->even = a->loops.shape[a->loops.ndim - 1] % L == 0;
	for (int64_t done = 0; done < all; done += items) {
		int64_t n = all - done < items ? all - done : items, packs;

		a->loops.shape[0] = n;
		a->count = (uint32_t)(n * inner);
		packs = (a->count + L - 1) / L;
		GT_LAUNCH((map_steps<W, L>),
		    gt_min_blocks((packs + MAP_STEP_THREADS - 1) / MAP_STEP_THREADS, GT_MAP_BLOCKS),
		    MAP_STEP_THREADS, shared, call->stream->queue, *a);
		skip_items(a, call, n, inner);
	}
	return gt_cuda_launched(call->stream, "map", err);
}

/* ---- compiled programs ---- */

static int run_compiled(struct gt_call *call, struct gt_err *err)
{
	const struct gt_map_program *p = call->attrs.map.program;
	void *arguments[GT_MAP_OUTPUTS + GT_MAP_INPUTS + 2];
	unsigned count = (unsigned)gt_tensor_elements(&call->out[0]);
	unsigned packs = count / (unsigned)gt_map_source_lanes(call);
	int n = 0;

	for (int j = 0; j < p->outputs; j++)
		arguments[n++] = &call->out[j].data;
	for (int i = 0; i < p->inputs; i++)
		arguments[n++] = &call->in[i].data;
	arguments[n++] = &packs;
	arguments[n++] = &count;
	return gt_nvrtc_kernel_launch((const struct gt_nvrtc_kernel *)call->state, call->stream,
	    gt_min_blocks(packs / GT_MAP_SOURCE_THREADS + 1, GT_MAP_BLOCKS), GT_MAP_SOURCE_THREADS,
	    arguments, err);
}

/* A NaN differs from no other NaN. */
template <class T>
static __global__ void count_differences(unsigned *count, const T *x, const T *y, int64_t elements)
{
	int64_t step = (int64_t)gridDim.x * GT_MAP_THREADS;
	unsigned own = 0;

	for (int64_t i = (int64_t)blockIdx.x * GT_MAP_THREADS + threadIdx.x; i < elements;
	     i += step) {
		auto a = gt_load(x[i]), b = gt_load(y[i]);

		own += a == b ? 1 / a != 1 / b : a == a || b == b;
	}
	if (own)
		atomicAdd(count, own);
}

template <class T>
static int launch_count(struct gt_stream *stream, unsigned *count, const struct gt_tensor *x,
    const void *y, struct gt_err *err)
{
	int64_t elements = gt_tensor_elements(x);

	GT_LAUNCH((count_differences<T>),
	    gt_min_blocks(elements / GT_MAP_THREADS + 1, GT_MAP_BLOCKS), GT_MAP_THREADS, 0,
	    stream->queue, count, (const T *)x->data, (const T *)y, elements);
	return gt_cuda_launched(stream, "map", err);
}

int gt_map_count_differences(struct gt_stream *stream, unsigned *count, const struct gt_tensor *x,
    const void *y, struct gt_err *err)
{
	switch (x->dtype) {
	case GT_F64:
		return launch_count<double>(stream, count, x, y, err);
	case GT_BF16:
		return launch_count<gt_bf16>(stream, count, x, y, err);
	case GT_F16:
		return launch_count<gt_f16>(stream, count, x, y, err);
	default:
		return launch_count<float>(stream, count, x, y, err);
	}
}

/* ---- the rows ---- */

/* Whether a functor does the call: one function of tensors of one type and shape. */
static bool is_single(const struct gt_call *call, const struct map_args *a)
{
	const struct gt_map_program *p = call->attrs.map.program;

	for (int i = 0; i < p->inputs; i++)
		if (!a->in[i].whole || a->in[i].dtype != a->out[0].dtype)
			return false;
	return p->steps == 1 && !p->numbers;
}

static int prepare_map(struct gt_call *call, struct gt_err *err)
{
	struct map_args a = {};
	int64_t items;

	call->state = NULL;
	describe_map(&a, call);
	if (is_single(call, &a))
		return 0;
	items = items_per_launch(&a, call, map_lanes(call->out[0].dtype == GT_F64 ? 8 : 4));
	if (!items)
		return gt_err_set(
		    err, GT_ENOTSUP, "map: a row of the output has too many elements");
	call->launches = (int)((a.loops.shape[0] + items - 1) / items);
	return call->launches == 1 ? gt_map_choose(call, err) : 0;
}

template <class T> static int run_map(struct gt_call *call, struct gt_err *err)
{
	struct map_args a = {};

	if (call->state)
		return run_compiled(call, err);
	describe_map(&a, call);
	if (is_single(call, &a))
		return run_single<T>(call, err);
	return run_steps<typename gt_wide<T>::type>(call, &a, err);
}

const struct gt_kernel gt_cuda_map_kernels[] = {
	GT_ROWS(map, nullptr, prepare_map),
	{},
};
