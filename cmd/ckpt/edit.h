/* edit.h - gtrain ckpt strip-module, add-module, rename, remap: what they are told. */
#ifndef GT_CMD_CKPT_EDIT_H
#define GT_CMD_CKPT_EDIT_H

#include "cmd/cmd.h"

struct gt_ckpt_edit_cli {
	struct gt_cmd_common common;

	const char *output; /* NULL: in place, or a dry run */
	bool in_place, dry_run, sync;
	struct gt_opt_list words; /* --prefix or --map */
};

int gt_cmd_ckpt_strip_module(int argc, char **argv);
int gt_cmd_ckpt_add_module(int argc, char **argv);
int gt_cmd_ckpt_rename(int argc, char **argv);
int gt_cmd_ckpt_remap(int argc, char **argv);

const struct gt_opt *gt_cmd_ckpt_strip_module_options(void);
const struct gt_opt *gt_cmd_ckpt_add_module_options(void);
const struct gt_opt *gt_cmd_ckpt_rename_options(void);
const struct gt_opt *gt_cmd_ckpt_remap_options(void);

#endif
