/* storage.c - the bytes behind tensors: checked against the file's checksum when first read. */
#include "lib/ckpt/tree/tree.h"
#include "lib/ckpt/zip/crc.h"

enum { PIECE = 4 << 20 }; /* of a mapping that is in memory at a time */

static uint32_t crc_of(const struct gt_storage *s)
{
	const unsigned char *bytes = s->bytes;
	uint32_t crc = 0;

	for (size_t done = 0; done < s->size_bytes;) {
		size_t n = s->size_bytes - done < PIECE ? s->size_bytes - done : PIECE;

		crc = gt_crc32(crc, bytes + done, n);
		if (s->map)
			gt_map_forget(s->map, s->file_offset + done, n);
		done += n;
	}
	return crc;
}

int gt_storage_copy(struct gt_storage *s, struct gt_arena *arena, struct gt_err *err)
{
	unsigned char *copy;
	int rc;

	if (!s->map)
		return 0;
	rc = gt_map_copy(s->map, s->file_offset, s->size_bytes, arena, &copy, err);
	if (rc)
		return rc;
	s->bytes = copy;
	s->map = NULL;
	return 0;
}

int gt_storage_compare(struct gt_storage *s, uint32_t crc, struct gt_err *err)
{
	if (crc != s->crc) {
		gt_err_set(err, GT_EFORMAT, "'%s' is damaged: its CRC-32 is %08x, not %08x",
		    s->name, crc, s->crc);
		return gt_err_hint(err, "copy or download the file again");
	}
	atomic_store_explicit(&s->checked, true, memory_order_relaxed);
	return 0;
}

int gt_storage_check(struct gt_storage *s, struct gt_err *err)
{
	if (!s->has_crc || atomic_load_explicit(&s->checked, memory_order_relaxed))
		return 0;
	return gt_storage_compare(s, crc_of(s), err);
}

void gt_storage_forget(const struct gt_storage *s, uint64_t start, uint64_t size)
{
	if (s->map)
		gt_map_forget(s->map, s->file_offset + start, size);
}
