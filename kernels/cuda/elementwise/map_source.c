/* map_source.c - CUDA C++ for one program of the op map. */
#include "kernels/cuda/elementwise/map_source.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels/cuda/elementwise/map_formulas.inc"
#include "kernels/loops.h"
#include "lib/base/buf.h"
#include "lib/graph/map_program.h"

/*
 * The source of y = relu(a * b + 0.5) with float32 tensors a [n, 768] and b [768]:
 *
 *   typedef float W;
 *   ... types, load() and store() ...
 *   static __device__ __forceinline__ W f_MUL(W a, W b) { return a * b; }
 *   ... f_ADD, f_RELU ...
 *   template <int N> static __device__ __forceinline__ void lanes(
 *       float *out0, const float *in0, const float *in1, unsigned i)
 *   {
 *           W v0[N], v1[N], y0[N];
 *           load<N>(v0, in0 + i);
 *           unsigned left = i;
 *           unsigned c1 = left % 768u;
 *           left /= 768u;
 *           unsigned c0 = left;
 *           load<N>(v1, in1 + (0ll + c1 * 1ll));
 *           for (int k = 0; k < N; k++) {
 *                   W t0 = f_MUL(v0[k], v1[k]);
 *                   W t1 = f_ADD(t0, (W)0x1p-1);
 *                   W t2 = f_RELU(t1);
 *                   y0[k] = t2;
 *           }
 *           store<N>(out0 + i, y0);
 *   }
 *   ... the kernel, which calls lanes<4>() for packs and lanes<1>() for the elements after them
 *
 * The formulas are the text of functions.inc, the same as the interpreter's (map.cu), and both are
 * compiled without contraction to multiply-adds, so that both have the same bits: a compiler would
 * contract the operations of neighbouring steps, which the interpreter cannot. All inputs are
 * loaded before an output is stored, because output 0 may be the memory of an input. Sizes and
 * strides of broadcast inputs are numbers in the source, for fast divisions; the size of the first
 * dimension, often the batch, is not in the source, so that calls which differ in it share a
 * kernel.
 *
 * NVRTC has no headers but its own few, and the toolkit's folder with cuda_bf16.h may be missing
 * where the library is installed: so the conversions of 16-bit types are here, in PTX. They have
 * the results of gpu.cuh's, which a C++ compiler of the simulator uses in their place.
 */
static const char types[] =
    "#ifdef __CUDACC_RTC__\n"
    "struct gt_f16 {\n\tunsigned short bits;\n};\n"
    "struct gt_bf16 {\n\tunsigned short bits;\n};\n"
    "template <class T> __device__ __forceinline__ T gt_load(T x)\n{\n\treturn x;\n}\n"
    "__device__ __forceinline__ float gt_load(gt_f16 x)\n{\n\tfloat y;\n\n"
    "\tasm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x.bits));\n\treturn y;\n}\n"
    "__device__ __forceinline__ float gt_load(gt_bf16 x)\n{\n"
    "\treturn __uint_as_float((unsigned)x.bits << 16);\n}\n"
    "template <class T> __device__ __forceinline__ void gt_store(T *to, T x)\n{\n"
    "\t*to = x;\n}\n"
    "__device__ __forceinline__ void gt_store(gt_f16 *to, float x)\n{\n"
    "\tunsigned short y, nan = 0x7e00 | (__float_as_uint(x) >> 16 & 0x8000);\n\n"
    "\tasm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));\n"
    "\tto->bits = x != x ? nan : y;\n}\n"
    "__device__ __forceinline__ void gt_store(gt_bf16 *to, float x)\n{\n"
    "\tunsigned short y;\n\n"
    "\tasm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));\n"
    "\tto->bits = x != x ? (unsigned short)0x7fc0 : y;\n}\n"
    "#endif\n\n"
    "template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) pack {\n"
    "\tT at[N];\n};\n\n"
    "template <int N, class T> static __device__ __forceinline__ void load(W *v, const T *p)\n{\n"
    "\tpack<T, N> x = *(const pack<T, N> *)p;\n\n"
    "\tfor (int k = 0; k < N; k++)\n\t\tv[k] = (W)gt_load(x.at[k]);\n}\n\n"
    "template <int N, class T> static __device__ __forceinline__ void store(T *p, const W *v)\n{\n"
    "\tpack<T, N> x;\n\n"
    "\tfor (int k = 0; k < N; k++)\n\t\tgt_store(&x.at[k], v[k]);\n"
    "\t*(pack<T, N> *)p = x;\n}\n\n";

