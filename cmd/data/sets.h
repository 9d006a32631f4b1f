/* sets.h - functions that `gtrain data get` and `gtrain data ls` share. */
#ifndef GT_CMD_DATA_SETS_H
#define GT_CMD_DATA_SETS_H

#include "cmd/cmd.h"
#include "lib/data/get/sets.h"

#define GT_CMD_DATA_TO(cli_type)                                                                   \
	{                                                                                          \
		"to", 0, GT_OPT_STRING, GT_OPT_FIELD(cli_type, to), "DIR",                         \
		    "folder of data sets, each in a folder of its name",                           \
		    .otherwise = "~/.cache/gtrain/data", .complete = GT_COMPLETE_DIR               \
	}

/* The folder of data sets: `to`, or the one in the user's cache; yours to free(). GT_EIO. */
int gt_cmd_data_folder(char **out, const char *to, struct gt_err *err);

/* The sets that the operands name; *out is [count], yours to free(). GT_EINVAL. */
int gt_cmd_data_find(const struct gt_set ***out, const struct gt_opts *opts, struct gt_err *err);

/* The value of --data for a set in `folder`: the set's name if `to` is NULL, so the folder is the
 * cache's, and the set has training data. Yours to free(). */
char *gt_cmd_data_spec(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err);

/* "gtrain train --model lenet --data mnist", as a shell takes it; yours to free(). */
char *gt_cmd_data_command(
    const struct gt_set *set, const char *folder, const char *to, struct gt_err *err);

/* The name of set i, or NULL after the last: the words that complete operands. */
const char *gt_cmd_data_name(int i);

int gt_cmd_data_get(int argc, char **argv);
int gt_cmd_data_ls(int argc, char **argv);
const struct gt_opt *gt_cmd_data_get_options(void);
const struct gt_opt *gt_cmd_data_ls_options(void);

#endif
