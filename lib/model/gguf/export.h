/* export.h - a language model as a GGUF file, which llama.cpp runs. */
#ifndef GT_MODEL_GGUF_EXPORT_H
#define GT_MODEL_GGUF_EXPORT_H

#include "lib/base/buf.h"
#include "lib/ckpt/gguf/write.h"
#include "lib/model/lora.h"

struct gt_gguf_source {
	const struct gt_model *model;
	const struct gt_model_input *input; /* classes: the tokens of the vocabulary */
	const struct gt_state_dict
	    *weights;     /* under the model's names, perhaps without the first word */
	const char *from; /* the file of the weights, for messages */
};

/* Check that llama.cpp has the model, and computes it with these settings. Errors: GT_ENOTSUP,
 * which name the setting. */
int gt_gguf_check(const struct gt_model *model, struct gt_err *err);

/*
 * Add the settings of the model and its weights to a file. Matrices get the type `type`, vectors
 * and tables of positions f32, and rows that are not whole blocks f16. Append a line to `note` for
 * what llama.cpp computes in another way. Errors: those of gt_gguf_check(); GT_EINVAL for a weight
 * that is missing or has another shape; GT_ENOMEM.
 */
int gt_gguf_export(struct gt_gguf *g, const struct gt_gguf_source *source,
    const struct gt_gguf_type *type, struct gt_buf *note, struct gt_err *err);

/*
 * Add an adapter of the model to a file, which llama.cpp reads beside that of the model. Here
 * source->weights are A and B of its layers, by gt_lora_name_weight(). Errors: those of
 * gt_gguf_check(); GT_EFORMAT for a layer that the model does not have, or of another shape;
 * GT_ENOMEM.
 */
int gt_gguf_export_adapter(struct gt_gguf *g, const struct gt_gguf_source *source,
    const struct gt_lora *lora, const struct gt_gguf_type *type, struct gt_err *err);

#endif
