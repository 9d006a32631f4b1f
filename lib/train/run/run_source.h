/* run_source.h - find the checkpoint that an argument names, and the run that it belongs to. */
#ifndef GT_TRAIN_RUN_RUN_SOURCE_H
#define GT_TRAIN_RUN_RUN_SOURCE_H

#include "lib/data/description.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/session.h"

/*
 * A checkpoint, its run and the facts about its model. A checkpoint is a file, or a folder of
 * another program. A checkpoint that gtrain wrote may be in a run directory (run_dir.h). Do not
 * copy this struct: `file` points into it.
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
	 * GT_NAMES_AUTO */
	enum gt_names names;
};

/*
 * Find the checkpoint that `argument` names:
 *
 *   a file                               this file. It belongs to a run if it is in a run directory
 *                                        or in its folder checkpoints/. But if config.json in this
 *                                        directory is a link or does not belong to a run, the file
 *                                        has no run.
 *   a run directory                      its latest checkpoint; if there is none, its model.pth
 *   a folder written by the library
 *   transformers                         this folder (pretrained.h), without a run. `about` comes
 *                                        from its config.json, the vocabulary from its tokenizer.
 *   a training checkpoint in a folder    this folder (saved.h), without a run
 *
 * If `argument` is a symbolic link, it is followed; files in a run directory must not be links.
 * Errors: GT_EIO if there is no checkpoint. Release *out even after an error.
 */
int gt_run_source_open(struct gt_run_source *out, const char *argument, struct gt_err *err);

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
 * Check that a run can be resumed from the folder `argument`. Training checkpoints of other
 * programs pass. A folder that the library transformers wrote has only weights: GT_EFORMAT. Any
 * other folder must be a run directory with a checkpoint in checkpoints/: GT_EIO. Its model.pth
 * does not count, because a run cannot be resumed from weights alone. Anything that is not a folder
 * passes.
 */
int gt_run_source_check_resumed(const char *argument, struct gt_err *err);

void gt_run_source_release(struct gt_run_source *source);

/* Set *path to the path of the latest checkpoint in a run directory, or of its model.pth. The
 * caller frees it. *path is NULL if `argument` is not a run directory, or has neither. Errors:
 * GT_ENOMEM. */
int gt_run_source_find(char **path, const char *argument, struct gt_err *err);

/*
 * Return the model (NAME[:key=value,...]), borrowed. It is `given` if that is not NULL, otherwise
 * the model that the checkpoint names, otherwise the model in config.json of the run. NULL with err
 * set if none of them names a model.
 *
 * `given` may also be the path of a folder that the library transformers wrote. Then return the
 * model in the config.json of this folder. If neither the checkpoint nor the run describes the data
 * that the model was trained with (`about`), take this description and the vocabulary from the
 * folder.
 *
 * `source` may be zeroed, which means that there is no checkpoint.
 */
const char *gt_run_source_model(
    struct gt_run_source *source, const char *given, struct gt_err *err);

/*
 * Check that the weights were trained with the network `given`, the model that the user has named.
 * Weights of the same shapes may belong to another network, such as one with another number of
 * heads. If gt_run_source_model() has read the model from a folder, this model is compared. Do
 * nothing if `given` is NULL, or if neither the checkpoint nor its run names a model. Errors:
 * GT_EINVAL, which the caller shows as a warning.
 */
int gt_run_source_check_model(
    const struct gt_run_source *source, const char *given, struct gt_err *err);

/* Return the options for loading the weights: a copy of `load`. If the member `names` of `load` is
 * GT_NAMES_AUTO, the copy has source->names instead. */
struct gt_load_options gt_run_source_load(
    const struct gt_run_source *source, const struct gt_load_options *load);

/* Read the description of the training data from source->about, otherwise from source->config. If
 * both are NULL, the description is empty. Release *out even after an error. Errors: GT_EFORMAT,
 * GT_ENOMEM. */
int gt_run_source_describe(
    struct gt_data_description *out, const struct gt_run_source *source, struct gt_err *err);

/*
 * Choose the vocabulary. `trained_on` comes from gt_run_source_describe(). Take the first of these
 * that is not NULL:
 *
 *   the file `given`          then *file names this file; trained_on->tokenizer is set to NULL
 *   trained_on->tokenizer     then file->path is NULL
 *   source->vocab             then *file names this file
 *
 * If there is none of them, file->path is NULL. The strings in *file are borrowed.
 */
void gt_run_source_choose_vocab(struct gt_data_description *trained_on, struct gt_file_name *file,
    const struct gt_run_source *source, const char *given);

/* Check that the characters of a text have the token ids that they had when the weights of the
 * checkpoint `path` were trained. This is known only if the text was opened with a vocabulary;
 * without one, the error is GT_EINVAL. If `path` is NULL, the error names the training data of this
 * run instead. Where the user may know that the ids are the same, the caller shows the error as a
 * warning. */
int gt_run_source_check_vocab(const char *path, const struct gt_dataset *data, struct gt_err *err);

/*
 * The user has named the file `given` as the vocabulary. Check that it has the same tokens as the
 * vocabulary of the checkpoint or of its run. Do nothing if the checkpoint and its run have no
 * vocabulary. Also do nothing for byte-pair encoding: gt_tokenizer_check() compares its digests.
 * `trained_on` comes from gt_run_source_describe(); `tok` is the open vocabulary, or NULL. Errors:
 * GT_EINVAL, which the caller shows as a warning.
 */
int gt_run_source_check_given(const struct gt_run_source *source,
    const struct gt_data_description *trained_on, const struct gt_tokenizer *tok, const char *given,
    struct gt_err *err);

/* Check that the mean and standard deviation of the pixels or the numbers in `data` are known
 * (info.raw of lib/data/data.h). They are not known if the checkpoint has no description and the
 * spec of the data gives none. `option` is the option that can give them: "data" or "read". Errors:
 * GT_EINVAL, which the caller shows as a warning. */
int gt_run_source_check_scale(const struct gt_run_source *source, const struct gt_dataset *data,
    const char *option, struct gt_err *err);

#endif
