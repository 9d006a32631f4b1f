/* merge.c - gtrain ckpt merge: several checkpoints made one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/rewrite.h"
#include "lib/base/text.h"
#include "lib/ckpt/tools/merge.h"
#include "lib/train/checkpoint/argument.h"

struct gt_ckpt_merge_cli {
	struct gt_cmd_common common;
	bool average;
	const char *weights, *base;
	double drop, ties, slerp;
	int64_t seed;
	unsigned given; /* GIVEN_SLERP */
	struct gt_ckpt_target_cli target;
};

enum { GIVEN_SLERP = 1 }; /* 0 is a value of --slerp */

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "How to merge" },
	{ "average", 0, GT_OPT_FLAG, GT_OPT_FIELD(struct gt_ckpt_merge_cli, average),
	    .help = "write the mean of each tensor; all files must have the same tensors",
	    .excludes = "base" },
	{ "weights", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_merge_cli, weights), "W,W,...",
	    "weights of the files in the mean, or of their differences from --base",
	    .otherwise = "1 for each" },
	{ "slerp", 0, GT_OPT_DOUBLE, GT_OPT_FIELD(struct gt_ckpt_merge_cli, slerp), "T",
	    "interpolate two files on a sphere: 0 is the first, 1 the second", .max = 1,
	    .excludes = "base", .without = { { "average" }, { "weights" } },
	    .given = { offsetof(struct gt_ckpt_merge_cli, given), GIVEN_SLERP } },
	{ "base", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_merge_cli, base), "CKPT",
	    "add the differences of the files from this checkpoint to it (task arithmetic)",
	    .complete = GT_COMPLETE_FILE },
	{ "drop", 0, GT_OPT_DOUBLE, GT_OPT_FIELD(struct gt_ckpt_merge_cli, drop), "P",
	    "with --base: leave out each element of a difference with this probability, and divide "
	    "the others by 1 - P (DARE)", .initial = "0", .min = 0, .max = 0.999,
	    .needs = { { "base" } } },
	{ "seed", 0, GT_OPT_INT, GT_OPT_FIELD(struct gt_ckpt_merge_cli, seed), "N",
	    "seed of the draws of --drop", .initial = "0", .min = 0, .max = INFINITY,
	    .needs = { { "drop" } } },
	{ "ties", 0, GT_OPT_DOUBLE, GT_OPT_FIELD(struct gt_ckpt_merge_cli, ties), "SHARE",
	    "with --base: keep this share of each difference, its largest elements, and take the "
	    "mean of those with the sign of their sum (TIES)", .max = 1, .flags = GT_OPT_ABOVE,
	    .needs = { { "base" } } },
	GT_CKPT_TARGET(struct gt_ckpt_merge_cli, gt_convert_words, ""),
	GT_CMD_COMMON(struct gt_ckpt_merge_cli),
	{ 0 }
};
/* clang-format on */

/* Where the means may be kept: beside the output. */
static char *folder_of(const char *path, struct gt_err *err)
{
	const char *slash = strrchr(path, '/');
	int length = slash == path ? 1 : slash ? (int)(slash - path) : 0;

	return slash ? gt_asprintf(err, "%.*s", length, path) : gt_strdup(".", err);
}

struct inputs {
	struct gt_ckpt *ckpts[GT_CKPT_MERGE_MAX + 1]; /* [count], and the base */
	struct gt_merge_input parts[GT_CKPT_MERGE_MAX];
	size_t count;
	double weights[GT_CKPT_MERGE_MAX];
	struct gt_merge_input base;
};

/* Parse --weights: a number for each file. */
static int read_weights(struct inputs *in, const char *list, int files, struct gt_err *err)
{
	char number[64];
	int count = 0;

	for (bool more = true; more; list += strcspn(list, ",") + 1) {
		const size_t n = strcspn(list, ",");

		more = list[n];
		snprintf(number, sizeof(number), "%.*s", (int)(n < sizeof(number) ? n : 0), list);
		if (count < files && gt_text_parse_double(&in->weights[count], number) &&
		    isfinite(in->weights[count++]) && (more || count == files))
			continue;
		gt_err_set(err, GT_EINVAL,
		    "--weights: '%.80s' must begin a number for each of %d "
		    "files",
		    list, files);
		return gt_err_hint(err, "for two files, for example --weights 0.7,0.3");
	}
	return 0;
}

