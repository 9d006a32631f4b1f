/* read.c - find and open the files of a checkpoint of DeepSpeed. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/text.h"
#include "lib/ckpt/deepspeed/deepspeed.h"
#include "lib/ckpt/tree/tree.h"

/*
 * A run's folder has a file `latest` with the name of a step's folder, such as global_step100:
 *
 *   mp_rank_00_model_states.pt                    stages 1 and 2: the model in half precision, and
 *                                                 the names and shapes of its parameters
 *   zero_pp_rank_R_mp_rank_00_model_states.pt     stage 3: the same of rank R, without the model
 *   zero_pp_rank_R_mp_rank_00_optim_states.pt     the optimizer of rank R, with float32 weights; or
 *                                                 bf16_zero_pp_rank_...
 *
 * All are files of torch.save(). Without ZeRO, mp_rank_00_model_states.pt is the whole model.
 * Source: deepspeed/runtime/engine.py, _get_zero_ckpt_name() and _get_ckpt_name(), 0.19.8.
 */

enum { LATEST_MAX = 256, RANKS_MAX = 1 << 16 };

static const char model_file[] = "mp_rank_00_model_states.pt";
static const char part_file[] = "zero_pp_rank_0_mp_rank_00_model_states.pt";
static const char *const optimizer_files[] = { "zero_pp_rank_%zu_mp_rank_00_optim_states.pt",
	"bf16_zero_pp_rank_%zu_mp_rank_00_optim_states.pt" };

/* ---- folders ---- */

/* Return whether a file is there. */
static bool is_in(const char *folder, const char *name)
{
	char *path = gt_asprintf(GT_ERR_IGNORED, "%s/%s", folder, name);
	bool there = path && !access(path, F_OK);

	free(path);
	return there;
}

/* Return the format of the names of the optimizers' files, or NULL if there are none. */
static const char *optimizer_names(const char *folder)
{
	char name[80];

	for (size_t i = 0; i < sizeof(optimizer_files) / sizeof(*optimizer_files); i++) {
		snprintf(name, sizeof(name), optimizer_files[i], (size_t)0);
		if (is_in(folder, name))
			return optimizer_files[i];
	}
	return NULL;
}

/* A step's folder. Files of a second rank of tensor parallelism have parts of layers in them. */
static int find_in_step(char **path, bool *sharded, const char *folder, struct gt_err *err)
{
	const char *name = is_in(folder, model_file)  ? model_file
	                   : is_in(folder, part_file) ? part_file
	                                              : NULL;

	if (!name)
		return 0;
	*sharded = optimizer_names(folder);
	if (is_in(folder, "mp_rank_01_model_states.pt") ||
	    is_in(folder, "zero_pp_rank_0_mp_rank_01_model_states.pt")) {
		gt_err_set(err, GT_ENOTSUP,
		    "'%s' is a checkpoint of DeepSpeed whose layers are divided among ranks (tensor "
		    "parallelism)",
		    folder);
		return gt_err_hint(err,
		    "export the model with the program that trained it, such as Megatron-DeepSpeed");
	}
	*path = gt_asprintf(err, "%s/%s", folder, name);
	return *path ? 0 : GT_ENOMEM;
}

static int read_latest(char name[LATEST_MAX], const char *folder, struct gt_err *err)
{
	char *path = gt_asprintf(err, "%s/latest", folder);
	FILE *file = path ? fopen(path, "re") : NULL;
	size_t n = file ? fread(name, 1, LATEST_MAX - 1, file) : 0;

	if (file)
		fclose(file);
	free(path);
	if (!path)
		return GT_ENOMEM;
	while (n && strchr(" \t\r\n", name[n - 1]))
		n--;
	name[n] = '\0';
	if (n && strlen(name) == n && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, ".."))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "'%s/latest' has no name of a folder in it, where DeepSpeed writes the last step's",
	    folder);
}

int gt_deepspeed_in_folder(char **path, bool *sharded, const char *folder, struct gt_err *err)
{
	char name[LATEST_MAX], *step;
	int rc;

	*path = NULL;
	*sharded = false;
	rc = find_in_step(path, sharded, folder, err);
	if (rc || *path || !is_in(folder, "latest") || !is_in(folder, "zero_to_fp32.py"))
		return rc;
	rc = read_latest(name, folder, err);
	if (rc)
		return rc;
	step = gt_asprintf(err, "%s/%s", folder, name);
	rc = step ? find_in_step(path, sharded, step, err) : GT_ENOMEM;
	if (!rc && !*path)
		rc = gt_err_set(err, GT_EIO,
		    "'%s' has no model states, although '%s/latest' names it", step, folder);
	free(step);
	return rc;
}

/* ---- files ---- */

/* Open a file of a rank, as the next shard. */
static int open_rank(struct gt_ckpt *ckpt, const char *name, struct gt_err *err)
{
	struct gt_ckpt *file;
	const char *kept = gt_arena_strdup(&ckpt->arena, name, err);
	int rc = kept ? gt_ckpt_open_beside(&file, ckpt, name, NULL,
	                    "bring the files of all ranks into one folder", err)
	              : GT_ENOMEM;

	if (rc)
		return rc;
	ckpt->shards[ckpt->shard_count++] = (struct gt_ckpt_shard){ file, kept };
	return 0;
}

/* The stage is an integer or an item of an enum, which is called with its value or got by name. */
static bool read_stage(int64_t *stage, const struct gt_tree *value)
{
	static const char *const names[] = { "optimizer_states", "gradients", "weights" };
	const struct gt_tree *args = gt_tree_is(value, GT_TREE_OPAQUE) ? value->opaque.args : NULL;

	if (args && args->seq.count == 1)
		value = gt_tree_value(args, 0);
	for (int i = 0; args && args->seq.count == 2 && i < 3; i++)
		if (gt_tree_is_string(gt_tree_value(args, 1), names[i])) {
			*stage = i + 1;
			return true;
		}
	return gt_tree_as_int(value, stage) && *stage >= 1 && *stage <= 3;
}

