/* export_gguf.c - a trained language model, or an adapter of one, as a GGUF file for llama.cpp. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lib/ckpt/tools/digest.h"
#include "lib/data/text/gguf.h"
#include "lib/model/gguf/export.h"
#include "lib/train/checkpoint/adapter.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/export.h"
#include "lib/train/checkpoint/export_source.h"

struct gguf_export {
	const struct gt_export_options *o;
	struct gt_export_source source;
	struct gt_gguf *gguf;
	/* an adapter, which `source` is the model of; else zeros */
	struct gt_adapter adapter;
	struct gt_ckpt *ckpt;
	struct gt_state_dict weights;
	struct gt_lora lora;
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
static const struct gt_gguf_type *find_type(
    const struct gguf_export *x, const struct gt_state_dict *weights)
{
	const char *name = x->o->type;

	for (size_t i = 0; !name && i < weights->count; i++) {
		const struct gt_tree_tensor *t = weights->entries[i].tensor;

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
		rc = gt_gguf_export(x->gguf, &source, find_type(x, &s->sd), note, err);
	return rc ? rc
	          : gt_tokenizer_to_gguf(x->gguf, tok, s->input.form.classes, &s->data.specials,
	                s->tokenizer_config, note, err);
}

/* ---- an adapter ---- */

/* Open the model that an adapter is for. */
static int open_base(struct gguf_export *x, struct gt_err *err)
{
	const char *named =
	    json_string_value(json_object_get(x->adapter.config, "base_model_name_or_path"));
	const char *base = x->o->base ? x->o->base : named;
	int rc;

	if (!base) {
		gt_err_set(err, GT_EINVAL, "'%s' does not say for which model it is", x->o->from);
		return gt_err_hint(err, "name the model with {base}");
	}
	rc = gt_run_ckpt_open(&x->source.run, base, GT_RUN_LATEST, err);
	if (rc) {
		gt_err_prefix(err, "the model of the adapter");
		return x->o->base ? rc
		                  : gt_err_hint(err, "{base} names another place of the model");
	}
	rc = gt_export_open_model(&x->source, err);
	return rc ? rc : gt_export_open_weights(&x->source, err);
}

static int open_adapter(struct gguf_export *x, struct gt_err *err)
{
	int rc = gt_adapter_open(&x->adapter, x->o->from, err);

	if (!rc)
		rc = gt_lora_parse(&x->lora, x->adapter.spec, err);
	if (!rc && x->lora.trained) {
		gt_err_set(err, GT_ENOTSUP,
		    "the adapter has whole layers, '%.100s', for which GGUF has no place",
		    x->lora.trained);
		rc = gt_err_hint(
		    err, "name the run in place of its adapter: the file then is its model");
	}
	if (!rc)
		rc = gt_ckpt_open(&x->ckpt, x->adapter.weights, err);
	if (!rc)
		rc = gt_digest_check(x->ckpt, false, NULL, err);
	if (!rc)
		rc = gt_state_dict_find_as_is(&x->weights, gt_ckpt_root(x->ckpt), err);
	return rc ? rc : open_base(x, err);
}

static int build_adapter(struct gguf_export *x, struct gt_err *err)
{
	const struct gt_export_source *s = &x->source;
	const struct gt_gguf_source source = { s->model, &s->input, &x->weights,
		x->adapter.weights };
	int rc = gt_gguf_new(&x->gguf, err);

	return rc ? rc
	          : gt_gguf_export_adapter(
	                x->gguf, &source, &x->lora, find_type(x, &x->weights), err);
}

/* ---- either ---- */

int gt_export_gguf(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err)
{
	struct gguf_export x = { .o = options };
	struct gt_ckpt_write_options write = options->write;
	const bool adapter = gt_adapter_is_folder(options->from);
	int rc = adapter ? open_adapter(&x, err) : open_source(&x, err);

	if (!rc)
		rc = adapter ? build_adapter(&x, err) : build(&x, note, err);
	if (!rc) {
		gt_gguf_tally(x.gguf, &tally->tensors, &tally->storage_bytes);
		write.inputs = adapter ? &x.ckpt : &x.source.ckpt;
		write.input_count = 1;
		rc = gt_gguf_write(options->to, x.gguf, &write, err);
	}
	gt_gguf_free(x.gguf);
	gt_state_dict_release(&x.weights);
	gt_ckpt_close(x.ckpt);
	gt_lora_release(&x.lora);
	gt_adapter_release(&x.adapter);
	gt_export_close(&x.source);
	return rc;
}
