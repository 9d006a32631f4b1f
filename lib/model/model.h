/* model.h - models by name or file: parse a spec, and build the forward graph of a batch. */
#ifndef GT_MODEL_MODEL_H
#define GT_MODEL_MODEL_H

#include "lib/base/opt.h"
#include "lib/base/sample.h"
#include "lib/base/setting.h"
#include "lib/graph/graph.h"
#include "lib/model/loss.h"

/*
 * A model is a description of a network. It emits the nodes of a graph, and declares parameters.
 * The parameters have the same names as in the reference PyTorch code, so that gtrain and that code
 * can load each other's files. A model holds no weights (lib/store/store.h does), and knows nothing
 * of files, training or devices.
 */

/* The shape of a sample, and the number of classes (or tokens). Both come from the data, or from
 * the model if its spec, NAME[:key=value,...], sets them. */
struct gt_model_input {
	/* form.mean and form.std are those of pixels with values from 0 to 1. If the
	 * target is a number, the model has one output. */
	struct gt_sample_form form;
	/* Evaluations measure this loss, too, but without label smoothing. Its targets are those of
	 * the samples. */
	struct gt_loss loss;
	/* [form.classes] in training, factors of the classes in the loss, whose mean is 1, or of
	 * the labels that hold; borrowed. NULL: all are 1 */
	const float *class_weights;
	/* Training samples are mixtures of two images: float32 [H, W, C] with values from 0 to 255,
	 * like bytes. Their targets are struct gt_mixed_target (lib/base/mixed_target.h). */
	bool mixed;
	/* set only by gt_model_preferred_input(): the model takes images of no other size, or texts
	 * of no other length */
	bool fixed_size;
};

enum { GT_MODEL_HEAD = 4 }; /* the most parameters of a last layer */

/* The inputs and outputs of a forward graph. Values that the graph does not have are NULL. */
struct gt_model_io {
	/* [batch, ...]: a batch of samples, see struct gt_model_input. Of fields, their bytes:
	 * uint8 [batch, bytes]. */
	struct gt_value *input;
	/*
	 * classes              int32 [batch]
	 * tokens               int32 [batch, block]; of pairs: [batch, 2 * block]
	 * mixtures             int32 [batch, GT_MIXED_TARGET_WORDS]
	 * numbers              float32 [batch]
	 * labels               float32 [batch, classes]
	 * GT_MODEL_PREDICT     for tokens: int32 [batch], the position of each text's last token
	 */
	struct gt_value *target;
	struct gt_value *rng; /* int64 [4], see enum gt_rng_field; NULL: nothing is random */
	/* For training: float32 [], the value `1 / n`, where n is the number of targets in the
	 * whole step that are not ignored, or the sum of their class weights. */
	struct gt_value *weight;
	struct gt_value *class_weight; /* float32 [classes]: gt_model_input.class_weights */
	struct gt_value *scale; /* float32 [], factor of the loss; NULL: the loss is not scaled */
	struct gt_value *past;  /* int32 [], number of tokens in caches; for GT_MODEL_CONTINUE */
	/* NULL if the network computes the loss itself (gt_loss.output).
	 * float32 [batch, classes]; for training and evaluation on tokens: [batch, block, classes].
	 * For GT_MODEL_PREDICT, GT_MODEL_GENERATE and GT_MODEL_CONTINUE, this value is the output
	 * "logits" of the graph; for tokens, it has the logits of only one position. */
	struct gt_value *logits;
	/* The names of the parameters (weight and bias) of the last layer, which computes the
	 * logits. Only the shapes of these parameters depend on the number of classes. Passes
	 * (lib/graph/pass.h) may replace the layer's inputs, so the names are stored here before
	 * the passes run. They are borrowed from the graph. */
	const char *head[GT_MODEL_HEAD];
	int head_count;
	struct gt_value *loss; /* float32 [], for training: the output "loss" */
	/* For evaluation: the output "stats", sums from which the metrics are computed: float64 [4]
	 * from the op classify_stats, or for numbers and labels float64 [6] from regress_stats
	 * (lib/graph/ops/loss.c, regression_loss.c); so for the loss of the network itself, where
	 * each sample counts. NULL if the graph predicts the next token. */
	struct gt_value *stats;
	/* For evaluation on pairs: the output "margin", float32 [batch] (lib/model/pairs.h) */
	struct gt_value *margin;
};