/* The number of ranks: an integer, or a list with one for each group. */
static size_t read_count(const struct gt_tree *value)
{
	int64_t most = 0, n;

	if (gt_tree_is(value, GT_TREE_LIST)) {
		for (size_t i = 0; i < value->seq.count; i++)
			if (gt_tree_as_int(gt_tree_value(value, i), &n) && n > most)
				most = n;
	} else if (gt_tree_as_int(value, &n)) {
		most = n;
	}
	return most > 0 && most <= RANKS_MAX ? (size_t)most : 0;
}

/* Read the stage and the number of ranks from the optimizer of rank 0, the first shard. */
static int read_ranks(
    struct gt_deepspeed_ranks *ranks, const struct gt_ckpt *ckpt, struct gt_err *err)
{
	const struct gt_tree *optimizer =
	    gt_tree_get(ckpt->shards[0].ckpt->root, "optimizer_state_dict");

	if (!read_stage(&ranks->stage, gt_tree_get(optimizer, "zero_stage")))
		return gt_err_set(err, GT_EFORMAT,
		    "'%s' has no zero_stage of 1, 2 or 3 in its optimizer_state_dict",
		    ckpt->shards[0].file);
	ranks->count = read_count(gt_tree_get(optimizer, "partition_count"));
	if (!ranks->count)
		return gt_err_set(err, GT_EFORMAT,
		    "'%s' has no partition_count, the number of ranks, of at most %d",
		    ckpt->shards[0].file, RANKS_MAX);
	return 0;
}

/* The folder of the main file has the files of as many ranks as rank 0 says. */
static int open_ranks(
    struct gt_ckpt *ckpt, struct gt_deepspeed_ranks *ranks, const char *names, struct gt_err *err)
{
	char name[80];
	struct gt_ckpt_shard *more;
	int rc;

	snprintf(name, sizeof(name), names, (size_t)0);
	ckpt->shards = gt_calloc(1, sizeof(*ckpt->shards), err);
	rc = ckpt->shards ? open_rank(ckpt, name, err) : GT_ENOMEM;
	if (!rc)
		rc = read_ranks(ranks, ckpt, err);
	if (rc)
		return rc;
	more = gt_reallocarray(ckpt->shards, 2 * ranks->count, sizeof(*more), err);
	if (!more)
		return GT_ENOMEM;
	ckpt->shards = more;
	for (size_t r = 1; r < ranks->count && !rc; r++) {
		snprintf(name, sizeof(name), names, r);
		rc = open_rank(ckpt, name, err);
	}
	for (size_t r = 1; ranks->stage == 3 && r < ranks->count && !rc; r++) {
		snprintf(name, sizeof(name), "zero_pp_rank_%zu_mp_rank_00_model_states.pt", r);
		rc = open_rank(ckpt, name, err);
	}
	return rc;
}

static int join_ranks(struct gt_ckpt *ckpt, struct gt_deepspeed_ranks *ranks, struct gt_err *err)
{
	ranks->model_count = ranks->stage == 3 ? ranks->count : 1;
	ranks->optimizers = gt_calloc(ranks->count, sizeof(*ranks->optimizers), err);
	ranks->models = gt_calloc(ranks->model_count, sizeof(*ranks->models), err);
	if (!ranks->optimizers || !ranks->models)
		return GT_ENOMEM;
	for (size_t r = 0; r < ranks->count; r++)
		ranks->optimizers[r] =
		    gt_tree_get(ckpt->shards[r].ckpt->root, "optimizer_state_dict");
	ranks->models[0] = ckpt->root;
	for (size_t r = 1; r < ranks->model_count; r++)
		ranks->models[r] = ckpt->shards[ranks->count + r - 1].ckpt->root;
	return gt_deepspeed_join(&ckpt->root, ranks, &ckpt->arena, err);
}

/* One more rank's file would be that of a run with more ranks, saved to the same folder. */
static int check_no_more(const char *folder, const char *names, size_t ranks, struct gt_err *err)
{
	char name[80];

	snprintf(name, sizeof(name), names, ranks);
	if (!is_in(folder, name))
		return 0;
	return gt_err_set(err, GT_EFORMAT,
	    "there is '%s', although rank 0 says that there are %zu ranks", name, ranks);
}

static int open_deepspeed(struct gt_ckpt *ckpt, struct gt_err *err)
{
	struct gt_deepspeed_ranks ranks = { 0 };
	const char *slash = strrchr(ckpt->path, '/'), *names;
	char *folder = gt_asprintf(
	    err, "%.*s", slash ? (int)(slash - ckpt->path) : 1, slash ? ckpt->path : ".");
	int rc;

	if (!folder)
		return GT_ENOMEM;
	names = optimizer_names(folder);
	rc = names ? gt_ckpt_open_content(ckpt, err)
	           : gt_err_set(err, GT_EIO, "'%s' has no optimizer states of rank 0", folder);
	ckpt->format = &gt_format_deepspeed;
	if (!rc)
		rc = open_ranks(ckpt, &ranks, names, err);
	if (!rc)
		rc = check_no_more(folder, names, ranks.count, err);
	if (!rc) {
		rc = join_ranks(ckpt, &ranks, err);
		if (rc == GT_EFORMAT)
			gt_err_hint(err, GT_CKPT_COPY_AGAIN);
	}
	free(ranks.optimizers);
	free(ranks.models);
	free(folder);
	return rc;
}

const struct gt_ckpt_format gt_format_deepspeed = { .name = "deepspeed", .open = open_deepspeed };
