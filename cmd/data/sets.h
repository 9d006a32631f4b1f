/* sets.h - functions that `gtrain data get` and `gtrain data ls` share. */
#ifndef GT_CMD_DATA_SETS_H
#define GT_CMD_DATA_SETS_H

#include "cmd/cmd.h"
#include "lib/data/get/sets.h"

/* The row of --to, which names the folder of data sets. `cli_type` is the struct of the command's
 * options, with a member `to`. */
#define GT_CMD_DATA_TO(cli_type)                                                                   \
	{                                                                                          \
		"to", 0, GT_OPT_STRING, GT_OPT_FIELD(cli_type, to), "DIR",                         \
		    "folder of data sets, each in a folder of its name",                           \
		    .otherwise = "~/.cache/gtrain/data", .complete = GT_COMPLETE_DIR               \
	}

/* Set *out to the path of the folder of data sets, yours to free(). `to` is the value of --to; if
 * it is NULL, the folder is in the user's cache. Errors: GT_EIO if `to` is NULL and the user has no
 * cache folder; GT_ENOMEM. */
int gt_cmd_data_folder(char **out, const char *to, struct gt_err *err);

/* Find the data sets that the operands name. *out has opts->operand_count pointers; the array is
 * yours to free(), also after an error. Errors: GT_EINVAL for an unknown name; GT_ENOMEM. */
int gt_cmd_data_find(const struct gt_set ***out, const struct gt_opts *opts, struct gt_err *err);

/*
 * Return a value of --data for reading the data set `set` from `folder`, yours to free(). `to` is
 * the value of --to. If it is NULL, `folder` is in the user's cache. The result is then the name of
 * the set, such as "mnist", if the set has training data (set->kind). In all other cases the result
 * contains the path of the set. NULL with err set if memory runs out.
 */
char *gt_cmd_data_spec(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err);

/* Return a command that trains on the data set, such as "gtrain train --model lenet --data mnist",
 * yours to free(). Its words are quoted for a shell. The arguments are those of gt_cmd_data_spec().
 * NULL with err set if memory runs out. */
char *gt_cmd_data_command(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err);

/* Return the name of the data set with index i, or NULL after the last one. Completion of operands
 * uses these names. */
const char *gt_cmd_data_name(int i);

/* Run `gtrain data get` or `gtrain data ls`, and return the exit status; or return the option table
 * of the command. */
int gt_cmd_data_get(int argc, char **argv);
int gt_cmd_data_ls(int argc, char **argv);
const struct gt_opt *gt_cmd_data_get_options(void);
const struct gt_opt *gt_cmd_data_ls_options(void);

#endif
