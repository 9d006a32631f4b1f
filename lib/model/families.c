/* families.c - the rows of the decoders, from LLaMA to those with experts. */
#include "lib/model/decoder.h"

#define BIT(part) (1u << GT_PART_##part)

#define MODULES                                                                                    \
	.embedding = "model.embed_tokens", .layers = "model.layers", .attention = "self_attn",     \
	.mlp = "mlp", .norm = "model.norm", .head = "lm_head"

/* clang-format off */
#define ATTENTION_LEAVES                                                                           \
	{ GT_PART_Q, "self_attn.q_proj" }, { GT_PART_K, "self_attn.k_proj" },                      \
	{ GT_PART_V, "self_attn.v_proj" }, { GT_PART_O, "self_attn.o_proj" }

#define HEAD_NORM_LEAVES                                                                           \
	{ GT_PART_Q_NORM, "self_attn.q_norm" }, { GT_PART_K_NORM, "self_attn.k_norm" }

#define MLP_LEAVES                                                                                 \
	{ GT_PART_GATE, "mlp.gate_proj" }, { GT_PART_UP, "mlp.up_proj" },                          \
	{ GT_PART_DOWN, "mlp.down_proj" }

#define PRE_NORM_LEAVES                                                                            \
	{ GT_PART_ATTENTION_IN, "input_layernorm" }, { GT_PART_MLP_IN, "post_attention_layernorm" }

#define FOUR_NORM_LEAVES                                                                           \
	{ GT_PART_ATTENTION_IN, "input_layernorm" },                                               \
	{ GT_PART_ATTENTION_OUT, "post_attention_layernorm" },                                     \
	{ GT_PART_MLP_IN, "pre_feedforward_layernorm" },                                           \
	{ GT_PART_MLP_OUT, "post_feedforward_layernorm" }
/* clang-format on */

static const struct gt_decoder_leaf llama_leaves[] = { ATTENTION_LEAVES, MLP_LEAVES,
	PRE_NORM_LEAVES, { 0 } };

static const struct gt_decoder_leaf qwen3_leaves[] = { ATTENTION_LEAVES, HEAD_NORM_LEAVES,
	MLP_LEAVES, PRE_NORM_LEAVES, { 0 } };

static const struct gt_decoder_leaf gemma2_leaves[] = { ATTENTION_LEAVES, MLP_LEAVES,
	FOUR_NORM_LEAVES, { 0 } };

static const struct gt_decoder_leaf gemma3_leaves[] = { ATTENTION_LEAVES, HEAD_NORM_LEAVES,
	MLP_LEAVES, FOUR_NORM_LEAVES, { 0 } };

static const struct gt_decoder_leaf phi3_leaves[] = { { GT_PART_O, "self_attn.o_proj" },
	{ GT_PART_QKV, "self_attn.qkv_proj" }, { GT_PART_GATE_UP, "mlp.gate_up_proj" },
	{ GT_PART_DOWN, "mlp.down_proj" }, PRE_NORM_LEAVES, { 0 } };

static const struct gt_decoder_leaf olmo2_leaves[] = { ATTENTION_LEAVES, HEAD_NORM_LEAVES,
	MLP_LEAVES, { GT_PART_ATTENTION_OUT, "post_attention_layernorm" },
	{ GT_PART_MLP_OUT, "post_feedforward_layernorm" }, { 0 } };

static const struct gt_decoder_leaf neox_leaves[] = { PRE_NORM_LEAVES,
	{ GT_PART_QKV, "attention.query_key_value" }, { GT_PART_O, "attention.dense" },
	{ GT_PART_UP, "mlp.dense_h_to_4h" }, { GT_PART_DOWN, "mlp.dense_4h_to_h" }, { 0 } };

