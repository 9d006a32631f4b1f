/* argument.h - find the checkpoint that an argument names, and the run that it belongs to. */
#ifndef GT_TRAIN_CHECKPOINT_ARGUMENT_H
#define GT_TRAIN_CHECKPOINT_ARGUMENT_H

#include "lib/data/core/description.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/session.h"

/*
 * A checkpoint, its run and the facts about its model. A checkpoint is a file, or a folder that
 * another program wrote. A checkpoint that gtrain wrote may be in a run directory (run_dir.h). Do
 * not copy this struct: `file` points into it.
 */
struct gt_run_source {
	char *path;               /* path of the checkpoint; NULL: there is none */
	struct gt_file_name file; /* the checkpoint, to be opened */
	struct gt_run_dir dir;    /* the run directory; not open if the checkpoint has none */
	json_t *about;            /* facts stored in the checkpoint (about.h), or NULL */
	json_t *config;           /* config.json of the run, or NULL */
	char *vocab;              /* path of the vocabulary, or NULL */
	/* facts from the folder that was passed to gt_run_source_model() as `given`, or NULL */
	json_t *folder_about;
	/* GT_NAMES_HUGGINGFACE: the weights have the names of transformers; otherwise
	 * GT_NAMES_AUTO: the weights have the model's own names */
	enum gt_names names;
	/* a phrase for the file of a run directory that was chosen: ", the best evaluation of the
	 * run" or ", the latest state of the run"; NULL: the argument is not a run directory */
	const char *role;
};

/* The file of a run directory that an argument means: the weights of the best evaluation, if the
 * run has evaluations, or the latest checkpoint in any case. */
enum gt_run_choice { GT_RUN_BEST, GT_RUN_LATEST };

/*
 * Find the checkpoint that `argument` names:
 *
 *   - A file: the checkpoint is this file. It belongs to a run if it is in a run directory, or in
 *     the folder checkpoints/ of a run directory. A directory is not a run directory if its
 *     config.json does not belong to a run. If its config.json is a link or damaged, this is an
 *     error if the directory has metrics.jsonl; otherwise the directory is not a run directory.
 *   - A run directory: with GT_RUN_BEST, the checkpoint is best.pth if there is this file.
 *     Otherwise it is the latest one in checkpoints/; if there is none, it is model.pth.
 *   - A folder written by the library transformers: the checkpoint is this folder (pretrained.h),
 *     without a run. out->about comes from the config.json of the folder, and out->vocab from its
 *     tokenizer.
 *   - A folder in which another program saved a training checkpoint: the checkpoint is this folder
 *     (saved.h), without a run.
 *
 * If `argument` is a symbolic link, the link is followed; files in a run directory must not be
 * links. Errors: GT_EIO if there is no checkpoint. Release *out even after an error.
 */
int gt_run_source_open(
    struct gt_run_source *out, const char *argument, enum gt_run_choice choice, struct gt_err *err);

/* Log where the weights come from, with the note of the report. */
void gt_run_source_log(
    const struct gt_run_source *source, const struct gt_weights_report *report, struct gt_log *log);

/* The same, but log nothing if the argument names the checkpoint itself and the note is empty. */
void gt_run_source_log_choice(
    const struct gt_run_source *source, const struct gt_weights_report *report, struct gt_log *log);

/* Return whether `argument` is a folder in which another program saved a training checkpoint
 * (gt_saved_is_folder()). */
bool gt_run_source_is_foreign(const char *argument);

/* Return whether `argument` is a folder with the config.json of a model of the library
 * transformers. The folder may also be a training checkpoint. */
bool gt_run_source_is_transformers(const char *argument);

/* Find the latest checkpoint in the run directory `dir`, from which the run can be resumed. If the
 * directory is missing or has no checkpoint, out->path is NULL; this is not an error. Release *out
 * even after an error. */
int gt_run_source_latest(struct gt_run_source *out, const char *dir, struct gt_err *err);

/*
 * Check that a run can be resumed from the folder `argument`. The folder must be a training
 * checkpoint of another program, or a run directory with a checkpoint in checkpoints/. A run
 * directory that has only model.pth is an error, because a run cannot be resumed from weights
 * alone. If `argument` is not a folder, return 0.
 *
 * Errors: GT_EFORMAT if the folder has only weights that the library transformers wrote; GT_EIO if
 * the folder has no checkpoint in checkpoints/.
 */
int gt_run_source_check_resumed(const char *argument, struct gt_err *err);

