/* help.c - gtrain help: what the commands are, what they take, and completions for shells. */
#include <jansson.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "lib/base/opt_json.h"
#include "lib/base/suggest.h"

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
		{ "completion", 0, GT_OPT_CHOICE, offsetof(struct help_cli, shell), .words = shells,
		    .help = "print the script that completes command lines", .flags = GT_OPT_ONCE },
		GT_CMD_COMMON(struct help_cli),
		{ 0 },
	};

	return table;
}

static int find_command(const struct gt_cmd **out, const char *name, struct gt_err *err)
{
	struct gt_suggest near = { .word = name };

	*out = gt_cmd_find(name);
	if (*out)
		return 0;
	for (const struct gt_cmd *cmd = gt_cmd_table(); cmd->name; cmd++)
		gt_suggest_offer(&near, cmd->name);
	gt_err_set(err, GT_EINVAL, "'%s' is not a command", name);
	if (near.best)
		gt_err_hint(err, "did you mean '%s'?", near.best);
	else
		gt_err_hint(err, "'gtrain help' lists the commands");
	return GT_EINVAL;
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

/* {"version":..,"commands":[..]}: everything, or one command. */
static int print_json(const struct gt_cmd *only, struct gt_err *err)
{
	json_t *list = json_array();
	json_t *document = json_pack("{ss so}", "version", GT_VERSION, "commands", list);
	int rc = document ? 0 : gt_err_set(err, GT_ENOMEM, "no memory for the list of commands");

	for (const struct gt_cmd *cmd = gt_cmd_table(); !rc && cmd->name; cmd++) {
		if (only && cmd != only)
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
	int rc = 0, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);

	if (status != GT_CMD_GO)
		return status;
	if (env.opts.operand_count)
		rc = find_command(&cmd, env.opts.operands[0], &err);
	if (rc)
		return gt_cmd_end(&env, rc, &err);
	if (cli.shell != GT_SHELL_NONE)
		gt_cmd_print_completion(stdout, (enum gt_shell)cli.shell);
	else if (cli.common.json)
		rc = print_json(cmd, &err);
	else if (cmd)
		gt_cmd_print_help(stdout, cmd, env.color);
	else
		gt_cmd_print_overview(stdout, env.color);
	return gt_cmd_end(&env, rc, &err);
}
