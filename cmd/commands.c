/* commands.c - the table of commands. */
#include <string.h>

#include "cmd/cmd.h"

/* In the order of the list that `gtrain help` prints. */
/* clang-format off */
static const struct gt_cmd commands[] = {
	{ "help", "[OPTIONS] [COMMAND]", "help on a command", 1,
	    gt_cmd_help_options, gt_cmd_help },
	{ 0 }
};
/* clang-format on */

const struct gt_cmd *gt_cmd_table(void)
{
	return commands;
}

const struct gt_cmd *gt_cmd_find(const char *name)
{
	for (const struct gt_cmd *cmd = commands; cmd->name; cmd++)
		if (!strcmp(cmd->name, name))
			return cmd;
	return NULL;
}
