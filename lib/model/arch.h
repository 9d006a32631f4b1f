/* arch.h - private: the row of an architecture, a model of one, and layers that they share. */
#ifndef GT_MODEL_ARCH_H
#define GT_MODEL_ARCH_H

#include "lib/graph/ops/ops.h"
#include "lib/model/model.h"

enum { GT_MODEL_MAX_LAYERS = 16, GT_MODEL_PATTERN = 64, GT_MODEL_STAGES = 4 };

/* How the angles of rotary positions are scaled for longer texts: a kind, and its numbers in the
 * order of gt_rope_kinds (model.c). */
enum gt_rope_kind {
	GT_ROPE_PLAIN,
	GT_ROPE_LINEAR,
	GT_ROPE_DYNAMIC,
	GT_ROPE_LLAMA3,
	GT_ROPE_YARN,
	GT_ROPE_KINDS
};

enum { GT_ROPE_NUMBERS = 6 };

struct gt_rope_scaling {
	enum gt_rope_kind kind;
	double number[GT_ROPE_NUMBERS];
};

struct gt_decoder;
struct gt_encoder;

/* The settings of a model's spec (model.h). An architecture has defaults, and the keys that it
 * accepts. */
struct gt_arch_config {
	/* mlp: inputs, hidden features, outputs */
	int sizes[GT_MODEL_MAX_LAYERS], size_count;
	int depth; /* ResNets: number of layers */
	/* ConvNeXts: blocks and channels of each stage; whether it is the second version */
	int depths[GT_MODEL_STAGES], widths[GT_MODEL_STAGES];
	bool second;
	/* MobileNets: factor of all channels, but for the last ones if `fine`; whether borders are
	 * padded as by TensorFlow */
	double multiplier;
	bool fine, same;
	/* size of images, and number of classes; 0: taken from the data */
	int image, classes;
	/* transformers: blocks, heads, features of a token, tokens of a text, different tokens (0:
	 * taken from the data) */
	int layers, heads, width, block, vocab;
	int patch;    /* ViTs: size of a patch, in pixels */
	int hidden;   /* transformers: hidden features of MLPs; 0: computed from `width` */
	int kv_heads; /* decoders: heads of keys and values; 0 in defaults: `heads` */
	/* base of rotary angles; addend of the variance, or mean square, in norms */
	double theta, eps;
	bool tied; /* the last layer has the weight of the token embedding */
	double dropout;
	double head_dropout; /* encoders: of the input of the last layers */
	bool bias;           /* linear layers and norms have a bias */
	enum gt_gelu gelu;
	/* encoders (encoder.h); types of tokens, 0: there are none */
	const struct gt_encoder *encoder;
	int types;
	bool head_bias; /* the layer before the class has a bias */
	bool masks;     /* hidden tokens are computed, not classes */
	bool mean;      /* the class is that of the mean of all tokens, not of the first one */
	/* decoders (decoder.h) */
	const struct gt_decoder *decoder;
	int head_dim; /* features of a head; 0: width / heads */
	bool attention_bias, mlp_bias;
	struct gt_rope_scaling rope;
	double rotated;     /* part of a head's features that is rotated by positions */
	double local_theta; /* theta of layers with a window; 0: theta */
	int window;         /* tokens that a token attends to; 0: all before it */
	/* Letters y and n, for the first layers; they repeat. Empty: all layers. */
	char windowed[GT_MODEL_PATTERN], positions[GT_MODEL_PATTERN];
	/* MLPs of a layer, and how many of them a token has; whether the weights of its own add up
	 * to 1 */
	int experts, active;
	bool renormalize;
	int score_dim; /* scores are divided by its root; 0: by that of the features of a head */
	double score_cap, logit_cap;  /* x becomes cap * tanh(x / cap); 0: it does not */
	bool parallel;                /* attention and MLP have the same input */
	bool zero_init_residual;      /* ResNets: weights of each block's last norm begin at 0 */
	struct gt_network *network;   /* exported networks: lib/model/import/import.h */
	struct gt_sequence *sequence; /* stacks: lib/model/sequence/sequence.h */
};

