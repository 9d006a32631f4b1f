/* map_programs.h - programs of map that networks have, for benchmarks and a look at their code. */
#ifndef GT_TESTS_COMMON_MAP_PROGRAMS_H
#define GT_TESTS_COMMON_MAP_PROGRAMS_H

#include "lib/graph/map_program.h"

/* sqrt(|tanh(relu(a * b + 0.5) * 0.25) + a| + 0.001) * b: ten functions */
static const struct gt_map_program test_chain_of_ten = { 2, 1, 3, 1, 10, 10, { 0.5, 0.25, 1e-3 },
	{ { GT_F_MUL, 6, { 0, 1 } }, { GT_F_ADD, 6, { 6, 3 } }, { GT_F_RELU, 6, { 6 } },
	    { GT_F_MUL, 6, { 6, 4 } }, { GT_F_TANH, 6, { 6 } }, { GT_F_ADD, 6, { 6, 0 } },
	    { GT_F_ABS, 6, { 6 } }, { GT_F_ADD, 6, { 6, 5 } }, { GT_F_SQRT, 6, { 6 } },
	    { GT_F_MUL, 2, { 6, 1 } } } };

/* x * sigmoid(x) */
static const struct gt_map_program test_swish = { 1, 1, 0, 1, 2, 2, { 0 },
	{ { GT_F_SIGMOID, 2, { 0 } }, { GT_F_MUL, 1, { 2, 0 } } } };

/* 0.5 * x * (1 + tanh(0.797... * (x + 0.044715 * x * x * x))) */
static const struct gt_map_program test_gelu_by_hand = { 1, 1, 4, 1, 9, 9,
	{ 0.5, 1, 0.79788456080286535588, 0.044715 },
	{ { GT_F_MUL, 6, { 0, 0 } }, { GT_F_MUL, 6, { 6, 0 } }, { GT_F_MUL, 6, { 6, 5 } },
	    { GT_F_ADD, 6, { 6, 0 } }, { GT_F_MUL, 6, { 6, 4 } }, { GT_F_TANH, 6, { 6 } },
	    { GT_F_ADD, 6, { 6, 3 } }, { GT_F_MUL, 6, { 6, 0 } }, { GT_F_MUL, 1, { 6, 2 } } } };

#endif
