/* command.c - the run that is planned, as a command line of `gtrain train`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/plan/plan.h"
#include "cmd/ranks.h"
#include "cmd/train/check.h"
#include "cmd/train/config.h"
#include "lib/base/buf.h"

enum { OWN_WORDS = 16 };

static void add_word(struct gt_plan_command *c, const char *word)
{
	c->words[c->count++] = (char *)word;
	c->words[c->count] = NULL;
}

static void add_option(struct gt_plan_command *c, const char *name, const char *value)
{
	if (!value)
		return;
	add_word(c, name);
	add_word(c, value);
}

/* Options of `train` that the cluster sets, or with which it plans no steps. */
static const char *const own_options[] = { "nproc", "device", "out", "resume", "verify-parallel",
	"dry-run", "json" };

/* Refuse options after "--" that a plan cannot have. */
static int check_more(const struct gt_opts *opts, struct gt_err *err)
{
	for (int i = 0; i < opts->operand_count; i++) {
		const char *word = opts->operands[i];
		size_t length = strcspn(word, "=");

		for (size_t k = 0; k < sizeof(own_options) / sizeof(*own_options); k++)
			if (length > 2 && !strncmp(word, "--", 2) &&
			    strlen(own_options[k]) == length - 2 &&
			    !strncmp(word + 2, own_options[k], length - 2)) {
				gt_err_set(err, GT_EINVAL,
				    "%.*s cannot be handed on to gtrain train", (int)length, word);
				return gt_err_hint(
				    err, "--cluster gives the devices, and a plan writes no files");
			}
	}
	return 0;
}

static int build_words(struct gt_plan_command *c, const struct gt_opts *opts,
    const struct gt_plan_cli *cli, struct gt_err *err)
{
	c->words = gt_calloc((size_t)opts->operand_count + OWN_WORDS, sizeof(*c->words), err);
	if (!c->words)
		return GT_ENOMEM;
	add_word(c, "train");
	add_option(c, "--model", cli->model);
	add_option(c, "--data", cli->data);
	snprintf(c->batch, sizeof(c->batch), "%lld", (long long)cli->batch);
	add_option(c, "--batch", cli->batch ? c->batch : NULL);
	for (int i = 0; i < opts->operand_count; i++)
		add_word(c, opts->operands[i]);
	return 0;
}

/* An operand of `train` was one of `plan`. */
static int check_train(struct gt_plan_command *c, struct gt_err *err)
{
	int rc = gt_opts_check_operands(&c->env.opts, 0, err);

	if (!rc)
		rc = gt_cmd_train_load_config(&c->env, &c->cli, err);
	if (!rc)
		rc = gt_opts_require(&c->env.opts, err);
	return rc ? rc : gt_cmd_train_check(&c->env, &c->cli, err);
}

int gt_plan_command_open(struct gt_plan_command *c, const struct gt_cmd_env *env,
    const struct gt_plan_cli *cli, struct gt_err *err)
{
	int rc;

	*c = (struct gt_plan_command){ .env = *env };
	c->env.opts = (struct gt_opts){ 0 };
	rc = check_more(&env->opts, err);
	if (!rc)
		rc = build_words(c, &env->opts, cli, err);
	if (!rc)
		rc = gt_opts_init(&c->env.opts, gt_train_rows, &c->cli, err);
	if (!rc)
		rc = gt_opts_parse(&c->env.opts, c->count, c->words, err);
	return rc ? rc : check_train(c, err);
}

void gt_plan_command_close(struct gt_plan_command *c)
{
	gt_opts_release(&c->env.opts);
	free(c->words);
	c->words = NULL;
}

/* A launcher starts the ranks of several hosts. */
char *gt_plan_command_text(
    const struct gt_plan_command *c, const struct gt_cluster *cluster, struct gt_err *err)
{
	char *line = NULL, *text;

	if (gt_cmd_command_line(&line, c->count, c->words, err))
		return NULL;
	if (cluster->hosts > 1)
		text = gt_asprintf(err,
		    "torchrun --no-python --nnodes %d --node-rank N --master-addr HOST "
		    "--nproc-per-node %d %s%s",
		    cluster->hosts, cluster->devices, line,
		    cluster->device.host ? "" : " --device cuda");
	else
		text = gt_asprintf(err, "%s --nproc %d%s", line, cluster->devices,
		    cluster->device.host ? "" : " --device cuda");
	free(line);
	return text;
}
