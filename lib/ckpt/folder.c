/* folder.c - the checkpoint in a folder, told by the names of its files. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/text.h"
#include "lib/ckpt/deepspeed/deepspeed.h"
#include "lib/ckpt/format.h"

/* The files by which transformers opens a folder, in its order; then those of distributed
 * checkpoints: PyTorch's, and the weights in those of Accelerate with FSDP. */
static const char *const main_files[] = { "model.safetensors", "model.safetensors.index.json",
	"pytorch_model.bin", "pytorch_model.bin.index.json", ".metadata",
	"pytorch_model_fsdp_0/.metadata" };

enum { MAIN_FILES = sizeof(main_files) / sizeof(*main_files), NAMED_FILES = 4 };

bool gt_ckpt_is_part_name(const char *name)
{
	for (int i = 0; i < NAMED_FILES; i++)
		if (!strcmp(name, main_files[i]))
			return true;
	return (!strncmp(name, "model-", 6) && gt_text_ends_with(name, ".safetensors")) ||
	       (!strncmp(name, "pytorch_model-", 14) && gt_text_ends_with(name, ".bin"));
}

bool gt_ckpt_is_named(const char *path)
{
	static const char *const endings[] = { ".pt", ".pth", ".pth.tar", ".th", ".ckpt", ".bin",
		".safetensors", ".index.json", ".npz", ".npy", ".pkl", ".pickle", ".pt2", ".onnx",
		".distcp", ".gguf" };

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (gt_text_ends_with(path, endings[i]))
			return true;
	return false;
}

static int is_index(const struct dirent *entry)
{
	return gt_text_ends_with(entry->d_name, ".index.json");
}

/* The path of the only index in a folder, or NULL. */
static char *only_index(const char *folder, struct gt_err *err)
{
	struct dirent **names = NULL;
	int n = scandir(folder, &names, is_index, alphasort);
	char *path = n == 1 ? gt_asprintf(err, "%s/%s", folder, names[0]->d_name) : NULL;

	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return path;
}

/* Checkpoints of several files that gtrain does not read: a file that such a folder has. */
static const struct {
	const char *file, *what, *hint;
} foreign[] = {
	{ "zero_to_fp32.py", "a checkpoint of DeepSpeed without a step that `latest` names",
	    "name the folder of a step, such as global_step100" },
	{ "latest_checkpointed_iteration.txt", "a checkpoint of Megatron-LM",
	    "name one of its files, such as iter_*/mp_rank_00/model_optim_rng.pt" },
	{ "mp_rank_00/model_optim_rng.pt", "a part of a checkpoint of Megatron-LM",
	    "name one of its files, such as mp_rank_00/model_optim_rng.pt" },
	{ "consolidated.00.pth", "a LLaMA as Meta publishes it", "name one of its .pth files" },
	{ "adapter_model.safetensors", "an adapter of PEFT, without the model",
	    "name its file, adapter_model.safetensors" },
	{ "model_index.json", "a pipeline of Diffusers", "name one of its folders, such as unet" },
};

static int fail_folder(const char *folder, struct gt_err *err)
{
	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
		char *path = gt_asprintf(err, "%s/%s", folder, foreign[i].file);
		bool there = path && !access(path, F_OK);

		free(path);
		if (!path)
			return GT_ENOMEM;
		if (!there)
			continue;
		gt_err_set(err, GT_EIO, "'%s' is %s", folder, foreign[i].what);
		return gt_err_hint(err, "%s", foreign[i].hint);
	}
	gt_err_set(err, GT_EIO, "'%s' is a directory without a checkpoint in it", folder);
	return gt_err_hint(err,
	    "gtrain looks there for model.safetensors, pytorch_model.bin, one *.index.json, "
	    "and for distributed checkpoints of PyTorch and DeepSpeed");
}

/*
 * Find the checkpoint in a folder: an index or a single file. Set *path to its path, which the
 * caller frees with free(). It is the first that exists of main_files, the only *.index.json of the
 * folder, and the model states of DeepSpeed. The first four are looked for in the order of
 * transformers, so that gtrain and transformers read the same weights. Errors: GT_EIO if none
 * exists.
 * Source: transformers, modeling_utils.py, from_pretrained().
 */
int gt_ckpt_in_folder(
    char **path, const struct gt_ckpt_format **format, const char *folder, struct gt_err *err)
{
	bool sharded;
	int rc;

	*format = NULL;
	for (int i = 0; i <= MAIN_FILES; i++) {
		*path = i < MAIN_FILES ? gt_asprintf(err, "%s/%s", folder, main_files[i])
		                       : only_index(folder, err);
		if (*path && !access(*path, F_OK))
			return 0;
		free(*path);
	}
	rc = gt_deepspeed_in_folder(path, &sharded, folder, err);
	if (rc)
		return rc;
	*format = sharded ? &gt_format_deepspeed : NULL;
	return *path ? 0 : fail_folder(folder, err);
}