/* The formulas as text, in which the macros of map_formulas.inc are replaced. */
struct function {
	const char *name, *formula;
	int arguments;
};

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...)    TEXT_OF(__VA_ARGS__)

static const struct function functions[] = {
#define GT_FUNCTION(name, arguments, flops, formula) { #name, TEXT(formula), arguments },
#include "lib/graph/ops/functions.inc"
};

/* CUDA's functions that the formulas call. */
static const struct {
	const char *name, *single, *full;
	int arguments;
} reals[] = {
#define GT_REAL(arguments, name, single, full) { "gt_" #name, #single, #full, arguments },
#include "kernels/cuda/core/real.inc"
};

struct source {
	struct gt_buf text;
	const struct gt_call *call;
	const struct gt_map_program *program;
	struct gt_loops loops;
	bool whole[GT_MAP_INPUTS]; /* as map_tensor.whole of map.cu */
	int lanes;
};

static const char *type_text(enum gt_dtype dtype)
{
	switch (dtype) {
	case GT_F32:
		return "float";
	case GT_F64:
		return "double";
	case GT_BF16:
		return "gt_bf16";
	case GT_F16:
		return "gt_f16";
	case GT_I64:
		return "long long";
	case GT_I32:
		return "int";
	default:
		return "unsigned char";
	}
}

int gt_map_source_lanes(const struct gt_call *call)
{
	return 16 / (int)gt_dtype_size(call->out[0].dtype);
}

/* ---- functions ---- */

static bool is_called(const struct source *s, const char *name)
{
	size_t length = strlen(name);

	for (int i = 0; i < s->program->steps; i++) {
		const char *at = functions[s->program->step[i].function].formula;

		while ((at = strstr(at, name)) && at[length] != '(')
			at += length;
		if (at)
			return true;
	}
	return false;
}

static void put_functions(struct source *s)
{
	bool put[GT_FUNCTION_COUNT] = { false };

	for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++)
		if (is_called(s, reals[i].name))
			gt_buf_printf(&s->text,
			    "static __device__ __forceinline__ W %s(W x%s)\n{\n\treturn %s(x%s);\n}\n\n",
			    reals[i].name, reals[i].arguments == 2 ? ", W y" : "",
			    s->call->out[0].dtype == GT_F64 ? reals[i].full : reals[i].single,
			    reals[i].arguments == 2 ? ", y" : "");
	for (int i = 0; i < s->program->steps; i++) {
		int f = s->program->step[i].function;
		static const char *const arguments[] = { "", "W a", "W a, W b", "W a, W b, W c" };

		if (!put[f])
			gt_buf_printf(&s->text,
			    "static __device__ __forceinline__ W f_%s(%s)\n{\n\treturn %s;\n}\n\n",
			    functions[f].name, arguments[functions[f].arguments],
			    functions[f].formula);
		put[f] = true;
	}
}

/* ---- inputs ---- */

/* Write c0, c1, ...: the coordinates of element `from` in the loops. */
static void put_coordinates(struct source *s, const char *indent, const char *from)
{
	gt_buf_printf(&s->text, "%sunsigned left = %s;\n", indent, from);
	for (int d = s->loops.ndim - 1; d > 0; d--)
		gt_buf_printf(&s->text,
		    "%sunsigned c%d = left %% %" PRId64 "u;\n%sleft /= %" PRId64 "u;\n", indent, d,
		    s->loops.shape[d], indent, s->loops.shape[d]);
	gt_buf_printf(&s->text, "%sunsigned c0 = left;\n", indent);
}

