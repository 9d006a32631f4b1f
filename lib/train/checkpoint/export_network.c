/* export_network.c - a trained network as an archive that PyTorch's torch.export.load() opens. */
#include <string.h>

#include "lib/base/python_json.h"
#include "lib/ckpt/tools/digest.h"
#include "lib/ckpt/torch/export.h"
#include "lib/train/checkpoint/export.h"
#include "lib/train/checkpoint/export_source.h"

/* Check that the checkpoint lies in a run of an exported network. */
static int check_is_exported(const struct gt_run_ckpt *s, struct gt_err *err)
{
	struct gt_run_ckpt unknown = *s;
	const char *model;

	if (s->network && !strcmp(gt_run_network_name(s->network), GT_RUN_NETWORK))
		return 0;
	if (s->network) {
		gt_err_set(err, GT_EINVAL,
		    "'%s' has the weights of a network of ONNX, which is not written as .pt2",
		    s->path);
		return gt_err_hint(err, "{output} net.onnx");
	}
	model = gt_run_ckpt_model(&unknown, NULL, GT_ERR_IGNORED);
	if (model && !gt_model_is_file(s->path)) {
		gt_err_set(err, GT_EINVAL,
		    "'%s' has the weights of %s, and only a network that torch.export wrote can be "
		    "written as .pt2",
		    s->path, model);
		return gt_err_hint(err, "{output} model.pth, or {output} model.safetensors");
	}
	gt_err_set(err, GT_EINVAL, "'%s' is in no run directory with a " GT_RUN_NETWORK, s->path);
	return gt_err_hint(err, "name the run directory of an exported network, or a file in it");
}

/* Open the trained weights. Those of a run with an adapter are computed by its model. */
static int open_trained(
    struct gt_export_source *s, struct gt_progress *progress, struct gt_err *err)
{
	int rc;

	if (gt_run_ckpt_lora(&s->run))
		return gt_export_open_model(s, err) ? err->code : gt_export_open_weights(s, err);
	rc = gt_ckpt_open_at(&s->ckpt, s->run.file, err);
	if (rc) /* the message names the file already */
		return rc;
	rc = gt_digest_check(s->ckpt, true, progress, err);
	if (!rc)
		rc = gt_state_dict_find(&s->sd, gt_ckpt_root(s->ckpt), err);
	return rc ? gt_err_prefix(err, "'%s'", s->run.file.path) : 0;
}

static int open_archive(struct gt_ckpt **out, const struct gt_run_ckpt *s, struct gt_err *err)
{
	int rc = gt_ckpt_open_at(out, (struct gt_file_name){ &s->dir.folder, s->network }, err);

	if (!rc && (!gt_ckpt_exported(*out) || !gt_ckpt_exported(*out)->archive))
		rc = gt_err_set(
		    err, GT_EFORMAT, "a checkpoint (%s), not a network", gt_ckpt_format(*out));
	return rc ? gt_err_prefix(err, "'%s'", s->network) : 0;
}

/* Whether a node is a batch norm or a dropout in the mode of training: its argument `training`, or
 * `train`, is true. */
static bool is_training_node(const json_t *node)
{
	const json_t *input;
	size_t i;

	json_array_foreach(json_object_get(node, "inputs"), i, input)
	{
		const char *name = json_string_value(json_object_get(input, "name"));
		const json_t *arg = json_object_get(input, "arg");

		if (name && (!strcmp(name, "training") || !strcmp(name, "train")) &&
		    json_is_true(json_object_get(arg, "as_bool")))
			return true;
	}
	return false;
}

/* Users of PyTorch cannot change the mode of an exported network, so they are told of it. */
static void note_mode(struct gt_buf *note, const struct gt_exported *exported)
{
	json_error_t why;
	json_t *json = gt_python_json_loadb(exported->graph, exported->graph_bytes, 0, &why);
	const json_t *graph = json_object_get(json_object_get(json, "graph_module"), "graph"),
	             *node;
	bool trains = false;
	size_t i;

	json_array_foreach(json_object_get(graph, "nodes"), i, node) trains |=
	    is_training_node(node);
	if (trains)
		gt_buf_printf(note,
		    "the module was exported in train() mode, so batch norms and dropouts of the "
		    "file are active\n");
	json_decref(json);
}

int gt_export_network(const struct gt_export_options *options, struct gt_tally *tally,
    struct gt_buf *note, struct gt_err *err)
{
	struct gt_ckpt_write_options write = options->write;
	struct gt_export_source source = { 0 };
	struct gt_run_ckpt *run = &source.run;
	struct gt_ckpt *inputs[2] = { NULL };
	int rc = gt_run_ckpt_open(run, options->from, GT_RUN_LATEST, err);

	if (!rc)
		rc = check_is_exported(run, err);
	if (!rc)
		rc = open_trained(&source, write.progress, err);
	if (!rc)
		rc = open_archive(&inputs[1], run, err);
	if (!rc)
		rc = gt_tally_make(tally, gt_ckpt_root(inputs[1]), err);
	if (!rc) {
		inputs[0] = source.ckpt;
		write.inputs = inputs;
		write.input_count = 2;
		write.losses = NULL;
		gt_buf_printf(
		    note, "weights of '%s' in the network of '%s'\n", run->path, run->network);
		note_mode(note, gt_ckpt_exported(inputs[1]));
		rc = gt_exported_write(options->to, inputs[1], &source.sd, run->path, &write, err);
	}
	gt_ckpt_close(inputs[1]);
	gt_export_close(&source);
	return rc;
}
