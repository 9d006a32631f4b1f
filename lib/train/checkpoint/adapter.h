/* adapter.h - low-rank adapters as folders of PEFT, and checkpoints that consist of one. */
#ifndef GT_TRAIN_CHECKPOINT_ADAPTER_H
#define GT_TRAIN_CHECKPOINT_ADAPTER_H

#include "lib/train/checkpoint/argument.h"

struct gt_snapshot;

/*
 * PEFT saves an adapter as a folder, without the weights that it is added to:
 *
 *   adapter_config.json        its settings, and the name of the model that it is for
 *   adapter_model.safetensors  A and B of each layer (lib/model/lora.h); or adapter_model.bin
 */
struct gt_adapter {
	char *spec;            /* its settings (gt_lora_parse()); NULL: there is no adapter */
	char *weights;         /* path of the weights */
	bool transposed;       /* the layers have weights [in, out] */
	struct json_t *config; /* its adapter_config.json */
};

/* Return whether `path` is a folder with an adapter_config.json. */
bool gt_adapter_is_folder(const char *path);

/* Read the settings of an adapter, and the names of its weights. Release *out even after an error.
 * Errors name the file; GT_ENOTSUP: a kind of adapter that gtrain does not have. */
int gt_adapter_open(struct gt_adapter *out, const char *folder, struct gt_err *err);
void gt_adapter_release(struct gt_adapter *adapter);

/* Check that a module of the model, whose weight has these dimensions, need not have a part of the
 * adapter: `target_modules` does not name it, by PEFT's rule that a name is the end of a module's
 * name. Lists of names are checked, regular expressions and `layers_to_transform` are not. Errors:
 * GT_EFORMAT. */
int gt_adapter_check_absent(
    const struct gt_adapter *adapter, const char *module, int ndim, struct gt_err *err);

/* Check the option {lora} of a run: settings, or a folder. */
int gt_adapter_check(const char *lora, struct gt_err *err);

/* Choose the adapter of a model whose weights are in a checkpoint: open the folder `lora`, or if it
 * is NULL, take that of the checkpoint. *spec, which is borrowed, has its settings; NULL: there is
 * none. Errors: those of gt_adapter_open(); GT_EINVAL if the checkpoint has another one. */
int gt_adapter_choose(struct gt_adapter *out, const char **spec, const char *lora,
    const struct gt_run_ckpt *ckpt, struct gt_err *err);

/* Load a checkpoint as gt_session_load() does, before it the weights to which its adapter is added,
 * if it lacks them, and after it the adapter of a folder, if *adapter is one. */
int gt_adapter_load_around(struct gt_session *s, const struct gt_adapter *adapter,
    const struct gt_run_ckpt *ckpt, const struct gt_load_options *load,
    const struct gt_weights_options *options, struct gt_weights_report *report, struct gt_err *err);

/* Load the weights of an open adapter. Errors: GT_EFORMAT, also if the model has a layer that
 * `target_modules` names and the adapter lacks. */
int gt_adapter_load(struct gt_session *s, const struct gt_adapter *adapter, struct gt_err *err);

/* Load the weights of the checkpoint `base` into a model with adapters, which keep theirs. */
int gt_adapter_load_base(struct gt_session *s, const char *base, struct gt_err *err);

/* Save the adapters as a folder of PEFT, which replaces an older one. `base` is the path of the
 * weights to which they are added; it may be NULL. A collective call; rank 0 writes. */
int gt_adapter_save(
    const struct gt_snapshot *s, const char *base, struct gt_file_name folder, struct gt_err *err);

#endif
