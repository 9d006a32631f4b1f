/* file_usage.c - the bytes of a checkpoint's file, and how many of them are dead. */
#include <string.h>

#include "lib/ckpt/format.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/zip/layout.h"

/* Add the figures of one file to both sums. */
static int add_file(
    const struct gt_mapping *map, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err)
{
	struct gt_arena arena = { 0 };
	struct gt_zip zip;
	uint64_t dead = 0;
	int rc;

	*file_bytes += map->size;
	if (map->size < 4 || memcmp(map->data, "PK\3\4", 4))
		return 0;
	rc = gt_zip_read(&zip, map, &arena, err);
	if (!rc)
		rc = gt_zip_dead_bytes(&zip, &dead, err);
	*dead_bytes += dead;
	gt_arena_release(&arena);
	return rc;
}

int gt_ckpt_file_usage(
    const struct gt_ckpt *ckpt, uint64_t *file_bytes, uint64_t *dead_bytes, struct gt_err *err)
{
	int rc;

	*file_bytes = *dead_bytes = 0;
	rc = add_file(&ckpt->map, file_bytes, dead_bytes, err);
	for (size_t i = 0; i < ckpt->shard_count && !rc; i++)
		rc = add_file(&ckpt->shards[i].ckpt->map, file_bytes, dead_bytes, err);
	return rc;
}