#define EXPERT_LEAVES                                                                              \
	{ GT_PART_ROUTER, "mlp.gate" }, { GT_PART_EXPERT_GATES, "mlp.experts.gate_proj" },         \
	    { GT_PART_EXPERT_UPS, "mlp.experts.up_proj" },                                         \
	{                                                                                          \
		GT_PART_EXPERT_DOWNS, "mlp.experts.down_proj"                                      \
	}

static const struct gt_decoder_leaf mixtral_leaves[] = { ATTENTION_LEAVES, EXPERT_LEAVES,
	PRE_NORM_LEAVES, { 0 } };

static const struct gt_decoder_leaf head_norm_expert_leaves[] = { ATTENTION_LEAVES,
	HEAD_NORM_LEAVES, EXPERT_LEAVES, PRE_NORM_LEAVES, { 0 } };

static const struct gt_decoder llama_decoder = { "a LLaMA", MODULES, .leaves = llama_leaves,
	.attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O),
	.mlp_biases = BIT(GATE) | BIT(UP) | BIT(DOWN), .silu = true };

static const struct gt_decoder mistral_decoder = { "a Mistral", MODULES, .leaves = llama_leaves,
	.silu = true };

static const struct gt_decoder qwen2_decoder = { "a Qwen2", MODULES, .leaves = llama_leaves,
	.attention_biases = BIT(Q) | BIT(K) | BIT(V), .silu = true };

static const struct gt_decoder qwen3_decoder = { "a Qwen3", MODULES, .leaves = qwen3_leaves,
	.attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O), .silu = true };

static const struct gt_decoder gemma2_decoder = { "a Gemma 2", MODULES, .leaves = gemma2_leaves,
	.norms = GT_NORM_RMS_PLUS_ONE, .attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O),
	.scaled_embedding = true };

static const struct gt_decoder gemma3_decoder = { "a Gemma 3", MODULES, .leaves = gemma3_leaves,
	.norms = GT_NORM_RMS_PLUS_ONE, .attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O),
	.scaled_embedding = true };

static const struct gt_decoder phi3_decoder = { "a Phi-3", MODULES, .leaves = phi3_leaves,
	.silu = true };

static const struct gt_decoder olmo2_decoder = { "an OLMo 2", MODULES, .leaves = olmo2_leaves,
	.attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O), .whole_norms = true, .silu = true };

static const struct gt_decoder neox_decoder = { .title = "a GPT-NeoX",
	.embedding = "gpt_neox.embed_in",
	.layers = "gpt_neox.layers",
	.attention = "attention",
	.mlp = "mlp",
	.norm = "gpt_neox.final_layer_norm",
	.head = "embed_out",
	.leaves = neox_leaves,
	.norms = GT_NORM_LAYER,
	.attention_biases = BIT(QKV) | BIT(O),
	.mlp_biases = BIT(UP) | BIT(DOWN),
	.interleaved = true };

static const struct gt_decoder smollm3_decoder = { "a SmolLM3", MODULES, .leaves = llama_leaves,
	.attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O),
	.mlp_biases = BIT(GATE) | BIT(UP) | BIT(DOWN), .silu = true };

static const struct gt_decoder mixtral_decoder = { "a Mixtral", MODULES, .leaves = mixtral_leaves,
	.silu = true };

static const struct gt_decoder qwen3_moe_decoder = { "a Qwen3-MoE", MODULES,
	.leaves = head_norm_expert_leaves, .attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O),
	.silu = true };

static const struct gt_decoder olmoe_decoder = { "an OLMoE", MODULES,
	.leaves = head_norm_expert_leaves, .attention_biases = BIT(Q) | BIT(K) | BIT(V) | BIT(O),
	.whole_norms = true, .silu = true };

/* ---- other names ---- */

/* Older files of Hugging Face hold frequencies as buffers, and those of GPT-NeoX causal masks. */
#define BUFFERS                                                                                    \
	{ "model.layers.*.self_attn.rotary_emb.inv_freq", NULL, false },                           \
	{                                                                                          \
		NULL, NULL, false                                                                  \
	}
