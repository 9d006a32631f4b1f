/* export_gguf.c - a trained language model as a GGUF file, for llama.cpp. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/text/gguf.h"
#include "lib/model/gguf/export.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/export.h"
#include "lib/train/checkpoint/export_input.h"

struct gguf_export {
	const struct gt_export_options *o;
	struct gt_run_ckpt run;
	struct gt_data_description data;
	struct gt_tokenizer *tokenizer; /* NULL: the model has none */
	struct gt_model *model;
	struct gt_model_input input;
	struct gt_ckpt *ckpt;
	struct gt_state_dict sd;
	struct gt_gguf *gguf;
};

static int open_model(struct gguf_export *x, struct gt_err *err)
{
	const char *model;
	int rc = gt_run_ckpt_open(&x->run, x->o->from, GT_RUN_LATEST, err);

	if (rc)
		return rc;
	model = gt_export_find_model(&x->run, err);
	if (!model)
		return err->code;
	rc = gt_model_open(&x->model, model, err);
	if (!rc)
		rc = gt_gguf_check(x->model, err);
	return rc ? rc : gt_run_ckpt_describe(&x->data, &x->run, err);
}

static int open_tokenizer(struct gguf_export *x, struct gt_err *err)
{
	struct gt_file_name file;
	int rc = 0;

	gt_run_ckpt_choose_vocab(&x->data, &file, &x->run, NULL);
	if (file.path)
		rc = gt_tokenizer_open(&x->tokenizer, file, err);
	return rc ? rc : gt_tokenizer_check(x->tokenizer, &x->data, file, err);
}

static int open_weights(struct gguf_export *x, struct gt_err *err)
{
	int rc = gt_export_open_weights(&x->ckpt, &x->sd, &x->run, err);

	return rc ? rc
	          : gt_export_find_input(&x->input, x->model, &x->data, &x->sd, x->run.path, err);
}

/* Return the type of --type; without it, that of the weights. */
static const struct gt_gguf_type *find_type(const struct gguf_export *x)
{
	const char *name = x->o->type;

	for (size_t i = 0; !name && i < x->sd.count; i++) {
		const struct gt_tree_tensor *t = x->sd.entries[i].tensor;

		if (t->ndim == 2)
			name = t->dtype == GT_F16 ? "f16" : t->dtype == GT_BF16 ? "bf16" : "f32";
	}
	return gt_gguf_type_named(name ? name : "f32");
}

static int build(struct gguf_export *x, struct gt_buf *note, struct gt_err *err)
{
	const struct gt_gguf_source source = { x->model, &x->input, &x->sd, x->run.path };
	const struct gt_tokenizer *tok = x->tokenizer ? x->tokenizer : x->data.tokenizer;
	int rc = gt_gguf_new(&x->gguf, err);

	if (!rc)
		rc = gt_gguf_export(x->gguf, &source, find_type(x), note, err);
	return rc ? rc
	          : gt_tokenizer_to_gguf(
	                x->gguf, tok, x->input.form.classes, &x->data.specials, note, err);
}

int gt_export_gguf(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err)
{
	struct gguf_export x = { .o = options };
	struct gt_ckpt_write_options write = options->write;
	int rc = open_model(&x, err);

	if (!rc)
		rc = open_weights(&x, err);
	if (!rc)
		rc = open_tokenizer(&x, err);
	if (!rc)
		rc = build(&x, note, err);
	if (!rc) {
		gt_gguf_tally(x.gguf, &tally->tensors, &tally->storage_bytes);
		write.inputs = &x.ckpt;
		write.input_count = 1;
		rc = gt_gguf_write(options->to, x.gguf, &write, err);
	}
	gt_gguf_free(x.gguf);
	gt_state_dict_release(&x.sd);
	gt_ckpt_close(x.ckpt);
	gt_tokenizer_close(x.tokenizer);
	gt_data_description_release(&x.data);
	gt_model_close(x.model);
	gt_run_ckpt_release(&x.run);
	return rc;
}
