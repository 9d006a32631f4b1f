/* rope.c - rotary positions of queries and keys, and their gradient. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/parallel.h"

/* Sizes of a call. */
struct sizes {
	int64_t B, T, heads, kv_heads, D;
	int64_t pairs; /* pairs of columns of a head that are rotated */
	int64_t wide;  /* columns of qkv */
};

static struct sizes rope_sizes(const struct gt_call *call, const struct gt_tensor *qkv)
{
	struct sizes s = { .B = qkv->shape[0], .T = qkv->shape[1], .wide = qkv->shape[2] };

	s.heads = call->attrs.rope.heads;
	s.kv_heads = call->attrs.rope.kv_heads;
	s.D = s.wide / (s.heads + 2 * s.kv_heads);
	s.pairs = call->attrs.rope.angles ? call->attrs.rope.angles->pairs : s.D / 2;
	return s;
}

/* Return the row of the tables for row r of the batch. A place that no row of T tokens has is read
 * as the last one. */
static int64_t row_of_angles(const struct sizes *s, const struct gt_tensor *positions, int64_t r)
{
	int64_t place = positions ? ((const int32_t *)positions->data)[r] : r % s->T;

	return place < 0 || place >= s->T ? s->T - 1 : place;
}

/* Cosines and sines [T, pairs] each, of the data's type. */
static int prepare_of(struct gt_call *call, const struct gt_tensor *qkv)
{
	struct sizes s = rope_sizes(call, qkv);

	call->workspace_bytes = (size_t)(2 * s.T * s.pairs) * gt_dtype_size(qkv->dtype);
	return 0;
}

static int rope_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	return prepare_of(call, &call->out[0]);
}

static int rope_grad_prepare(struct gt_call *call, struct gt_err *err)
{
	(void)err;
	return prepare_of(call, &call->in[0]);
}

#define REAL_BITS 32
#include "kernels/cpu/rope.inc"
#define REAL_BITS 64
#include "kernels/cpu/rope.inc"

const struct gt_kernel GT_ISA(gt_cpu_rope_kernels)[] = {
	GT_ROWS(rope, .prepare = rope_prepare),
	GT_ROWS(rope_grad, .prepare = rope_grad_prepare),
	{ .op = NULL },
};
