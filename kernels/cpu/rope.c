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
