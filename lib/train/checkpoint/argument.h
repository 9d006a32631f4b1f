/* argument.h - find the checkpoint that an argument names, and the run that it belongs to. */
#ifndef GT_TRAIN_CHECKPOINT_ARGUMENT_H
#define GT_TRAIN_CHECKPOINT_ARGUMENT_H

#include "lib/data/core/description.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/session.h"

/* A checkpoint that an argument names, its run directory if it has one, and the facts about its
 * model. Do not copy this struct: `file` points into it. */
struct gt_run_ckpt {
	char *path;               /* path of the checkpoint; NULL: there is none */
	struct gt_file_name file; /* the checkpoint, to be opened */
	struct gt_run_dir dir;    /* the run directory; not open if the checkpoint has none */
	/* Only for the folder of a distributed checkpoint in checkpoints/: the open folder, and the
	 * path of its .metadata. */
	struct gt_folder set;
	char *metadata;
	json_t *about;  /* facts stored in the checkpoint (about.h), or NULL */
	json_t *config; /* config.json of the run, or NULL */
	char *vocab;    /* path of the vocabulary, or NULL */
	char *network;  /* path of the run's exported network, or NULL */
	/* facts from the folder `given` of gt_run_ckpt_model(), or NULL */
	json_t *folder_about;
	/* GT_NAMES_HUGGINGFACE for transformers' names of weights, otherwise GT_NAMES_AUTO */
	enum gt_names names;
	/* which file of a run directory was chosen, as ", the latest state of the run"; NULL: the
	 * argument is not a run directory */
	const char *role;
};

/* The file of a run directory that an argument means: the weights of the best evaluation if there
 * is one, or always the latest checkpoint. */
enum gt_run_choice { GT_RUN_BEST, GT_RUN_LATEST };

/* Find the checkpoint that `argument` names: a file, a run directory, a folder of transformers, or
 * a folder in which another program saved a training checkpoint. Release *out even after an error.
 * Errors: GT_EIO if there is no checkpoint; GT_EFORMAT, GT_ENOMEM. */
int gt_run_ckpt_open(
    struct gt_run_ckpt *out, const char *argument, enum gt_run_choice choice, struct gt_err *err);

/* Log where the weights come from, with the note of the report. */
void gt_run_ckpt_log(
    const struct gt_run_ckpt *ckpt, const struct gt_weights_report *report, struct gt_log *log);

/* Do the same, but not if the argument names the checkpoint itself and the note is empty. */
void gt_run_ckpt_log_choice(
    const struct gt_run_ckpt *ckpt, const struct gt_weights_report *report, struct gt_log *log);

/* Return whether `argument` is a folder that is a training checkpoint: gt_saved_is_folder(), or a
 * distributed checkpoint. */
bool gt_run_ckpt_is_saved_folder(const char *argument);

/* Return whether `argument` is a folder with the config.json of a model of transformers. It may
 * also be a training checkpoint. */
bool gt_run_ckpt_is_transformers(const char *argument);

/* Find the latest checkpoint in the run directory `dir`, from which the run can be resumed. If the
 * directory is missing or has no checkpoint, out->path is NULL; this is not an error. Release *out
 * even after an error. */
int gt_run_ckpt_latest(struct gt_run_ckpt *out, const char *dir, struct gt_err *err);

/*
 * Check that a run can be resumed from the folder `argument`. The folder must be a training
 * checkpoint of another program, or a run directory with a checkpoint in checkpoints/. A run
 * directory that has only model.pth is an error, because a run cannot be resumed from weights
 * alone. If `argument` is not a folder, return 0.
 *
 * Errors: GT_EFORMAT if the folder has only weights that the library transformers wrote; GT_EIO if
 * the folder has no checkpoint in checkpoints/.
 */
int gt_run_ckpt_check_resumed(const char *argument, struct gt_err *err);

void gt_run_ckpt_release(struct gt_run_ckpt *ckpt);