/* Check the options and the number of files, before any file is read. */
static int check_options(
    const struct gt_ckpt_merge_cli *cli, const struct gt_cmd_env *env, struct gt_err *err)
{
	const int files = env->opts.operand_count;

	if ((cli->given & GIVEN_SLERP) && files != 2) {
		gt_err_set(err, GT_EINVAL, "--slerp is between two files, not %d", files);
		return gt_err_hint(err, "gtrain ckpt merge A B --slerp 0.5 -o OUT");
	}
	if (files == 1 && !cli->base) {
		gt_err_set(err, GT_EINVAL, "one file alone has nothing to be merged with");
		return gt_err_hint(
		    err, "--base CKPT --weights W scales its difference from a checkpoint");
	}
	if (cli->drop > 0 && cli->ties > 0 && cli->ties < 1) {
		gt_err_set(err, GT_EINVAL, "--drop cannot be combined with --ties below 1");
		return gt_err_hint(
		    err, "--ties 1 keeps all elements that --drop leaves (DARE-TIES)");
	}
	return 0;
}

/* Open --base, behind the files; it may be a run directory, as they may. */
static int open_base(
    struct inputs *in, const char *given, struct gt_cmd_env *env, struct gt_err *err)
{
	char *found;
	int rc = gt_run_ckpt_find(&found, given, err);

	in->base.path = found ? gt_arena_strdup(&env->paths, found, err) : given;
	if (!rc && !in->base.path)
		rc = GT_ENOMEM;
	if (!rc)
		rc = gt_ckpt_input_open(&in->ckpts[in->count], in->base.path, env, err);
	if (!rc)
		in->base.root = gt_ckpt_root(in->ckpts[in->count]);
	free(found);
	return rc;
}

static int open_all(struct inputs *in, struct gt_cmd_env *env, struct gt_err *err)
{
	int rc = 0;

	for (int i = 0; !rc && i < env->opts.operand_count; i++) {
		rc = gt_ckpt_input_open(&in->ckpts[i], env->opts.operands[i], env, err);
		if (rc)
			break;
		in->parts[in->count++] =
		    (struct gt_merge_input){ gt_ckpt_root(in->ckpts[i]), env->opts.operands[i] };
	}
	return rc;
}

static int merge_all(const struct inputs *in, const struct gt_ckpt_merge_cli *cli,
    struct gt_ckpt_rewrite *r, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_merge_mean mean = { 0 };
	struct gt_arena arena = { 0 };
	struct gt_tree *root = NULL;
	int dtype = cli->target.dtype;
	const struct gt_merge_how how = { .weights = cli->weights ? in->weights : NULL,
		.base = cli->base ? &in->base : NULL,
		.drop = cli->drop,
		.seed = (uint64_t)cli->seed,
		.density = cli->ties,
		.slerp = cli->given & GIVEN_SLERP ? &cli->slerp : NULL,
		.as = dtype < 0 ? NULL : &gt_ckpt_dtypes[dtype],
		.progress = &env->progress };
	char *folder = folder_of(cli->target.output, err);
	int rc = folder ? 0 : GT_ENOMEM;

	if (!rc && (cli->average || cli->weights || how.base || how.slerp)) {
		rc = gt_merge_combine(&mean, in->parts, in->count, &how, folder, &r->note, err);
		root = mean.root;
	} else if (!rc) {
		rc = gt_merge_union(&root, in->parts, in->count, &arena, &r->note, err);
	}
	if (!rc)
		rc = gt_ckpt_target_write(r, root, env, err);
	gt_merge_release(&mean);
	gt_arena_release(&arena);
	free(folder);
	return rc;
}

static int merge(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_merge_cli *cli = values;
	struct inputs in = { 0 };
	struct gt_ckpt_rewrite r = { .target = &cli->target, .inputs = in.ckpts };
	int rc = check_options(cli, env, err);

	if (!rc && cli->weights)
		rc = read_weights(&in, cli->weights, env->opts.operand_count, err);
	if (!rc)
		rc = gt_ckpt_target_check(&r, env, err);
	if (!rc)
		rc = open_all(&in, env, err);
	if (!rc && cli->base)
		rc = open_base(&in, cli->base, env, err);
	r.input_count = in.count + (cli->base != NULL);
	r.json = cli->common.json;
	if (!rc)
		rc = merge_all(&in, cli, &r, env, err);
	gt_buf_release(&r.note);
	for (size_t i = 0; i <= GT_CKPT_MERGE_MAX; i++)
		gt_ckpt_close(in.ckpts[i]);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_merge = { table, sizeof(struct gt_ckpt_merge_cli), merge };
