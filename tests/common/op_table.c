/* op_table.c - the cases: odd sizes, strides, padding, with and without optional inputs. */
#include "tests/common/op_table.h"

#include <string.h>

#include "lib/base/mixed_target.h"
#include "lib/graph/map_program.h"
#include "lib/graph/ops/ops.h"

/* clang-format off */
#define DIMS(...)       (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ }
#define REAL(...)       { ARG_REAL, DIMS(__VA_ARGS__), 0 }
#define APART(...)      { ARG_APART, DIMS(__VA_ARGS__), 0 }
#define FIXED(...)      { ARG_FIXED, DIMS(__VA_ARGS__), 0 }
#define RUNNING(...)    { ARG_RUNNING, DIMS(__VA_ARGS__), 0 }
#define POSITIVE(...)   { ARG_POSITIVE, DIMS(__VA_ARGS__), 0 }
#define BYTES(...)      { ARG_BYTES, DIMS(__VA_ARGS__), 0 }
#define BLOCKS(n, ...)  { ARG_BLOCKS, DIMS(__VA_ARGS__), n }
#define IDS(n, ...)     { ARG_IDS, DIMS(__VA_ARGS__), n }
#define TARGETS(n, ...) { ARG_TARGETS, DIMS(__VA_ARGS__), n }
#define MIXED(n, rows)  { ARG_MIXED, DIMS(rows, GT_MIXED_TARGET_WORDS), n }
#define PAST(n)         { ARG_PAST, 0, { 0 }, n }
#define REAL_SCALAR     { ARG_REAL, 0, { 0 }, 0 }
#define FIXED_SCALAR    { ARG_FIXED, 0, { 0 }, 0 }
#define DOUBLE(...)     { ARG_DOUBLE, DIMS(__VA_ARGS__), 0 }
#define COUNTER         { ARG_COUNTER, 0, { 0 }, 0 }
#define SUMS(...)       { ARG_SUMS, DIMS(__VA_ARGS__), 0 }
#define RNG             { ARG_RNG, DIMS(GT_RNG_FIELDS), 0 }
#define NONE            { ARG_NONE, 0, { 0 }, 0 }

/* Inputs in IN(...), attributes last. */
#define IN(...)                 { __VA_ARGS__ }
#define CASE(op, label, in, ...) { op, label, { __VA_ARGS__ }, in, NULL }
#define BUILT(op, label, in, ...) { op, label, { { 0 } }, in, __VA_ARGS__ }

#define PLAIN       .matmul = { .trans_a = false }
#define REVERSE     .recurrent = { .reverse = true }
#define NORM(RELU)  .norm = { .eps = 1e-5, .momentum = 0.1, .relu = RELU }
/* Strides, paddings and dilations of a window, each for height and width. */
#define WINDOW(s, t, p, q, d, e)                                                                   \
	.window = { .stride = { s, t }, .pad = { p, q }, .dilation = { d, e } }
#define SQUARE(stride, pad)    WINDOW(stride, stride, pad, pad, 1, 1)
#define CONV(stride, pad)      .conv = { SQUARE(stride, pad), .groups = 1 }
#define GROUPS(n, stride, pad) .conv = { SQUARE(stride, pad), .groups = n }
/* Kernel, stride and padding of a window that are equal in both dimensions. */
#define EQUAL(k, s, p) { { k, k }, { s, s }, { p, p }, { 1, 1 } }
#define POOL(k, s, p)  .pool = { .window = EQUAL(k, s, p) }
#define CHANNELS(n) REAL(n), REAL(n), RUNNING(n), POSITIVE(n)
/* clang-format on */

/* ---- cases of several nodes: oracle/ops.py has PyTorch's function for each by its label ---- */

#define BUILD(name, ...)                                                                           \
	static struct gt_value *build_##name(struct gt_graph *g, struct gt_value *const *in)       \
	{                                                                                          \
		return __VA_ARGS__;                                                                \
	}

#include "tests/common/op_built.inc"
#include "tests/common/op_recurrent.inc"

/* Programs of map, whose slots are the inputs, y, numbers and rows. Logarithms and roots are of
 * |x| + 0.5, so that their arguments are positive. */
#define PROGRAM(inputs, numbers, rows, steps, ...)                                                 \
	(&(const struct gt_map_program){ inputs, 1, numbers, rows, steps, steps, __VA_ARGS__ })
#define UNARY(f)                                                                                   \
	{                                                                                          \
		.program = PROGRAM(1, 0, 0, 1, .step = { { f, 1, { 0 } } })                        \
	}
#define BINARY(f)                                                                                  \
	{                                                                                          \
		.program = PROGRAM(2, 0, 0, 1, .step = { { f, 2, { 0, 1 } } })                     \
	}
#define POSITIVE_OF(f)                                                                             \
	{                                                                                          \
		.program = PROGRAM(1, 1, 1, 3, { 0.5 },                                            \
		    { { GT_F_ABS, 3, { 0 } }, { GT_F_ADD, 3, { 3, 2 } }, { f, 1, { 3 } } })        \
	}

/* |a| + 0.5 to the power of b */
#define POWER                                                                                      \
	{                                                                                          \
		.program = PROGRAM(2, 1, 1, 3, { 0.5 },                                            \
		    { { GT_F_ABS, 4, { 0 } }, { GT_F_ADD, 4, { 4, 3 } },                           \
		        { GT_F_POW, 2, { 4, 1 } } })                                               \
	}

/* a / (|b| + 0.5) */
#define QUOTIENT                                                                                   \
	{                                                                                          \
		.program = PROGRAM(2, 1, 1, 3, { 0.5 },                                            \
		    { { GT_F_ABS, 4, { 1 } }, { GT_F_ADD, 4, { 4, 3 } },                           \
		        { GT_F_DIV, 2, { 0, 4 } } })                                               \
	}

/* tanh(relu(a * b + 0.5) * 0.25) + a, where the mask c is set; else b */
#define CHAIN                                                                                      \
	{                                                                                          \
		.program = PROGRAM(3, 2, 1, 7, { 0.5, 0.25 },                                      \
		    { { GT_F_MUL, 6, { 0, 1 } }, { GT_F_ADD, 6, { 6, 4 } },                        \
		        { GT_F_RELU, 6, { 6 } }, { GT_F_MUL, 6, { 6, 5 } },                        \
		        { GT_F_TANH, 6, { 6 } }, { GT_F_ADD, 6, { 6, 0 } },                        \
		        { GT_F_WHERE, 3, { 2, 6, 1 } } })                                          \
	}

/* a * b + c */
#define SCALED                                                                                     \
	{                                                                                          \
		.program = PROGRAM(                                                                \
		    3, 0, 1, 2, { 0 }, { { GT_F_MUL, 4, { 0, 1 } }, { GT_F_ADD, 3, { 4, 2 } } })   \
	}

static const float constant_elements[] = { 1.5f, -2, 0, 1e30f, -0.25f, 7 };

