/* export_onnx.c - a trained model as a file of ONNX. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/opt_json.h"
#include "lib/model/onnx/export.h"
#include "lib/train/checkpoint/argument.h"
#include "lib/train/checkpoint/export.h"
#include "lib/train/checkpoint/export_source.h"

struct onnx_export {
	const struct gt_export_options *o;
	struct gt_export_source source;
	struct gt_onnx *onnx;
};

static int open_source(struct onnx_export *x, struct gt_err *err)
{
	int rc = gt_run_ckpt_open(&x->source.run, x->o->from, GT_RUN_LATEST, err);

	if (rc)
		return rc;
	if (x->source.run.names == GT_NAMES_HUGGINGFACE) {
		gt_err_set(err, GT_ENOTSUP,
		    "'%s' is a folder of Hugging Face's, and only a run of gtrain can be written "
		    "as ONNX",
		    x->o->from);
		return gt_err_hint(err, "gtrain train {model} %s makes a run of it", x->o->from);
	}
	rc = gt_export_open_model(&x->source, err);
	return rc ? rc : gt_export_open_weights(&x->source, err);
}

/* Add the model's spec, or the name of an exported network; and the tokens of a text. */
static int add_model(struct onnx_export *x, struct gt_err *err)
{
	char *spec = gt_model_spec(x->source.model, err), block[16];

	if (!spec)
		return GT_ENOMEM;
	gt_onnx_add_property(
	    x->onnx, "model", gt_model_is_file(spec) ? gt_model_name(x->source.model) : spec);
	free(spec);
	if (x->source.input.form.kind == GT_SAMPLE_TOKENS) {
		snprintf(block, sizeof(block), "%d", x->source.input.form.block);
		gt_onnx_add_property(x->onnx, GT_ONNX_BLOCK, block);
	}
	return 0;
}

/* Add each member of the description of the data as a property: a text, or JSON. */
static int add_description(struct onnx_export *x, struct gt_err *err)
{
	json_t *data = gt_data_description_to_json(&x->source.data, true, err), *value;
	int rc = data ? 0 : GT_ENOMEM;
	const char *key;

	json_object_foreach(data, key, value)
	{
		char *text = json_is_string(value)
		                 ? gt_strdup(json_string_value(value), err)
		                 : gt_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

		if (!text)
			rc = gt_err_set(err, GT_ENOMEM, "out of memory: the properties");
		else
			gt_onnx_add_property(x->onnx, key, text);
		free(text);
	}
	json_decref(data);
	return rc;
}

int gt_export_onnx(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err)
{
	struct onnx_export x = { .o = options };
	struct gt_ckpt_write_options write = options->write;
	const struct gt_export_source *s = &x.source;
	int rc = open_source(&x, err);

	if (!rc)
		rc = gt_export_note_others(note, s, err);
	if (!rc)
		rc = gt_onnx_export(&x.onnx,
		    &(struct gt_onnx_source){ s->model, &s->input, &s->sd, s->run.path }, note,
		    err);
	if (!rc)
		rc = add_model(&x, err);
	if (!rc && s->data.kind_known)
		rc = add_description(&x, err);
	if (!rc) {
		gt_onnx_tally(x.onnx, &tally->tensors, &tally->storage_bytes);
		write.inputs = &x.source.ckpt;
		write.input_count = 1;
		rc = gt_onnx_write(options->to, x.onnx, &write, err);
	}
	gt_onnx_free(x.onnx);
	gt_export_close(&x.source);
	return rc;
}