struct gt_arch {
	const char *name;
	const char *summary;
	/* settings that it accepts, separated by spaces; "sizes": a list of numbers */
	const char *keys;
	struct gt_arch_config defaults;
	/* Set the members of the zeroed *out that the architecture prefers
	 * (gt_model_preferred_input()). */
	void (*preferred_input)(const struct gt_arch_config *c, struct gt_model_input *out);
	/* Emit the nodes that compute the logits from x. `rng` is the random state, or NULL:
	 * nothing is random. `train`: for GT_MODEL_TRAIN. Errors are stored in the graph. */
	struct gt_value *(*logits)(struct gt_graph *g, const struct gt_arch_config *c,
	    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train);
	/* Networks that may compute their loss themselves, else NULL: emit the nodes that compute
	 * it, float32 [], from x and the targets. It is a mean over the batch. */
	struct gt_value *(*loss)(struct gt_graph *g, const struct gt_arch_config *c,
	    const struct gt_model_input *in, struct gt_value *x, struct gt_value *target,
	    struct gt_value *rng, bool train);
	/* Language models, else NULL: emit the nodes that compute the logits [B, classes] of the
	 * next token. x continues a text with `past` tokens in caches (GT_MODEL_CONTINUE), or is
	 * the whole text (NULL). `at` int32 [B] is the last position of each text, or the last one
	 * of x (NULL). */
	struct gt_value *(*next)(struct gt_graph *g, const struct gt_arch_config *c,
	    const struct gt_model_input *in, struct gt_value *x, struct gt_value *past,
	    struct gt_value *at);
	bool caches; /* language models: `next` continues texts by means of caches */
	bool packs;  /* language models: `logits` takes rows of several documents */
	bool fields; /* samples may have several inputs */
	/* Second names in state_dicts (struct gt_model_alias), with another list if `tied` is set;
	 * or NULL. */
	const struct gt_model_alias *aliases;
	const struct gt_model_alias *tied_aliases;
	/* Encoders, else NULL: the list if config.masks is set. */
	const struct gt_model_alias *masked_aliases;
	/* Parameters, besides the last layer, that a file lacks if its network was trained for
	 * another task, ended by NULL; NULL: such files are not read. */
	const char *const *task_layers;
	double lr_adam, lr_sgd; /* default learning rates for adaptive optimizers, and for SGD */
	const char *family;     /* Hugging Face's model_type, or NULL */
	/* Return the hidden features of each MLP. NULL: there is no setting `hidden`. */
	int64_t (*hidden)(const struct gt_arch_config *c);
};

struct gt_lora;
struct gt_tuning;

struct gt_model {
	const struct gt_arch *arch;
	struct gt_arch_config config;
	char *path;               /* exported networks: the file; NULL: another model */
	struct gt_tuning *tuning; /* NULL: there are no rules */
	struct gt_lora *lora;     /* NULL: there are no adapters */
	enum gt_block block;      /* in which weights are stored */
};

/* All architectures, NULL-terminated. */
extern const struct gt_arch *const gt_archs[];

extern const struct gt_arch gt_arch_mlp, gt_arch_lenet, gt_arch_resnet20, gt_arch_resnet32,
    gt_arch_resnet44, gt_arch_resnet56, gt_arch_resnet110, gt_arch_resnet18, gt_arch_resnet34,
    gt_arch_resnet50, gt_arch_resnet101, gt_arch_resnet152, gt_arch_gpt, gt_arch_gpt2,
    gt_arch_gpt2_medium, gt_arch_gpt2_large, gt_arch_gpt2_xl, gt_arch_vit, gt_arch_vit_tiny,
    gt_arch_vit_small, gt_arch_vit_base, gt_arch_vit_large, gt_arch_llama, gt_arch_tinyllama,
    gt_arch_llama2_7b, gt_arch_llama3_8b, gt_arch_mistral, gt_arch_qwen2, gt_arch_qwen3,
    gt_arch_gemma2, gt_arch_gemma3, gt_arch_phi3, gt_arch_olmo2, gt_arch_gpt_neox, gt_arch_smollm3,
    gt_arch_mixtral, gt_arch_qwen3_moe, gt_arch_olmoe, gt_arch_bert, gt_arch_roberta,
    gt_arch_distilbert, gt_arch_modernbert, gt_arch_convnext, gt_arch_convnext_tiny,
    gt_arch_convnext_small, gt_arch_convnext_base, gt_arch_convnext_large, gt_arch_convnextv2,
    gt_arch_convnextv2_tiny, gt_arch_convnextv2_base, gt_arch_mobilenet_v2;

/* ---- forward.c ---- */

/* Return the values of a field for a batch of samples, the graph's input. */
struct gt_value *gt_model_field(
    struct gt_graph *g, const struct gt_sample_form *form, struct gt_value *input, int i);

/* Return the values of the field with this meaning, or NULL. `first` are those of field 0. */
struct gt_value *gt_model_find_field(struct gt_graph *g, const struct gt_sample_form *form,
    struct gt_value *first, enum gt_field_meaning meaning);