#define NEOX_BUFFERS                                                                               \
	{ "gpt_neox.layers.*.attention.rotary_emb.inv_freq", NULL, false },                        \
	    { "gpt_neox.layers.*.attention.bias", NULL, false },                                   \
	    { "gpt_neox.layers.*.attention.masked_bias", NULL, false },                            \
	{                                                                                          \
		NULL, NULL, false                                                                  \
	}

static const struct gt_model_alias aliases[] = { BUFFERS };
static const struct gt_model_alias tied_aliases[] = {
	{ "lm_head.weight", "model.embed_tokens.weight", true },
	BUFFERS,
};
static const struct gt_model_alias neox_aliases[] = { NEOX_BUFFERS };
static const struct gt_model_alias neox_tied_aliases[] = {
	{ "embed_out.weight", "gpt_neox.embed_in.weight", true },
	NEOX_BUFFERS,
};

/* ---- the models ---- */

#define COMMON_KEYS "layers heads kv_heads width hidden block vocab theta rope eps tied "

/* The arguments after LR are designated initializers of struct gt_arch_config. */
#define ROW_WITH(ALIASES, TIED_ALIASES, ID, NAME, FAMILY, DECODER, SUMMARY, KEYS, LR, ...)         \
	const struct gt_arch gt_arch_##ID = {                                                      \
		.name = NAME,                                                                      \
		.summary = SUMMARY,                                                                \
		.keys = KEYS,                                                                      \
		.defaults = { .decoder = &(DECODER), __VA_ARGS__ },                                \
		.preferred_input = gt_decoder_input,                                               \
		.logits = gt_decoder_logits,                                                       \
		.next = gt_decoder_next,                                                           \
		.caches = true,                                                                    \
		.packs = true,                                                                     \
		.aliases = ALIASES,                                                                \
		.tied_aliases = TIED_ALIASES,                                                      \
		.lr_adam = (LR),                                                                   \
		.lr_sgd = 0.1,                                                                     \
		.family = FAMILY,                                                                  \
		.hidden = gt_decoder_hidden,                                                       \
	}

#define ROW(...) ROW_WITH(aliases, tied_aliases, __VA_ARGS__)

/* A small model, for characters or bytes. */
#define SMALL .layers = 4, .heads = 4, .width = 128, .block = 64

#define LLAMA(ID, NAME, SUMMARY, LR, ...)                                                          \
	ROW(ID, NAME, "llama", llama_decoder, SUMMARY,                                             \
	    COMMON_KEYS "head_dim attention_bias mlp_bias", LR, .eps = 1e-5, .rotated = 1,         \
	    __VA_ARGS__)

LLAMA(llama, "llama", "a small LLaMA, for characters or bytes", 1e-3, SMALL, .kv_heads = 2,
    .theta = 1e4);
LLAMA(tinyllama, "tinyllama", "TinyLlama, 1.1B parameters", 4e-4, .layers = 22, .heads = 32,
    .kv_heads = 4, .width = 2048, .hidden = 5632, .block = 2048, .vocab = 32000, .theta = 1e4);
LLAMA(llama2_7b, "llama2-7b", "Llama 2, 6.7B parameters", 3e-4, .layers = 32, .heads = 32,
    .kv_heads = 32, .width = 4096, .hidden = 11008, .block = 4096, .vocab = 32000, .theta = 1e4);
LLAMA(llama3_8b, "llama3-8b", "Llama 3, 8.0B parameters", 3e-4, .layers = 32, .heads = 32,
    .kv_heads = 8, .width = 4096, .hidden = 14336, .block = 8192, .vocab = 128256, .theta = 5e5);

ROW(mistral, "mistral", "mistral", mistral_decoder, "a small Mistral",
    COMMON_KEYS "head_dim window", 1e-3, SMALL, .rotated = 1, .kv_heads = 2, .theta = 1e4,
    .eps = 1e-5);
