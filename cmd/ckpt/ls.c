/* ls.c - gtrain ckpt ls: list tensors and other values. */
#include <stdlib.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/ls.h"
#include "lib/ckpt/tools/digest.h"

struct gt_ckpt_ls_cli {
	struct gt_cmd_common common;
	bool stats, all;
	int64_t threads;
};

#define AT(member) GT_OPT_FIELD(struct gt_ckpt_ls_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to show" },
	{ "stats", 0, GT_OPT_FLAG, AT(stats),
	    .help = "also print min, max, mean, std, NaN, Inf and zeros of tensors" },
	{ "all", 'a', GT_OPT_FLAG, AT(all),
	    .help = "list all values that are not tensors, not only the first 20" },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "number of threads that read for --stats",
	    .otherwise = "one per core, at most 16", .min = 1, .max = 64 },

	GT_CMD_COMMON(struct gt_ckpt_ls_cli),
	{ 0 }
};
/* clang-format on */

static int measure_tensors(
    struct gt_ckpt_listing *l, size_t threads, struct gt_progress *progress, struct gt_err *err)
{
	const struct gt_inventory *v = &l->inventory;
	const struct gt_tree_tensor **tensors = gt_calloc(v->tensor_count, sizeof(*tensors), err);
	int rc = GT_ENOMEM;

	l->stats = gt_calloc(v->tensor_count, sizeof(*l->stats), err);
	if (tensors && l->stats) {
		for (size_t i = 0; i < v->tensor_count; i++)
			tensors[i] = &v->tensors[i].value->tensor;
		rc = gt_digest_check(l->ckpt, false, NULL, err);
		if (!rc)
			rc =
			    gt_stats_of(l->stats, tensors, v->tensor_count, threads, progress, err);
	}
	free(tensors);
	return rc;
}

static int look_into_ckpt(struct gt_ckpt_listing *l, struct gt_ckpt *ckpt,
    const struct gt_ckpt_ls_cli *cli, struct gt_cmd_env *env, struct gt_err *err)
{
	/* The order saves memory: the second call reuses memory that the first has freed. */
	int rc = gt_ckpt_file_usage(ckpt, &l->file_bytes, &l->dead_bytes, err);

	l->ckpt = ckpt;
	if (!rc)
		rc = gt_inventory_make(&l->inventory, gt_ckpt_root(ckpt), err);
	if (!rc && cli->stats)
		rc = measure_tensors(l, (size_t)cli->threads, &env->progress, err);
	return rc ? gt_err_prefix(err, "'%s'", env->opts.operands[0]) : 0;
}

static int list_ckpt(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_ls_cli *cli = values;
	struct gt_ckpt_listing listing = { 0 };
	struct gt_ckpt *ckpt = NULL;
	int rc = gt_cmd_find_ckpts(env, err);

	if (!rc)
		rc = gt_ckpt_open(&ckpt, env->opts.operands[0], err);
	if (!rc)
		rc = look_into_ckpt(&listing, ckpt, cli, env, err);
	listing.all = cli->all;
	listing.color = env->color;
	if (!rc && cli->common.json)
		gt_ckpt_ls_json(stdout, &listing);
	else if (!rc)
		gt_ckpt_ls_text(stdout, &listing);
	free(listing.stats);
	gt_inventory_release(&listing.inventory);
	gt_ckpt_close(ckpt);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_ls = { table, sizeof(struct gt_ckpt_ls_cli), list_ckpt };
