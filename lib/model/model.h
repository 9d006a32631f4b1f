/* model.h - architectures by name: from NAME[:key=value,...] to a micro-batch's forward graph. */
#ifndef GT_MODEL_MODEL_H
#define GT_MODEL_MODEL_H

#include "lib/base/opt.h"
#include "lib/base/setting.h"
#include "lib/graph/graph.h"

/*
 * A model here is a description: it emits nodes and declares parameters under the names that the
 * reference PyTorch code gives them, so that files load both ways. It holds no numbers
 * (lib/graph/store.h does) and knows nothing of files, training or devices.
 */

enum gt_model_kind { GT_MODEL_IMAGE, GT_MODEL_VECTOR, GT_MODEL_TOKENS };

/* The shape of the input and the number of classes (or tokens): from the data, or the model's own
 * where it has one. */
struct gt_model_input {
	enum gt_model_kind kind;
	int height, width, channels;                       /* images: uint8 [H, W, C] */
	float mean[GT_MAX_CHANNELS], std[GT_MAX_CHANNELS]; /* of the 0..1 scale */
	int features;                                      /* vectors: float32 [features] */
	int block;                                         /* tokens: int32 [block] */
	int classes;                                       /* or size of the vocabulary */
	bool regression; /* one output, and the target is a number: float32 [batch] */
	/* Training reads mixtures of two images: float32 [H, W, C] on the scale of the bytes, with
	 * the targets of lib/base/mixed_target.h. */
	bool mixed;
};

/* The values that a step writes and reads. */
struct gt_model_io {
	struct gt_value *input; /* [batch, ...] as in gt_model_input */
	/* int32 [batch] or [batch, block]; for mixtures int32 [batch, GT_MIXED_TARGET_WORDS]; for
	 * regression float32 [batch]. For GT_MODEL_PREDICT of tokens it is the position of each
	 * text's last token, int32 [batch]. */
	struct gt_value *target;
	struct gt_value *rng;    /* int64 [4], lib/graph/kernel.h; NULL when nothing is drawn */
	struct gt_value *weight; /* float32 []: 1 / targets counted in the step; training only */
	struct gt_value *scale;  /* float32 []: of the loss; NULL where it is not scaled */
	struct gt_value *past;   /* int32 []: tokens in the caches; GT_MODEL_CONTINUE only */
	/* float32 [batch, (block,) classes]. For GT_MODEL_PREDICT and for generation it is the
	 * output "logits" [batch, classes]; for tokens, these are the logits of the last position
	 * only. */
	struct gt_value *logits;
	struct gt_value *loss; /* float32 [], training: output "loss" */
	/* Evaluation: output "stats", float64 [4] (classify_stats), of regression [5]
	 * (regress_stats). NULL for the token that follows a text. */
	struct gt_value *stats;
};

enum gt_model_purpose {
	GT_MODEL_TRAIN, /* loss */
	GT_MODEL_EVAL,  /* stats */
	/* Stats, and the logits of each sample as the output "logits". For texts there are no
	 * stats, and the logits are those of the token that follows the text, which may be shorter
	 * than `block`. */
	GT_MODEL_PREDICT,
	GT_MODEL_GENERATE, /* logits of the token that follows a window of `block` */
	/* The same for `block` tokens that follow `past` earlier ones: layers read the results for
	 * earlier tokens from caches (gt_cache()), and add their own. */
	GT_MODEL_CONTINUE
};

struct gt_model;

/* Parse a spec. For an unknown name the hint is the nearest known name; for an unknown key it is
 * the list of keys. */
int gt_model_open(struct gt_model **out, const char *spec, struct gt_err *err);
void gt_model_close(struct gt_model *m);

const char *gt_model_name(const struct gt_model *m);

