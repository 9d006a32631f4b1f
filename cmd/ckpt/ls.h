/* ls.h - gtrain ckpt ls: printing a listing. */
#ifndef GT_CMD_CKPT_LS_H
#define GT_CMD_CKPT_LS_H

#include "cmd/cmd.h"
#include "lib/ckpt/tools/inventory.h"
#include "lib/ckpt/tools/stats.h"

/* A checkpoint's contents, to be printed. */
struct gt_ckpt_listing {
	const struct gt_ckpt *ckpt;
	struct gt_inventory inventory;
	struct gt_stats *stats; /* [tensor_count], or NULL */
	uint64_t file_bytes, dead_bytes;
	bool all;   /* every value */
	bool color; /* print text in colors */
};

/* Both leave the stream's error state to the caller. */
void gt_ckpt_ls_text(FILE *out, const struct gt_ckpt_listing *listing);
void gt_ckpt_ls_json(FILE *out, const struct gt_ckpt_listing *listing);

#endif