/* The purpose of a graph, and its outputs. */
enum gt_model_purpose {
	GT_MODEL_TRAIN, /* the loss */
	GT_MODEL_EVAL,  /* statistics */
	/* Statistics, and the logits of each sample. For texts there are no statistics, and the
	 * logits are those of the next token after the text. The text may be shorter than
	 * `block`. */
	GT_MODEL_PREDICT,
	GT_MODEL_GENERATE, /* logits of the next token after a window of `block` tokens */
	/* Logits of the next token after `block` tokens, which follow `past` earlier tokens. Layers
	 * read their results for the earlier tokens from caches (gt_cache()), and add the results
	 * for the new tokens to the caches. */
	GT_MODEL_CONTINUE
};

struct gt_lora;
struct gt_model;

/* Parse a spec, NAME[:key=value,...], or read the file of an exported network (gt_model_is_file()).
 * If the name is unknown, the hint gives the nearest known name; if a key is unknown, the hint has
 * the keys of the model. Errors: GT_EINVAL, GT_ENOMEM; of a file, also GT_EFORMAT, GT_ENOTSUP,
 * GT_EIO. */
int gt_model_open(struct gt_model **out, const char *spec, struct gt_err *err);
void gt_model_close(struct gt_model *m);

/* Return whether a spec is the path of a network that torch.export.save() wrote (.pt2), or of one
 * of ONNX (.onnx). Such a file has weights, too, which gt_ckpt_open() reads. */
bool gt_model_is_file(const char *spec);

const char *gt_model_name(const struct gt_model *m);

/* Return whether the model is a network that was exported in eval mode, which leaves out the
 * dropout of attention and stochastic depth. */
bool gt_model_was_evaluating(const struct gt_model *m);

/* Return the number of batch norms that the exporter of a network has folded into convolutions. */
int gt_model_folded_norms(const struct gt_model *m);

/* Return the function of torch.ops.aten whose result an exported network returns, such as
 * "softmax.int"; NULL: another model, or an input. */
const char *gt_model_last_function(const struct gt_model *m);

/* Return whether the model is a network that returns its loss, for gt_loss.output. The loss has to
 * be a mean over the samples of a batch: a step has the mean of its micro-batches and ranks. */
bool gt_model_computes_loss(const struct gt_model *m);

/* Check that the model computes the loss itself if this loss is that of the network. */
int gt_model_check_loss(const struct gt_model *m, const struct gt_loss *loss, struct gt_err *err);

/* Return the loss for samples if none is chosen: that of the network, or gt_loss_default(). */
struct gt_loss gt_model_default_loss(const struct gt_model *m, const struct gt_sample_form *form);

/* Return whether the model can continue a text by means of caches (GT_MODEL_CONTINUE). */
bool gt_model_caches(const struct gt_model *m);

/*
 * Freeze parameters, or change their learning rates, in all graphs that are built after this call.
 * Call it at most once.
 *
 * Each element of the lists is a rule. It has a pattern (GLOB) for names of parameters, in the
 * syntax of fnmatch(3); '*' also matches dots. A pattern that begins with '!' stands for all
 * parameters that the rest of the pattern does not match.
 *
 *   freeze     GLOB. The parameters become buffers (gt_value.frozen): they have no gradient and are
 *              not updated.
 *   lr_scale   GLOB=X. The learning rate of the parameters is multiplied by X. If several rules
 *              match a parameter, the last rule counts.
 *
 * The lists are copied. Errors: GT_EINVAL, GT_ENOMEM. A rule that matches no parameter is an error
 * of gt_model_build().
 */
int gt_model_tune(struct gt_model *m, const struct gt_opt_list *freeze,
    const struct gt_opt_list *lr_scale, struct gt_err *err);

/* Give linear layers low-rank adapters, and freeze all other parameters, in all graphs that are
 * built after this call. `spec` is that of gt_lora_parse() (lib/model/lora.h); NULL: do nothing.
 * The rules of gt_model_tune() then apply. Call it at most once. Errors: GT_EINVAL, GT_ENOMEM. A
 * pattern that matches no layer is an error of gt_model_build(). */
int gt_model_adapt(struct gt_model *m, const char *spec, struct gt_err *err);

/* Return the settings of the adapters, borrowed; NULL: the model has none. */
const struct gt_lora *gt_model_lora(const struct gt_model *m);

/* Store the weights of products and the tables of embeddings in blocks (lib/base/blocks.h), in all
 * graphs that are built after this call; the graphs have no gradient. Rows that are not whole
 * blocks are stored in float16. GT_BLOCK_NONE: store them as they are, and so those that adapters
 * of a training run have in blocks. Call it after gt_model_adapt(). Errors:
 * GT_ENOTSUP for an exported network; of gt_model_build(), if the model has no such weight. */
int gt_model_pack(struct gt_model *m, enum gt_block block, struct gt_err *err);