/*
 * Freeze parameters, or change their learning rates, in all graphs that are built afterwards. Rules
 * name parameters by patterns of fnmatch(3), in which '*' also matches dots. A pattern that begins
 * with '!' means all parameters that do not match the rest of it.
 *
 *   freeze     GLOB: these are buffers (gt_value.frozen): they have no gradient and no update
 *   lr_scale   GLOB=X: their learning rate is X times that of the step; the last rule counts
 *
 * The lists are copied. Errors: GT_EINVAL, GT_ENOMEM. A rule that matches no parameter is an error
 * of gt_model_build(). Call it once.
 */
int gt_model_tune(struct gt_model *m, const struct gt_opt_list *freeze,
    const struct gt_opt_list *lr_scale, struct gt_err *err);

/* Check that the rules can be parsed, before there is a model. Errors: GT_EINVAL, GT_ENOMEM. */
int gt_model_check_rules(
    const struct gt_opt_list *freeze, const struct gt_opt_list *lr_scale, struct gt_err *err);

/* ---- the manual ---- */

/* The name of the model in row i of the table, or NULL after the last. */
const char *gt_model_at(int i);

/* The `model_type` that Hugging Face has for models with this network; NULL: there is none. */
const char *gt_model_family(const struct gt_model *m);

/* Features within an MLP of a transformer's blocks; 0 for other models. */
int64_t gt_model_mlp_width(const struct gt_model *m);

/* Half a line. */
const char *gt_model_summary(const struct gt_model *m);

/*
 * Setting i of a model. `value` is its value in this model: the default, unless the spec gave
 * another one; "" where none is set. out->initial is the same value, or words that name the source
 * of the value. Returns false after the last setting.
 */
enum { GT_MODEL_VALUE = 160 };
bool gt_model_setting(
    const struct gt_model *m, int i, struct gt_setting *out, char value[GT_MODEL_VALUE]);

/* The model as a spec with all its settings, gpt:layers=6,heads=6,...; yours to free. NULL if
 * memory runs out. */
char *gt_model_spec(const struct gt_model *m, struct gt_err *err);

/* Whether two specs mean the same model: gpt and gpt:layers=4. */
bool gt_model_same(const char *a, const char *b);

/* Whether two specs compute the same results from the same weights: both are presets of one
 * network, with the same settings. Dropout may differ, and settings that one of the two leaves to
 * the data are not compared. */
bool gt_model_same_network(const char *a, const char *b);

/* The model's preferred input, for properties that the data do not determine (random data, a text's
 * block). Fields without a preference are 0. */
void gt_model_wishes(const struct gt_model *m, struct gt_model_input *out);

/*
 * Emit the forward graph for `batch` samples. Errors name the property of the input that does not
 * fit. dropout and batch statistics are there only for GT_MODEL_TRAIN. Caches hold as many
 * positions as the model has, so that graphs of any `block` share them.
 */
int gt_model_build(const struct gt_model *m, struct gt_graph *g, const struct gt_model_input *in,
    int batch, enum gt_model_purpose purpose, struct gt_model_io *io, struct gt_err *err);

/* The parameters of the last layer, which makes the logits of a graph that gt_model_build() has
 * built: weight and bias, the only ones that depend on the classes. Returns how many. */
enum { GT_MODEL_HEAD = 4 };
int gt_model_head(const struct gt_model_io *io, const char *names[GT_MODEL_HEAD]);

/* A learning rate that trains this model well: for adaptive optimizers, whose steps do not grow
 * with the gradients (AdamW), or for other optimizers (SGD). */
double gt_model_default_lr(const struct gt_model *m, bool adaptive);

/*
 * Other names under which a state_dict may hold a value (tied weights, buffers of older code), as
 * files of the reference code have them: pairs of (name, the model's own name), the latter NULL for
 * values that may be ignored. If an alias is not written, `name` may hold one "*" for the number of
 * a layer; `own` may then hold one, too. NULL-terminated.
 */
struct gt_model_alias {
	const char *name, *own;
	bool written; /* files of the reference code have it too: write it, sharing storage */
};

const struct gt_model_alias *gt_model_aliases(const struct gt_model *m);

#endif
