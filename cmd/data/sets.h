/* sets.h - the commands of the group `data`, and functions that they share. */
#ifndef GT_CMD_DATA_SETS_H
#define GT_CMD_DATA_SETS_H

#include "cmd/cmd.h"
#include "lib/data/get/sets.h"

/* The row of the option --to for an option table. The value of --to is the folder of data sets.
 * `cli_type` is the struct that receives the values of the options; its member `to` receives this
 * value. */
#define GT_CMD_DATA_TO(cli_type)                                                                   \
	{                                                                                          \
		"to", 0, GT_OPT_STRING, GT_OPT_FIELD(cli_type, to), "DIR",                         \
		    "folder of data sets, each in a folder of its name",                           \
		    .otherwise = "gtrain/data in $XDG_CACHE_HOME, else in ~/.cache",               \
		    .complete = GT_COMPLETE_DIR                                                    \
	}

/* Set *out to the path of the folder of data sets; the caller frees *out with free(). `to` is the
 * value of --to. If `to` is NULL, the folder is in the user's cache. Errors: GT_EIO if `to` is NULL
 * and the user has no cache folder; GT_ENOMEM. */
int gt_cmd_data_folder(char **out, const char *to, struct gt_err *err);

/* Find the data set that each operand of the command names. Set *out to an array of
 * opts->operand_count pointers, one for each operand. The caller frees the array with free(), also
 * after an error. Errors: GT_EINVAL for an unknown name; GT_ENOMEM. */
int gt_cmd_data_find(const struct gt_set ***out, const struct gt_opts *opts, struct gt_err *err);

/*
 * Return the value of the option --data that makes `gtrain train` read the data set `set`. The
 * caller frees it with free(). `folder` is the result of gt_cmd_data_folder(), and `to` is the
 * value of --to. If `to` is NULL and the set has training data (set->kind), the result is the name
 * of the set, such as "mnist". Otherwise the result contains the path of the set in `folder`.
 * Return NULL with err set if memory runs out.
 */
char *gt_cmd_data_spec(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err);

/* Return a command that trains on the data set, such as "gtrain train --model lenet --data mnist".
 * The caller frees it with free(). Words of the command that a shell would change are quoted. The
 * arguments are those of gt_cmd_data_spec(). Return NULL with err set if memory runs out. */
char *gt_cmd_data_command(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err);

/* Return the name of the data set with index i, or NULL after the last one. The shell completion of
 * operands uses these names. */
const char *gt_cmd_data_name(int i);

extern const struct gt_cmd_work gt_cmd_data_get, gt_cmd_data_ls, gt_cmd_data_tokenizer;

#endif
