/* ckpt.h - one function for each command `gtrain ckpt NAME`, and one for its options. */
#ifndef GT_CMD_CKPT_CKPT_H
#define GT_CMD_CKPT_CKPT_H

#include "cmd/cmd.h"

enum { GT_CKPT_MERGE_MAX = 256 }; /* maximum number of files that `merge` accepts */

/* Each function runs one command, and returns the exit status. argv[0] is the name of the command,
 * such as "ckpt ls". */
int gt_cmd_ckpt_ls(int argc, char **argv);
int gt_cmd_ckpt_verify(int argc, char **argv);
int gt_cmd_ckpt_diff(int argc, char **argv);
int gt_cmd_ckpt_strip_module(int argc, char **argv);
int gt_cmd_ckpt_add_module(int argc, char **argv);
int gt_cmd_ckpt_remap(int argc, char **argv);
int gt_cmd_ckpt_rename(int argc, char **argv);
int gt_cmd_ckpt_select(int argc, char **argv);
int gt_cmd_ckpt_convert(int argc, char **argv);
int gt_cmd_ckpt_merge(int argc, char **argv);

/* Each function returns the option table of one command. */
const struct gt_opt *gt_cmd_ckpt_ls_options(void);
const struct gt_opt *gt_cmd_ckpt_verify_options(void);
const struct gt_opt *gt_cmd_ckpt_diff_options(void);
const struct gt_opt *gt_cmd_ckpt_strip_module_options(void);
const struct gt_opt *gt_cmd_ckpt_add_module_options(void);
const struct gt_opt *gt_cmd_ckpt_remap_options(void);
const struct gt_opt *gt_cmd_ckpt_rename_options(void);
const struct gt_opt *gt_cmd_ckpt_select_options(void);
const struct gt_opt *gt_cmd_ckpt_convert_options(void);
const struct gt_opt *gt_cmd_ckpt_merge_options(void);

#endif
