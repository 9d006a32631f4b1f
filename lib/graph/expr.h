/* expr.h - expressions: functions of one element of each input, to build, derive and compile. */
#ifndef GT_GRAPH_EXPR_H
#define GT_GRAPH_EXPR_H

#include <stdbool.h>
#include <stdio.h>

#include "lib/base/err.h"
#include "lib/graph/map_program.h"

/*
 * An expression is a list of values. Each value is an input, a number, or a function of earlier
 * values, which are named by their indices. Equal values exist once, and simple identities are
 * applied while an expression is built. Example: y = relu(a * b + 0.5):
 *
 *   struct gt_expr e = { 0 };
 *   int product = gt_expr_apply2(&e, GT_F_MUL, gt_expr_input(&e, 0), gt_expr_input(&e, 1));
 *   int sum = gt_expr_apply2(&e, GT_F_ADD, product, gt_expr_number(&e, 0.5));
 *   gt_expr_output(&e, gt_expr_apply1(&e, GT_F_RELU, sum));
 *
 * gt_map_expr() (lib/graph/ops/ops.h) computes it for tensors.
 */
enum {
	GT_EXPR_VALUES = 160,
	GT_EXPR_INPUTS = 16, /* more than a program's: a gradient may have inputs that it ignores */
	GT_EXPR_INPUT = GT_FUNCTION_COUNT, /* value: element of input arg[0] */
	GT_EXPR_NUMBER                     /* value: the number */
};

struct gt_expr_value {
	int16_t function; /* enum gt_function, or one of the two above */
	int16_t arg[3];   /* -1: none */
	double number;
};

/* Start with zeros. */
struct gt_expr {
	int count, inputs, outputs;
	bool full; /* values did not fit: gt_expr_compile() fails */
	/* apply identities that round differently, such as x * a + x * b = x * (a + b) */
	bool reorder;
	int16_t out[GT_EXPR_INPUTS];
	struct gt_expr_value value[GT_EXPR_VALUES];
};

/* Return the index of a value, which is added unless it exists. */
int gt_expr_input(struct gt_expr *e, int input);
int gt_expr_number(struct gt_expr *e, double number);
int gt_expr_apply1(struct gt_expr *e, enum gt_function f, int a);
int gt_expr_apply2(struct gt_expr *e, enum gt_function f, int a, int b);
int gt_expr_apply3(struct gt_expr *e, enum gt_function f, int a, int b, int c);

/* Make a value the next output. */
void gt_expr_output(struct gt_expr *e, int v);

/* Copy the values of `from` into e; input i of `from` becomes the value in[i] of e. out[j] receives
 * the value of output j. */
void gt_expr_inline(struct gt_expr *e, const struct gt_expr *from, const int *in, int *out);

/* Return the inputs that outputs of e depend on, as bits. */
unsigned gt_expr_reads(const struct gt_expr *e);

/*
 * Set d to the gradient of e. Its inputs are those of e, then the outputs of e, then the gradients
 * of these outputs. Its outputs are the gradients of the inputs of e whose bit of `wanted` is set.
 * It reads an output of e instead of computing it again if it reads fewer inputs in this way, or as
 * many with fewer FLOPs.
 */
void gt_expr_derive(struct gt_expr *d, const struct gt_expr *e, unsigned wanted);

/* Translate e into a program. Errors: GT_ENOTSUP if it is too large. */
int gt_expr_compile(struct gt_map_program *p, const struct gt_expr *e, struct gt_err *err);

/* Set e to the expression of a program. */
void gt_expr_of_program(struct gt_expr *e, const struct gt_map_program *p);

/* Return the number of arguments of a function. */
int gt_function_arguments(enum gt_function f);

/* Return the floating-point operations per element. */
int gt_expr_flops(const struct gt_expr *e);

/* Print each step as " r0=mul(x0,x1)": x are inputs, y outputs, r rows. */
void gt_map_program_print(const struct gt_map_program *p, FILE *f);

/* A formula of simplify.c: return a simpler value that equals f(a, b, c), or -1. */
int gt_expr_simplify(struct gt_expr *e, enum gt_function f, int a, int b, int c);

/* Return whether v is a number, or this number. */
bool gt_expr_has_number(const struct gt_expr *e, int v);
bool gt_expr_is(const struct gt_expr *e, int v, double number);

#endif
