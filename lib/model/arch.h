/* arch.h - private: the table row of an architecture, and layers that architectures share. */
#ifndef GT_MODEL_ARCH_H
#define GT_MODEL_ARCH_H

#include "lib/graph/ops/ops.h"
#include "lib/model/model.h"

enum { GT_MODEL_MAX_LAYERS = 16 };

/* The settings that a model's spec, NAME[:key=value,...] (model.h), can give. Each architecture has
 * a row of defaults, and a list of the settings that it accepts. */
struct gt_arch_config {
	/* mlp: numbers of features; mlp:784,256,10 has 784 inputs, 256 hidden features, 10
	 * outputs */
	int sizes[GT_MODEL_MAX_LAYERS], size_count;
	int depth; /* ResNets: number of layers, 18, 20, ... */
	/* Height and width of images, and number of classes. 0: taken from the data. */
	int image, classes;
	/* transformers: number of blocks, attention heads of a block, features of a token, length
	 * of a text in tokens, number of different tokens (0: taken from the data) */
	int layers, heads, width, block, vocab;
	int patch;    /* ViTs: height and width of a patch, in pixels */
	int hidden;   /* transformers: hidden features of each MLP; 0: computed from `width` */
	int kv_heads; /* LLaMAs: heads of keys and values */
	/* theta: base of the angles of rotary positions; eps: added to the variance, or mean
	 * square, in norms. */
	double theta, eps;
	bool tied; /* the last layer has the same weight as the token embedding */
	double dropout;
	bool bias; /* linear layers and norms have a bias */
	enum gt_gelu gelu;
	bool zero_init_residual; /* ResNets: the weights of each block's last norm begin at 0 */
};

struct gt_arch {
	const char *name;
	const char *summary;
	/* The keys of the settings that the architecture accepts, separated by spaces, such as
	 * "layers heads". If the architecture accepts no settings, this is an empty string. If it
	 * accepts a list of numbers without keys, this is "sizes". */
	const char *keys;
	struct gt_arch_config defaults;
	/* Set members of *out to the properties of the input that the architecture prefers, for
	 * gt_model_preferred_input(). The caller has zeroed *out. */
	void (*preferred_input)(const struct gt_arch_config *c, struct gt_model_input *out);
	/* Emit the nodes that compute the logits from the input x. An error is stored in the graph.
	 * `rng` is the random state; NULL: nothing is random. `train`: the graph is for
	 * GT_MODEL_TRAIN. */
	struct gt_value *(*logits)(struct gt_graph *g, const struct gt_arch_config *c,
	    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train);
	/*
	 * For language models: emit the nodes that compute logits [B, classes] of the next token
	 * after each text. B is the number of texts. NULL for other models.
	 *
	 *   past   NULL: x is the whole text. Otherwise x continues a text of which `past` tokens
	 *          are already in caches (GT_MODEL_CONTINUE).
	 *   at     int32 [B], the position of the last token of each text; NULL: the last position
	 *          of x
	 */
	struct gt_value *(*next)(struct gt_graph *g, const struct gt_arch_config *c,
	    const struct gt_model_input *in, struct gt_value *x, struct gt_value *past,
	    struct gt_value *at);
	/* Second names of values in state_dicts (struct gt_model_alias); NULL: none. If
	 * gt_arch_config.tied is set and tied_aliases is not NULL, tied_aliases replaces
	 * `aliases`. */
	const struct gt_model_alias *aliases;
	const struct gt_model_alias *tied_aliases;
	/* default learning rates: for adaptive optimizers such as Adam, and for SGD */
	double lr_adam, lr_sgd;
	const char *family; /* Hugging Face's model_type of this network; NULL: it has none */
	/* Return the number of hidden features of each MLP: the setting `hidden`, or a number
	 * computed from `width`. NULL: the model has no such setting. */
	int64_t (*hidden)(const struct gt_arch_config *c);
};

/* All architectures; NULL ends the list. */
extern const struct gt_arch *const gt_archs[];

