/* packed.c - slots whose elements are stored in blocks. */
#include "lib/store/store.h"

#include <stdlib.h>
#include <string.h>

struct gt_slot gt_slot_plain(const struct gt_slot *slot)
{
	struct gt_slot plain = *slot;

	if (!slot->packing.block)
		return plain;
	plain.packing = (struct gt_packing){ 0 };
	plain.dtype = GT_F32;
	plain.shape[0] = slot->packing.shape[0];
	plain.shape[1] = slot->packing.shape[1];
	plain.count = plain.held = plain.largest = plain.shape[0] * plain.shape[1];
	return plain;
}

/* Encode up to GT_BLOCK_MOST elements of a row, `stride` apart. */
static void encode_part(const struct gt_block_type *type, const float *from, int64_t stride,
    int64_t count, unsigned char *to)
{
	float x[GT_BLOCK_MOST];

	for (int64_t e = 0; e < count; e++)
		x[e] = from[e * stride];
	for (int64_t e = 0; e < count; e += type->elements, to += type->bytes)
		type->encode(x + e, to);
}

/* The rows of a part of the columns are encoded one after the other, so that a transposed matrix is
 * read in the order of memory, too. */
void gt_slot_pack(const struct gt_slot *slot, const float *plain, void *out)
{
	const struct gt_block_type *type = &gt_block_types[slot->packing.block];
	const int64_t *shape = slot->packing.shape;
	const bool transposed = slot->packing.transposed;
	const int64_t rows = shape[transposed ? 1 : 0], columns = shape[transposed ? 0 : 1];
	const int64_t row = transposed ? 1 : columns, step = transposed ? rows : 1;

#pragma omp parallel for schedule(static)
	for (int64_t c = 0; c < columns; c += GT_BLOCK_MOST) {
		const int64_t count = columns - c < GT_BLOCK_MOST ? columns - c : GT_BLOCK_MOST;
		unsigned char *to = (unsigned char *)out + c / type->elements * type->bytes;

		for (int64_t r = 0; r < rows; r++)
			encode_part(
			    type, plain + r * row + c * step, step, count, to + r * slot->shape[1]);
	}
}

void *gt_slot_init_stored(const struct gt_slot *slot, uint64_t seed, struct gt_err *err)
{
	const struct gt_slot plain = gt_slot_plain(slot);
	void *host = gt_calloc((size_t)plain.count, gt_dtype_size(plain.dtype), err), *stored;

	if (!host)
		return NULL;
	gt_slot_init(&plain, seed, host);
	if (!slot->packing.block)
		return host;
	stored = gt_calloc((size_t)slot->count, 1, err);
	if (stored)
		gt_slot_pack(slot, host, stored);
	free(host);
	return stored;
}
