/* aten_products.c - functions of PyTorch that multiply matrices, and softmax. */
#include "lib/model/import/aten.h"

enum { FLOAT32 = 7 }; /* the type's number in schema.py */

static void softmax(struct gt_import *im, bool log)
{
	struct gt_value *x = gt_import_tensor(im, "self");
	int dim;

	if (!x)
		return;
	dim = gt_import_dim(im, "dim", -1, x->ndim);
	if (gt_import_int(im, "dtype", FLOAT32) != FLOAT32)
		gt_import_fail(im, "in another type than float32");
	if (!im->g->err.code)
		gt_import_result(im, gt_softmax(im->g, x, dim, log));
}

void gt_aten_softmax(struct gt_import *im)
{
	softmax(im, false);
}

void gt_aten_log_softmax(struct gt_import *im)
{
	softmax(im, true);
}

/* View a vector as a matrix of one row, or of one column. */
static struct gt_value *as_matrix(struct gt_import *im, struct gt_value *x, bool column)
{
	if (x->ndim != 1)
		return x;
	return gt_reshape(
	    im->g, x, 2, column ? (int64_t[]){ x->shape[0], 1 } : (int64_t[]){ 1, x->shape[0] });
}

/* View x without dimension `dim`, which has size 1. */
static struct gt_value *drop_dim(struct gt_import *im, struct gt_value *x, int dim)
{
	int64_t shape[GT_MAX_DIMS];
	int ndim = 0;

	for (int d = 0; x && d < x->ndim; d++)
		if (d != dim)
			shape[ndim++] = x->shape[d];
	return x ? gt_reshape(im->g, x, ndim, shape) : NULL;
}

/* A vector on the left is a row, one on the right a column; the result lacks these dimensions. */
void gt_aten_matmul(struct gt_import *im)
{
	struct gt_value *a = gt_import_tensor(im, "self"), *b = gt_import_tensor(im, "other"), *y;

	if (!a || !b)
		return;
	y = gt_batched_matmul(im->g, as_matrix(im, a, false), as_matrix(im, b, true), false, false);
	if (y && b->ndim == 1)
		y = drop_dim(im, y, y->ndim - 1);
	if (y && a->ndim == 1)
		y = drop_dim(im, y, y->ndim - (b->ndim == 1 ? 1 : 2));
	gt_import_result(im, y);
}

void gt_aten_bmm(struct gt_import *im)
{
	struct gt_value *a = gt_import_tensor(im, "self"), *b = gt_import_tensor(im, "mat2");

	gt_import_result(im, gt_batched_matmul(im->g, a, b, false, false));
}

static struct gt_value *times_number(struct gt_import *im, struct gt_value *x, double factor)
{
	const struct gt_map_operand operands[] = { { .value = x },
		{ .is_number = true, .number = factor } };

	return factor == 1 || !x ? x : gt_apply(im->g, GT_F_MUL, operands);
}

/* beta * self + alpha * batch1 * batch2, where self is not read if beta is 0. */
void gt_aten_baddbmm(struct gt_import *im)
{
	struct gt_value *x = gt_import_tensor(im, "self"), *y;
	struct gt_value *a = gt_import_tensor(im, "batch1"), *b = gt_import_tensor(im, "batch2");
	double beta = gt_import_float(im, "beta", 1), alpha = gt_import_float(im, "alpha", 1);

	y = times_number(im, gt_batched_matmul(im->g, a, b, false, false), alpha);
	if (!x || !y || im->g->err.code)
		return;
	if (beta != 0) {
		x = times_number(im, x, beta);
		y = gt_import_same_shape(x, y) ? gt_add(im->g, x, y)
		                               : gt_binary(im->g, GT_F_ADD, x, y);
	}
	gt_import_result(im, y);
}
