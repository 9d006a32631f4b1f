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
	/* file_bytes: size of all files of the checkpoint together. dead_bytes: number of these
	 * bytes that are no longer used, because an edit in place has written a newer pickle and
	 * zip directory. */
	uint64_t file_bytes, dead_bytes;
	bool all;   /* list all values that are not tensors, not only the first ones */
	bool color; /* print text in colors */
};

/* Print the contents as text, or as one JSON document. The caller must check the stream for write
 * errors. */
void gt_ckpt_ls_text(FILE *out, const struct gt_ckpt_listing *listing);
void gt_ckpt_ls_json(FILE *out, const struct gt_ckpt_listing *listing);

#endif