/* Set *path, which the caller frees, to the latest checkpoint or model.pth of the run directory
 * `argument`; NULL: it is none, or has neither. Errors: GT_EIO for a folder of run directories;
 * GT_ENOMEM. */
int gt_run_ckpt_find(char **path, const char *argument, struct gt_err *err);

/* Return the model (NAME[:key=value,...]), borrowed: `given` if it is not NULL, otherwise that of
 * the checkpoint or its run. NULL with err set: there is none. `given` may be a folder of
 * transformers; its facts are then stored in *ckpt. Without a checkpoint, *ckpt is zeroed. */
const char *gt_run_ckpt_model(struct gt_run_ckpt *ckpt, const char *given, struct gt_err *err);

/* Check that the weights were trained with the network of `given` (NULL: do nothing). Weights of
 * the same shapes may belong to another network, such as one with other heads. Errors: GT_EINVAL,
 * which callers show as a warning. */
int gt_run_ckpt_check_model(const struct gt_run_ckpt *ckpt, const char *given, struct gt_err *err);

/* Return *load with ckpt->names in place of GT_NAMES_AUTO. */
struct gt_load_options gt_run_ckpt_load(
    const struct gt_run_ckpt *ckpt, const struct gt_load_options *load);

/* Read the description of the training data; it is empty if none is known. Release *out even after
 * an error. */
int gt_run_ckpt_describe(
    struct gt_data_description *out, const struct gt_run_ckpt *ckpt, struct gt_err *err);

/* Return the loss of the training (gt_loss_parse()), borrowed; NULL: not known. */
const char *gt_run_ckpt_loss(const struct gt_run_ckpt *ckpt);

/* Return the settings of the adapters that the weights have (gt_lora_parse()), borrowed; NULL: the
 * model has none. */
const char *gt_run_ckpt_lora(const struct gt_run_ckpt *ckpt);

/* Return the path of the checkpoint with the weights to which the adapters are added, borrowed;
 * NULL: this one has them, too. */
const char *gt_run_ckpt_base(const struct gt_run_ckpt *ckpt);

/* Choose the vocabulary: the file `given` (then set trained_on->tokenizer to NULL), else
 * trained_on->tokenizer, else ckpt->vocab. *file names the chosen file, borrowed; file->path is
 * NULL if none is chosen. */
void gt_run_ckpt_choose_vocab(struct gt_data_description *trained_on, struct gt_file_name *file,
    const struct gt_run_ckpt *ckpt, const char *given);

/* Check that the text `data` was opened with a vocabulary: without one, its ids may be others than
 * in training. `path` is the checkpoint; NULL: the training data of this run. Errors: GT_EINVAL. */
int gt_run_ckpt_check_vocab(const char *path, const struct gt_dataset *data, struct gt_err *err);

/* Check that `tok`, the vocabulary `given` of the user, has the tokens of the run's vocabulary.
 * Byte-pair tokenizers are left to gt_tokenizer_check(). Errors: GT_EINVAL, which callers show as a
 * warning. */
int gt_run_ckpt_check_given(const struct gt_run_ckpt *ckpt,
    const struct gt_data_description *trained_on, const struct gt_tokenizer *tok, const char *given,
    struct gt_err *err);

/* Open the tokenizer of a language model: the user's `given` (or NULL), else that of the checkpoint
 * or its run. `log` gets a warning if it is not that of the training; NULL: it gets none. The
 * caller closes *out, also after an error. Errors: GT_EINVAL if there is none; those of
 * gt_tokenizer_open() and gt_tokenizer_check(). */
int gt_run_ckpt_open_tokenizer(struct gt_tokenizer **out, const struct gt_run_ckpt *ckpt,
    struct gt_data_description *trained_on, const char *given, struct gt_log *log,
    struct gt_err *err);

/* Check that mean and standard deviation of the data are known (gt_data_info.raw). `option` is the
 * option that can set them. Errors: GT_EINVAL, which callers show as a warning. */
int gt_run_ckpt_check_scale(const struct gt_run_ckpt *ckpt, const struct gt_dataset *data,
    const char *option, struct gt_err *err);

#endif
