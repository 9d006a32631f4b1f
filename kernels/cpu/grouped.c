/* grouped.c - products of groups of rows, each by a matrix of its own, and the gradient. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl_api.h"
#include "kernels/cpu/parallel.h"
#include "lib/graph/fault.h"

static int prepare_grouped(struct gt_call *call, struct gt_err *err)
{
	(void)call;
	return gt_dnnl_api_load(err);
}

/* Check the ends of groups of `rows` rows. */
static int check_ends(const struct gt_tensor *ends, int64_t rows, struct gt_err *err)
{
	const int32_t *end = ends->data;
	int64_t last = 0;

	for (int64_t e = 0; e < ends->shape[0]; last = end[e++])
		if (end[e] < last || end[e] > rows)
			return gt_fault_set(
			    err, &(struct gt_fault){ GT_FAULT_GROUP, { end[e], e, last, rows } });
	return 0;
}

static void *row_of(const struct gt_tensor *t, int64_t row)
{
	int64_t size = gt_tensor_elements(t) / t->shape[0];

	return (char *)t->data + (size_t)(row * size) * gt_dtype_size(t->dtype);
}

/* Results are computed in pieces of so many rows, each by one thread: sums of sgemm depend on the
 * number of its threads. */
enum { PIECE_ROWS = 48 };

/* Piece i of the rows of all groups: `count` rows from `row` on, of group e. */
struct piece {
	int64_t e, row, count;
};

static int64_t count_pieces(const struct gt_tensor *ends)
{
	const int32_t *end = ends->data;
	int64_t pieces = 0, row = 0;

	for (int64_t e = 0; e < ends->shape[0]; row = end[e++])
		pieces += gt_ceil_div(end[e] - row, PIECE_ROWS);
	return pieces;
}

static struct piece find_piece(const struct gt_tensor *ends, int64_t i)
{
	const int32_t *end = ends->data;
	struct piece p = { 0 };

	for (;; p.row = end[p.e++]) {
		int64_t pieces = gt_ceil_div(end[p.e] - p.row, PIECE_ROWS);

		if (i < pieces)
			break;
		i -= pieces;
	}
	p.row += i * PIECE_ROWS;
	p.count = gt_min(PIECE_ROWS, end[p.e] - p.row);
	return p;
}

static int multiply_rows(const struct gt_call *call, int64_t i, struct gt_err *err)
{
	const struct gt_tensor *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
	const struct piece piece = find_piece(&call->in[2], i);
	const struct gt_cpu_product p = { .dtype = x->dtype,
		.trans_b = call->attrs.matmul.trans_b,
		.m = piece.count,
		.n = y->shape[1],
		.k = x->shape[1] };

	return gt_cpu_multiply(
	    &p, row_of(y, piece.row), row_of(x, piece.row), row_of(w, piece.e), call, err);
}

/* Compute PIECE_ROWS rows of the matrix of a group. */
static int multiply_group(const struct gt_call *call, int64_t i, struct gt_err *err)
{
	const struct gt_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
	const int64_t pieces = gt_ceil_div(a->shape[1], PIECE_ROWS), e = i / pieces;
	const int64_t first = i % pieces * PIECE_ROWS, size = (int64_t)gt_dtype_size(a->dtype);
	const int32_t *end = call->in[2].data;
	const int64_t row = e ? end[e - 1] : 0;
	const struct gt_cpu_product p = { .dtype = a->dtype,
		.trans_a = true,
		.m = gt_min(PIECE_ROWS, a->shape[1] - first),
		.n = b->shape[1],
		.k = end[e] - row,
		.a_stride = a->shape[1] };
	char *to = (char *)row_of(y, e) + first * p.n * size;

	if (p.k)
		return gt_cpu_multiply(
		    &p, to, (char *)row_of(a, row) + first * size, row_of(b, row), call, err);
	memset(to, 0, (size_t)(p.m * p.n * size));
	return 0;
}

/* Inside of a parallel loop, sgemm has one thread. */
static int multiply_pieces(struct gt_call *call, int64_t pieces,
    int (*multiply)(const struct gt_call *call, int64_t i, struct gt_err *err), struct gt_err *err)
{
	struct gt_err first = GT_ERR_INIT;

#pragma omp parallel for schedule(dynamic)
	for (int64_t i = 0; i < pieces; i++) {
		struct gt_err own = GT_ERR_INIT;

		if (!multiply(call, i, &own))
			continue;
#pragma omp critical
		first = own;
	}
	if (first.code)
		*err = first;
	return first.code;
}

static int run_grouped(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *y = &call->out[0], *ends = &call->in[2];
	const int64_t rows = y->shape[0];
	int64_t last;

	if (check_ends(ends, rows, err))
		return err->code;
	last = ((const int32_t *)ends->data)[ends->shape[0] - 1];
	if (last < rows)
		memset(row_of(y, last), 0,
		    (size_t)((rows - last) * y->shape[1]) * gt_dtype_size(y->dtype));
	return multiply_pieces(call, count_pieces(ends), multiply_rows, err);
}

static int run_grouped_grad(struct gt_call *call, struct gt_err *err)
{
	const int64_t pieces = gt_ceil_div(call->in[0].shape[1], PIECE_ROWS);

	if (check_ends(&call->in[2], call->in[0].shape[0], err))
		return err->code;
	return multiply_pieces(call, call->out[0].shape[0] * pieces, multiply_group, err);
}

const struct gt_kernel gt_cpu_grouped_kernels[] = {
	{ "grouped_matmul", GT_F32, .prepare = prepare_grouped, .run = run_grouped },
	{ "grouped_matmul", GT_F64, .run = run_grouped },
	{ "grouped_matmul_grad", GT_F32, .prepare = prepare_grouped, .run = run_grouped_grad },
	{ "grouped_matmul_grad", GT_F64, .run = run_grouped_grad },
	{ 0 },
};
