/* diff.c - gtrain ckpt diff: compare two checkpoints. */
#include <math.h>
#include <string.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/diff.h"

struct gt_ckpt_diff_cli {
	struct gt_cmd_common common;
	double tolerance;
	bool state_dict;
	int64_t threads;
};

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_diff_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What counts" },
	{ "tolerance", 0, GT_OPT_DOUBLE, AT(tolerance), "X",
	    "elements that differ by at most X are equal", .initial = "0", .max = INFINITY },
	{ "state-dict", 0, GT_OPT_FLAG, AT(state_dict),
	    .help = "compare only the state_dicts, without prefixes of wrappers" },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "number of threads that read the files",
	    .otherwise = "one per core, at most 16", .min = 1, .max = 64 },

	GT_CMD_COMMON(struct gt_ckpt_diff_cli),
	{ 0 }
};
/* clang-format on */

/* Formats that hold nothing but names and tensors. */
static bool is_flat(const struct gt_ckpt *ckpt)
{
	return strncmp(gt_ckpt_format(ckpt), "torch", 5) != 0;
}

static void print_notes(
    const struct gt_diff *d, const struct gt_diff_side side[2], struct gt_log *log)
{
	for (int i = 0; i < 2; i++)
		if (*d->note[i])
			gt_log_info(log, "%s: %s", side[i].path, d->note[i]);
	if (d->types)
		gt_log_info(log,
		    "%zu key%s the same text in both, but not the same type or bytes: 1 is not '1', "
		    "and a list is not a tuple",
		    d->types, d->types == 1 ? " has" : "s have");
	if (d->agree)
		gt_log_info(log,
		    "without wrappers and prefixes, %zu names are in both, not %zu: --state-dict "
		    "compares them so",
		    d->agree, d->tensors);
}

static int compare_checkpoints(struct gt_diff *d, const struct gt_diff_side side[2],
    const struct gt_ckpt_diff_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_diff_options options = { cli->tolerance, cli->state_dict, (size_t)cli->threads,
		&env->progress };
	int rc;

	/* A value that the other format has no place for is no difference. */
	if (is_flat(side[0].ckpt) != is_flat(side[1].ckpt))
		options.state_dict = true;
	rc = gt_diff_make(d, &side[0], &side[1], &options, err);
	if (!rc)
		print_notes(d, side, &env->log);
	return rc;
}

static int diff_files(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_diff_cli *cli = values;
	struct gt_diff diff = { 0 };
	struct gt_diff_side side[2] = { 0 };
	struct gt_ckpt *ckpt[2] = { 0 };
	int rc = gt_cmd_find_ckpts(env, err);

	for (int i = 0; i < 2 && !rc; i++) {
		rc = gt_ckpt_open(&ckpt[i], env->opts.operands[i], err);
		side[i] = (struct gt_diff_side){ ckpt[i], env->opts.operands[i] };
	}
	if (!rc)
		rc = compare_checkpoints(&diff, side, cli, env, err);
	if (!rc && cli->common.json)
		gt_ckpt_diff_json(stdout, &diff);
	else if (!rc)
		gt_ckpt_diff_text(stdout, &diff, side[0].path, side[1].path);
	if (diff.count)
		env->status = GT_EXIT_FAILED;
	gt_diff_release(&diff);
	gt_ckpt_close(ckpt[0]);
	gt_ckpt_close(ckpt[1]);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_diff = { table, sizeof(struct gt_ckpt_diff_cli), diff_files };