extern const struct gt_arch gt_arch_mlp, gt_arch_lenet, gt_arch_resnet20, gt_arch_resnet32,
    gt_arch_resnet44, gt_arch_resnet56, gt_arch_resnet110, gt_arch_resnet18, gt_arch_resnet34,
    gt_arch_resnet50, gt_arch_resnet101, gt_arch_resnet152, gt_arch_gpt, gt_arch_gpt2,
    gt_arch_gpt2_medium, gt_arch_gpt2_large, gt_arch_gpt2_xl, gt_arch_vit, gt_arch_vit_tiny,
    gt_arch_vit_small, gt_arch_vit_base, gt_arch_vit_large, gt_arch_llama, gt_arch_tinyllama,
    gt_arch_llama2_7b, gt_arch_llama3_8b;

/* ---- fit.c ---- */

/* Set the graph's error: the model does not take the input. The hint names a model that takes data
 * of this kind or, if `sized` is set (the model takes images) and the data are images, how to
 * change their size. Returns NULL, as gt_graph_fail() does. */
void *gt_model_fail_input(struct gt_graph *g, const struct gt_model_input *in, bool sized,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Set the graph's error: the width is no multiple of `heads`, or of `heads` times 2 if `even` is
 * 2. */
void gt_model_fail_heads(struct gt_graph *g, const struct gt_arch_config *c, int even);

/* ---- tune.c ---- */

struct gt_tuning;

/* Parse the rules of gt_model_tune() that freeze parameters or change their learning rates. Errors:
 * GT_EINVAL, GT_ENOMEM. */
int gt_tuning_new(struct gt_tuning **out, const struct gt_opt_list *freeze,
    const struct gt_opt_list *lr_scale, struct gt_err *err);
void gt_tuning_free(struct gt_tuning *t); /* NULL is fine */

/* Apply the rules to a forward graph: freeze parameters, and set lr_scale of others. If a rule
 * matches no parameter, or if no parameter is left to train, the error is stored in the graph. `t`
 * NULL: there are no rules. */
void gt_tuning_apply(const struct gt_tuning *t, struct gt_graph *g);

/*
 * ---- layers.c ----
 *
 * Each function declares the parameters of a layer, NAME.weight and so on, and emits the node of
 * the layer in the scope NAME (the argument `name`). It returns the output of the layer. If x is
 * NULL, because an earlier layer failed, the function returns NULL. `out` is the number of output
 * features or channels. Weight decay applies to all parameters, unless a comment says otherwise.
 */

extern const struct gt_init gt_init_zeros, gt_init_ones;

/* Return initial values from the uniform distribution between -1/sqrt(fan_in) and 1/sqrt(fan_in),
 * as torch.nn.Linear and Conv2d use it (kaiming_uniform_ with a = sqrt 5). */
struct gt_init gt_init_torch(int64_t fan_in);
/*
 * Return initial values from the normal distribution with mean 0 and variance 2 / fan, as
 * torch.nn.init.kaiming_normal_ uses it for rectified units (He et al., ICCV 2015).
 *
 *   fan   the number of inputs that an output depends on (fan_in), or the number of outputs that an
 *         input reaches (fan_out)
 */
struct gt_init gt_init_kaiming(int64_t fan);

/* torch.nn.Linear: NAME.weight [out, in], NAME.bias [out]. x is float32 [..., in]. `weight` gives
 * the initial values of the weight, and gt_init_torch() gives the initial values of the bias. */
struct gt_value *gt_layer_linear(
    struct gt_graph *g, const char *name, struct gt_value *x, int64_t out, struct gt_init weight);

/* A linear layer of a transformer. Weight decay does not apply to its bias. `weight` and `bias`
 * give the initial values. If `bias` is NULL, the layer has no bias. */
struct gt_value *gt_layer_dense(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, struct gt_init weight, const struct gt_init *bias);

/* torch.nn.LayerNorm over the last dimension: NAME.weight, NAME.bias. Weight decay applies to
 * neither. */
struct gt_value *gt_layer_layer_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, double eps);

/* torch.nn.Conv2d: NAME.weight [out, in, kernel, kernel], with initial values from `weight`. If
 * `bias` is true, also NAME.bias [out]. `kernel`, `stride` and `pad` are in pixels. */
struct gt_value *gt_layer_conv(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, int kernel, int stride, int pad, bool bias, struct gt_init weight);

/* torch.nn.BatchNorm2d: NAME.weight, .bias, .running_mean, .running_var, .num_batches_tracked.
 * `train`: normalize with the statistics of the batch; otherwise with the running statistics.
 * `weight`: the initial values of the weight, which are ones in PyTorch. */
struct gt_value *gt_layer_batch_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, struct gt_init weight, bool train);

#endif
