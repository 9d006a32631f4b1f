/* commands.c - the table of commands. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/eval_options.h"
#include "cmd/generate_options.h"
#include "cmd/train_options.h"

/* In the order of the list that `gtrain help` prints. */
/* clang-format off */
static const struct gt_cmd commands[] = {
	{ "probe", "[OPTIONS]", "list the devices and what they can do", 0,
	    gt_cmd_probe_options, gt_cmd_probe },
	{ "train", "--model MODEL --data DATA [OPTIONS]", "train a model", 0,
	    gt_cmd_train_options, gt_cmd_train },
	{ "eval", "--ckpt CKPT --data DATA [OPTIONS]", "measure a checkpoint on a data set", 0,
	    gt_cmd_eval_options, gt_cmd_eval },
	{ "generate", "--ckpt CKPT [OPTIONS]", "write text with a language model", 0,
	    gt_cmd_generate_options, gt_cmd_generate },
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
