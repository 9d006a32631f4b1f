/* merge_lora.c - gtrain ckpt merge-lora: an adapter added to the weights of a model. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/ckpt/ckpt.h"
#include "cmd/ckpt/rewrite.h"
#include "cmd/stop.h"
#include "lib/base/new_folder.h"
#include "lib/base/text.h"
#include "lib/train/checkpoint/adapter_merge.h"
#include "lib/train/checkpoint/argument.h"

struct gt_ckpt_merge_lora_cli {
	struct gt_cmd_common common;
	const char *lora;
	struct gt_ckpt_target_cli target;
};

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to add" },
	{ "lora", 0, GT_OPT_STRING, GT_OPT_FIELD(struct gt_ckpt_merge_lora_cli, lora), "ADAPTER",
	    .help = "folder with an adapter of PEFT or gtrain", .complete = GT_COMPLETE_DIR,
	    .flags = GT_OPT_REQUIRED },
	GT_CKPT_TARGET(struct gt_ckpt_merge_lora_cli, gt_convert_words, ""),
	GT_CMD_COMMON(struct gt_ckpt_merge_lora_cli),
	{ 0 }
};
/* clang-format on */

/* ---- a folder of transformers, all of whose other files are copied ---- */

/* Return whether a file holds weights, or names files that do. */
static bool holds_weights(const char *name)
{
	static const char *const endings[] = { ".safetensors", ".bin", ".index.json", ".pth", ".pt",
		".h5", ".msgpack", ".ckpt", ".gguf", ".onnx" };

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (gt_text_ends_with(name, endings[i]))
			return true;
	return false;
}

/* Copy a file, or the file that a link leads to. Folders are left out. */
static int copy_file(
    const struct gt_folder *to, const char *from, const char *name, bool sync, struct gt_err *err)
{
	char *source = gt_asprintf(err, "%s/%s", from, name);
	char *path = source ? gt_folder_path(to, name, err) : NULL;
	struct gt_atomic_file file;
	struct gt_mapping map = { 0 };
	struct stat st;
	int rc = path ? 0 : GT_ENOMEM;

	if (!rc && (stat(source, &st) || !S_ISREG(st.st_mode)))
		goto out;
	if (!rc)
		rc = gt_map_at(&map, (struct gt_file_name){ .path = source }, err);
	if (!rc)
		rc = gt_atomic_open_at(&file, (struct gt_file_name){ to, path }, err);
	if (!rc) {
		file.no_sync = !sync;
		if (map.size && fwrite(map.data, 1, map.size, file.stream) != map.size)
			rc = gt_err_sys(err, "cannot write '%s'", path);
		if (rc)
			gt_atomic_abandon(&file);
		else
			rc = gt_atomic_commit(&file, err);
	}
	gt_unmap(&map);
out:
	free(path);
	free(source);
	return rc;
}

static int copy_others(const struct gt_folder *to, const char *from, bool sync, struct gt_err *err)
{
	struct gt_folder folder = { 0 };
	const char *name = NULL;
	DIR *list;
	int rc = gt_folder_open(&folder, from, err);

	if (rc)
		return rc;
	list = gt_folder_list(&folder, err);
	rc = list ? gt_folder_next(&name, &folder, list, err) : err->code;
	while (!rc && name) {
		if (*name != '.' && !holds_weights(name))
			rc = copy_file(to, from, name, sync, err);
		if (!rc)
			rc = gt_folder_next(&name, &folder, list, err);
	}
	if (list)
		closedir(list);
	gt_folder_close(&folder);
	return rc;
}

static int write_weights(const struct gt_ckpt_rewrite *r, const struct gt_folder *folder,
    const struct gt_tree *tree, struct gt_ckpt_write_losses *losses, struct gt_cmd_env *env,
    struct gt_err *err)
{
	const struct gt_ckpt_target_cli *target = r->target;
	char *index = NULL, *path = gt_folder_path(folder, "model.safetensors", err);
	const struct gt_ckpt_write_options options = {
		.index = &index,
		.cast = target->dtype >= 0,
		.dtype = target->dtype >= 0 ? gt_ckpt_dtypes[target->dtype] : GT_F32,
		.no_sync = !target->sync,
		.shard_bytes = (uint64_t)target->shard_bytes,
		.inputs = r->inputs,
		.input_count = r->input_count,
		.losses = losses,
		.progress = &env->progress,
	};
	int rc = path ? gt_ckpt_write(path, "safetensors", tree, &options, err) : GT_ENOMEM;

	free(index);
	free(path);
	return rc;
}

static int write_folder(struct gt_ckpt_rewrite *r, const char *from, const struct gt_tree *tree,
    struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_target_cli *target = r->target;
	struct gt_ckpt_write_losses losses = { 0 };
	struct gt_new_folder new;
	struct gt_tally tally;
	struct gt_stop stop;
	int rc = gt_tally_make(&tally, tree, err);

	if (!rc)
		rc = gt_stop_listen(&stop, err);
	if (rc)
		return rc;
	rc = gt_new_folder_open(&new, target->output, err);
	if (!rc) {
		rc = write_weights(r, &new.folder, tree, &losses, env, err);
		if (!rc)
			rc = copy_others(&new.folder, from, target->sync, err);
		if (!rc)
			rc = gt_new_folder_commit(&new, !target->sync, err);
		else
			gt_new_folder_abandon(&new);
	}
	gt_stop_release(&stop);
	if (!rc && losses.values)
		gt_ckpt_target_report_losses(r, &losses, &env->log);
	return rc ? rc : gt_ckpt_target_report(r, target->output, true, &tally, env, err);
}

/* ---- the command ---- */

static int check_folder(const struct gt_ckpt_merge_lora_cli *cli, struct gt_err *err)
{
	if (cli->target.to < 0)
		return 0;
	gt_err_set(err, GT_EINVAL, "--to has no effect on a folder of transformers");
	return gt_err_hint(err, "its weights are written as model.safetensors");
}

static int merge_lora(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_ckpt_merge_lora_cli *cli = values;
	const char *base = env->opts.operands[0];
	const bool folder = gt_run_ckpt_is_transformers(base);
	struct gt_arena arena = { 0 };
	struct gt_ckpt *ckpt = NULL;
	struct gt_ckpt_rewrite r = {
		.target = &cli->target, .inputs = &ckpt, .input_count = 1, .json = cli->common.json
	};
	struct gt_tree *tree;
	int rc = 0;

	if (folder) {
		r.format = "hf";
		rc = check_folder(cli, err);
	}
	if (!rc)
		rc = gt_ckpt_target_check(&r, env, err);
	if (!rc)
		rc = gt_ckpt_input_open(&ckpt, env->opts.operands[0], env, err);
	if (!rc)
		rc = gt_adapter_merge(&tree, gt_ckpt_root(ckpt), base, cli->lora, &arena, err);
	if (!rc)
		rc = folder ? write_folder(&r, base, tree, env, err)
		            : gt_ckpt_target_write(&r, tree, env, err);
	gt_buf_release(&r.note);
	gt_ckpt_close(ckpt);
	gt_arena_release(&arena);
	return rc;
}

const struct gt_cmd_work gt_cmd_ckpt_merge_lora = { table, sizeof(struct gt_ckpt_merge_lora_cli),
	merge_lora };
