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
static const char *const own_options[] = { "nproc", "device", "hosts", "out", "resume",
	"verify-parallel", "dry-run", "json", "help" };

/* Refuse options after "--" that a plan cannot have. */
static int check_own(const struct gt_opts *train, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(own_options) / sizeof(*own_options); i++)
		if (gt_opts_source(train, own_options[i]) == GT_OPT_COMMAND_LINE) {
			gt_err_set(err, GT_EINVAL, "--%s cannot be handed on to gtrain train",
			    own_options[i]);
			return gt_err_hint(
			    err, "--cluster gives the devices, and a plan writes no files");
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
	add_option(c, "--batch", cli->batch);
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
	rc = build_words(c, &env->opts, cli, err);
	if (!rc)
		rc = gt_opts_init(&c->env.opts, gt_train_rows, &c->cli, err);
	if (!rc)
		rc = gt_opts_parse(&c->env.opts, c->count, c->words, err);
	if (!rc)
		rc = check_own(&c->env.opts, err);
	return rc ? rc : check_train(c, err);
}

void gt_plan_command_close(struct gt_plan_command *c)
{
	gt_opts_release(&c->env.opts);
	free(c->words);
	c->words = NULL;
}

/* The option may be in a configuration file alone. */
void gt_plan_command_set_batch(struct gt_plan_command *c, int batch)
{
	for (int i = 1; i < c->count; i++) {
		bool joined = !strcmp(c->words[i], "--batch=auto");

		if (!joined &&
		    (strcmp(c->words[i - 1], "--batch") != 0 || strcmp(c->words[i], "auto") != 0))
			continue;
		snprintf(c->batch, sizeof(c->batch), joined ? "--batch=%d" : "%d", batch);
		c->words[i] = c->batch;
		return;
	}
	snprintf(c->batch, sizeof(c->batch), "%d", batch);
	add_option(c, "--batch", c->batch);
}

/* ---- the line that runs a plan ---- */

/* Options that a search replaces. */
static bool is_replaced(const char *word, bool *has_value)
{
	static const char *const names[] = { "--batch", "--accumulate", "--global-batch" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t length = strlen(names[i]);

		*has_value = word[length <= strlen(word) ? length : 0] == '=';
		if (!strncmp(word, names[i], length) && (!word[length] || *has_value))
			return true;
	}
	return false;
}

static bool is_given(const struct gt_plan_command *c, const char *name)
{
	return gt_opts_source(&c->env.opts, name) == GT_OPT_COMMAND_LINE;
}

/* The options that a search has chosen, each after a space. */
static void list_chosen(
    struct gt_buf *out, const struct gt_plan_command *c, const struct gt_plan_layout *l)
{
	const struct gt_train_options *o = &l->options;
	const struct gt_parallel_options *p = &o->parallel;

	gt_buf_printf(out, " --batch %d", o->batch);
	if (o->accumulate > 1 || gt_opts_source(&c->env.opts, "accumulate") == GT_OPT_CONFIG)
		gt_buf_printf(out, " --accumulate %d", o->accumulate);
	if (p->kind != GT_PARALLEL_DDP && !is_given(c, "parallel"))
		gt_buf_printf(out, " --parallel %s", gt_parallel_names[p->kind]);
	if (p->tensor > 1 && !is_given(c, "tensor-parallel"))
		gt_buf_printf(out, " --tensor-parallel %d", p->tensor);
	if (p->stages > 1 && !is_given(c, "pipeline-parallel"))
		gt_buf_printf(out, " --pipeline-parallel %d", p->stages);
	if (p->stages > 1 && !is_given(c, "chunks"))
		gt_buf_printf(out, " --chunks %d", l->outline.chunks);
	if (o->recompute && !is_given(c, "recompute"))
		gt_buf_printf(out, " --recompute %s", gt_recompute_names[o->recompute]);
	if (o->amp != GT_AMP_OFF && !is_given(c, "amp"))
		gt_buf_printf(out, " --amp %s", gt_amp_names[o->amp]);
}

/* `gtrain train` with its options, quoted for a shell. */
static int build_line(struct gt_buf *out, const struct gt_plan_command *c,
    const struct gt_plan_layout *searched, struct gt_err *err)
{
	char **words = gt_calloc((size_t)c->count + 1, sizeof(*words), err), *line = NULL;
	int count = 0, rc = GT_ENOMEM;
	bool has_value;

	for (int i = 0; words && i < c->count; i++) {
		if (!searched || !is_replaced(c->words[i], &has_value))
			words[count++] = c->words[i];
		else if (!has_value)
			i++;
	}
	if (words)
		rc = gt_cmd_command_line(&line, count, words, err);
	if (!rc)
		gt_buf_printf(out, "%s", line);
	if (!rc && searched)
		list_chosen(out, c, searched);
	free(line);
	free(words);
	return rc;
}

/* A launcher starts the ranks of several hosts. */
char *gt_plan_command_text(const struct gt_plan_command *c, const struct gt_cluster *cluster,
    const struct gt_plan_layout *searched, struct gt_err *err)
{
	struct gt_buf text = { 0 };
	char *out = NULL;

	if (cluster->hosts > 1)
		gt_buf_printf(&text,
		    "torchrun --no-python --nnodes %d --node-rank N --master-addr HOST "
		    "--nproc-per-node %d ",
		    cluster->hosts, cluster->devices);
	if (!build_line(&text, c, searched, err)) {
		if (cluster->hosts == 1)
			gt_buf_printf(&text, " --nproc %d", cluster->devices);
		if (!cluster->device.host)
			gt_buf_puts(&text, " --device cuda");
		gt_buf_take(&text, &out, NULL, err);
	}
	gt_buf_release(&text);
	return out;
}