void gt_run_source_release(struct gt_run_source *source);

/* Set *path to the path of the latest checkpoint in the run directory `argument`; if there is none,
 * to the path of its model.pth. The caller frees *path. *path is NULL if `argument` is not a run
 * directory, or if it has neither file. Errors: GT_EIO if `argument` is a folder of run
 * directories; GT_ENOMEM. */
int gt_run_source_find(char **path, const char *argument, struct gt_err *err);

/*
 * Return the model (NAME[:key=value,...]), borrowed: `given` if it is not NULL, otherwise the model
 * that the checkpoint names, otherwise the model in config.json of the run. Return NULL with err
 * set if none of these names a model.
 *
 * `given` may also be the path of a folder that the library transformers wrote. In this case,
 * return the model in the config.json of the folder, and set source->folder_about. If both
 * source->about and source->config are NULL, also set source->about from the folder. In this case,
 * if source->vocab is NULL, set source->vocab from the folder, too.
 *
 * If there is no checkpoint, the caller passes a zeroed *source.
 */
const char *gt_run_source_model(
    struct gt_run_source *source, const char *given, struct gt_err *err);

/*
 * Check that the weights were trained with the network of `given`, the model that the user has
 * named. Weights of the same shapes may belong to another network, such as one with another number
 * of heads. If gt_run_source_model() has read a model from the folder `given`, check the network of
 * that model. Do nothing if `given` is NULL, or if neither the checkpoint nor its run names a
 * model. Errors: GT_EINVAL; the caller shows this error as a warning.
 */
int gt_run_source_check_model(
    const struct gt_run_source *source, const char *given, struct gt_err *err);

/* Return the options for loading the weights: a copy of *load. If load->names is GT_NAMES_AUTO, the
 * member `names` of the copy is source->names. */
struct gt_load_options gt_run_source_load(
    const struct gt_run_source *source, const struct gt_load_options *load);

/* Read the description of the training data from source->about. If source->about is NULL, read from
 * source->config. If both are NULL, the description is empty. Release *out even after an
 * error. Errors: GT_EFORMAT, GT_ENOMEM. */
int gt_run_source_describe(
    struct gt_data_description *out, const struct gt_run_source *source, struct gt_err *err);

/*
 * Choose the vocabulary. *trained_on comes from gt_run_source_describe(). Take the first of these
 * that is not NULL:
 *
 *   the file `given`          then *file names this file; trained_on->tokenizer is set to NULL
 *   trained_on->tokenizer     then file->path is NULL
 *   source->vocab             then *file names this file
 *
 * If all three are NULL, file->path is NULL. The strings in *file are borrowed.
 */
void gt_run_source_choose_vocab(struct gt_data_description *trained_on, struct gt_file_name *file,
    const struct gt_run_source *source, const char *given);

/* Check that `data`, a data set of text, was opened with a vocabulary. Without a vocabulary, the
 * characters of the text may have other token ids than in the training of the weights. Errors:
 * GT_EINVAL; the message says that the checkpoint `path` has no vocabulary or, if `path` is NULL,
 * that the training data of this run have none. Some callers show this error as a warning, because
 * the ids may still be the same. */
int gt_run_source_check_vocab(const char *path, const struct gt_dataset *data, struct gt_err *err);

/*
 * The user has named the file `given` as the vocabulary. Check that it has the same tokens as the
 * vocabulary of the checkpoint or of its run. Do nothing if the checkpoint and its run have no
 * vocabulary. Also do nothing for byte-pair encoding, because gt_tokenizer_check() compares the
 * digests of byte-pair tokenizers. *trained_on comes from gt_run_source_describe(). `tok` is the
 * vocabulary `given`, already open, or NULL. Errors: GT_EINVAL; the caller shows this error as a
 * warning.
 */
int gt_run_source_check_given(const struct gt_run_source *source,
    const struct gt_data_description *trained_on, const struct gt_tokenizer *tok, const char *given,
    struct gt_err *err);

/* Check that the mean and standard deviation of the pixels or the numbers in `data` are known
 * (gt_data_info.raw). They are not known if neither the description in the checkpoint nor the spec
 * of the data has them. `option` is the name of the option in which the user can set them: "data"
 * or "read". Errors: GT_EINVAL; the caller shows this error as a warning. */
int gt_run_source_check_scale(const struct gt_run_source *source, const struct gt_dataset *data,
    const char *option, struct gt_err *err);

#endif