ROW(qwen2, "qwen2", "qwen2", qwen2_decoder, "a small Qwen2 or Qwen2.5",
    COMMON_KEYS "window windowed", 1e-3, SMALL, .rotated = 1, .kv_heads = 2, .theta = 1e6,
    .eps = 1e-6, .attention_bias = true);
ROW(qwen3, "qwen3", "qwen3", qwen3_decoder, "a small Qwen3",
    COMMON_KEYS "head_dim attention_bias window windowed", 1e-3, SMALL, .rotated = 1, .kv_heads = 2,
    .theta = 1e6, .eps = 1e-6);
ROW(gemma2, "gemma2", "gemma2", gemma2_decoder, "a small Gemma 2",
    COMMON_KEYS "head_dim attention_bias window windowed score_dim score_cap logit_cap gelu", 1e-3,
    SMALL, .rotated = 1, .kv_heads = 2, .theta = 1e4, .eps = 1e-6, .tied = true, .window = 32,
    .windowed = "yn", .score_cap = 50, .logit_cap = 30);
ROW(gemma3, "gemma3", "gemma3_text", gemma3_decoder, "a small Gemma 3",
    COMMON_KEYS
    "head_dim attention_bias local_theta window windowed score_dim score_cap logit_cap gelu",
    1e-3, SMALL, .rotated = 1, .kv_heads = 2, .theta = 1e6, .local_theta = 1e4, .eps = 1e-6,
    .tied = true, .window = 32, .windowed = "yyyyyn");
ROW(phi3, "phi3", "phi3", phi3_decoder, "a small Phi-3", COMMON_KEYS "rotated window", 1e-3, SMALL,
    .rotated = 1, .theta = 1e4, .eps = 1e-5);
ROW(olmo2, "olmo2", "olmo2", olmo2_decoder, "a small OLMo 2", COMMON_KEYS "attention_bias", 1e-3,
    SMALL, .rotated = 1, .theta = 5e5, .eps = 1e-6);
ROW_WITH(neox_aliases, neox_tied_aliases, gpt_neox, "gpt-neox", "gpt_neox", neox_decoder,
    "a small GPT-NeoX",
    "layers heads width hidden block vocab theta rope rotated eps tied attention_bias parallel "
    "gelu",
    1e-3, SMALL, .theta = 1e4, .rotated = 0.25, .eps = 1e-5, .attention_bias = true,
    .mlp_bias = true, .parallel = true, .gelu = GT_GELU_ERF);
#define EXPERT_KEYS COMMON_KEYS "experts active renormalize "

ROW(mixtral, "mixtral", "mixtral", mixtral_decoder, "a small Mixtral, with four experts",
    COMMON_KEYS "experts active head_dim window", 1e-3, SMALL, .rotated = 1, .kv_heads = 2,
    .theta = 1e6, .eps = 1e-5, .experts = 4, .active = 2, .renormalize = true);
ROW(qwen3_moe, "qwen3-moe", "qwen3_moe", qwen3_moe_decoder, "a small Qwen3 with eight experts",
    EXPERT_KEYS "head_dim attention_bias window", 1e-3, SMALL, .rotated = 1, .kv_heads = 2,
    .theta = 1e6, .eps = 1e-6, .experts = 8, .active = 2, .renormalize = true);
ROW(olmoe, "olmoe", "olmoe", olmoe_decoder, "a small OLMoE, with eight experts",
    EXPERT_KEYS "attention_bias", 1e-3, SMALL, .rotated = 1, .theta = 1e4, .eps = 1e-5,
    .experts = 8, .active = 2);
ROW(smollm3, "smollm3", "smollm3", smollm3_decoder, "a small SmolLM3",
    COMMON_KEYS "attention_bias mlp_bias window windowed positions", 1e-3, SMALL, .rotated = 1,
    .kv_heads = 2, .theta = 2e6, .eps = 1e-6, .tied = true, .positions = "yyyn");
