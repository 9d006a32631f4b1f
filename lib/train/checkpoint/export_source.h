/* export_source.h - private: a model that is exported: its weights, samples and tokenizer. */
#ifndef GT_TRAIN_CHECKPOINT_EXPORT_SOURCE_H
#define GT_TRAIN_CHECKPOINT_EXPORT_SOURCE_H

#include <jansson.h>

#include "lib/base/buf.h"
#include "lib/ckpt/ckpt.h"
#include "lib/data/core/description.h"
#include "lib/model/model.h"
#include "lib/train/checkpoint/argument.h"

struct gt_session;

/*
 * What is written as a file of another program: the model of a checkpoint, its weights, and the
 * tokenizer of its texts. The caller opens `run` in a zeroed struct, then calls the functions in
 * their order, and gt_export_close() also after an error.
 */
struct gt_export_source {
	struct gt_run_ckpt run;
	struct gt_model *model;
	struct gt_data_description data; /* empty: neither the checkpoint nor its run has one */
	struct gt_ckpt *ckpt;
	struct gt_state_dict sd;    /* of `ckpt`, or of `session` */
	struct gt_session *session; /* the weights of a run with an adapter; else NULL */
	struct gt_arena arena;
	/* the samples: those of the description, or where that is empty the model's preference and
	 * the shapes of its weights */
	struct gt_model_input input;
	struct gt_tokenizer *tokenizer; /* NULL: the run has no file of one */
	json_t *tokenizer_config;       /* gt_tokenizer_config_read(); NULL: none */
};

/* Open the model, and read the description of its data. Errors: GT_EINVAL if neither the checkpoint
 * nor its run says the model. */
int gt_export_open_model(struct gt_export_source *s, struct gt_err *err);

/* Open the weights, to which an adapter of the run is added, and find the samples. Errors: those of
 * gt_ckpt_open_at(), gt_digest_check(), gt_state_dict_find() and gt_session_open(); GT_EINVAL if
 * the number of classes is not known. */
int gt_export_open_weights(struct gt_export_source *s, struct gt_err *err);

/* export_merged.c: set s->sd to the weights with the adapter of the run added to them. */
int gt_export_merge_adapter(struct gt_export_source *s, struct gt_err *err);

/* Open the tokenizer of the run, if it has one, check that it is that of the data, and read its
 * tokenizer_config.json. */
int gt_export_open_tokenizer(struct gt_export_source *s, struct gt_err *err);

void gt_export_close(struct gt_export_source *s);

/* Add a line to the note that names the tensors of the checkpoint which are no weights of the
 * model, and so are not written; no line if there are none. */
int gt_export_note_others(
    struct gt_buf *note, const struct gt_export_source *s, struct gt_err *err);

#endif
