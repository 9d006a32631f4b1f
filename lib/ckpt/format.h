/* format.h - inside ckpt: the kinds of file that can be opened: a file and a row each. */
#ifndef GT_CKPT_FORMAT_H
#define GT_CKPT_FORMAT_H

#include "lib/base/file.h"
#include "lib/ckpt/ckpt.h"

struct gt_ckpt {
	struct gt_mapping map;
	struct gt_arena arena; /* the tree, and records that had to be inflated */
	struct gt_tree *root;
	const struct gt_ckpt_format *format;
};

/* A row: `sniff` looks at the first bytes only; `open` fills ckpt->root, and may then refuse. */
struct gt_ckpt_format {
	const char *name;
	bool (*sniff)(const struct gt_mapping *map);
	int (*open)(struct gt_ckpt *ckpt, struct gt_err *err);
};

extern const struct gt_ckpt_format gt_format_torch_zip, gt_format_torch_legacy;

#endif
