/* merge.c - gtrain ckpt merge: several checkpoints made one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/rewrite.h"
#include "lib/ckpt/tools/merge.h"

struct gt_ckpt_merge_cli {
	struct gt_cmd_common common;
	bool average;
	struct gt_ckpt_target_cli target;
};

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "How to merge" },
	{ "average", 0, GT_OPT_FLAG, GT_OPT_FIELD(struct gt_ckpt_merge_cli, average),
	    .help = "write the mean of each tensor; all files must have the same tensors" },
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
	struct gt_ckpt *ckpts[GT_CKPT_MERGE_MAX];
	struct gt_merge_input parts[GT_CKPT_MERGE_MAX];
	size_t count;
};

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
	char *folder = folder_of(cli->target.output, err);
	int rc = folder ? 0 : GT_ENOMEM;

	if (!rc && cli->average) {
		rc = gt_merge_average(&mean, in->parts, in->count,
		    dtype < 0 ? NULL : &gt_ckpt_dtypes[dtype], folder, &r->note, err);
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
	int rc = gt_opts_require(&env->opts, err);

	if (!rc)
		rc = gt_ckpt_target_check(&r, env, err);
	if (!rc)
		rc = open_all(&in, env, err);
	r.input_count = in.count;
	r.json = cli->common.json;
	if (!rc)
		rc = merge_all(&in, cli, &r, env, err);
	gt_buf_release(&r.note);
	for (size_t i = 0; i < GT_CKPT_MERGE_MAX; i++)
		gt_ckpt_close(in.ckpts[i]);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_merge = { table, sizeof(struct gt_ckpt_merge_cli), merge };