/* Return the tokens [B, block] of a batch, the graph's input, and set *positions to their places in
 * documents, or to NULL if each row is one document. */
struct gt_value *gt_model_tokens(struct gt_graph *g, const struct gt_sample_form *form,
    struct gt_value *input, struct gt_value **positions);

/* ---- fit.c ---- */

/* Set the graph's error: the input does not fit. The hint names a model for this kind of data, or,
 * if `sized` and data are images, how to resize them. Returns NULL. */
void *gt_model_fail_input(struct gt_graph *g, const struct gt_model_input *in, bool sized,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Set the graph's error: the width is no multiple of heads * `even`, which is 1 or 2. */
void gt_model_fail_heads(struct gt_graph *g, const struct gt_arch_config *c, int even);

/* ---- pack.c ---- */

/* Store the weights of products and embeddings in blocks. The graph gets an error if it has
 * none. */
void gt_pack_weights(enum gt_block block, struct gt_graph *g);

/* Store a weight in blocks if products and lookups alone read it: the rows by which they multiply.
 * Return whether it is so now; its readers are as they were. */
bool gt_pack_weight(const struct gt_graph *g, struct gt_value *v, enum gt_block block);

/* ---- tune.c ---- */

/* Parse the rules of gt_model_tune(). Errors: GT_EINVAL, GT_ENOMEM. */
int gt_tuning_new(struct gt_tuning **out, const struct gt_opt_list *freeze,
    const struct gt_opt_list *lr_scale, struct gt_err *err);
void gt_tuning_free(struct gt_tuning *t); /* NULL is fine */

/* Freeze parameters and set lr_scale by the rules (or NULL). The graph gets an error if a rule
 * matches none, or none is left to train. */
void gt_tuning_apply(const struct gt_tuning *t, struct gt_graph *g);

/*
 * ---- layers.c ----
 *
 * These functions declare the parameters NAME.weight and so on, and return the layer's output,
 * emitted in the scope NAME; NULL if x is NULL. Weight decay applies unless a comment says
 * otherwise.
 */

extern const struct gt_init gt_init_zeros, gt_init_ones;

/* Uniform between -1/sqrt(fan_in) and 1/sqrt(fan_in), as in torch.nn.Linear and Conv2d. */
struct gt_init gt_init_torch(int64_t fan_in);
/* Normal with variance 2 / fan, as torch.nn.init.kaiming_normal_ with fan_in or fan_out (He et al.,
 * ICCV 2015). */
struct gt_init gt_init_kaiming(int64_t fan);

/* torch.nn.Linear of float32 [..., in]: NAME.weight [out, in], NAME.bias [out]. */
struct gt_value *gt_layer_linear(
    struct gt_graph *g, const char *name, struct gt_value *x, int64_t out, struct gt_init weight);

/* A linear layer of a transformer, without decay of its bias. NULL: no bias. */
struct gt_value *gt_layer_dense(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, struct gt_init weight, const struct gt_init *bias);

/* torch.nn.LayerNorm over the last dimension, without decay. */
struct gt_value *gt_layer_layer_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, double eps);

/* How gt_layer_attention() computes. */
struct gt_masked_attention {
	double scale; /* of the scores; 1 / sqrt(D) as a rule */
	/* broadcast to the scores [..., queries, keys]; NULL: each query sees all keys */
	struct gt_value *mask;
	bool boolean;         /* the mask tells which keys are seen; else it is added */
	double hidden;        /* the score of a key that is not seen */
	bool causal;          /* there is no mask, and queries see no later keys */
	struct gt_value *rng; /* for a dropout of the probabilities with p above 0 */
	double p;
};

/* Return whether an op of its own computes attention of these values without a mask: they are [B,
 * heads, T, D]. Only this op can be causal. */
bool gt_layer_has_attention_op(struct gt_value *const qkv[3]);

/* Attention of q, k, v [..., tokens, D], by that op or by products and softmax. */
struct gt_value *gt_layer_attention(
    struct gt_graph *g, struct gt_value *const qkv[3], const struct gt_masked_attention *a);

/* torch.nn.Conv2d: NAME.weight [out, in, kernel, kernel], and perhaps NAME.bias [out]. */
struct gt_value *gt_layer_conv(struct gt_graph *g, const char *name, struct gt_value *x,
    int64_t out, int kernel, int stride, int pad, bool bias, struct gt_init weight);

/* torch.nn.BatchNorm2d. `train`: with the statistics of the batch, else the running ones. */
struct gt_value *gt_layer_batch_norm(
    struct gt_graph *g, const char *name, struct gt_value *x, struct gt_init weight, bool train);

#endif
