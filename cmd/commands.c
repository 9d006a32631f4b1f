/* commands.c - the tables of commands and of their groups. */
#include <stdio.h>
#include <string.h>

#include "cmd/bench/options.h"
#include "cmd/ckpt/ckpt.h"
#include "cmd/cmd.h"
#include "cmd/data/sets.h"
#include "cmd/plan/plan.h"
#include "cmd/report/report.h"
#include "cmd/synonyms.h"
#include "cmd/topics.h"
#include "lib/base/suggest.h"

/* The commands, in the order in which `gtrain help` lists them. */
/* clang-format off */
static const struct gt_cmd commands[] = {
	{ "probe", "[OPTIONS]", "list the devices and their capabilities", 0, 0,
	    &gt_cmd_probe, false, NULL },
	{ "train", "--model MODEL --data DATA [OPTIONS]", "train a model", 0, 0,
	    &gt_cmd_train, true, NULL },
	{ "eval", "--ckpt CKPT --data DATA [OPTIONS]", "measure a checkpoint on a data set", 0, 0,
	    &gt_cmd_eval, true, NULL },
	{ "predict", "--ckpt CKPT INPUT... [OPTIONS]",
	    "predict classes, numbers, or next tokens", 0, GT_CMD_MANY,
	    &gt_cmd_predict, true, NULL },
	{ "generate", "--ckpt CKPT [OPTIONS]", "write text with a language model", 0, 0,
	    &gt_cmd_generate, true, NULL },
	{ "runs", "[DIR...] [OPTIONS]", "list run directories", 0, GT_CMD_MANY,
	    &gt_cmd_runs, false, NULL },
	{ "report", "RUN... [OPTIONS]", "show runs on one page of HTML, or as curves of text",
	    1, GT_CMD_MANY, &gt_cmd_run_report, false, NULL },
	{ "plan", "--cluster SPEC|FILE [OPTIONS] [-- TRAIN-OPTIONS]",
	    "predict memory and speed of a run on a described cluster", 0, GT_CMD_MANY,
	    &gt_cmd_plan, false, NULL },
	{ "data get", "NAME... [OPTIONS]", "fetch well-known data sets", 0, GT_CMD_MANY,
	    &gt_cmd_data_get, false, gt_cmd_data_name },
	{ "data ls", "[NAME...] [OPTIONS]", "list well-known data sets, and show which exist here",
	    0, GT_CMD_MANY, &gt_cmd_data_ls, false, gt_cmd_data_name },
	{ "data tokenizer", "FILE... -o FILE [OPTIONS]",
	    "train a tokenizer of byte-pair encoding on texts", 1, GT_CMD_MANY,
	    &gt_cmd_data_tokenizer, false, NULL },
	{ "bench allreduce", "[OPTIONS]", "time the all-reduce of a buffer", 0, 0,
	    &gt_cmd_bench_allreduce, false, NULL },
	{ "bench calibrate", "-o FILE [OPTIONS]",
	    "measure the rates that gtrain plan computes with", 0, 0,
	    &gt_cmd_bench_calibrate, false, NULL },
	{ "bench ckpt", "FILE [OPTIONS]", "time operations on a checkpoint, and a copy of it", 1, 1,
	    &gt_cmd_bench_ckpt, false, NULL },
	{ "bench copy", "[OPTIONS]", "time copies between the host and devices by size", 0, 0,
	    &gt_cmd_bench_copy, true, NULL },
	{ "bench gemm", "[OPTIONS]", "time products of matrices by shape and type", 0, 0,
	    &gt_cmd_bench_gemm, true, NULL },
	{ "bench loader", "--data DATA [OPTIONS]",
	    "time the reading of batches by number of workers", 0, 0,
	    &gt_cmd_bench_loader, false, NULL },
	{ "bench sweep", "--model MODEL --data DATA [OPTIONS] [-- TRAIN-OPTIONS]",
	    "find the fastest batch, bucket size and backend by training", 0, GT_CMD_MANY,
	    &gt_cmd_bench_sweep, false, NULL },
	{ "bench train", "--model MODEL --data DATA [OPTIONS] [-- TRAIN-OPTIONS]",
	    "compare modes of training: throughput, speed-up, memory", 0, GT_CMD_MANY,
	    &gt_cmd_bench_train, false, NULL },
	{ "ckpt ls", "FILE [OPTIONS]", "list tensors and other values", 1, 1,
	    &gt_cmd_ckpt_ls, false, NULL },
	{ "ckpt verify", "PATH... [OPTIONS]",
	    "check structure, checksums, globals, NaN and Inf", 1, GT_CMD_MANY,
	    &gt_cmd_ckpt_verify, false, NULL },
	{ "ckpt diff", "A B [OPTIONS]", "compare two checkpoints of any formats", 2, 2,
	    &gt_cmd_ckpt_diff, false, NULL },
	{ "ckpt strip-module", "IN (-o OUT | --in-place) [OPTIONS]",
	    "remove prefixes of wrappers from names", 1, 1, &gt_cmd_ckpt_strip_module, false, NULL },
	{ "ckpt add-module", "IN (-o OUT | --in-place) [OPTIONS]",
	    "put module. in front of names", 1, 1, &gt_cmd_ckpt_add_module, false, NULL },
	{ "ckpt remap", "IN --map FROM=TO (-o OUT | --in-place) [OPTIONS]",
	    "change the devices that storages were saved on", 1, 1, &gt_cmd_ckpt_remap, false, NULL },
	{ "ckpt rename", "IN --map REGEX=REPLACEMENT (-o OUT | --in-place) [OPTIONS]",
	    "change names by regular expressions", 1, 1, &gt_cmd_ckpt_rename, false, NULL },
	{ "ckpt select", "FILE [--path KEY] [--keys GLOB] -o OUT [OPTIONS]",
	    "write a part of a checkpoint as a file", 1, 1, &gt_cmd_ckpt_select, false, NULL },
	{ "ckpt convert", "FILE -o OUT [OPTIONS]", "write in another format or data type", 1, 1,
	    &gt_cmd_ckpt_convert, false, NULL },
	{ "ckpt merge", "A B ... -o OUT [OPTIONS]", "write the union or the mean of several files",
	    1, GT_CKPT_MERGE_MAX, &gt_cmd_ckpt_merge, false, NULL },
	{ "ckpt merge-lora", "IN --lora ADAPTER -o OUT [OPTIONS]",
	    "add a low-rank adapter to the weights of a model", 1, 1, &gt_cmd_ckpt_merge_lora,
	    false, NULL },
	{ "ckpt extract-lora", "TUNED --base BASE --rank R -o DIR [OPTIONS]",
	    "make a low-rank adapter of the difference of two models", 1, 1,
	    &gt_cmd_ckpt_extract_lora, false, NULL },
	{ "ckpt sign", "PATH --key FILE [OPTIONS]", "sign the files of a model with a key", 1, 1,
	    &gt_cmd_ckpt_sign, false, NULL },
	{ "help", "[OPTIONS] [COMMAND | TOPIC]", "describe a command or a topic", 0, 2,
	    &gt_cmd_help, false, NULL },
	{ 0 }
};

