/* batched_matmul.c - products of the matrices in two tensors, one thread for each. */
#include <omp.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/parallel.h"
#include "kernels/loops.h"

/*
 * Products of a few hundred rows are too small for several threads, so each thread has products of
 * its own. Where there are few, they are divided into pieces of some rows. The pieces depend on the
 * shape alone, and one thread computes a piece, so the bits are the same for any number of threads.
 * Those of a product that several threads of oneDNN's sgemm share depend on their number (oneDNN
 * 2.6, 197 x 64 x 197).
 */
enum {
	PIECES = 24,         /* wanted: shared evenly by 2, 3, 4, 6, 8 and 12 threads */
	PIECE_ROWS = 48,     /* least rows of a piece: sgemm takes that many at a time */
	BATCH_FORK = 1 << 17 /* multiply-adds that are worth a second thread */
};

struct batch {
	const struct gt_call *call;
	struct gt_loops loops; /* gt_loops_of_batch() sets them */
	struct gt_cpu_product product;
	int64_t count, rows, pieces; /* products; rows of a piece; pieces of a product */
};

static int64_t size_at(const struct gt_tensor *t, int from_end)
{
	return t->shape[t->ndim - from_end];
}

static void describe_batch(struct batch *b, const struct gt_call *call)
{
	const struct gt_tensor *x = &call->in[0], *y = &call->out[0];
	struct gt_cpu_product *p = &b->product;
	int64_t wanted;

	*b = (struct batch){ .call = call, .count = 1 };
	gt_loops_of_batch(&b->loops, call);
	for (int d = 0; d < b->loops.ndim; d++)
		b->count *= b->loops.shape[d];
	p->dtype = y->dtype;
	p->trans_a = call->attrs.matmul.trans_a;
	p->trans_b = call->attrs.matmul.trans_b;
	p->m = size_at(y, 2);
	p->n = size_at(y, 1);
	p->k = size_at(x, p->trans_a ? 2 : 1);
	p->a_stride = size_at(x, 1);
	wanted = gt_ceil_div(PIECES, b->count);
	b->rows = gt_ceil_div(gt_ceil_div(p->m, wanted), PIECE_ROWS) * PIECE_ROWS;
	b->rows = gt_min(b->rows, p->m);
	b->pieces = gt_ceil_div(p->m, b->rows);
}

/* Return the data of a tensor of the loops, from element `at` of matrix i of the batch on. */
static char *batch_data(
    const struct batch *b, const struct gt_tensor *t, int number, int64_t i, int64_t at)
{
	int64_t matrix = 0;

	for (int d = b->loops.ndim - 1; d >= 0; d--) {
		matrix += i % b->loops.shape[d] * b->loops.stride[number][d];
		i /= b->loops.shape[d];
	}
	at += matrix * size_at(t, 1) * size_at(t, 2);
	return (char *)t->data + (size_t)at * gt_dtype_size(t->dtype);
}

static int multiply_piece(const struct batch *b, int64_t i, struct gt_err *err)
{
	int64_t product = i / b->pieces, row = i % b->pieces * b->rows;
	const struct gt_call *call = b->call;
	struct gt_cpu_product p = b->product;

	p.m = gt_min(b->rows, p.m - row);
	return gt_cpu_multiply(&p, batch_data(b, &call->out[0], 0, product, row * p.n),
	    batch_data(b, &call->in[0], 1, product, p.trans_a ? row : row * p.a_stride),
	    batch_data(b, &call->in[1], 2, product, 0), call, err);
}

/* Small ones set the number of threads to 1, as sgemm would start its own. */
static int run_batch(struct gt_call *call, struct gt_err *err)
{
	struct gt_err first = GT_ERR_INIT;
	int threads = omp_get_max_threads();
	struct batch b;
	bool small;

	describe_batch(&b, call);
	small = b.count * b.product.m * b.product.n * b.product.k < BATCH_FORK;
	if (small)
		omp_set_num_threads(1);
#pragma omp parallel for schedule(static)
	for (int64_t i = 0; i < b.count * b.pieces; i++) {
		struct gt_err own = GT_ERR_INIT;

		if (!multiply_piece(&b, i, &own))
			continue;
#pragma omp critical
		first = own;
	}
	if (small)
		omp_set_num_threads(threads);
	if (first.code)
		*err = first;
	return first.code;
}

static int prepare_batch_f32(struct gt_call *call, struct gt_err *err)
{
	(void)call;
	return gt_dnnl_api_load(err);
}

const struct gt_kernel gt_cpu_batched_matmul_kernels[] = {
	{ "batched_matmul", GT_F32, .prepare = prepare_batch_f32, .run = run_batch },
	{ "batched_matmul", GT_F64, .run = run_batch },
	{ 0 },
};
