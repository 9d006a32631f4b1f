/* arrange.c - arrange and reorder: copies of rows, transpositions in tiles, or single elements. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/zero.h"
#include "lib/base/mem.h"
#include "lib/graph/arrangement.h"

/*
 * A piece (lib/graph/arrangement.h) is copied in planes of two dimensions, and a plane in blocks,
 * which threads divide. The columns of a plane are the last dimension in the order of the output's
 * memory. Its rows are the dimension before, or the one whose elements are nearest to each other in
 * the input, if they are nearer than those of the columns. Elements are moved by their sizes, so
 * that these functions do not know types.
 */
enum {
	LARGEST = 8, /* bytes of an element */
	SIZES = 4,   /* sizes of elements: 1, 2, 4, 8 bytes */
	VECTOR_BYTES = 16,
	LINE_BYTES = 64
};

/* The distances between neighbouring rows and columns of a plane, in elements. */
struct steps {
	int64_t to_row, to_col, from_row, from_col;
};

/* INTERLEAVE_LOW takes the elements of the lower halves of two vectors in turn: a0, b0, a1, b1, and
 * so on; INTERLEAVE_HIGH those of the higher halves. */
#define WORD_BITS 8
#define INTERLEAVE_LOW(a, b)                                                                       \
	__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVE_HIGH(a, b)                                                                      \
	__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#include "kernels/cpu/arrange.inc"
#define WORD_BITS             16
#define INTERLEAVE_LOW(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#include "kernels/cpu/arrange.inc"
#define WORD_BITS             32
#define INTERLEAVE_LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#include "kernels/cpu/arrange.inc"
#define WORD_BITS             64
#define INTERLEAVE_LOW(a, b)  __builtin_shufflevector(a, b, 0, 2)
#define INTERLEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 1, 3)
#include "kernels/cpu/arrange.inc"

/* Copy rows x cols elements from one plane to another. */
typedef void copy_block(
    const struct steps *s, void *to, const void *from, int64_t rows, int64_t cols);

static copy_block *const copies_of_rows[SIZES] = { copy_rows_8, copy_rows_16, copy_rows_32,
	copy_rows_64 };
static copy_block *const transpositions[SIZES] = { transpose_8, transpose_16, transpose_32,
	transpose_64 };
static copy_block *const copies_of_elements[SIZES] = { copy_elements_8, copy_elements_16,
	copy_elements_32, copy_elements_64 };

/* How a piece is copied. Of `piece`, the dimensions of a plane have the size 1. */
struct piece_copy {
	struct gt_arrange_piece piece;
	int size; /* bytes of an element */
	struct steps steps;
	int64_t rows, cols; /* each plane */
	/* rows and columns of a block, of which the last may have fewer, and blocks of a plane */
	int64_t row_block, col_block, row_blocks, col_blocks;
	int64_t elements, blocks; /* all planes together */
	copy_block *copy;
};

struct arrange {
	bool zeros; /* some elements of the output are in no piece */
	int64_t count;
	struct piece_copy copies[GT_MAX_PIECES];
};

/* Give the piece a dimension of one row. */
static void add_row_dim(struct gt_arrange_piece *p)
{
	p->shape[p->ndim] = p->from.strides[p->ndim] = p->to.strides[p->ndim] = 1;
	p->ndim++;
}

/* Return the dimension of the rows of a plane with the columns `col`. */
static int64_t find_row_dim(const struct gt_arrange_piece *p, int64_t col)
{
	int64_t row = col;

	for (int64_t i = 0; i < p->ndim; i++)
		if (llabs(p->from.strides[i]) < llabs(p->from.strides[row]))
			row = i;
	return row != col ? row : col ? col - 1 : 1;
}

static void choose_copy(struct piece_copy *c)
{
	const struct steps *s = &c->steps;
	int k = __builtin_ctz((unsigned)c->size);

	if (s->to_col == 1 && s->from_col == 1)
		c->copy = copies_of_rows[k];
	else if (s->to_col == 1 && s->from_row == 1)
		c->copy = transpositions[k];
	else
		c->copy = copies_of_elements[k];
}

/* Blocks have about GT_GRAIN elements, in rows that are as long as possible. Where neighbouring
 * rows are nearer to each other in the input than neighbouring columns, a block has two cache lines
 * of them, so that it uses all elements that it loads. */
static void choose_blocks(struct piece_copy *c)
{
	bool crosses = llabs(c->steps.from_row) < llabs(c->steps.from_col);
	int64_t rows = crosses ? gt_min(c->rows, 2 * LINE_BYTES / c->size) : 1;

	c->col_block = gt_min(c->cols, GT_GRAIN / rows);
	c->row_block = gt_min(c->rows, GT_GRAIN / c->col_block);
	c->row_blocks = gt_ceil_div(c->rows, c->row_block);
	c->col_blocks = gt_ceil_div(c->cols, c->col_block);
	c->elements = gt_arrange_piece_elements(&c->piece) * c->rows * c->cols;
	c->blocks = gt_arrange_piece_elements(&c->piece) * c->row_blocks * c->col_blocks;
}