/* Write the place of the element with these coordinates in input i. */
static void put_place(struct source *s, int i)
{
	gt_buf_puts(&s->text, "(0ll");
	for (int d = 0; d < s->loops.ndim; d++)
		if (s->loops.stride[1 + i][d])
			gt_buf_printf(
			    &s->text, " + c%d * %" PRId64 "ll", d, s->loops.stride[1 + i][d]);
	gt_buf_puts(&s->text, ")");
}

/* Return whether neighbours of input i along the last dimension are packs in memory. */
static bool is_packed(const struct source *s, int i)
{
	const int64_t *stride = s->loops.stride[1 + i];
	int last = s->loops.ndim - 1;

	for (int d = 0; d < last; d++)
		if (stride[d] % s->lanes)
			return false;
	return stride[last] == 1;
}

/* Load input i where all lanes have the coordinates of the first, but for the last dimension. */
static void put_even_input(struct source *s, int i)
{
	int64_t stride = s->loops.stride[1 + i][s->loops.ndim - 1];

	if (is_packed(s, i)) {
		gt_buf_printf(&s->text, "\tload<N>(v%d, in%d + ", i, i);
		put_place(s, i);
		gt_buf_puts(&s->text, ");\n");
		return;
	}
	gt_buf_printf(
	    &s->text, "\tfor (int k = 0; k < N; k++)\n\t\tv%d[k] = (W)gt_load(in%d[", i, i);
	put_place(s, i);
	gt_buf_printf(&s->text, " + k * %" PRId64 "ll]);\n", stride);
}

static void put_inputs(struct source *s)
{
	bool even = s->loops.shape[s->loops.ndim - 1] % s->lanes == 0, strided = false;

	for (int i = 0; i < s->program->inputs; i++) {
		strided |= !s->whole[i];
		if (s->whole[i])
			gt_buf_printf(&s->text, "\tload<N>(v%d, in%d + i);\n", i, i);
	}
	if (strided && even)
		put_coordinates(s, "\t", "i");
	for (int i = 0; i < s->program->inputs && even; i++)
		if (!s->whole[i])
			put_even_input(s, i);
	if (!strided || even)
		return;
	gt_buf_puts(&s->text, "\tfor (int k = 0; k < N; k++) {\n");
	put_coordinates(s, "\t\t", "i + k");
	for (int i = 0; i < s->program->inputs; i++) {
		if (s->whole[i])
			continue;
		gt_buf_printf(&s->text, "\t\tv%d[k] = (W)gt_load(in%d[", i, i);
		put_place(s, i);
		gt_buf_puts(&s->text, "]);\n");
	}
	gt_buf_puts(&s->text, "\t}\n");
}

/* ---- steps ---- */

/* A number in hexadecimal is exact. CUDA C++ has no words for others than finite ones. */
static void put_number(struct source *s, double x)
{
	if (isnan(x))
		gt_buf_puts(&s->text, "(W)(1e308 * 10 - 1e308 * 10)");
	else if (isinf(x))
		gt_buf_printf(&s->text, "(W)(%s1e308 * 10)", x < 0 ? "-" : "");
	else
		gt_buf_printf(&s->text, "(W)%a", x);
}

/* Write a slot that step `at` reads: the result of the last step before it that wrote the slot. */
static void put_slot(struct source *s, int slot, int at)
{
	const struct gt_map_program *p = s->program;
	int number = slot - p->inputs - p->outputs;

	for (int i = at - 1; i >= 0; i--)
		if (p->step[i].to == slot) {
			gt_buf_printf(&s->text, "t%d", i);
			return;
		}
	if (slot < p->inputs)
		gt_buf_printf(&s->text, "v%d[k]", slot);
	else
		put_number(s, p->number[number]);
}

