/* batched_matmul.c - products of the matrices in two tensors, by cuBLASLt. */
#include <stdlib.h>

#include "kernels/cuda/library/product.h"
#include "kernels/loops.h"
#include "lib/base/mem.h"

/*
 * cuBLASLt takes a batch of matrices that are equally far apart; with a distance of 0, all products
 * share a matrix. The dimensions before the matrices are joined where all three tensors go through
 * them alike, which leaves one in most cases. Of several, the largest is the batch of the library,
 * and the others are loops over products.
 */
struct batched_state {
	struct gt_product *product;
	struct gt_loops loops; /* gt_loops_of_batch(), without the library's batch */
	int64_t runs;
};

static int64_t size_at(const struct gt_tensor *t, int from_end)
{
	return t->shape[t->ndim - from_end];
}

static int64_t matrix_elements(const struct gt_tensor *t)
{
	return size_at(t, 1) * size_at(t, 2);
}

static const struct gt_tensor *tensor_of(const struct gt_call *call, int number)
{
	return number ? &call->in[number - 1] : &call->out[0];
}

static struct gt_product_shape batched_shape(const struct gt_call *call)
{
	const struct gt_tensor *a = &call->in[0], *y = &call->out[0];
	struct gt_product_shape s = { .dtype = y->dtype,
		.trans_a = call->attrs.matmul.trans_a,
		.trans_b = call->attrs.matmul.trans_b,
		.tf32 = call->attrs.matmul.tf32,
		.untimed = call->untimed };

	s.m = size_at(y, 2);
	s.n = size_at(y, 1);
	s.k = size_at(a, s.trans_a ? 2 : 1);
	return s;
}

/* Make the largest dimension the batch of the product, and take it out of the loops. */
static void take_batch(
    struct gt_product_shape *s, struct batched_state *m, const struct gt_call *call)
{
	int64_t *const steps[] = { &s->y_step, &s->a_step, &s->b_step };
	struct gt_loops *l = &m->loops;
	int largest = 0;

	for (int d = 1; d < l->ndim; d++)
		if (l->shape[d] > l->shape[largest])
			largest = d;
	s->batch = l->shape[largest];
	for (int t = 0; t < 3; t++)
		*steps[t] = l->stride[t][largest] * matrix_elements(tensor_of(call, t));
	l->shape[largest] = 1;
	m->runs = 1;
	for (int d = 0; d < l->ndim; d++)
		m->runs *= l->shape[d];
}

static void release_batched(struct gt_call *call)
{
	struct batched_state *m = call->state;

	if (m)
		gt_product_free(m->product);
	free(m);
	call->state = NULL;
}

static int prepare_batched(struct gt_call *call, struct gt_err *err)
{
	struct batched_state *m = gt_calloc(1, sizeof(*m), err);
	struct gt_product_shape s = batched_shape(call);

	if (!m)
		return GT_ENOMEM;
	call->state = m;
	gt_loops_of_batch(&m->loops, call);
	take_batch(&s, m, call);
	if (gt_product_new(&m->product, &s, err)) {
		release_batched(call);
		return err->code;
	}
	call->launches = 0;
	gt_product_add_cost(m->product, m->runs, call);
	call->workspace_bytes = gt_product_workspace(m->product);
	return 0;
}

/* Return the first matrix of a tensor that run i of the product takes. */
static char *batched_data(
    const struct batched_state *m, const struct gt_call *call, int number, int64_t i)
{
	const struct gt_tensor *t = tensor_of(call, number);
	int64_t matrix = 0;

	for (int d = m->loops.ndim - 1; d >= 0; d--) {
		matrix += i % m->loops.shape[d] * m->loops.stride[number][d];
		i /= m->loops.shape[d];
	}
	return (char *)t->data + (size_t)(matrix * matrix_elements(t)) * gt_dtype_size(t->dtype);
}

static int run_batched(struct gt_call *call, struct gt_err *err)
{
	const struct batched_state *m = call->state;

	for (int64_t i = 0; i < m->runs; i++)
		if (gt_product_run(m->product, call->stream, batched_data(m, call, 0, i),
		        batched_data(m, call, 1, i), batched_data(m, call, 2, i), NULL, 1, 0,
		        call->workspace, err))
			return err->code;
	return 0;
}

#define BATCHED_ROW(type)                                                                          \
	{                                                                                          \
		.op = "batched_matmul", .dtype = type, .prepare = prepare_batched,                 \
		.run = run_batched, .release = release_batched                                     \
	}

const struct gt_kernel gt_cuda_batched_matmul_kernels[] = {
	BATCHED_ROW(GT_F32),
	BATCHED_ROW(GT_F64),
	BATCHED_ROW(GT_BF16),
	BATCHED_ROW(GT_F16),
	{ 0 },
};
