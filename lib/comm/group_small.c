/* group_small.c - the end of a collective whose data a rank has from all others. */
#include <string.h>

#include "lib/comm/group_backend.h"

void gt_copy_bytes(void *to, const void *from, size_t bytes)
{
	if (to != from && bytes)
		memcpy(to, from, bytes);
}

void gt_finish_small(const struct gt_collective *c, void *out, const void *const *src, int size)
{
	size_t bytes = (size_t)c->count * gt_dtype_size(c->dtype);

	if (!out)
		return;
	switch (c->kind) {
	case GT_ALL_REDUCE:
	case GT_REDUCE:
	case GT_REDUCE_SCATTER:
		gt_reduce(
		    (void *[]){ out }, 1, src, size, (size_t)c->count, c->dtype, c->reduction);
		break;
	case GT_ALL_GATHER:
		for (int r = 0; r < size; r++)
			gt_copy_bytes((char *)out + (size_t)r * bytes, src[r], bytes);
		break;
	case GT_BROADCAST:
		gt_copy_bytes(out, src[c->peer], bytes);
		break;
	default:
		break;
	}
}
