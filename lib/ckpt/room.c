/* room.c - the bytes of a checkpoint's file, and how many of them are dead. */
#include "lib/ckpt/format.h"
#include "lib/ckpt/inventory.h"
#include "lib/ckpt/zip_layout.h"

int gt_ckpt_room(
    const struct gt_ckpt *ckpt, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct gt_zip zip;
	int rc;

	*file_bytes = ckpt->map.size;
	*dead_bytes = 0;
	if (ckpt->format != &gt_format_torch_zip)
		return 0;
	rc = gt_zip_read(&zip, &ckpt->map, &arena, err);
	if (!rc)
		rc = gt_zip_dead_bytes(&zip, dead_bytes, err);
	gt_arena_release(&arena);
	return rc;
}
