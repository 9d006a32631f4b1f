/* export.h - a trained model as a model of ONNX, which other programs run. */
#ifndef GT_MODEL_ONNX_EXPORT_H
#define GT_MODEL_ONNX_EXPORT_H

#include "lib/base/buf.h"
#include "lib/ckpt/onnx/onnx.h"
#include "lib/model/model.h"

struct gt_onnx_source {
	const struct gt_model *model;
	const struct gt_model_input *input;  /* the form of samples; `block` tokens */
	const struct gt_state_dict *weights; /* under the model's names or aliases */
	const char *from;                    /* the file of the weights, for messages */
};

/*
 * Make a model of ONNX that computes the scores of a batch of samples in evaluation mode.
 *
 *   "input"   images [batch, channels, height, width] float32, normalized; vectors [batch,
 *             features] float32; texts [batch, time] int64, ids of tokens
 *             If the samples have fields, there is an input for each, under its name. A first
 *             dimension that the network leaves open is its time.
 *   "output"  the scores of classes or tokens before a softmax, or predicted numbers; of an
 *             exported network its result
 *
 * Weights have the names and shapes of the state_dict, and are borrowed from it. The batch may have
 * any size, and so may the time unless the network was made for one length; then a line is added to
 * `note`. Free *out even after an error. Errors: GT_ENOTSUP for a network with an op that has no
 * counterpart; GT_EFORMAT for weights that are missing or have other shapes; GT_EINVAL, GT_ENOMEM.
 */
int gt_onnx_export(struct gt_onnx **out, const struct gt_onnx_source *source, struct gt_buf *note,
    struct gt_err *err);

#endif
