/* embedding.c - embedding, its gradient, and that of positions. */
#include "kernels/cpu/decode.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/zero.h"
#include "lib/graph/fault.h"

/* GT_EFORMAT, naming the first of ids [B, T] that is outside a table of `rows`. */
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

/* The table of positions of a call, and the tokens' rows of it. */
struct positions {
	const void *table;     /* NULL: there is none */
	const int32_t *places; /* the row of each token; NULL: rows follow from `past` */
	int64_t past, length;  /* earlier tokens; tokens of a text */
};

/* Errors: GT_EFORMAT where the table has not all rows. */
static int read_positions(struct positions *out, const struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *table = gt_optional_input(call, 2);
	const struct gt_tensor *past = gt_optional_input(call, 3);
	const struct gt_tensor *places = gt_optional_input(call, 4);

	*out = (struct positions){ .table = table ? table->data : NULL,
		.places = places ? places->data : NULL,
		.past = past ? *(const int32_t *)past->data : 0,
		.length = gt_tensor_last(&call->in[1]) };
	if (places)
		return check_ids(places, table->shape[0], err);
	if (!table || (out->past >= 0 && out->past <= table->shape[0] - out->length))
		return 0;
	return gt_fault_set(err,
	    &(struct gt_fault){ GT_FAULT_POSITIONS, { out->length, out->past, table->shape[0] } });
}

static int64_t row_of_token(const struct positions *p, int64_t i)
{
	return p->places ? p->places[i] : p->past + i % p->length;
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
	const int64_t tokens = gt_tensor_elements(&call->in[1]), n = call->attrs.embedding.width;
	const int32_t *ids = call->in[1].data;
	struct positions positions;
	int rc = check_ids(&call->in[1], table->shape[0], err);

	if (!rc)
		rc = read_positions(&positions, call, err);
	if (rc)
		return rc;
#pragma omp parallel for schedule(static) if (tokens * n >= GT_FORK_MIN)
	for (int64_t i = 0; i < tokens; i++) {
		const unsigned char *row = table->data;
		float *to = (float *)call->out[0].data + i * n;

		gt_decode_row(to, row + ids[i] * table->shape[1], n, call->attrs.embedding.block);
		if (positions.table) {
			const float *at =
			    (const float *)positions.table + row_of_token(&positions, i) * n;

#pragma omp simd
			for (int64_t c = 0; c < n; c++)
				to[c] += at[c];
		}
	}
	return 0;
}

const struct gt_kernel GT_ISA(gt_cpu_embedding_kernels)[] = {
	{ "embedding", GT_F32, is_packed_table, .run = look_up_packed },
	GT_ROWS(embedding, .accepts = gt_cpu_accepts_one_type),
	GT_ROWS(embedding_grad),
	GT_ROWS(position_grad),
	{ .op = NULL },
};
