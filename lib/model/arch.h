/* arch.h - inside model: the row of an architecture, and the layers that architectures share. */
#ifndef GT_MODEL_ARCH_H
#define GT_MODEL_ARCH_H

#include "lib/graph/ops/ops.h"
#include "lib/model/model.h"

enum { GT_MODEL_MAX_LAYERS = 16 };

/* The settings of all specs. Each architecture has a row of defaults, and a list of the settings
 * that it accepts. */
struct gt_arch_config {
	int sizes[GT_MODEL_MAX_LAYERS], size_count; /* mlp:784,256,10 */
	int depth;                                  /* ResNets: 18, 20, ... */
	int image, classes; /* the height and width of images, outputs; 0: those of the data */
	int layers, heads, width, block, vocab; /* transformers */
	int patch;                              /* ViTs: height and width of a patch */
	int hidden;   /* transformers: width within an MLP; 0: it follows from width */
	int kv_heads; /* LLaMAs: heads of keys and values */
	double theta, eps;
	bool tied; /* the head is the embedding */
	double dropout;
	bool bias;
	enum gt_gelu gelu;
};

struct gt_arch {
	const char *name;
	const char *summary;
	const char *keys; /* "layers heads ..."; "" for none, "sizes" for a bare list of numbers */
	struct gt_arch_config defaults;
	void (*wishes)(const struct gt_arch_config *c, struct gt_model_input *out);
	/* Emit the nodes from the input to the logits. Errors are stored in the graph. */
	struct gt_value *(*logits)(struct gt_graph *g, const struct gt_arch_config *c,
	    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train);
	/* For language models: emit the nodes to the logits [B, classes] of the token that follows.
	 * `past` NULL: the input is the whole text; otherwise the input follows `past` earlier
	 * tokens (GT_MODEL_CONTINUE). `at`: int32 [B], the last position of each text; NULL: the
	 * input's. Other models: NULL. */
	struct gt_value *(*next)(struct gt_graph *g, const struct gt_arch_config *c,
	    const struct gt_model_input *in, struct gt_value *x, struct gt_value *past,
	    struct gt_value *at);
	const struct gt_model_alias *aliases;      /* may be NULL */
	const struct gt_model_alias *tied_aliases; /* with `tied`; may be NULL */
	double lr_adam, lr_sgd;
	const char *family; /* model_type of Hugging Face for this network; NULL: it has none */
	/* The width within an MLP if the settings do not set it; NULL if the model has no such
	 * setting. */
	int64_t (*hidden)(const struct gt_arch_config *c);
};

/* The rows, NULL-terminated. */
extern const struct gt_arch *const gt_archs[];

extern const struct gt_arch gt_arch_mlp, gt_arch_lenet, gt_arch_resnet20, gt_arch_resnet32,
    gt_arch_resnet44, gt_arch_resnet56, gt_arch_resnet110, gt_arch_resnet18, gt_arch_resnet34,
    gt_arch_resnet50, gt_arch_resnet101, gt_arch_resnet152, gt_arch_gpt, gt_arch_gpt2,
    gt_arch_gpt2_medium, gt_arch_gpt2_large, gt_arch_gpt2_xl, gt_arch_vit, gt_arch_vit_tiny,
    gt_arch_vit_small, gt_arch_vit_base, gt_arch_vit_large, gt_arch_llama, gt_arch_tinyllama,
    gt_arch_llama2_7b, gt_arch_llama3_8b;

/* ---- tune.c ---- */

struct gt_tuning;

/* Parse the rules of gt_model_tune(). Errors: GT_EINVAL, GT_ENOMEM. */
int gt_tuning_new(struct gt_tuning **out, const struct gt_opt_list *freeze,
    const struct gt_opt_list *lr_scale, struct gt_err *err);
void gt_tuning_free(struct gt_tuning *t); /* NULL is fine */

/* Freeze parameters of a forward graph, and set lr_scale of others. A rule that matches none fails
 * the graph. `t` may be NULL: no rules. */
void gt_tuning_apply(const struct gt_tuning *t, struct gt_graph *g);

/* ---- layers.c: each declares its parameters under `name` and emits its node in that scope ---- */

/* U(-1/sqrt(fan_in), 1/sqrt(fan_in)): the initial values of torch.nn.Linear and Conv2d
 * (kaiming_uniform_ with a = sqrt 5). */
struct gt_init gt_init_torch(int64_t fan_in);
/* N(0, 2 / fan): torch.nn.init.kaiming_normal_ for rectified units (He et al., ICCV 2015); `fan` is
 * the number of inputs that an output depends on (fan_in), or the number of outputs that an input
 * reaches (fan_out). */
struct gt_init gt_init_kaiming(int64_t fan);

/* torch.nn.Linear: NAME.weight [out, in], NAME.bias [out]. x F32 [..., in] */
struct gt_value *gt_layer_linear(
    struct gt_graph *g, const char *name, struct gt_value *x, int64_t out, struct gt_init weight);

/* A linear layer as transformers use it: its weights decay, its biases do not. bias NULL: there is
 * none. */
struct gt_value *gt_layer_dense(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, struct gt_init weight, const struct gt_init *bias);

/* torch.nn.LayerNorm over the last dimension: NAME.weight, NAME.bias, neither of which decays. */
struct gt_value *gt_layer_layer_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, double eps);

/* torch.nn.Conv2d: NAME.weight [out, in, k, k], NAME.bias [out] with `bias`. */
struct gt_value *gt_layer_conv(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, int kernel, int stride, int pad, bool bias, struct gt_init weight);

/* torch.nn.BatchNorm2d: NAME.weight, .bias, .running_mean, .running_var, .num_batches_tracked. */
struct gt_value *gt_layer_batch_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, bool train);

#endif
