/* help.c - gtrain help: commands, their options, and topics. */
#include <jansson.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/topics.h"
#include "lib/base/opt_json.h"

struct help_cli {
	struct gt_cmd_common common;
};

static const struct gt_opt table[] = { GT_CMD_COMMON(struct help_cli), { 0 } };

static json_t *describe_command(const struct gt_cmd *cmd, struct gt_err *err)
{
	json_t *options = gt_opt_describe(cmd->work->options, err), *object;

	if (!options)
		return NULL;
	object = json_pack("{ss ss ss so}", "name", cmd->name, "synopsis", cmd->synopsis, "summary",
	    cmd->summary, "options", options);
	if (!object)
		gt_err_set(err, GT_ENOMEM, "no memory for the description of '%s'", cmd->name);
	return object;
}

/* {"version":..,"commands":[..]}: everything, one group or one command. */
static int print_commands_json(
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

/* The subject that the operands name: one of these, or, without one, all commands. */
struct subject {
	const struct gt_cmd *cmd;
	const struct gt_cmd_group *group;
	const struct gt_cmd_topic *topic;
};

static int find_subject(struct subject *out, int count, char *const *words, struct gt_err *err)
{
	int used = 1;

	*out = (struct subject){ 0 };
	if (!count)
		return 0;
	/* 'help data' is a topic, 'help data get' a command. */
	if (count == 1 || !gt_cmd_group_find(words[0]))
		out->topic = gt_cmd_topic_find(words[0]);
	if (!out->topic)
		out->cmd = gt_cmd_resolve(&out->group, count, words, &used, err);
	if (!out->topic && !out->cmd && (!out->group || count > 1))
		return err->code;
	return (out->topic || out->cmd) && used < count
	           ? gt_err_set(err, GT_EINVAL, "unexpected argument '%s'", words[used])
	           : 0;
}

/* {"models":[..]}. */
static int print_topic_json(const struct gt_cmd_topic *topic, struct gt_err *err)
{
	json_t *list = topic->describe(err);

	return list ? gt_cmd_print_json(json_pack("{so}", topic->name, list), JSON_INDENT(2), err)
	            : err->code;
}

static int print_subject(
    const struct help_cli *cli, const struct subject *s, bool color, struct gt_err *err)
{
	if (s->topic)
		return cli->common.json ? print_topic_json(s->topic, err)
		                        : s->topic->print(stdout, err);
	if (cli->common.json)
		return print_commands_json(s->cmd, s->group, err);
	if (s->cmd)
		gt_cmd_print_help(stdout, s->cmd, color);
	else if (s->group)
		gt_cmd_print_group(stdout, s->group, color);
	else
		gt_cmd_print_overview(stdout, color);
	return 0;
}

static int help(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct help_cli *cli = values;
	struct subject subject;
	int rc = find_subject(&subject, env->opts.operand_count, env->opts.operands, err);

	return rc ? rc : print_subject(cli, &subject, env->color, err);
}

const struct gt_cmd_work gt_cmd_help = { table, sizeof(struct help_cli), help };
