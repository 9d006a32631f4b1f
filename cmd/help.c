/* help.c - gtrain help: what the commands are, what they take, and completions for shells. */
#include <jansson.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "lib/base/opt_json.h"

struct help_cli {
	struct gt_cmd_common common;
	int shell;
};

/* In the order of enum gt_shell. */
static const char *const shells[] = { "bash", "zsh", "fish", NULL };

const struct gt_opt *gt_cmd_help_options(void)
{
	static const struct gt_opt table[] = {
		{ .type = GT_OPT_HEADING, .help = "Shells" },
		{ "completion", 0, GT_OPT_CHOICE, GT_OPT_FIELD(struct help_cli, shell),
		    .words = shells, .help = "print the script that completes command lines",
		    .flags = GT_OPT_ONCE },
		GT_CMD_COMMON(struct help_cli),
		{ 0 },
	};

	return table;
}

static json_t *describe_command(const struct gt_cmd *cmd, struct gt_err *err)
{
	json_t *options = gt_opt_describe(cmd->options(), err), *object;

	if (!options)
		return NULL;
	object = json_pack("{ss ss ss so}", "name", cmd->name, "synopsis", cmd->synopsis, "summary",
	    cmd->summary, "options", options);
	if (!object)
		gt_err_set(err, GT_ENOMEM, "no memory for the description of '%s'", cmd->name);
	return object;
}

/* {"version":..,"commands":[..]}: everything, one group or one command. */
static int print_json(
    const struct gt_cmd *only, const struct gt_cmd_group *group, struct gt_err *err)
{
	json_t *list = json_array();
	json_t *document = json_pack("{ss so}", "version", GT_VERSION, "commands", list);
	int rc = document ? 0 : gt_err_set(err, GT_ENOMEM, "no memory for the list of commands");

	for (const struct gt_cmd *cmd = gt_cmd_table(); !rc && cmd->name; cmd++) {
		if ((only && cmd != only) || (!only && group && !gt_cmd_word_in(cmd, group)))
			continue;
		if (json_array_append_new(list, describe_command(cmd, err)))
			rc = err->code ? err->code : gt_err_set(err, GT_ENOMEM, "no memory");
	}
	if (!rc) {
		json_dumpf(document, stdout, JSON_INDENT(2));
		putchar('\n');
	}
	json_decref(document);
	return rc;
}

int gt_cmd_help(int argc, char **argv)
{
	struct help_cli cli;
	struct gt_cmd_env env;
	struct gt_err err = GT_ERR_INIT;
	const struct gt_cmd *cmd = NULL;
	const struct gt_cmd_group *group = NULL;
	int used, rc = 0, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);

	if (status != GT_CMD_GO)
		return status;
	if (env.opts.operand_count) {
		cmd =
		    gt_cmd_resolve(&group, env.opts.operand_count, env.opts.operands, &used, &err);
		if (!cmd && (!group || env.opts.operand_count > 1))
			return gt_cmd_end(&env, err.code, &err);
		if (cmd && used < env.opts.operand_count)
			rc = gt_err_set(
			    &err, GT_EINVAL, "unexpected argument '%s'", env.opts.operands[used]);
		if (rc)
			return gt_cmd_end(&env, rc, &err);
	}
	if (cli.shell != GT_SHELL_NONE)
		gt_cmd_print_completion(stdout, (enum gt_shell)cli.shell);
	else if (cli.common.json)
		rc = print_json(cmd, group, &err);
	else if (cmd)
		gt_cmd_print_help(stdout, cmd, env.color);
	else if (group)
		gt_cmd_print_group(stdout, group, env.color);
	else
		gt_cmd_print_overview(stdout, env.color);
	return gt_cmd_end(&env, rc, &err);
}
