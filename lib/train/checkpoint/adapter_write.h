/* adapter_write.h - write a low-rank adapter as a folder of PEFT. */
#ifndef GT_TRAIN_CHECKPOINT_ADAPTER_WRITE_H
#define GT_TRAIN_CHECKPOINT_ADAPTER_WRITE_H

#include "lib/base/file.h"
#include "lib/ckpt/ckpt.h"
#include "lib/model/lora.h"

/* The names of the files, which adapter.h describes. */
#define GT_ADAPTER_CONFIG  "adapter_config.json"
#define GT_ADAPTER_WEIGHTS "adapter_model.safetensors"

struct gt_adapter_contents {
	const struct gt_lora *lora; /* its settings; the targets are not read */
	/* a dict of A and B of each layer, by gt_lora_name_weight(), and of trained parameters, by
	 * gt_lora_name_trained() */
	struct gt_tree *weights;
	/* the modules of the model that have a weight but no adapter: [plain_count] */
	const char *const *plain;
	size_t plain_count;
	const char *base; /* path of the weights to which it is added; NULL: not known */
	bool transposed;  /* the layers have weights [in, out] */
	const char *task; /* gt_adapter_task() */
};

/* Write both files into an open folder. Errors: those of gt_ckpt_write(). */
int gt_adapter_write(
    const struct gt_adapter_contents *c, const struct gt_folder *folder, struct gt_err *err);

/* Return PEFT's word for what a model computes; NULL: it has none. By SEQ_CLS, PEFT takes all
 * modules whose names end in classifier or score for parts of the adapter: gt_adapter_write()
 * leaves the word out if they are not. */
const char *gt_adapter_task(const struct gt_model *m);

/* Return whether the layers of a family (gt_model_family(), or NULL) have weights [in, out]. */
bool gt_adapter_is_transposed(const char *family);

/* Return whether the last words of a module's name are these, behind others. */
bool gt_adapter_ends_with(const char *module, const char *name);

#endif