static void put_steps(struct source *s)
{
	const struct gt_map_program *p = s->program;

	gt_buf_puts(&s->text, "\tfor (int k = 0; k < N; k++) {\n");
	for (int i = 0; i < p->steps; i++) {
		const struct gt_map_step *step = &p->step[i];

		gt_buf_printf(&s->text, "\t\tW t%d = f_%s(", i, functions[step->function].name);
		for (int k = 0; k < functions[step->function].arguments; k++) {
			gt_buf_puts(&s->text, k ? ", " : "");
			put_slot(s, step->from[k], i);
		}
		gt_buf_puts(&s->text, ");\n");
		if (step->to >= p->inputs && step->to < p->inputs + p->outputs)
			gt_buf_printf(&s->text, "\t\ty%d[k] = t%d;\n", step->to - p->inputs, i);
	}
	gt_buf_puts(&s->text, "\t}\n");
}

/* ---- the kernel ---- */

static void put_parameters(struct source *s)
{
	for (int j = 0; j < s->program->outputs; j++)
		gt_buf_printf(&s->text, "%s *out%d, ", type_text(s->call->out[j].dtype), j);
	for (int i = 0; i < s->program->inputs; i++)
		gt_buf_printf(&s->text, "const %s *in%d, ", type_text(s->call->in[i].dtype), i);
}

static void put_call(struct source *s, int lanes, const char *index)
{
	gt_buf_printf(&s->text, "\t\tlanes<%d>(", lanes);
	for (int j = 0; j < s->program->outputs; j++)
		gt_buf_printf(&s->text, "out%d, ", j);
	for (int i = 0; i < s->program->inputs; i++)
		gt_buf_printf(&s->text, "in%d, ", i);
	gt_buf_printf(&s->text, "%s);\n", index);
}

static void put_lanes(struct source *s)
{
	gt_buf_puts(&s->text, "template <int N>\nstatic __device__ __forceinline__ void lanes(");
	put_parameters(s);
	gt_buf_puts(&s->text, "unsigned i)\n{\n");
	for (int i = 0; i < s->program->inputs; i++)
		gt_buf_printf(&s->text, "\tW v%d[N];\n", i);
	for (int j = 0; j < s->program->outputs; j++)
		gt_buf_printf(&s->text, "\tW y%d[N];\n", j);
	gt_buf_puts(&s->text, "\n");
	put_inputs(s);
	put_steps(s);
	for (int j = 0; j < s->program->outputs; j++)
		gt_buf_printf(&s->text, "\tstore<N>(out%d + i, y%d);\n", j, j);
	gt_buf_puts(&s->text, "}\n\n");
}

static void put_kernel(struct source *s)
{
	gt_buf_printf(&s->text,
	    "extern \"C\" __global__ void __launch_bounds__(%d) " GT_MAP_SOURCE_NAME "(",
	    GT_MAP_SOURCE_THREADS);
	put_parameters(s);
	gt_buf_printf(&s->text,
	    "unsigned packs, unsigned count)\n{\n"
	    "\tunsigned first = blockIdx.x * %d + threadIdx.x, step = gridDim.x * %d;\n\n"
	    "\tfor (unsigned i = first; i < packs; i += step)\n",
	    GT_MAP_SOURCE_THREADS, GT_MAP_SOURCE_THREADS);
	put_call(s, s->lanes, "i * LANES");
	gt_buf_puts(&s->text, "\tfor (unsigned i = packs * LANES + first; i < count; i += step)\n");
	put_call(s, 1, "i");
	gt_buf_puts(&s->text, "}\n");
}

int gt_map_source(char **out, const struct gt_call *call, struct gt_err *err)
{
	struct source s = {
		.call = call, .program = call->attrs.map.program, .lanes = gt_map_source_lanes(call)
	};

	gt_loops_of_map(&s.loops, call);
	for (int i = 0; i < s.program->inputs; i++)
		s.whole[i] = gt_loops_are_whole(&s.loops, 1 + i);
	gt_buf_printf(&s.text, "typedef %s W;\nenum { LANES = %d };\n\n",
	    call->out[0].dtype == GT_F64 ? "double" : "float", s.lanes);
	gt_buf_puts(&s.text, types);
	put_functions(&s);
	put_lanes(&s);
	put_kernel(&s);
	return gt_buf_take(&s.text, out, NULL, err);
}
