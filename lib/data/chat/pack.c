/* pack.c - several documents in each sample, by best-fit decreasing. */
#include "lib/data/chat/pack.h"

#include <stdint.h>
#include <stdlib.h>

#include "lib/base/mem.h"

/* No row, or no document. */
static const size_t none = SIZE_MAX;

/* Rows that are being filled. Those with the same space are a list. */
struct filling {
	size_t block, rows;
	size_t *row_of; /* [documents] */
	size_t *space;  /* [documents] of a row */
	size_t *next;   /* [documents] the next row of its list */
	size_t *head;   /* [block + 1] by space: the first row of the list; none */
	uint64_t *some; /* [block / 64 + 1] bit r: there is a row with space r */
};

static void release_filling(struct filling *f)
{
	free(f->row_of);
	free(f->space);
	free(f->next);
	free(f->head);
	free(f->some);
}

static int init_filling(struct filling *f, size_t count, size_t block, struct gt_err *err)
{
	*f = (struct filling){ .block = block };
	f->row_of = gt_calloc(count, sizeof(*f->row_of), err);
	f->space = gt_calloc(count, sizeof(*f->space), err);
	f->next = gt_calloc(count, sizeof(*f->next), err);
	f->head = gt_calloc(block + 1, sizeof(*f->head), err);
	f->some = gt_calloc(block / 64 + 1, sizeof(*f->some), err);
	if (!f->row_of || !f->space || !f->next || !f->head || !f->some)
		return GT_ENOMEM;
	for (size_t i = 0; i <= block; i++)
		f->head[i] = none;
	return 0;
}

/* Return the least space of a row from `length` on; none: no row has as much. */
static size_t find_space(const struct filling *f, size_t length)
{
	uint64_t bits = f->some[length / 64] >> (length % 64) << (length % 64);

	for (size_t word = length / 64;; bits = f->some[word]) {
		if (bits)
			return word * 64 + (size_t)__builtin_ctzll(bits);
		if (++word > f->block / 64)
			return none;
	}
}

static void push_row(struct filling *f, size_t row, size_t space)
{
	f->space[row] = space;
	f->next[row] = f->head[space];
	f->head[space] = row;
	f->some[space / 64] |= (uint64_t)1 << (space % 64);
}

static size_t pop_row(struct filling *f, size_t space)
{
	size_t row = f->head[space];

	f->head[space] = f->next[row];
	if (f->head[space] == none)
		f->some[space / 64] &= ~((uint64_t)1 << (space % 64));
	return row;
}

static void place_document(struct filling *f, size_t document, size_t length)
{
	size_t space = find_space(f, length);
	size_t row = space == none ? f->rows++ : pop_row(f, space);

	f->row_of[document] = row;
	push_row(f, row, (space == none ? f->block : space) - length);
}

/* Set order[count] to the documents, the longest first, and equally long ones in their order. */
static int sort_documents(
    size_t *order, const size_t *lengths, size_t count, size_t block, struct gt_err *err)
{
	size_t *at = gt_calloc(block + 2, sizeof(*at), err);

	if (!at)
		return GT_ENOMEM;
	for (size_t i = 0; i < count; i++)
		at[block - lengths[i] + 1]++;
	for (size_t i = 1; i <= block + 1; i++)
		at[i] += at[i - 1];
	for (size_t i = 0; i < count; i++)
		order[at[block - lengths[i]]++] = i;
	free(at);
	return 0;
}

/* List the documents of each row. `number` [f->rows] is the place of a row among all. */
static void list_documents(
    struct gt_packed_rows *out, const struct filling *f, size_t *number, size_t count)
{
	size_t rows = 0;

	for (size_t i = 0; i < f->rows; i++)
		number[i] = none;
	for (size_t i = 0; i < count; i++) {
		if (number[f->row_of[i]] == none)
			number[f->row_of[i]] = rows++;
		out->first[number[f->row_of[i]] + 1]++;
	}
	for (size_t r = 1; r <= f->rows; r++)
		out->first[r] += out->first[r - 1];
	/* The first of a row moves on to its end, which is the first of the next row. */
	for (size_t i = 0; i < count; i++)
		out->documents[out->first[number[f->row_of[i]]]++] = i;
	for (size_t r = f->rows; r > 0; r--)
		out->first[r] = out->first[r - 1];
	out->first[0] = 0;
	out->count = f->rows;
}

int gt_pack_rows(struct gt_packed_rows *out, const size_t *lengths, size_t count, size_t block,
    struct gt_err *err)
{
	size_t *order = gt_calloc(count, sizeof(*order), err);
	struct filling f;
	int rc = init_filling(&f, count, block, err);

	*out = (struct gt_packed_rows){ 0 };
	if (!rc && !order)
		rc = GT_ENOMEM;
	if (!rc)
		rc = sort_documents(order, lengths, count, block, err);
	for (size_t i = 0; !rc && i < count; i++)
		place_document(&f, order[i], lengths[order[i]]);
	if (!rc) {
		out->first = gt_calloc(f.rows + 1, sizeof(*out->first), err);
		out->documents = gt_calloc(count, sizeof(*out->documents), err);
		rc = out->first && out->documents ? 0 : GT_ENOMEM;
	}
	if (!rc)
		list_documents(out, &f, order, count);
	release_filling(&f);
	free(order);
	return rc;
}

void gt_packed_rows_release(struct gt_packed_rows *p)
{
	free(p->first);
	free(p->documents);
	*p = (struct gt_packed_rows){ 0 };
}
