/* export_gguf.c - a trained language model as a GGUF file, for llama.cpp. */
#include <stdlib.h>
#include <string.h>

#include "lib/data/text/gguf.h"
#include "lib/model/gguf/export.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/export.h"
#include "lib/train/checkpoint/export_source.h"

struct gguf_export {
	const struct gt_export_options *o;
	struct gt_export_source source;
	struct gt_gguf *gguf;
};

static int open_source(struct gguf_export *x, struct gt_err *err)
{
	int rc = gt_run_ckpt_open(&x->source.run, x->o->from, GT_RUN_LATEST, err);

	if (!rc)
		rc = gt_export_open_model(&x->source, err);
	if (!rc)
		rc = gt_gguf_check(x->source.model, err);
	if (!rc)
		rc = gt_export_open_weights(&x->source, err);
	return rc ? rc : gt_export_open_tokenizer(&x->source, err);
}

/* Return the type of --type; without it, that of the weights. */
static const struct gt_gguf_type *find_type(const struct gguf_export *x)
{
	const char *name = x->o->type;

	for (size_t i = 0; !name && i < x->source.sd.count; i++) {
		const struct gt_tree_tensor *t = x->source.sd.entries[i].tensor;

		if (t->ndim == 2)
			name = t->dtype == GT_F16 ? "f16" : t->dtype == GT_BF16 ? "bf16" : "f32";
	}
	return gt_gguf_type_named(name ? name : "f32");
}

static int build(struct gguf_export *x, struct gt_buf *note, struct gt_err *err)
{
	const struct gt_export_source *s = &x->source;
	const struct gt_gguf_source source = { s->model, &s->input, &s->sd, s->run.path };
	const struct gt_tokenizer *tok = s->tokenizer ? s->tokenizer : s->data.tokenizer;
	int rc = gt_gguf_new(&x->gguf, err);

	if (!rc)
		rc = gt_gguf_export(x->gguf, &source, find_type(x), note, err);
	return rc ? rc
	          : gt_tokenizer_to_gguf(x->gguf, tok, s->input.form.classes, &s->data.specials,
	                s->tokenizer_config, note, err);
}

int gt_export_gguf(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err)
{
	struct gguf_export x = { .o = options };
	struct gt_ckpt_write_options write = options->write;
	int rc = open_source(&x, err);

	if (!rc)
		rc = build(&x, note, err);
	if (!rc) {
		gt_gguf_tally(x.gguf, &tally->tensors, &tally->storage_bytes);
		write.inputs = &x.source.ckpt;
		write.input_count = 1;
		rc = gt_gguf_write(options->to, x.gguf, &write, err);
	}
	gt_gguf_free(x.gguf);
	gt_export_close(&x.source);
	return rc;
}
