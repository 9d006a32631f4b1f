/* decoder.h - private: decoder-only transformers of all families, each described by a row. */
#ifndef GT_MODEL_DECODER_H
#define GT_MODEL_DECODER_H

#include "lib/model/arch.h"

/*
 * A decoder is an embedding, a number of equal layers, a last norm and a head. A layer is attention
 * and an MLP, each with a residual sum. Families differ in the parameters that a layer has, which
 * the row lists: a family with the part Q_NORM normalizes its queries, one without GATE has a plain
 * MLP, and so on. Numbers, such as the width, and switches that models of one family set
 * differently are settings (struct gt_arch_config).
 */

/* The modules of a layer that have parameters. */
enum gt_decoder_part {
	GT_PART_Q,
	GT_PART_K,
	GT_PART_V,
	GT_PART_QKV, /* queries, keys and values as one product, in place of the three */
	GT_PART_O,
	GT_PART_Q_NORM, /* norms of queries and keys, before they are rotated */
	GT_PART_K_NORM,
	GT_PART_GATE,
	GT_PART_UP, /* without GATE: the first of two products */
	GT_PART_GATE_UP,
	GT_PART_DOWN,
	GT_PART_ROUTER,       /* experts (decoder_experts.c), in place of the MLP */
	GT_PART_EXPERT_GATES, /* GATE, UP and DOWN of all experts, [experts, out, in] */
	GT_PART_EXPERT_UPS,
	GT_PART_EXPERT_DOWNS,
	GT_PART_ATTENTION_IN, /* norms of the input and of the output of attention and of the MLP */
	GT_PART_ATTENTION_OUT,
	GT_PART_MLP_IN,
	GT_PART_MLP_OUT,
	GT_DECODER_PARTS
};

struct gt_decoder_leaf {
	enum gt_decoder_part part;
	const char *name; /* within the layer */
};

enum gt_decoder_norm {
	GT_NORM_RMS,
	GT_NORM_RMS_PLUS_ONE, /* the factor is 1 + weight */
	GT_NORM_LAYER
};

/* A family. Names are those of Hugging Face's transformers. */
struct gt_decoder {
	const char *title; /* "a LLaMA", for messages */
	const char *embedding, *layers, *attention, *mlp, *norm, *head;
	/* the parts of a layer, in the order of the state_dict; ended by one without a name */
	const struct gt_decoder_leaf *leaves;
	enum gt_decoder_norm norms;
	/* parts with a bias, as bits, if the setting attention_bias or mlp_bias is on */
	unsigned attention_biases, mlp_biases;
	bool whole_norms; /* Q_NORM and K_NORM are over all heads together, not over each one */
	/* QKV has the rows of a head's query, key and value side by side, then those of the next
	 * head; otherwise all queries come first, then all keys, then all values */
	bool interleaved;
	bool silu;             /* the activation is SiLU; otherwise that of the setting `gelu` */
	bool scaled_embedding; /* embeddings are multiplied by the root of the width */
};

/* ---- decoder.c: members of struct gt_arch ---- */

void gt_decoder_input(const struct gt_arch_config *c, struct gt_model_input *out);
int64_t gt_decoder_hidden(const struct gt_arch_config *c);
struct gt_value *gt_decoder_logits(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *rng, bool train);
struct gt_value *gt_decoder_next(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *ids, struct gt_value *past,
    struct gt_value *at);

/* ---- decoder_experts.c ---- */

/* The weights of a layer's experts. */
struct gt_decoder_experts {
	struct gt_value *router, *gates, *ups, *downs;
};

/* Emit the outputs of the experts that each token of x [B, T, width] has. */
struct gt_value *gt_decoder_experts(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_decoder_experts *e, struct gt_value *x);

/* ---- decoder_attention.c ---- */

/* A layer's way to attend. */
struct gt_decoder_attention {
	int64_t size; /* columns of a head */
	int window;   /* tokens that a token attends to; 0: all before it */
	bool rotated; /* queries and keys are rotated by their positions */
	double theta;
	bool scaled; /* ... by the scaled angles of the setting `rope` */
};

/* Where the tokens of a batch are. */
struct gt_decoder_place {
	struct gt_value *past;      /* earlier tokens, which are in caches; NULL: there are none */
	struct gt_value *positions; /* gt_model_tokens() */
};

/* Return how layer i attends. */
struct gt_decoder_attention gt_decoder_attention_of(const struct gt_arch_config *c, int i);

/* Return the pairs of columns of a head that are rotated. */
int64_t gt_decoder_pairs(const struct gt_arch_config *c);

/* Return the number by which the scaling llama3 divides the angles of pair j. */
double gt_decoder_stretch(const struct gt_arch_config *c, int64_t j);

/* Emit the attention of queries, keys and values, [B, T, heads * size]. `scope` is that of the
 * attention, for the names of caches. */
struct gt_value *gt_decoder_attend(struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_decoder_attention *a, const char *scope, struct gt_value *const qkv[3],
    const struct gt_decoder_place *at);

#endif
