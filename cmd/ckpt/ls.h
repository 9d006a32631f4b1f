/* ls.h - gtrain ckpt ls: print the contents of a checkpoint. */
#ifndef GT_CMD_CKPT_LS_H
#define GT_CMD_CKPT_LS_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/tools/stats.h"

/* The contents of a checkpoint, and how to print them. */
struct gt_ckpt_listing {
	const struct gt_ckpt *ckpt;
	struct gt_inventory inventory;
	struct gt_stats *stats; /* [inventory.tensor_count]; NULL without --stats */
	/* size of the checkpoint (of all its files, if there are several), and number of bytes in
	 * it that are no longer used: see gt_ckpt_file_usage() */
	uint64_t file_bytes, dead_bytes;
	bool all;   /* list all values that are not tensors, not only the first ones */
	bool color; /* print text in colors */
};

/* Print the contents as text, or as one JSON document. The caller must check the stream for write
 * errors. */
void gt_ckpt_ls_text(FILE *out, const struct gt_ckpt_listing *listing);
void gt_ckpt_ls_json(FILE *out, const struct gt_ckpt_listing *listing);

#endif
