/* ckpt.h - one function for each command `gtrain ckpt NAME`, and one for its options. */
#ifndef GT_CMD_CKPT_CKPT_H
#define GT_CMD_CKPT_CKPT_H

#include "cmd/cmd.h"

enum { GT_CKPT_MERGE_MAX = 256 }; /* maximum number of files that `merge` accepts */

extern const struct gt_cmd_work gt_cmd_ckpt_ls, gt_cmd_ckpt_verify, gt_cmd_ckpt_diff,
    gt_cmd_ckpt_strip_module, gt_cmd_ckpt_add_module, gt_cmd_ckpt_remap, gt_cmd_ckpt_rename,
    gt_cmd_ckpt_select, gt_cmd_ckpt_convert, gt_cmd_ckpt_merge, gt_cmd_ckpt_merge_lora,
    gt_cmd_ckpt_extract_lora, gt_cmd_ckpt_sign;

#endif
