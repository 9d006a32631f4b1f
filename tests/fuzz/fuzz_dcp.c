/* fuzz_dcp.c - fuzz target: the metadata of a distributed checkpoint, without the ranks' files. */
#include <stdlib.h>

#include "lib/ckpt/dcp/dcp.h"
#include "lib/ckpt/tree/join.h"
#include "lib/ckpt/tree/tree.h"
#include "tests/fuzz/fuzz.h"

/* Check the chunks of a tensor; *value becomes what stands for it in the tree. */
static int check_entry(const struct gt_dcp_entry *e, struct gt_tree **value, uint64_t *compared,
    struct gt_arena *arena, struct gt_err *err)
{
	struct gt_join_box *boxes = gt_calloc(e->chunk_count, sizeof(*boxes), err);
	const struct gt_join join = { e->name, e->dtype, e->ndim, e->shape, boxes, e->chunk_count,
		compared };
	int rc = 0;

	*value = gt_tree_none(arena, err);
	fuzz_require(boxes && *value);
	for (size_t i = 0; i < e->chunk_count; i++) {
		boxes[i] = (struct gt_join_box){ e->chunks[i].offset, e->chunks[i].size, NULL };
		fuzz_require(*e->chunks[i].item.file);
	}
	if (e->is_tensor)
		rc = gt_join_check(&join, err);
	else
		fuzz_require(*e->value.file);
	free(boxes);
	return rc;
}

void fuzz_dcp(const unsigned char *bytes, size_t size)
{
	const struct gt_mapping map = { bytes, size, -1, 0 };
	struct gt_err err = GT_ERR_INIT;
	struct gt_arena arena = { 0 };
	struct gt_dcp_metadata m;
	struct gt_tree **values = NULL, *root = NULL;
	uint64_t compared = 0;
	int rc = gt_dcp_read_metadata(&m, &map, &arena, &err);

	if (!rc)
		values = gt_calloc(m.count, sizeof(*values), &err);
	for (size_t i = 0; i < m.count && !rc; i++)
		rc = check_entry(&m.entries[i], &values[i], &compared, &arena, &err);
	if (!rc)
		rc = gt_dcp_nest(&root, &m, values, &arena, &err);
	if (rc)
		fuzz_check_error(rc, &err);
	else
		fuzz_walk(root);
	free(values);
	gt_arena_release(&arena);
}
