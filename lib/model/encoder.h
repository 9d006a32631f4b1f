/* encoder.h - private: what encoders of texts share, whose tokens see tokens on both sides. */
#ifndef GT_MODEL_ENCODER_H
#define GT_MODEL_ENCODER_H

#include "lib/model/arch.h"

/*
 * A row with padding needs the input attention_mask, which hides it; without this input, a token
 * sees the padding, too. Initial values are N(0, 0.02), biases zero. Weight decay applies to
 * matrices and embeddings, not to biases and norms.
 */

/* What the encoders of a file share; each file has a struct of its own around it. */
struct gt_encoder {
	const char *title;
	const char *decoder_bias; /* of the layer that finds hidden tokens */
	bool types;               /* a text has token_type_ids */
	/* positions that no token of a text has: its first tokens are behind them */
	int unused_positions;
};

/* The samples of a batch, and the arguments of layers besides the architecture. */
struct gt_encoder_pass {
	struct gt_value *ids;   /* int32 [B, T] */
	struct gt_value *types; /* int32 [B, T]; NULL: all are 0 */
	struct gt_value *mask;  /* int32 [B, T], 1 for a token and 0 for padding; NULL: all are 1 */
	struct gt_value *rng;
	double dropout, head_dropout; /* 0 unless in training */
};

extern const struct gt_init gt_encoder_init; /* of weights */

/* Return the tokens of the longest text. */
int gt_encoder_longest_text(const struct gt_arch_config *c);

/* gt_arch.preferred_input of encoders. */
void gt_encoder_input(const struct gt_arch_config *c, struct gt_model_input *out);

/* Find the samples, and check that they fit the encoder. Return the status of the graph. `x` is the
 * first field. */
int gt_encoder_begin(struct gt_encoder_pass *p, struct gt_graph *g, const struct gt_arch_config *c,
    const struct gt_model_input *in, struct gt_value *x, struct gt_value *rng, bool train);

/* Emit the dense layer PREFIX + LEAF; `bias`: it has one. */
struct gt_value *gt_encoder_dense(struct gt_graph *g, const char *prefix, const char *leaf,
    struct gt_value *x, int64_t out, bool bias);

/* Return x [B, T, C] as heads [B, heads, T, D]. */
struct gt_value *gt_encoder_heads(
    struct gt_graph *g, const struct gt_arch_config *c, struct gt_value *x);

/* Emit attention of heads, as [B, T, C]. `mask`, broadcast to [B, heads, T, T], is 1 where a row
 * sees a column; NULL: everywhere. */
struct gt_value *gt_encoder_attention(struct gt_graph *g, const struct gt_arch_config *c,
    struct gt_value *const heads[3], struct gt_value *mask, const struct gt_encoder_pass *p);

/* Declare the bias of the layer that finds hidden tokens. */
struct gt_value *gt_encoder_decoder_bias(struct gt_graph *g, const struct gt_arch_config *c);

#endif