static void plan_piece(struct piece_copy *c, const struct gt_arrange_piece *piece, int size)
{
	struct gt_arrange_piece *p = &c->piece;
	int64_t col, row;

	*p = *piece;
	c->size = gt_arrange_piece_widen(p, size, LARGEST);
	if (!p->ndim)
		add_row_dim(p);
	col = p->ndim - 1;
	if (!col)
		add_row_dim(p);
	row = find_row_dim(p, col);
	c->steps = (struct steps){ p->to.strides[row], p->to.strides[col], p->from.strides[row],
		p->from.strides[col] };
	c->rows = p->shape[row];
	c->cols = p->shape[col];
	p->shape[row] = p->shape[col] = 1;
	choose_copy(c);
	choose_blocks(c);
}

static int plan_pieces(
    struct gt_call *call, int64_t count, const struct gt_arrange_piece *pieces, struct gt_err *err)
{
	struct arrange *s = gt_calloc(1, sizeof(*s), err);

	call->state = s;
	if (!s)
		return GT_ENOMEM;
	s->count = count;
	for (int64_t i = 0; i < count; i++)
		plan_piece(&s->copies[i], &pieces[i], (int)gt_dtype_size(call->out[0].dtype));
	return 0;
}

static int prepare_arrange(struct gt_call *call, struct gt_err *err)
{
	const struct gt_arrangement *a = call->attrs.arrange.arrangement;
	struct arrange *s;

	if (plan_pieces(call, a->count, a->pieces, err))
		return err->code;
	s = call->state;
	s->zeros = gt_arrangement_copied(a) < gt_arrangement_elements(a);
	return 0;
}

/* Channels and pixels of each image change places, unless both layouts are the same. */
static int prepare_reorder(struct gt_call *call, struct gt_err *err)
{
	const struct gt_tensor *x = &call->in[0];
	struct gt_arrange_piece p = { .ndim = 1, .shape = { gt_tensor_elements(x) } };

	p.from.strides[0] = p.to.strides[0] = 1;
	if (x->ndim == 4 && x->layout != call->out[0].layout) {
		int64_t channels = x->shape[1], pixels = x->shape[2] * x->shape[3];
		struct gt_places plain = { 0, { channels * pixels, pixels, 1 } };
		struct gt_places last = { 0, { channels * pixels, 1, channels } };
		bool from_plain = x->layout == GT_PLAIN;

		p = (struct gt_arrange_piece){ 0, 3, { x->shape[0], channels, pixels },
			from_plain ? plain : last, from_plain ? last : plain };
	}
	return plan_pieces(call, 1, &p, err);
}

static void release_arrange(struct gt_call *call)
{
	free(call->state);
	call->state = NULL;
}

/* Copy block `block` of all planes; blocks of a plane are counted by rows of blocks. */
static void copy_one_block(const struct piece_copy *c, char *to, const char *from, int64_t block)
{
	const struct gt_arrange_piece *p = &c->piece;
	int64_t col = block % c->col_blocks * c->col_block;
	int64_t row = block / c->col_blocks % c->row_blocks * c->row_block;
	int64_t plane = block / c->col_blocks / c->row_blocks;
	int64_t y = p->to.first + row * c->steps.to_row + col * c->steps.to_col;
	int64_t x = p->from.first + row * c->steps.from_row + col * c->steps.from_col;

	for (int64_t i = p->ndim; i-- > 0; plane /= p->shape[i]) {
		y += plane % p->shape[i] * p->to.strides[i];
		x += plane % p->shape[i] * p->from.strides[i];
	}
	c->copy(&c->steps, to + y * c->size, from + x * c->size,
	    gt_min(c->row_block, c->rows - row), gt_min(c->col_block, c->cols - col));
}

static int run_arrange(struct gt_call *call, struct gt_err *err)
{
	const struct arrange *s = call->state;
	struct gt_tensor *y = &call->out[0];

	(void)err;
	if (s->zeros)
		gt_cpu_zero(y->data, gt_tensor_elements(y) * (int64_t)gt_dtype_size(y->dtype));
	for (int64_t k = 0; k < s->count; k++) {
		const struct piece_copy *c = &s->copies[k];
		const char *from = call->in[c->piece.input].data;

#pragma omp parallel for schedule(static) if (c->elements >= GT_FORK_MIN)
		for (int64_t i = 0; i < c->blocks; i++)
			copy_one_block(c, y->data, from, i);
	}
	return 0;
}

#define ROW(name, type)                                                                            \
	{                                                                                          \
		.op = #name, .dtype = type, .prepare = prepare_##name, .run = run_arrange,         \
		.release = release_arrange                                                         \
	}
#define ROWS(name) ROW(name, GT_F32), ROW(name, GT_F64), ROW(name, GT_BF16), ROW(name, GT_F16)

/* Integers have the row of float32 (struct gt_kernel). */
const struct gt_kernel gt_cpu_arrange_kernels[] = {
	ROWS(arrange),
	ROWS(reorder),
	{ .op = NULL },
};