static const struct gt_cmd_group groups[] = {
	{ "data", "fetch well-known data sets, and train tokenizers" },
	{ "ckpt", "inspect and rewrite checkpoints" },
	{ "bench", "measure the speed of this machine" },
	{ 0 }
};

static const struct {
	const char *name, *command;
} other_names[] = {
	{ "strip-module", "ckpt strip-module" },
	{ "convert-ckpt", "ckpt convert" },
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

const struct gt_cmd_group *gt_cmd_groups(void)
{
	return groups;
}

const struct gt_cmd_group *gt_cmd_group_find(const char *name)
{
	for (const struct gt_cmd_group *group = groups; group->name; group++)
		if (!strcmp(group->name, name))
			return group;
	return NULL;
}

const char *gt_cmd_word_in(const struct gt_cmd *cmd, const struct gt_cmd_group *group)
{
	size_t length = strlen(group->name);

	return !strncmp(cmd->name, group->name, length) && cmd->name[length] == ' '
	           ? cmd->name + length + 1
	           : NULL;
}

const char *gt_cmd_first_word(const struct gt_cmd *cmd, const char **summary)
{
	for (const struct gt_cmd_group *group = groups; group->name; group++) {
		if (!gt_cmd_word_in(cmd, group))
			continue;
		*summary = group->summary;
		return cmd == commands || !gt_cmd_word_in(cmd - 1, group) ? group->name : NULL;
	}
	*summary = cmd->summary;
	return cmd->name;
}

/* ---- words of a command line ---- */

static void fail_unknown_command(
    struct gt_suggest *near, const char *list, const char *what, struct gt_err *err)
{
	gt_err_set(err, GT_EINVAL, "%s", what);
	if (near->best)
		gt_err_hint(err, "did you mean '%s'?", near->best);
	else
		gt_err_hint(err, "'%s' lists the commands", list);
}

/* A word of another program for a command of the group. */
static void hint_habit_in(const struct gt_cmd_group *group, const char *word, struct gt_err *err)
{
	char start[64];
	int length = snprintf(start, sizeof(start), "gtrain %s ", group->name);

	for (const struct gt_cmd_habit *h = gt_cmd_habits; h->words; h++)
		if (!strncmp(h->use, start, (size_t)length) &&
		    gt_suggest_has_word(h->words, word)) {
			gt_err_hint(err, "did you mean '%s'?", h->use);
			return;
		}
}

static const struct gt_cmd *resolve_in(
    const struct gt_cmd_group *group, const char *word, struct gt_err *err)
{
	struct gt_suggest near = { .word = word };
	char what[128], list[64];

	for (const struct gt_cmd *cmd = commands; cmd->name; cmd++) {
		const char *name = gt_cmd_word_in(cmd, group);

		if (name && word && !strcmp(name, word))
			return cmd;
		if (name && word)
			gt_suggest_offer(&near, name);
	}
	if (word)
		snprintf(what, sizeof(what), "'%s %.60s' is not a command", group->name, word);
	else
		snprintf(what, sizeof(what), "'%s' needs a command after it", group->name);
	/* A topic comes before a group of its name. */
	snprintf(list, sizeof(list),
	    gt_cmd_topic_find(group->name) ? "gtrain %s --help" : "gtrain help %s", group->name);
	fail_unknown_command(&near, list, what, err);
	if (word)
		hint_habit_in(group, word, err);
	return NULL;
}

/* A word of another program, or one of a group whose name was left out. */
static void hint_habit(const char *word, struct gt_err *err)
{
	for (const struct gt_cmd_habit *h = gt_cmd_habits; h->words; h++)
		if (gt_suggest_has_word(h->words, word)) {
			gt_err_hint(err, "did you mean '%s'?", h->use);
			return;
		}
	for (const struct gt_cmd *cmd = commands; cmd->name; cmd++) {
		const char *space = strchr(cmd->name, ' ');

		if (space && !strcmp(space + 1, word)) {
			gt_err_hint(err, "did you mean 'gtrain %s'?", cmd->name);
			return;
		}
	}
}

static const struct gt_cmd *resolve_one(const char *word, struct gt_err *err)
{
	struct gt_suggest near = { .word = word };
	char what[128];

	for (const struct gt_cmd *cmd = commands; cmd->name; cmd++) {
		const char *summary, *name = gt_cmd_first_word(cmd, &summary);

		if (name && !strcmp(name, word))
			return cmd;
		if (name)
			gt_suggest_offer(&near, name);
	}
	for (size_t i = 0; i < sizeof(other_names) / sizeof(*other_names); i++) {
		const struct gt_cmd *cmd = gt_cmd_find(other_names[i].command);

		if (cmd && !strcmp(other_names[i].name, word))
			return cmd;
		if (cmd)
			gt_suggest_offer(&near, other_names[i].name);
	}
	snprintf(what, sizeof(what), "'%.80s' is not a command", word);
	fail_unknown_command(&near, "gtrain help", what, err);
	hint_habit(word, err);
	return NULL;
}

const struct gt_cmd *gt_cmd_resolve(
    const struct gt_cmd_group **group, int count, char *const *words, int *used, struct gt_err *err)
{
	*group = gt_cmd_group_find(words[0]);
	if (*group) {
		*used = 2;
		return resolve_in(*group, count > 1 ? words[1] : NULL, err);
	}
	*used = 1;
	return resolve_one(words[0], err);
}