const struct op_case op_cases[] = {
	CASE("matmul", "plain", IN(REAL(3, 5), REAL(5, 4)), PLAIN),
	CASE("matmul", "one by one", IN(REAL(1, 1), REAL(1, 1), REAL(1)), PLAIN),
	CASE("matmul", "vector", IN(REAL(5), REAL(5, 3), REAL(3)), PLAIN),
	CASE("matmul", "batch, bias", IN(REAL(2, 3, 5), REAL(5, 7), REAL(7)), PLAIN),
	CASE("matmul", "image, bias", IN(REAL(2, 3, 2, 5), REAL(5, 4), REAL(4)), PLAIN),
	CASE("matmul", "right transposed", IN(REAL(3, 5), REAL(4, 5)),
	    .matmul = { .trans_b = true }),
	CASE("matmul", "right transposed, bias", IN(REAL(2, 3, 5), REAL(4, 5), REAL(4)),
	    .matmul = { .trans_b = true }),
	CASE(
	    "matmul", "left transposed", IN(REAL(6, 3), REAL(6, 4)), .matmul = { .trans_a = true }),
	CASE("matmul", "left transposed, batch, bias", IN(REAL(2, 3, 4), REAL(2, 3, 5), REAL(5)),
	    .matmul = { .trans_a = true }),
	CASE("matmul", "one row", IN(FIXED(1, 131), FIXED(131, 67)), PLAIN),
	CASE("matmul", "one row, batch, bias", IN(FIXED(1, 1, 37), FIXED(37, 130), FIXED(130)),
	    PLAIN),
	CASE("matmul", "one row, right transposed", IN(FIXED(1, 131), FIXED(67, 131)),
	    .matmul = { .trans_b = true }),
	CASE("matmul", "one row, right transposed, bias", IN(FIXED(17), FIXED(3, 17), FIXED(3)),
	    .matmul = { .trans_b = true }),
	CASE("matmul", "long", IN(FIXED(7, 131), REAL(131, 3), REAL(3)), PLAIN),

	CASE("batched_matmul", "batch", IN(REAL(3, 4, 5), REAL(3, 5, 2)), PLAIN),
	CASE("batched_matmul", "one by one", IN(REAL(2, 1, 1), REAL(2, 1, 1)), PLAIN),
	CASE("batched_matmul", "no batch", IN(REAL(3, 5), REAL(5, 4)), PLAIN),
	CASE("batched_matmul", "no batch, both transposed", IN(REAL(5, 3), REAL(4, 5)),
	    .matmul = { .trans_a = true, .trans_b = true }),
	CASE("batched_matmul", "heads, right transposed", IN(REAL(2, 3, 5, 4), REAL(2, 3, 7, 4)),
	    .matmul = { .trans_b = true }),
	CASE("batched_matmul", "heads, left transposed", IN(REAL(2, 3, 4, 5), REAL(2, 3, 4, 2)),
	    .matmul = { .trans_a = true }),
	CASE("batched_matmul", "heads, both transposed", IN(REAL(2, 2, 4, 3), REAL(2, 2, 5, 4)),
	    .matmul = { .trans_a = true, .trans_b = true }),
	CASE("batched_matmul", "one right side", IN(REAL(3, 4, 5), REAL(5, 2)), PLAIN),
	CASE("batched_matmul", "one right side, left transposed", IN(REAL(2, 3, 5, 4), REAL(5, 2)),
	    .matmul = { .trans_a = true }),
	CASE("batched_matmul", "one left side", IN(REAL(4, 5), REAL(2, 3, 5, 2)), PLAIN),
	CASE("batched_matmul", "one left side, both transposed", IN(REAL(1, 5, 4), REAL(3, 2, 5)),
	    .matmul = { .trans_a = true, .trans_b = true }),
	CASE(
	    "batched_matmul", "broadcast both ways", IN(REAL(2, 1, 3, 4), REAL(1, 5, 4, 2)), PLAIN),
	CASE("batched_matmul", "broadcast in the middle",
	    IN(REAL(2, 3, 2, 3, 4), REAL(2, 1, 2, 5, 4)), .matmul = { .trans_b = true }),
	CASE("batched_matmul", "eight dimensions",
	    IN(REAL(2, 1, 2, 1, 1, 2, 2, 3), REAL(2, 1, 2, 1, 2, 3, 2)), PLAIN),
	CASE("batched_matmul", "a row and a column", IN(REAL(2, 1, 9), REAL(2, 9, 1)), PLAIN),
	BUILT("batched_matmul", "products of rows", IN(REAL(2, 3, 5), REAL(1, 1, 1, 4, 5)),
	    build_matmul_shared),
	BUILT("batched_matmul", "products of rows, transposed", IN(REAL(1, 5, 3), REAL(5, 4)),
	    build_matmul_left),

	CASE("conv2d", "3x3", IN(REAL(2, 3, 5, 7), REAL(4, 3, 3, 3)), CONV(1, 1)),
	CASE("conv2d", "stride", IN(REAL(1, 2, 7, 6), REAL(3, 2, 3, 3), REAL(3)), CONV(2, 1)),
	CASE("conv2d", "1x1", IN(REAL(2, 3, 5, 4), REAL(2, 3, 1, 1)), CONV(2, 0)),
	CASE("conv2d", "5x5", IN(REAL(2, 1, 6, 5), REAL(2, 1, 5, 5), REAL(2)), CONV(1, 2)),
	CASE("conv2d", "left over", IN(REAL(1, 1, 8, 9), REAL(2, 1, 3, 3)), CONV(3, 0)),
	CASE("conv2d", "whole image", IN(REAL(2, 2, 4, 4), REAL(3, 2, 4, 4), REAL(3)), CONV(1, 0)),
	CASE("conv2d", "7x7, stride", IN(REAL(1, 3, 11, 10), REAL(2, 3, 7, 7)), CONV(2, 3)),
	CASE("conv2d", "wide", IN(REAL(1, 17, 3, 3), REAL(18, 17, 3, 3), REAL(18)), CONV(1, 1)),
	CASE("conv2d", "residual, relu",
	    IN(FIXED(2, 3, 5, 5), FIXED(4, 3, 3, 3), FIXED(4), FIXED(2, 4, 5, 5)),
	    .conv = { SQUARE(1, 1), .groups = 1, .relu = true }),
	CASE("conv2d", "residual",
	    IN(FIXED(2, 3, 5, 5), FIXED(4, 3, 3, 3), NONE, FIXED(2, 4, 3, 3)), CONV(2, 1)),
	CASE("conv2d", "1x7", IN(REAL(2, 3, 4, 9), REAL(4, 3, 1, 7)),
	    .conv = { WINDOW(1, 1, 0, 3, 1, 1), .groups = 1 }),
	CASE("conv2d", "7x1, bias", IN(REAL(2, 3, 9, 4), REAL(4, 3, 7, 1), REAL(4)),
	    .conv = { WINDOW(1, 1, 3, 0, 1, 1), .groups = 1 }),
	CASE("conv2d", "unequal stride and padding", IN(REAL(2, 2, 9, 8), REAL(3, 2, 3, 2)),
	    .conv = { WINDOW(3, 2, 0, 1, 1, 1), .groups = 1 }),
	CASE("conv2d", "dilation", IN(REAL(2, 3, 8, 7), REAL(4, 3, 3, 3)),
	    .conv = { WINDOW(1, 1, 2, 2, 2, 2), .groups = 1 }),
	CASE("conv2d", "unequal dilation, stride", IN(REAL(1, 2, 11, 9), REAL(3, 2, 3, 2)),
	    .conv = { WINDOW(2, 3, 3, 1, 3, 4), .groups = 1 }),
	CASE("conv2d", "two groups", IN(REAL(2, 6, 5, 4), REAL(4, 3, 3, 3)), GROUPS(2, 1, 1)),
	CASE("conv2d", "groups, wide, bias", IN(REAL(1, 16, 4, 5), REAL(24, 8, 3, 3), REAL(24)),
	    GROUPS(2, 2, 1)),
	CASE("conv2d", "depthwise", IN(REAL(2, 8, 6, 5), REAL(8, 1, 3, 3), REAL(8)),
	    GROUPS(8, 1, 1)),
	CASE(
	    "conv2d", "depthwise, stride", IN(REAL(2, 5, 7, 6), REAL(5, 1, 5, 5)), GROUPS(5, 2, 2)),
	CASE("conv2d", "depthwise, more outputs", IN(REAL(2, 3, 6, 5), REAL(6, 1, 3, 3)),
	    GROUPS(3, 1, 1)),
	CASE("conv2d", "depthwise, dilation", IN(REAL(1, 4, 9, 9), REAL(4, 1, 3, 3)),
	    .conv = { WINDOW(1, 2, 2, 1, 2, 1), .groups = 4 }),
	CASE("conv2d", "groups, residual, relu",
	    IN(FIXED(2, 4, 5, 5), FIXED(6, 2, 3, 3), FIXED(6), FIXED(2, 6, 5, 5)),
	    .conv = { SQUARE(1, 1), .groups = 2, .relu = true }),

	CASE("conv2d_input_grad", "stride", IN(REAL(2, 4, 3, 4), REAL(4, 3, 3, 3)),
	    .conv = { SQUARE(2, 1), .groups = 1, .in_height = 5, .in_width = 7 }),
	CASE("conv2d_input_grad", "output padding", IN(REAL(2, 4, 3, 4), REAL(4, 3, 3, 3)),
	    .conv = { SQUARE(2, 1), .groups = 1, .in_height = 6, .in_width = 8 }),
	CASE("conv2d_input_grad", "2x2", IN(REAL(1, 8, 3, 2), REAL(8, 5, 2, 2)),
	    .conv = { SQUARE(2, 0), .groups = 1, .in_height = 6, .in_width = 4 }),
	CASE("conv2d_input_grad", "unequal, dilation", IN(REAL(2, 2, 4, 3), REAL(2, 3, 3, 2)),
	    .conv = { WINDOW(1, 3, 2, 0, 2, 1), .groups = 1, .in_height = 4, .in_width = 10 }),
	CASE("conv2d_input_grad", "groups", IN(REAL(2, 4, 3, 4), REAL(4, 3, 3, 3)),
	    .conv = { SQUARE(2, 1), .groups = 2, .in_height = 5, .in_width = 7 }),
	CASE("conv2d_input_grad", "depthwise", IN(REAL(2, 8, 3, 4), REAL(8, 1, 4, 4)),
	    .conv = { SQUARE(2, 1), .groups = 8, .in_height = 6, .in_width = 8 }),

	CASE("bias_grad", "rows", IN(FIXED(7, 5)), PLAIN),
	CASE("bias_grad", "batch", IN(FIXED(2, 3, 67)), PLAIN),
	CASE("bias_grad", "image", IN(FIXED(2, 3, 4, 5)), PLAIN),

	CASE("layer_norm", "bias", IN(REAL(3, 8), REAL(8), REAL(8)), NORM(false)),
	CASE("layer_norm", "no bias", IN(REAL(2, 3, 5), REAL(5)), NORM(false)),
	CASE("layer_norm", "wide", IN(REAL(2, 67), REAL(67), REAL(67)), NORM(false)),
	CASE("rms_norm", "rows", IN(REAL(3, 8), REAL(8)), NORM(false)),
	CASE("rms_norm", "batch, odd", IN(REAL(2, 3, 5), REAL(5)), NORM(false)),
	CASE("rms_norm", "wide", IN(REAL(2, 67), REAL(67)), NORM(false)),
	CASE("add_layer_norm", "bias", IN(REAL(3, 8), REAL(3, 8), REAL(8), REAL(8)), NORM(false)),
	CASE("add_layer_norm", "no bias", IN(REAL(2, 3, 5), REAL(2, 3, 5), REAL(5)), NORM(false)),
	CASE("add_layer_norm", "wide", IN(REAL(2, 67), REAL(2, 67), REAL(67), REAL(67)),
	    NORM(false)),
	CASE("batch_norm", "small", IN(REAL(4, 3, 2, 3), CHANNELS(3), COUNTER), NORM(false)),
	CASE("batch_norm", "relu", IN(REAL(3, 4, 3, 3), CHANNELS(4), COUNTER), NORM(true)),
	CASE("batch_norm", "residual", IN(REAL(4, 3, 2, 3), CHANNELS(3), COUNTER, REAL(4, 3, 2, 3)),
	    NORM(false)),
	CASE("batch_norm", "residual, relu",
	    IN(REAL(2, 9, 7, 7), CHANNELS(9), COUNTER, REAL(2, 9, 7, 7)), NORM(true)),
	CASE("batch_norm", "fixed residual, relu",
	    IN(REAL(3, 5, 3, 2), CHANNELS(5), COUNTER, FIXED(3, 5, 3, 2)), NORM(true)),
	CASE("batch_norm", "one image", IN(REAL(1, 2, 5, 3), CHANNELS(2), COUNTER), NORM(false)),
	CASE("batch_norm", "wide", IN(REAL(3, 67, 1, 1), CHANNELS(67), COUNTER), NORM(false)),
	CASE("batch_norm_eval", "small",
	    IN(FIXED(2, 5, 3, 4), FIXED(5), FIXED(5), RUNNING(5), POSITIVE(5)), NORM(false)),
	CASE("batch_norm_fold", "bias",
	    IN(FIXED(4, 3, 3, 3), FIXED(4), FIXED(4), RUNNING(4), POSITIVE(4), FIXED(4)),
	    NORM(false)),
	CASE("batch_norm_fold", "no bias",
	    IN(FIXED(5, 2, 1, 1), FIXED(5), FIXED(5), RUNNING(5), POSITIVE(5)), NORM(false)),

	CASE("batch_norm_moments", "small", IN(FIXED(4, 3, 2, 3)), NORM(false)),
	CASE("batch_norm_moments", "wide", IN(FIXED(2, 67, 3, 1)), NORM(false)),
	CASE("batch_norm_moments", "one value", IN(FIXED(1, 2, 1, 1)), NORM(false)),
	CASE("batch_norm_combine", "one rank", IN(RUNNING(4), POSITIVE(4), COUNTER, SUMS(1, 9)),
	    NORM(false)),
	CASE("batch_norm_combine", "three ranks",
	    IN(RUNNING(67), POSITIVE(67), COUNTER, SUMS(3, 135)), NORM(false)),
	CASE("batch_norm_apply", "small",
	    IN(FIXED(4, 3, 2, 3), FIXED(3), FIXED(3), FIXED(3), FIXED(3)), NORM(false)),
	CASE("batch_norm_apply", "relu",
	    IN(FIXED(2, 5, 3, 3), FIXED(5), FIXED(5), FIXED(5), FIXED(5)), NORM(true)),
	CASE("batch_norm_apply", "residual, relu",
	    IN(FIXED(2, 5, 3, 3), FIXED(5), FIXED(5), FIXED(5), FIXED(5), FIXED(2, 5, 3, 3)),
	    NORM(true)),
	CASE("batch_norm_grad_sums", "small",
	    IN(FIXED(4, 3, 2, 3), FIXED(4, 3, 2, 3), FIXED(3), FIXED(3)), NORM(false)),
	CASE("batch_norm_grad_sums", "relu",
	    IN(FIXED(2, 67, 3, 1), FIXED(2, 67, 3, 1), FIXED(67), FIXED(67), FIXED(2, 67, 3, 1)),
	    NORM(true)),
	CASE("batch_norm_grad_sums", "a sum, relu",
	    IN(FIXED(2, 7, 3, 2), FIXED(2, 7, 3, 2), FIXED(7), FIXED(7), FIXED(2, 7, 3, 2),
	        FIXED(2, 7, 3, 2)),
	    NORM(true)),
	CASE("batch_norm_grad_apply", "small",
	    IN(FIXED(4, 3, 2, 3), FIXED(4, 3, 2, 3), FIXED(3), FIXED(3), FIXED(3), SUMS(7)),
	    NORM(false)),
	CASE("batch_norm_grad_apply", "relu",
	    IN(FIXED(3, 4, 3, 2), FIXED(3, 4, 3, 2), FIXED(4), FIXED(4), FIXED(4), SUMS(9),
	        FIXED(3, 4, 3, 2)),
	    NORM(true)),

	CASE("bias_add", "rows", IN(REAL(3, 5), REAL(5)), PLAIN),
	CASE("bias_add", "batch", IN(REAL(2, 3, 67), REAL(67)), PLAIN),
	CASE("bias_add", "image", IN(REAL(2, 3, 2, 5), REAL(5)), PLAIN),

	CASE("add", "rows", IN(REAL(3, 5), REAL(3, 5)), PLAIN),
	CASE("add", "image", IN(REAL(2, 3, 4, 5), REAL(2, 3, 4, 5)), PLAIN),
	CASE("add", "scalar", IN(REAL_SCALAR, REAL_SCALAR), PLAIN),
	CASE("relu", "rows", IN(APART(3, 7)), PLAIN),
	CASE("relu", "image", IN(APART(2, 3, 5, 3)), PLAIN),
	CASE("gelu", "tanh", IN(REAL(5, 9)), .gelu = { GT_GELU_TANH }),
	CASE("gelu", "erf", IN(REAL(5, 9)), .gelu = { GT_GELU_ERF }),
	CASE("map", "sum", IN(REAL(3, 5), REAL(3, 5)), .map = BINARY(GT_F_ADD)),
	CASE("map", "difference of a scalar", IN(REAL(3, 5), REAL_SCALAR), .map = BINARY(GT_F_SUB)),
	CASE("map", "product with rows", IN(REAL(2, 3, 67), REAL(67)), .map = BINARY(GT_F_MUL)),
	CASE("map", "product with channels", IN(REAL(2, 5, 3, 4), REAL(5, 1, 1)),
	    .map = BINARY(GT_F_MUL)),
	CASE("map", "outer product", IN(REAL(4, 1), REAL(1, 7)), .map = BINARY(GT_F_MUL)),
	CASE("map", "scaled residual", IN(REAL(2, 3, 5), REAL(5), REAL(2, 3, 5)), .map = SCALED),
	CASE("map", "scaled image", IN(FIXED(2, 5, 3, 4), REAL(1, 5, 1, 1), REAL(2, 1, 3, 4)),
	    .map = SCALED),
	CASE("map", "quotient", IN(REAL(3, 5), REAL(3, 5)), .map = QUOTIENT),
	CASE("map", "power", IN(REAL(3, 5), REAL(3, 5)), .map = POWER),
	CASE("map", "maximum", IN(APART(3, 7), FIXED(3, 7)), .map = BINARY(GT_F_MAX)),
	CASE("map", "minimum", IN(FIXED(3, 7), APART(3, 7)), .map = BINARY(GT_F_MIN)),
	CASE("map", "chain with a mask", IN(REAL(3, 6), REAL(3, 6), BYTES(3, 1)), .map = CHAIN),
	CASE("map", "chain with ids", IN(REAL(2, 70), REAL(2, 70), IDS(2, 70)), .map = CHAIN),
	CASE("map", "neg", IN(REAL(3, 7)), .map = UNARY(GT_F_NEG)),
	CASE("map", "abs", IN(APART(3, 7)), .map = UNARY(GT_F_ABS)),
	CASE("map", "relu", IN(APART(3, 7)), .map = UNARY(GT_F_RELU)),
	CASE("map", "exp", IN(REAL(3, 7)), .map = UNARY(GT_F_EXP)),
	CASE("map", "expm1", IN(REAL(3, 7)), .map = UNARY(GT_F_EXPM1)),
	CASE("map", "sin", IN(REAL(3, 7)), .map = UNARY(GT_F_SIN)),
	CASE("map", "cos", IN(REAL(3, 7)), .map = UNARY(GT_F_COS)),
	CASE("map", "tanh", IN(REAL(3, 7)), .map = UNARY(GT_F_TANH)),
	CASE("map", "erf", IN(REAL(3, 7)), .map = UNARY(GT_F_ERF)),
	CASE("map", "sigmoid", IN(REAL(3, 7)), .map = UNARY(GT_F_SIGMOID)),
	CASE("map", "silu", IN(REAL(3, 7)), .map = UNARY(GT_F_SILU)),
	CASE("map", "gelu", IN(REAL(3, 7)), .map = UNARY(GT_F_GELU)),
	CASE("map", "gelu_tanh", IN(REAL(3, 7)), .map = UNARY(GT_F_GELU_TANH)),
	CASE("map", "hardswish", IN(REAL(3, 7)), .map = UNARY(GT_F_HARDSWISH)),
	CASE("map", "sqrt", IN(APART(3, 7)), .map = POSITIVE_OF(GT_F_SQRT)),
	CASE("map", "rsqrt", IN(APART(3, 7)), .map = POSITIVE_OF(GT_F_RSQRT)),
	CASE("map", "log", IN(APART(3, 7)), .map = POSITIVE_OF(GT_F_LOG)),
	CASE("map", "log1p", IN(APART(3, 7)), .map = POSITIVE_OF(GT_F_LOG1P)),
	CASE("map", "expanded", IN(REAL(3, 1)),
	    .map = { PROGRAM(1, 0, 0, 1, .step = { { GT_F_COPY, 1, { 0 } } }), 3, { 2, 1, 5 } }),
	CASE("sum", "all", IN(REAL(3, 7)), .sum = { 3, false }),
	CASE("sum", "rows", IN(REAL(5, 37)), .sum = { 2, false }),
	CASE("sum", "columns, kept", IN(REAL(5, 67)), .sum = { 1, true }),
	CASE("sum", "middle", IN(REAL(2, 5, 3, 2, 3)), .sum = { 2 | 8, false }),
	CASE("sum", "image", IN(REAL(2, 5, 3, 4)), .sum = { 4 | 8, true }),
	CASE("sum", "channels of an image", IN(REAL(2, 5, 3, 4)), .sum = { 2, false }),
	CASE("sum", "nothing", IN(REAL(2, 5)), .sum = { 0, false }),
	CASE("softmax", "rows", IN(REAL(5, 9)), .softmax = { false }),
	CASE("softmax", "batch", IN(REAL(2, 3, 67)), .softmax = { false }),
	CASE("softmax", "image", IN(REAL(2, 3, 4, 5)), .softmax = { false }),
	CASE("softmax", "one class", IN(REAL(3, 1)), .softmax = { false }),
	CASE("softmax", "vector", IN(REAL(131)), .softmax = { false }),
	CASE("softmax", "log, rows", IN(REAL(5, 9)), .softmax = { true }),
	CASE("softmax", "log, batch", IN(REAL(2, 3, 67)), .softmax = { true }),
	CASE("softmax", "log, one class", IN(REAL(3, 1)), .softmax = { true }),
	BUILT("softmax", "over the first dimension", IN(REAL(7, 3, 2)), build_softmax_first),
	BUILT("softmax", "log, over the middle", IN(REAL(2, 5, 3, 4)), build_softmax_middle),
	CASE("swiglu", "rows", IN(REAL(5, 9), REAL(5, 9)), PLAIN),
	CASE("swiglu", "batch", IN(REAL(2, 3, 17), REAL(2, 3, 17)), PLAIN),
	CASE("dropout", "rows", IN(REAL(4, 7), RNG), .dropout = { .p = 0.5, .stream = 3 }),
	CASE("dropout", "batch", IN(REAL(3, 2, 5), RNG), .dropout = { .p = 0.1, .stream = 1 }),
	CASE("dropout", "image", IN(REAL(2, 3, 3, 5), RNG), .dropout = { .p = 0.25 }),
	CASE("copy", "image", IN(REAL(2, 3, 2, 2)), PLAIN),
	CASE("cast", "rows", IN(REAL(5, 7)), .cast = { GT_F64 }),
	CASE("cast", "image", IN(REAL(2, 3, 2, 2)), .cast = { GT_F64 }),
	CASE("decode", "q8_0", IN(BLOCKS(34, 5, 3 * 34)), .decode = { GT_BLOCK_Q8_0, 96 }),
	CASE("decode", "q8_0, long", IN(BLOCKS(34, 2, 9 * 34)), .decode = { GT_BLOCK_Q8_0, 288 }),
	CASE("decode", "q4_0", IN(BLOCKS(18, 4, 2 * 18)), .decode = { GT_BLOCK_Q4_0, 64 }),
	CASE("decode", "float16", IN(BLOCKS(2, 3, 2 * 17)), .decode = { GT_BLOCK_F16, 17 }),
	CASE("decode", "bfloat16", IN(BLOCKS(2, 3, 2 * 17)), .decode = { GT_BLOCK_BF16, 17 }),
	CASE("fill", "matrix", IN(NONE), .fill = { -2.5, GT_F32, 2, { 3, 5 } }),
	CASE(
	    "constant", "matrix", IN(NONE), .constant = { constant_elements, GT_F32, 2, { 2, 3 } }),

	CASE("reshape", "to rows", IN(REAL(2, 3, 4, 2)), .reshape = { 2, { 2, 24 } }),
	CASE("reshape", "to image", IN(REAL(2, 24)), .reshape = { 4, { 2, 3, 4, 2 } }),
	CASE("reshape", "pixel", IN(REAL(2, 5, 1, 1)), .reshape = { 2, { 2, 5 } }),
	CASE("reorder", "channels last", IN(REAL(2, 3, 4, 5)), .reorder = { GT_CHANNELS_LAST }),
	BUILT("view_bytes", "bytes and back", IN(FIXED(3, 4)), build_bytes_and_back),
	BUILT("arrange", "transpose", IN(REAL(37, 21)), build_transpose),
	BUILT("arrange", "permute 0 2 1 3", IN(REAL(2, 5, 3, 4)), build_heads),
	BUILT("arrange", "permute 0 1 3 2 4 5", IN(REAL(1, 2, 3, 2, 2, 3)), build_windows),
	BUILT("arrange", "permute 2 1 0", IN(REAL(3, 5, 7)), build_reversed),
	BUILT("arrange", "slice", IN(REAL(3, 5, 2)), build_slice),
	BUILT("arrange", "slice, step", IN(REAL(2, 3, 9)), build_slice_step),
	BUILT("arrange", "slice, downwards", IN(REAL(6, 3)), build_slice_down),
	BUILT("arrange", "select", IN(REAL(3, 4, 5)), build_select),
	BUILT("arrange", "cat 0", IN(REAL(3, 5), REAL(2, 5)), build_cat_first),
	BUILT(
	    "arrange", "cat 1", IN(REAL(2, 3, 2), FIXED(2, 1, 2), REAL(2, 4, 2)), build_cat_middle),
	BUILT("arrange", "cat of the same", IN(REAL(3, 4)), build_cat_same),
	BUILT("arrange", "cat of eleven",
	    IN(REAL(2, 1), REAL(2, 2), REAL(2, 3), REAL(2, 1), REAL(2, 2), REAL(2, 1), REAL(2, 5),
	        REAL(2, 1)),
	    build_cat_eleven),
	BUILT("arrange", "stack 2", IN(REAL(3, 4), REAL(3, 4), REAL(3, 4)), build_stack_last),
	BUILT("arrange", "pad", IN(REAL(2, 3, 4, 5)), build_pad_image),
	BUILT("arrange", "pad and cut", IN(REAL(4, 7)), build_pad_and_cut),
	BUILT("arrange", "flip 0 2", IN(REAL(3, 2, 5)), build_flip),
	BUILT("arrange", "roll", IN(REAL(3, 7)), build_roll_one),
	BUILT("arrange", "roll of two dimensions", IN(REAL(2, 5, 4, 3)), build_roll_two),
	BUILT("arrange", "roll of four dimensions", IN(REAL(2, 3, 5, 2)), build_roll_four),
	BUILT("arrange", "cat of images", IN(REAL(2, 3, 4, 5), REAL(2, 2, 4, 5), REAL(2, 1, 4, 5)),
	    build_cat_images),
	BUILT("arrange", "roll of padded images", IN(REAL(2, 3, 4, 5)), build_roll_images),
	BUILT("arrange", "permute 0 2 3 1 of images", IN(REAL(2, 3, 4, 5)),
	    build_channels_to_the_end),
	BUILT("arrange", "permute 0 3 1 2 to images", IN(REAL(2, 4, 5, 3)),
	    build_channels_from_the_end),
	BUILT("arrange", "two of three, transposed", IN(REAL(3, 6)), build_two_of_three),
	CASE("subsample", "padded", IN(REAL(2, 3, 5, 4)), .subsample = { 2, 1, 2, 0, 0 }),
	CASE("subsample", "stride 1", IN(REAL(1, 2, 3, 3)), .subsample = { 1, 1, 1, 0, 0 }),
	CASE("subsample", "stride 3", IN(REAL(2, 2, 7, 8)), .subsample = { 3, 0, 0, 0, 0 }),
	CASE("last_position", "batch", IN(FIXED(3, 5, 7)), PLAIN),
	CASE("last_position", "one token", IN(FIXED(2, 1, 3)), PLAIN),
	CASE("last_position", "of different lengths", IN(FIXED(4, 6, 3), IDS(6, 4)), PLAIN),
	CASE("patch_tokens", "square", IN(REAL(2, 5, 3, 3), REAL(1, 1, 5), REAL(1, 10, 5)), PLAIN),
	CASE("patch_tokens", "oblong, one sample",
	    IN(REAL(1, 3, 2, 5), REAL(1, 1, 3), REAL(1, 11, 3)), PLAIN),
	CASE("image_normalize", "grey", IN(BYTES(2, 3, 5, 1)),
	    .normalize = { { 0.1307f }, { 0.3081f } }),
	CASE("image_normalize", "mixtures", IN(FIXED(2, 4, 3, 3)),
	    .normalize = { { 0.5f, 0.25f, 0 }, { 0.5f, 0.2f, 1 } }),
	CASE("image_normalize", "colour", IN(BYTES(2, 4, 3, 3)),
	    .normalize = { { 0.5f, 0.25f, 0 }, { 0.5f, 0.2f, 1 } }),

	CASE("max_pool2d", "2x2", IN(APART(2, 3, 4, 6)), POOL(2, 2, 0)),
	CASE("max_pool2d", "left over", IN(APART(1, 2, 5, 7)), POOL(2, 2, 0)),
	CASE("max_pool2d", "overlap, padding", IN(APART(2, 2, 7, 5)), POOL(3, 2, 1)),
	CASE("max_pool2d", "stride 1", IN(APART(1, 3, 4, 4)), POOL(3, 1, 1)),
	CASE("max_pool2d", "gaps", IN(APART(1, 1, 8, 8)), POOL(2, 3, 0)),
	CASE("max_pool2d", "3x2, unequal", IN(APART(2, 3, 8, 7)),
	    .pool = { .window = { { 3, 2 }, { 1, 2 }, { 1, 0 }, { 1, 1 } } }),
	CASE("max_pool2d", "dilation", IN(APART(2, 2, 9, 8)),
	    .pool = { .window = { { 3, 2 }, { 1, 2 }, { 1, 1 }, { 2, 3 } } }),
	CASE("max_pool2d", "ceil_mode", IN(APART(2, 3, 7, 8)),
	    .pool = { .window = EQUAL(3, 2, 0), .ceil_mode = true }),
	CASE("max_pool2d", "ceil_mode, 2x2", IN(APART(2, 3, 5, 6)),
	    .pool = { .window = EQUAL(2, 2, 0), .ceil_mode = true }),
	CASE("max_pool2d", "ceil_mode, padding", IN(APART(1, 8, 6, 5)),
	    .pool = { .window = { { 3, 2 }, { 3, 4 }, { 1, 1 }, { 1, 1 } }, .ceil_mode = true }),
	CASE("max_pool2d", "16x16", IN(APART(1, 2, 16, 17)), POOL(16, 1, 0)),
	CASE("max_pool2d", "divided", IN(APART(2, 3, 5, 7)), .pool = { .parts = { 3, 4 } }),
	CASE("max_pool2d", "divided, packs", IN(APART(1, 8, 4, 9)), .pool = { .parts = { 3, 2 } }),
	CASE("max_pool2d", "divided, windows of one", IN(APART(2, 3, 3, 2)),
	    .pool = { .parts = { 7, 3 } }),
	BUILT("max_pool2d", "divided, too large for an index", IN(APART(1, 2, 18, 33)),
	    build_adaptive_long),
	BUILT("max_pool2d", "divided length", IN(APART(2, 3, 9)), build_adaptive_length),
	CASE("avg_pool2d", "2x2", IN(REAL(2, 3, 4, 6)), POOL(2, 2, 0)),
	CASE("avg_pool2d", "overlap, padding", IN(REAL(2, 2, 7, 5)), POOL(3, 2, 1)),
	CASE("avg_pool2d", "whole image", IN(REAL(2, 5, 3, 3)), POOL(3, 1, 0)),
	CASE("avg_pool2d", "large window", IN(REAL(1, 1, 16, 16)), POOL(16, 1, 0)),
	CASE("avg_pool2d", "1x3, unequal", IN(REAL(2, 3, 6, 8)),
	    .pool = { .window = { { 1, 3 }, { 2, 1 }, { 0, 1 }, { 1, 1 } } }),
	CASE("avg_pool2d", "ceil_mode", IN(REAL(2, 3, 7, 8)),
	    .pool = { .window = EQUAL(3, 2, 0), .ceil_mode = true }),
	CASE("avg_pool2d", "ceil_mode, padding", IN(REAL(2, 8, 6, 7)),
	    .pool = { .window = { { 3, 2 }, { 2, 3 }, { 1, 1 }, { 1, 1 } }, .ceil_mode = true }),
	CASE("avg_pool2d", "padding excluded", IN(REAL(2, 3, 7, 5)),
	    .pool = { .window = EQUAL(3, 2, 1), .exclude_pad = true }),
	CASE("avg_pool2d", "ceil_mode, padding excluded", IN(REAL(2, 3, 6, 8)),
	    .pool = { .window = EQUAL(3, 2, 1), .ceil_mode = true, .exclude_pad = true }),
	CASE("avg_pool2d", "divided", IN(REAL(2, 3, 5, 7)), .pool = { .parts = { 3, 4 } }),
	CASE("avg_pool2d", "divided, packs", IN(REAL(1, 8, 4, 9)), .pool = { .parts = { 3, 2 } }),
	CASE("avg_pool2d", "divided, windows of one", IN(REAL(2, 3, 3, 2)),
	    .pool = { .parts = { 7, 3 } }),

	BUILT("resample", "nearest, twice", IN(REAL(2, 3, 4, 5)), build_nearest),
	BUILT("resample", "nearest, smaller", IN(REAL(2, 8, 8, 7)), build_nearest_smaller),
	BUILT("resample", "nearest, factors", IN(REAL(2, 3, 5, 7)), build_nearest_factor),
	BUILT("resample", "bilinear, twice", IN(REAL(2, 3, 4, 5)), build_bilinear),
	BUILT("resample", "bilinear, smaller", IN(REAL(2, 8, 8, 7)), build_bilinear_smaller),
	BUILT("resample", "bilinear, factors", IN(REAL(2, 3, 5, 7)), build_bilinear_factor),
	BUILT("resample", "bilinear, corners", IN(REAL(2, 8, 4, 5)), build_bilinear_corners),
	BUILT("resample", "bilinear, one row", IN(REAL(2, 3, 4, 5)), build_bilinear_one),
	BUILT("resample", "nearest, a length", IN(REAL(2, 3, 5)), build_length_nearest),
	BUILT("resample", "linear, a length", IN(REAL(2, 3, 5)), build_length_linear),

	CASE("embedding", "table", IN(REAL(11, 5), IDS(11, 3, 4)), PLAIN),
	CASE("embedding", "positions", IN(REAL(3, 7), IDS(3, 2, 6), REAL(6, 7)), PLAIN),
	CASE("embedding", "more positions", IN(REAL(9, 4), IDS(9, 2, 3), REAL(8, 4)), PLAIN),
	CASE("embedding", "behind earlier tokens",
	    IN(FIXED(9, 4), IDS(9, 2, 3), FIXED(8, 4), PAST(5)), PLAIN),
	CASE("embedding", "places in documents",
	    IN(REAL(9, 4), IDS(9, 2, 7), REAL(8, 4), NONE, IDS(8, 2, 7)), PLAIN),
	BUILT("embedding", "indices of rows", IN(REAL(5, 3), IDS(5, 4)), build_index_first),
	BUILT("embedding", "a matrix of indices", IN(REAL(3, 7, 2), IDS(7, 2, 3)),
	    build_index_middle),
	BUILT("embedding", "one index of the last dimension", IN(REAL(2, 3, 5), PAST(3)),
	    build_index_last),
	CASE("embedding_grad", "added", IN(FIXED(2, 5, 3), IDS(4, 2, 5), FIXED(4, 3)),
	    .embedding = { 4, 0, 0, GT_F32 }),
	CASE("embedding", "a shard", IN(REAL(4, 5), IDS(11, 3, 4)),
	    .embedding = { 0, 3, 11, GT_F32 }),
	CASE("embedding", "the last shard", IN(REAL(3, 6), IDS(7, 2, 5)),
	    .embedding = { 0, 4, 7, GT_F32 }),
	CASE("embedding_grad", "a shard, added", IN(FIXED(2, 5, 3), IDS(9, 2, 5), FIXED(4, 3)),
	    .embedding = { 4, 2, 9, GT_F32 }),
	CASE("topk", "three of seven", IN(APART(2, 2, 7)), .index = { .size = 3 }),
	CASE("topk", "sorted", IN(APART(3, 19)), .index = { 19, .smallest = true }),
	CASE("index_gather", "more than a row has", IN(REAL(2, 3, 5), IDS(5, 2, 3, 7)), PLAIN),
	CASE("index_scatter", "indices that repeat", IN(REAL(4, 7), IDS(5, 4, 7)), .index = { 5 }),
	BUILT("grouped_matmul", "groups", IN(REAL(9, 5), REAL(4, 5, 3)), build_groups),
	BUILT("grouped_matmul", "groups, transposed", IN(REAL(9, 5), REAL(4, 3, 5)),
	    build_groups_transposed),
	BUILT("grouped_matmul", "rows in no group", IN(REAL(9, 5), REAL(4, 5, 3)),
	    build_rows_in_no_group),

	CASE("rope", "two heads", IN(REAL(2, 5, 12), REAL(2, 5, 12), REAL(2, 5, 12)),
	    .rope = { 2, 2, 10000 }),
	CASE("rope", "shared keys", IN(REAL(1, 19, 24), REAL(1, 19, 8), REAL(1, 19, 8)),
	    .rope = { 6, 2, 500 }),
	CASE("rope", "behind earlier tokens",
	    IN(FIXED(2, 3, 16), FIXED(2, 3, 4), FIXED(2, 3, 4), PAST(9)), .rope = { 4, 1, 100 }),
	CASE("rope", "places in documents",
	    IN(REAL(2, 5, 16), REAL(2, 5, 4), REAL(2, 5, 4), NONE, IDS(5, 2, 5)),
	    .rope = { 4, 1, 100 }),

	CASE("attention", "two heads", IN(REAL(2, 5, 24), NONE),
	    .attention = { .heads = 2, .p = 0, .stream = 0 }),
	CASE("attention", "one token", IN(REAL(2, 1, 12), NONE),
	    .attention = { .heads = 2, .p = 0, .stream = 0 }),
	CASE("attention", "odd width", IN(REAL(1, 19, 15), NONE),
	    .attention = { .heads = 1, .p = 0, .stream = 0 }),
	CASE("attention", "dropout", IN(REAL(2, 7, 18), RNG),
	    .attention = { .heads = 3, .p = 0.3, .stream = 5 }),
	CASE("attention", "dropout of a shard", IN(REAL(2, 7, 12), RNG),
	    .attention = { .heads = 2, .p = 0.3, .stream = 5, .first_head = 1, .all_heads = 4 }),
	CASE("attention", "full", IN(REAL(2, 5, 24), NONE),
	    .attention = { .heads = 2, .full = true }),
	CASE("attention", "full, dropout, odd width", IN(REAL(1, 19, 15), RNG),
	    .attention = { .heads = 1, .p = 0.3, .stream = 5, .full = true }),
	CASE("attention", "shared keys", IN(REAL(2, 7, 32), NONE),
	    .attention = { .heads = 4, .kv_heads = 2 }),
	CASE("attention", "one head of keys, dropout", IN(REAL(2, 19, 15), RNG),
	    .attention = { .heads = 3, .kv_heads = 1, .p = 0.3, .stream = 5 }),
	CASE("attention", "documents", IN(REAL(2, 7, 32), NONE, IDS(7, 2, 7)),
	    .attention = { .heads = 4, .kv_heads = 2 }),
	CASE("attention", "documents, dropout", IN(REAL(2, 7, 18), RNG, IDS(4, 2, 7)),
	    .attention = { .heads = 3, .p = 0.3, .stream = 5 }),

	CASE("attention_cached", "nothing before",
	    IN(FIXED(2, 5, 24), PAST(0), RUNNING(2, 2, 6, 4), RUNNING(2, 2, 6, 4)),
	    .attention = { .heads = 2 }),
	CASE("attention_cached", "one token",
	    IN(FIXED(1, 1, 30), PAST(6), RUNNING(1, 2, 9, 5), RUNNING(1, 2, 9, 5)),
	    .attention = { .heads = 2 }),
	CASE("attention_cached", "some, to the last position",
	    IN(FIXED(2, 4, 27), PAST(7), RUNNING(2, 3, 11, 3), RUNNING(2, 3, 11, 3)),
	    .attention = { .heads = 3 }),
	CASE("attention_cached", "shared keys",
	    IN(FIXED(2, 3, 40), PAST(4), RUNNING(2, 2, 9, 5), RUNNING(2, 2, 9, 5)),
	    .attention = { .heads = 4, .kv_heads = 2 }),

	CASE("lstm", "states", IN(REAL(3, 5, 16), REAL(16, 4), REAL(16), REAL(3, 4), REAL(3, 4)),
	    PLAIN),
	CASE("lstm", "zeros", IN(REAL(2, 4, 12), REAL(12, 3)), PLAIN),
	CASE("lstm", "reverse, states",
	    IN(REAL(2, 4, 20), REAL(20, 5), NONE, REAL(2, 5), REAL(2, 5)), REVERSE),
	CASE("lstm", "reverse, a cell", IN(REAL(2, 3, 8), REAL(8, 2), REAL(8), NONE, REAL(2, 2)),
	    REVERSE),
	CASE("lstm", "one step", IN(REAL(3, 1, 12), REAL(12, 3), REAL(12)), PLAIN),
	CASE("lstm", "one step, a state", IN(REAL(3, 1, 12), REAL(12, 3), REAL(12), REAL(3, 3)),
	    REVERSE),
	CASE("lstm", "wide", IN(REAL(9, 3, 76), REAL(76, 19), REAL(76), FIXED(9, 19)), PLAIN),
	BUILT("lstm", "batch first", IN(REAL(3, 4, 5), REAL(8, 5), REAL(8, 2), REAL(8), REAL(8)),
	    build_lstm_batch_first),
	BUILT("lstm", "last states",
	    IN(REAL(4, 3, 2), REAL(12, 2), REAL(12, 3), REAL(12), REAL(12), REAL(1, 3, 3),
	        REAL(1, 3, 3)),
	    build_lstm_last),
	BUILT("lstm", "two layers",
	    IN(REAL(4, 2, 3), REAL(8, 3), REAL(8, 2), REAL(8, 2), REAL(8, 2), REAL(2, 2, 2),
	        REAL(2, 2, 2)),
	    build_lstm_two_layers),
	BUILT("lstm", "two layers, bidirectional",
	    IN(REAL(2, 4, 3), REAL(8, 3), REAL(8, 2), REAL(8, 3), REAL(8, 2), REAL(8, 4),
	        REAL(8, 2)),
	    build_lstm_bidirectional),
	BUILT("lstm", "two layers, bidirectional, last states",
	    IN(REAL(4, 2, 3), REAL(8, 3), REAL(8, 2), REAL(8, 3), REAL(8, 2), REAL(8, 4),
	        REAL(8, 2)),
	    build_lstm_bidirectional_last),
	BUILT("lstm", "two layers, dropout",
	    IN(REAL(3, 4, 3), REAL(8, 3), REAL(8, 2), REAL(8, 2), REAL(8, 2), RNG),
	    build_lstm_dropout),
	CASE("gru", "a state", IN(REAL(3, 5, 12), REAL(12, 4), REAL(12), REAL(3, 4)), PLAIN),
	CASE("gru", "zeros", IN(REAL(2, 4, 9), REAL(9, 3)), PLAIN),
	CASE("gru", "reverse, a state", IN(REAL(2, 4, 15), REAL(15, 5), NONE, REAL(2, 5)), REVERSE),
	CASE("gru", "one step", IN(REAL(3, 1, 9), REAL(9, 3), REAL(9)), REVERSE),
	CASE("gru", "one step, a state", IN(REAL(3, 1, 9), REAL(9, 3), REAL(9), REAL(3, 3)), PLAIN),
	CASE("gru", "wide", IN(REAL(9, 3, 57), REAL(57, 19), REAL(57), FIXED(9, 19)), PLAIN),
	BUILT("gru", "batch first", IN(REAL(3, 4, 5), REAL(6, 5), REAL(6, 2), REAL(6), REAL(6)),
	    build_gru_batch_first),
	BUILT("gru", "last states",
	    IN(REAL(4, 3, 2), REAL(9, 2), REAL(9, 3), REAL(9), REAL(9), REAL(1, 3, 3)),
	    build_gru_last),
	BUILT("gru", "two layers",
	    IN(REAL(4, 2, 3), REAL(6, 3), REAL(6, 2), REAL(6, 2), REAL(6, 2), REAL(2, 2, 2)),
	    build_gru_two_layers),
	BUILT("gru", "two layers, bidirectional",
	    IN(REAL(2, 4, 3), REAL(9, 3), REAL(9, 3), REAL(9, 3), REAL(9, 3), REAL(9, 6),
	        REAL(9, 3)),
	    build_gru_bidirectional),
	BUILT("gru", "two layers, bidirectional, last states",
	    IN(REAL(4, 2, 3), REAL(6, 3), REAL(6, 2), REAL(6, 3), REAL(6, 2), REAL(6, 4),
	        REAL(6, 2)),
	    build_gru_bidirectional_last),

	CASE("cross_entropy", "rows", IN(REAL(7, 5), TARGETS(5, 7), FIXED_SCALAR), PLAIN),
	CASE("cross_entropy", "batch", IN(REAL(2, 6, 67), TARGETS(67, 2, 6), FIXED_SCALAR), PLAIN),
	CASE("cross_entropy", "one class", IN(REAL(3, 1), TARGETS(1, 3), FIXED_SCALAR), PLAIN),
	CASE("cross_entropy", "mixtures", IN(REAL(11, 7), MIXED(7, 11), FIXED_SCALAR), PLAIN),
	CASE("cross_entropy", "mixtures, batch", IN(REAL(2, 6, 67), MIXED(67, 12), FIXED_SCALAR),
	    PLAIN),
	CASE("cross_entropy", "mixtures of two classes", IN(REAL(5, 2), MIXED(2, 5), FIXED_SCALAR),
	    PLAIN),
	CASE("cross_entropy", "smoothed", IN(REAL(7, 5), TARGETS(5, 7), FIXED_SCALAR),
	    .loss = { .smoothing = 0.2 }),
	CASE("cross_entropy", "class weights",
	    IN(REAL(7, 67), TARGETS(67, 7), FIXED_SCALAR, FIXED(67)), PLAIN),
	CASE("cross_entropy", "class weights, smoothed",
	    IN(REAL(2, 6, 67), TARGETS(67, 2, 6), FIXED_SCALAR, FIXED(67)),
	    .loss = { .smoothing = 0.2 }),
	CASE("cross_entropy", "class weights, smoothed, many classes",
	    IN(REAL(2, 1031), TARGETS(1031, 2), FIXED_SCALAR, FIXED(1031)),
	    .loss = { .smoothing = 0.2 }),
	CASE("cross_entropy", "mixtures, class weights, smoothed",
	    IN(REAL(11, 7), MIXED(7, 11), FIXED_SCALAR, FIXED(7)), .loss = { .smoothing = 0.2 }),
	CASE("cross_entropy", "each row", IN(REAL(2, 6, 67), TARGETS(67, 2, 6), FIXED_SCALAR),
	    .loss = { .each = true }),
	CASE("cross_entropy_sharded", "each row",
	    IN(REAL(9, 6), TARGETS(17, 9), NONE, NONE, FIXED_SCALAR),
	    .loss = { .first = 5, .whole = 17, .each = true }),
	CASE("cross_entropy_sharded", "class weights",
	    IN(REAL(9, 6), TARGETS(17, 9), NONE, NONE, FIXED_SCALAR, FIXED(17)),
	    .loss = { .first = 5, .whole = 17 }),
	CASE("cross_entropy_sharded", "smoothed",
	    IN(REAL(9, 6), TARGETS(17, 9), NONE, NONE, FIXED_SCALAR),
	    .loss = { .first = 5, .whole = 17, .smoothing = 0.2 }),
	CASE("cross_entropy_sharded", "mixtures, class weights, smoothed",
	    IN(REAL(9, 6), MIXED(11, 9), NONE, NONE, FIXED_SCALAR, FIXED(11)),
	    .loss = { .first = 3, .whole = 11, .smoothing = 0.2 }),
	CASE("pick", "class weights", IN(FIXED(9, 6), TARGETS(17, 9), FIXED(17)),
	    .loss = { .first = 5, .whole = 17 }),
	CASE("pick", "class weights, smoothed", IN(FIXED(9, 6), TARGETS(17, 9), FIXED(17)),
	    .loss = { .first = 5, .whole = 17, .smoothing = 0.2 }),
	CASE("pick", "mixtures, smoothed", IN(FIXED(9, 6), MIXED(11, 9)),
	    .loss = { .first = 3, .whole = 11, .smoothing = 0.2 }),
	CASE("cross_entropy_sharded", "mixtures",
	    IN(REAL(9, 6), MIXED(11, 9), NONE, NONE, FIXED_SCALAR),
	    .loss = { .first = 3, .whole = 11 }),
	CASE("cross_entropy_sharded", "a shard",
	    IN(REAL(9, 6), TARGETS(17, 9), NONE, NONE, FIXED_SCALAR),
	    .loss = { .first = 5, .whole = 17 }),
	CASE("cross_entropy_sharded", "the first shard",
	    IN(REAL(2, 4, 6), TARGETS(11, 2, 4), NONE, NONE, FIXED_SCALAR),
	    .loss = { .first = 0, .whole = 11 }),
	CASE("log_sum_exp", "batch", IN(FIXED(2, 3, 67)), PLAIN),
	CASE("exp_difference", "rows", IN(FIXED(23), FIXED(23)), PLAIN),
	CASE("add_log", "rows", IN(FIXED(23), DOUBLE(23)), PLAIN),
	CASE("pick", "a shard", IN(FIXED(9, 6), TARGETS(17, 9)),
	    .loss = { .first = 5, .whole = 17 }),
	CASE("pick", "the last shard", IN(FIXED(3, 7, 4), TARGETS(9, 3, 7)),
	    .loss = { .first = 5, .whole = 9 }),
	CASE(
	    "pick", "mixtures", IN(FIXED(9, 6), MIXED(11, 9)), .loss = { .first = 3, .whole = 11 }),
	CASE("count_before", "a shard", IN(FIXED(9, 6), TARGETS(17, 9), FIXED(9)),
	    .loss = { .first = 5, .whole = 17 }),
	CASE("classify_stats_sharded", "rows", IN(FIXED(23), FIXED(23), DOUBLE(23), TARGETS(5, 23)),
	    PLAIN),
	CASE("classify_stats", "rows", IN(FIXED(23, 9), TARGETS(9, 23)), PLAIN),
	CASE("classify_stats", "batch", IN(FIXED(3, 7, 70), TARGETS(70, 3, 7)), PLAIN),
	CASE("regression_loss", "column", IN(REAL(23, 1), FIXED(23), FIXED_SCALAR), PLAIN),
	CASE("regression_loss", "rows", IN(REAL(3, 67), FIXED(3, 67), FIXED_SCALAR), PLAIN),
	CASE("regression_loss", "l1", IN(REAL(3, 67), FIXED(3, 67), FIXED_SCALAR),
	    .regression = { GT_REGRESSION_L1 }),
	CASE("regression_loss", "huber", IN(REAL(3, 67), FIXED(3, 67), FIXED_SCALAR),
	    .regression = { GT_REGRESSION_HUBER, 0.75 }),
	CASE("regression_loss", "smooth l1", IN(REAL(3, 67), FIXED(3, 67), FIXED_SCALAR),
	    .regression = { GT_REGRESSION_SMOOTH_L1, 0.75 }),
	CASE("regression_loss", "labels", IN(REAL(9, 5), FIXED(9, 5), FIXED_SCALAR),
	    .regression = { GT_REGRESSION_BCE }),
	CASE("regression_loss", "weighted labels",
	    IN(REAL(9, 5), FIXED(9, 5), FIXED_SCALAR, FIXED(5)),
	    .regression = { GT_REGRESSION_BCE }),
	CASE("regress_stats", "labels", IN(FIXED(9, 5), FIXED(9, 5)),
	    .regression = { GT_REGRESSION_BCE }),
	CASE("regress_stats", "value", IN(FIXED(67, 1), FIXED(67)),
	    .regression = { GT_REGRESSION_VALUE }),
	CASE("regression_loss", "value", IN(REAL(23, 1), FIXED(23), FIXED_SCALAR),
	    .regression = { GT_REGRESSION_VALUE }),
	CASE("regress_stats", "column", IN(FIXED(67, 1), FIXED(67)), PLAIN),
	CASE("regress_stats", "huber", IN(FIXED(67, 1), FIXED(67)),
	    .regression = { GT_REGRESSION_HUBER, 1.25 }),
	CASE("linear_cross_entropy", "chunks, with gradients",
	    IN(FIXED(37, 6), FIXED(19, 6), TARGETS(19, 37), FIXED_SCALAR, FIXED_SCALAR),
	    .head = { .rows = 16 }),
	CASE("linear_cross_entropy", "batch",
	    IN(FIXED(2, 5, 8), FIXED(67, 8), TARGETS(67, 2, 5), FIXED_SCALAR),
	    .head = { .rows = 32 }),
	CASE("linear_cross_entropy", "statistics", IN(FIXED(37, 6), FIXED(19, 6), TARGETS(19, 37)),
	    .head = { .rows = 16 }),
	CASE(NULL, NULL, IN(NONE), PLAIN),
};

const struct gt_op *op_of(const struct op_case *c)
{
	for (int i = 0; gt_ops[i]; i++)
		if (!strcmp(gt_ops[i]->name, c->op))
			return gt_ops[i];
	return NULL;
}

bool op_case_differentiates(const struct op_case *c)
{
	for (int i = 0; i < GT_MAX_INPUTS; i++)
		if (c->in[i].kind == ARG_REAL || c->in[i].kind == ARG_APART)
			return true;
	return false;
}
