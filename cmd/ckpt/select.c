/* select.c - gtrain ckpt select: a part of a checkpoint as a file of its own. */
#include <math.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/rewrite.h"
#include "lib/ckpt/tools/select.h"

struct gt_ckpt_select_cli {
	struct gt_cmd_common common;
	const char *path;
	struct gt_opt_list keys;
	struct gt_ckpt_target_cli target;
};

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to take" },
	{ "path", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_select_cli, path), "KEY[.KEY...]",
	    .help = "the value under a key, such as model or model.state_dict" },
	{ "keys", 0, GT_OPT_LIST, GT_OPT_FIELD(struct gt_ckpt_select_cli, keys), "GLOB",
	    .help = "tensors whose names match, such as 'layer1.*'; may be given several times" },
	GT_CKPT_TARGET(struct gt_ckpt_select_cli, gt_convert_words, ""),
	GT_CMD_COMMON(struct gt_ckpt_select_cli),
	{ 0 }
};
/* clang-format on */

static int take_selection(struct gt_tree **root, const struct gt_ckpt_select_cli *cli,
    struct gt_arena *arena, struct gt_buf *note, struct gt_err *err)
{
	int rc = cli->path ? gt_select_path(root, *root, cli->path, err) : 0;

	if (!rc && cli->keys.count)
		rc =
		    gt_select_keys(root, *root, cli->keys.items, cli->keys.count, arena, note, err);
	return rc;
}

static int select_part(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_select_cli *cli = values;
	struct gt_arena arena = { 0 };
	struct gt_ckpt *ckpt = NULL;
	struct gt_ckpt_rewrite r = {
		.target = &cli->target, .inputs = &ckpt, .input_count = 1, .json = cli->common.json
	};
	struct gt_tree *root;
	int rc;

	if (!cli->path && !cli->keys.count) {
		gt_err_set(err, GT_EINVAL, "neither --path nor --keys is given");
		return gt_err_hint(err, "gtrain ckpt select FILE --path model -o model.pth");
	}
	rc = gt_ckpt_target_check(&r, env, err);
	if (!rc)
		rc = gt_ckpt_input_open(&ckpt, env->opts.operands[0], env, err);
	if (!rc) {
		root = gt_ckpt_root(ckpt);
		rc = take_selection(&root, cli, &arena, &r.note, err);
	}
	if (!rc)
		rc = gt_ckpt_target_write(&r, root, env, err);
	gt_buf_release(&r.note);
	gt_ckpt_close(ckpt);
	gt_arena_release(&arena);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_select = { table, sizeof(struct gt_ckpt_select_cli),
	select_part };
