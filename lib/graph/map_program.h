/* map_program.h - programs: the functions of each element that the op map computes. */
#ifndef GT_GRAPH_MAP_PROGRAM_H
#define GT_GRAPH_MAP_PROGRAM_H

#include <stdint.h>

#define GT_FUNCTION(name, arguments, flops, formula) GT_F_##name,
enum gt_function {
#include "lib/graph/ops/functions.inc"
	GT_FUNCTION_COUNT
};

enum {
	GT_MAP_INPUTS = 8,
	GT_MAP_OUTPUTS = 4,
	GT_MAP_NUMBERS = 20,
	GT_MAP_ROWS = 12,
	GT_MAP_SLOTS = GT_MAP_INPUTS + GT_MAP_OUTPUTS + GT_MAP_NUMBERS + GT_MAP_ROWS,
	GT_MAP_STEPS = 80
};

/* Slot `to` becomes the function of the slots `from`. Slots of arguments that the function lacks
 * are 0. */
struct gt_map_step {
	uint8_t function; /* enum gt_function */
	uint8_t to, from[3];
};

/*
 * A program works on slots, which are numbered in this order: the inputs, the outputs, the numbers,
 * and the rows, which hold intermediate results. Example: y = relu(a * b + 0.5) with inputs a, b:
 *
 *   slots   0: a   1: b   2: y   3: 0.5   4: row
 *   steps   4 = MUL(0, 1)   4 = ADD(4, 3)   2 = RELU(4)
 *
 * Every output is written once, and may be read by later steps. Output 0 is written after, or by,
 * the last step that reads an input, so it may use the memory of an input. A program has no
 * pointers, and bytes that it does not use are 0: equal programs are equal bytes.
 */
struct gt_map_program {
	int32_t inputs, outputs, numbers, rows, steps;
	int32_t flops; /* floating-point operations per element */
	double number[GT_MAP_NUMBERS];
	struct gt_map_step step[GT_MAP_STEPS];
};

#endif
