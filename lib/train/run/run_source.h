/* run_source.h - find the file that a checkpoint argument means, and the run that it belongs to. */
#ifndef GT_TRAIN_RUN_RUN_SOURCE_H
#define GT_TRAIN_RUN_RUN_SOURCE_H

#include "lib/data/description.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/session.h"

/* Do not copy this struct: `file` points into it. */
struct gt_run_source {
	char *path;               /* name of the checkpoint; NULL: there is none */
	struct gt_file_name file; /* the same, to open */
	struct gt_run_dir dir;    /* the run directory, not open if it belongs to none */
	json_t *about;            /* facts that the checkpoint keeps (about.h), or NULL */
	json_t *config;           /* config.json of the run, or NULL */
	char *vocab;              /* path of the run's vocabulary, or NULL */
	json_t *given;       /* facts of the folder that gt_run_source_model() was given, or NULL */
	enum gt_names names; /* the program whose names its weights have */
};

/*
 * Find the checkpoint: `argument` itself if it is a file; in a run directory the latest, or
 * model.pth where there is none. A file that the user names may be a symbolic link; files in a run
 * directory may not be. If the config.json beside a named file is a link or does not belong to a
 * run, the file belongs to no run. A folder of Hugging Face's transformers (pretrained.h) is a
 * checkpoint without a run: `about` comes from its config.json, the vocabulary from its tokenizer.
 * GT_EIO if there is no checkpoint; release it in any case.
 */
int gt_run_source_open(struct gt_run_source *out, const char *argument, struct gt_err *err);

/* Whether `argument` is a folder in which another program saved a training checkpoint (saved.h).
 * The folder is then the checkpoint, and belongs to no run. */
bool gt_run_source_is_foreign(const char *argument);

/* Find the latest checkpoint from which a run can be resumed. A directory that is missing, or has
 * no checkpoint, is no error: path NULL. */
int gt_run_source_latest(struct gt_run_source *out, const char *dir, struct gt_err *err);

void gt_run_source_release(struct gt_run_source *source);

/* Set *path, yours to free(), to the checkpoint that a run directory stands for; *path is NULL if
 * the argument is not a run directory. Errors: GT_ENOMEM. */
int gt_run_source_find(char **path, const char *argument, struct gt_err *err);

/*
 * The model of the checkpoint: `given`, or the one that the checkpoint names, or the run's
 * config.json; borrowed. NULL with err set if none does. `given` may be the path of a folder of
 * Hugging Face's transformers: the model is then that of its config.json, which also has the
 * properties of data and vocabulary that the checkpoint leaves open. `source` may be all zero:
 * there is no checkpoint.
 */
const char *gt_run_source_model(
    struct gt_run_source *source, const char *given, struct gt_err *err);

/* Options for loading the weights: `load`, with the names that the folder uses unless `load` sets
 * others. */
struct gt_load_options gt_run_source_load(
    const struct gt_run_source *source, const struct gt_load_options *load);

/* Describe the training data from the checkpoint, or else from the run; an empty description if
 * neither has one. Release *out in any case. Errors: GT_EFORMAT, GT_ENOMEM. */
int gt_run_source_describe(
    struct gt_data_description *out, const struct gt_run_source *source, struct gt_err *err);

/*
 * Where the vocabulary comes from: the file `given`; if that is NULL, `trained_on`, as
 * gt_run_source_describe() has made it, or else the run's vocab.json or tokenizer.json. The result
 * is trained_on->tokenizer, or *file, whose strings are borrowed, or neither.
 */
void gt_run_source_choose_vocab(struct gt_data_description *trained_on, struct gt_file_name *file,
    const struct gt_run_source *source, const char *given);

#endif
