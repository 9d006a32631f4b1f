/* embedding.c - embedding, its gradient, and that of positions. */
#include "kernels/cpu/decode.h"
#include "kernels/cpu/parallel.h"
#include "lib/graph/fault.h"

/* GT_EINVAL, naming the first of ids [B, T] that is outside a table of `rows`. */
static int check_ids(const struct gt_tensor *ids, int64_t rows, struct gt_err *err)
{
	const int32_t *id = ids->data;
	int64_t n = gt_tensor_elements(ids), last = gt_tensor_last(ids), at = 0;
	int bad = 0;

#pragma omp simd reduction(| : bad)
	for (int64_t i = 0; i < n; i++)
		bad |= (id[i] < 0) | (id[i] >= rows);
	if (!bad)
		return 0;
	while (id[at] >= 0 && id[at] < rows)
		at++;
	return gt_fault_set(
	    err, &(struct gt_fault){ GT_FAULT_ID, { id[at], at / last, at % last, rows } });
}

/* How many tokens come before these, in *past. GT_EINVAL where the positions do not reach. */
static int read_past(const struct gt_call *call, int64_t *past, struct gt_err *err)
{
	const struct gt_tensor *given = gt_optional_input(call, 3);
	const struct gt_tensor *position = gt_optional_input(call, 2);
	int64_t length = gt_tensor_last(&call->in[1]);

	*past = given ? *(const int32_t *)given->data : 0;
	if (!position || (*past >= 0 && *past <= position->shape[0] - length))
		return 0;
	return gt_fault_set(
	    err, &(struct gt_fault){ GT_FAULT_POSITIONS, { length, *past, position->shape[0] } });
}

/* Set *places to the rows of `position` for all tokens, or to NULL if they follow from `past`.
 * GT_EINVAL if one is outside of the table. */
static int read_places(const struct gt_call *call, const int32_t **places, struct gt_err *err)
{
	const struct gt_tensor *given = gt_optional_input(call, 4);

	*places = given ? given->data : NULL;
	return given ? check_ids(given, call->in[2].shape[0], err) : 0;
}

/* Rows of the table that `rows` are a part of. */
static int64_t whole_of(const struct gt_call *call, int64_t rows)
{
	return call->attrs.embedding.whole ? call->attrs.embedding.whole : rows;
}

#define REAL_BITS 32
#include "kernels/cpu/embedding.inc"
#define REAL_BITS 64
#include "kernels/cpu/embedding.inc"

/* ---- a table in blocks ---- */

static bool is_packed_table(const struct gt_call *call)
{
	return call->attrs.embedding.block;
}

static int look_up_packed(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *table = &call->in[0];
	const struct gt_tensor *position = gt_optional_input(call, 2);
	const int64_t length = gt_tensor_last(&call->in[1]), n = call->attrs.embedding.width;
	const int32_t *ids = call->in[1].data;
	int64_t past;
	int rc = check_ids(&call->in[1], table->shape[0], err);

	if (!rc)
		rc = read_past(call, &past, err);
	for (int64_t i = 0; !rc && i < gt_tensor_elements(&call->in[1]); i++) {
		const unsigned char *row = table->data;
		float *to = (float *)call->out[0].data + i * n;

		gt_decode_row(to, row + ids[i] * table->shape[1], n, call->attrs.embedding.block);
		if (position) {
			const float *at = (const float *)position->data + (past + i % length) * n;

#pragma omp simd
			for (int64_t c = 0; c < n; c++)
				to[c] += at[c];
		}
	}
	return rc;
}

const struct gt_kernel GT_ISA(gt_cpu_embedding_kernels)[] = {
	{ "embedding", GT_F32, is_packed_table, .run = look_up_packed },
	GT_ROWS(embedding, .accepts = gt_cpu_accepts_one_type),
	GT_ROWS(embedding_grad),
	GT_ROWS(position_grad),
	{ .op = NULL },
};