/* Let an imported network compute as its file says, without faster ops for the patterns in it
 * (lib/graph/patterns/patterns.h); for tests. Call it before gt_model_build(). */
void gt_model_keep_patterns(struct gt_model *m);

/* Check that the rules of gt_model_tune() can be parsed. No model is needed. Errors: GT_EINVAL,
 * GT_ENOMEM. */
int gt_model_check_rules(
    const struct gt_opt_list *freeze, const struct gt_opt_list *lr_scale, struct gt_err *err);

/* ---- names and settings ---- */

/* Return the name of model i (0, 1, ...) of all models that gtrain has, or NULL after the last
 * one. */
const char *gt_model_at(int i);

/* Return the `model_type` that this network has at Hugging Face; NULL: it has none. */
const char *gt_model_family(const struct gt_model *m);

/* Return the number of hidden features of an MLP of a transformer; 0 for other models. */
int64_t gt_model_mlp_width(const struct gt_model *m);

/* Return the number of features of a decoder's attention head; 0 for other models. */
int64_t gt_model_head_size(const struct gt_model *m);

/* Return a description of the model: a short phrase. */
const char *gt_model_summary(const struct gt_model *m);

enum { GT_MODEL_VALUE = 160 }; /* size of a setting's value as text, in bytes */
/*
 * Describe setting i of a model. Return false after the last setting.
 *
 *   value          the setting's value in this model: from the spec, or the default; "" if the
 *                  value is taken from the data or computed
 *   out->initial   the argument `value`, or words that say where the value comes from
 */
bool gt_model_setting(
    const struct gt_model *m, int i, struct gt_setting *out, char value[GT_MODEL_VALUE]);

/* Return the model's spec with all settings: gpt:layers=6,heads=6,... The caller frees it with
 * free(). Returns NULL if memory runs out. */
char *gt_model_spec(const struct gt_model *m, struct gt_err *err);

/* Return whether two specs mean the same model. For example, `gpt` and `gpt:layers=4` are the same,
 * because 4 is the default. */
bool gt_model_same(const char *a, const char *b);

/* Return whether two models compute the same results from the same weights: they have the same
 * architecture and the same settings. Dropout and initial values may differ. If one of the specs
 * does not set a setting that is taken from the data, this setting is not compared. */
bool gt_model_same_network(const char *a, const char *b);

/* Set *out to the properties of the input that the model prefers. They are used where the data do
 * not determine them, as for the shape of random data or the block of a text. Fields without a
 * preference are 0. */
void gt_model_preferred_input(const struct gt_model *m, struct gt_model_input *out);

/*
 * Emit the forward graph for `batch` samples into g, and set *io to its inputs and outputs.
 *
 * Only graphs for GT_MODEL_TRAIN use dropout, and normalize with the statistics of the batch. The
 * number of positions in a cache is the model's setting `block`, even if in->block is smaller. So
 * graphs with a smaller in->block can share the caches.
 *
 * If the model cannot take the input, the error names the property that does not fit.
 */
int gt_model_build(const struct gt_model *m, struct gt_graph *g, const struct gt_model_input *in,
    int batch, enum gt_model_purpose purpose, struct gt_model_io *io, struct gt_err *err);

/* Return the tokens of the longest text of an encoder; 0 for other models. */
int gt_model_longest_text(const struct gt_model *m);

/* Let an encoder of texts compute what samples of this form ask for: their classes, or their hidden
 * tokens. Other models do not change. Call it before gt_model_build(). */
void gt_model_take_form(struct gt_model *m, const struct gt_sample_form *form);

/* Return a learning rate that trains this model well. Set `adaptive` for an optimizer whose step
 * size does not grow with the gradients, such as AdamW; SGD is not adaptive. */
double gt_model_default_lr(const struct gt_model *m, bool adaptive);

/*
 * An alias is an additional name that state_dicts of the reference code contain. Examples are the
 * second name of a tied weight, and names of buffers of older code. If `written` is false, `name`
 * may contain one "*", which stands for the number of a layer. In this case `own` may contain a
 * "*", too.
 */
struct gt_model_alias {
	/* The name in the file, and the name in the model. If `own` is NULL, the value in the file
	 * is ignored. */
	const char *name, *own;
	/* Files of the reference code contain both names: write the alias, too, with the same
	 * storage as `own`. */
	bool written;
};

/* Return names of parameters, ended by NULL, that a file lacks, besides the last layer, if its
 * network was trained for another task; NULL: such files are not read. Borrowed. */
const char *const *gt_model_task_layers(const struct gt_model *m);

/* Return the aliases of a model, borrowed. A row with the name NULL ends the list. */
const struct gt_model_alias *gt_model_aliases(const struct gt_model *m);

#endif
