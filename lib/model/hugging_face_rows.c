/* hugging_face_rows.c - which keys of config.json are settings of decoders. */
#include "lib/model/hugging_face_tables.h"

/* clang-format off */
/* Rows that families share; the arguments are the values of missing keys. */
#define SIZES(VOCAB, BLOCK, WIDTH, HIDDEN, LAYERS, HEADS) \
	{ "vocab_size", "vocab", "#", VOCAB }, { "max_position_embeddings", "block", "#", BLOCK }, \
	{ "hidden_size", "width", "#", WIDTH }, { "intermediate_size", "hidden", "#", HIDDEN }, \
	{ "num_hidden_layers", "layers", "#", LAYERS }, \
	{ "num_attention_heads", "heads", "#", HEADS }
#define SILU { "hidden_act", NULL, "'silu'", "'silu'" }
#define KV_HEADS(INITIAL) { "num_key_value_heads", "kv_heads", "null=@heads #", INITIAL }
#define RMS_EPS(INITIAL) { "rms_norm_eps", "eps", "#", INITIAL }
#define THETA(INITIAL) { "rope_theta", "theta", "#", INITIAL }
#define TIED(INITIAL) { "tie_word_embeddings", "tied", "false=no true=yes", INITIAL }
#define NO_DROPOUT(INITIAL) { "attention_dropout", NULL, "0 0.0", INITIAL }
#define ATTENTION_BIAS(INITIAL) { "attention_bias", "attention_bias", "false=no true=yes", INITIAL }
#define MLP_BIAS(INITIAL) { "mlp_bias", "mlp_bias", "false=no true=yes", INITIAL }
#define WINDOW(INITIAL) { "sliding_window", "window", "null=0 #", INITIAL }
#define GELU(INITIAL) \
	{ "hidden_activation", "gelu", "'gelu_pytorch_tanh'=tanh 'gelu'=erf", INITIAL }

const struct gt_hf_row gt_hf_llama_rows[] = {
	SIZES("32000", "2048", "4096", "11008", "32", "32"),
	KV_HEADS("null"),
	RMS_EPS("1e-06"),
	THETA("10000"),
	TIED("false"),
	{ "head_dim", "head_dim", "null= #", "null" },
	SILU,
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	MLP_BIAS("false"),
	{ "pretraining_tp", NULL, "1", "1" }, /* products in slices, which round differently */
	{ "rope_interleaved", NULL, "false", "false" },
	{ 0 }
};

const struct gt_hf_row gt_hf_mistral_rows[] = {
	SIZES("32000", "131072", "4096", "14336", "32", "32"),
	KV_HEADS("8"),
	RMS_EPS("1e-06"),
	THETA("10000"),
	TIED("false"),
	{ "head_dim", "head_dim", "null= #", "null" },
	SILU,
	NO_DROPOUT("0"),
	WINDOW("4096"),
	{ 0 }
};

const struct gt_hf_row gt_hf_qwen2_rows[] = {
	SIZES("151936", "32768", "4096", "22016", "32", "32"),
	KV_HEADS("32"),
	RMS_EPS("1e-06"),
	THETA("10000"),
	TIED("false"),
	SILU,
	NO_DROPOUT("0"),
	WINDOW("4096"),
	{ "use_mrope", NULL, "false", "false" },
	{ 0 }
};

const struct gt_hf_row gt_hf_qwen3_rows[] = {
	SIZES("151936", "32768", "4096", "22016", "32", "32"),
	KV_HEADS("32"),
	RMS_EPS("1e-06"),
	THETA("10000"),
	TIED("false"),
	{ "head_dim", "head_dim", "#", "128" },
	SILU,
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	WINDOW("4096"),
	{ 0 }
};

const struct gt_hf_row gt_hf_gemma2_rows[] = {
	SIZES("256000", "8192", "2304", "9216", "26", "8"),
	{ "num_key_value_heads", "kv_heads", "#", "4" },
	RMS_EPS("1e-06"),
	THETA("10000"),
	TIED("true"),
	{ "head_dim", "head_dim", "#", "256" },
	GELU("'gelu_pytorch_tanh'"),
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	{ "query_pre_attn_scalar", "score_dim", "#", "256" },
	WINDOW("4096"),
	{ "use_bidirectional_attention", NULL, "false null", "false" },
	{ "attn_logit_softcapping", "score_cap", "null=0 #", "50.0" },
	{ "final_logit_softcapping", "logit_cap", "null=0 #", "30.0" },
	{ 0 }
};

const struct gt_hf_row gt_hf_gemma3_rows[] = {
	SIZES("262208", "131072", "2304", "9216", "26", "8"),
	{ "num_key_value_heads", "kv_heads", "#", "4" },
	RMS_EPS("1e-06"),
	THETA("1000000"),
	TIED("true"),
	{ "rope_local_base_freq", "local_theta", "#", "10000" },
	{ "head_dim", "head_dim", "#", "256" },
	GELU("'gelu_pytorch_tanh'"),
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	{ "query_pre_attn_scalar", "score_dim", "#", "256" },
	WINDOW("4096"),
	{ "use_bidirectional_attention", NULL, "false null", "false" },
	{ "attn_logit_softcapping", "score_cap", "null=0 #", "null" },
	{ "final_logit_softcapping", "logit_cap", "null=0 #", "null" },
	{ 0 }
};

const struct gt_hf_row gt_hf_phi3_rows[] = {
	SIZES("32064", "4096", "3072", "8192", "32", "32"),
	KV_HEADS("null"),
	RMS_EPS("1e-05"),
	THETA("10000"),
	{ "partial_rotary_factor", "rotated", "#", "1" },
	TIED("false"),
	SILU,
	NO_DROPOUT("0"),
	{ "resid_pdrop", NULL, "0 0.0", "0" },
	{ "embd_pdrop", NULL, "0 0.0", "0" },
	WINDOW("null"),
	{ "attention_bias", NULL, "false", "false" },
	{ 0 }
};

const struct gt_hf_row gt_hf_olmo2_rows[] = {
	SIZES("50304", "2048", "4096", "11008", "32", "32"),
	KV_HEADS("null"),
	RMS_EPS("1e-05"),
	THETA("10000"),
	TIED("false"),
	SILU,
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	{ 0 }
};

const struct gt_hf_row gt_hf_gpt_neox_rows[] = {
	SIZES("50432", "2048", "6144", "24576", "44", "64"),
	{ "rotary_emb_base", "theta", "#", "10000" },
	{ "layer_norm_eps", "eps", "#", "1e-05" },
	TIED("false"),
	{ "rotary_pct", "rotated", "#", "0.25" },
	{ "hidden_act", "gelu",
	    "'gelu'=erf 'gelu_new'=tanh 'gelu_pytorch_tanh'=tanh 'gelu_fast'=tanh",
	    "'gelu'" },
	{ "use_parallel_residual", "parallel", "true=yes false=no", "true" },
	{ "attention_bias", "attention_bias", "true=yes false=no", "true" },
	NO_DROPOUT("0"),
	{ "hidden_dropout", NULL, "0 0.0", "0" },
	{ 0 }
};

const struct gt_hf_row gt_hf_smollm3_rows[] = {
	SIZES("128256", "32768", "2048", "11008", "36", "16"),
	KV_HEADS("4"),
	RMS_EPS("1e-06"),
	THETA("2000000"),
	TIED("true"),
	SILU,
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	MLP_BIAS("false"),
	WINDOW("null"),
	{ 0 }
};

/* Experts: the loss that balances them is off, so its factor has no effect. */
#define ROUTER(COUNT, INITIAL) \
	{ COUNT, "experts", "#", INITIAL }, { "output_router_logits", NULL, "false", "false" }

const struct gt_hf_row gt_hf_mixtral_rows[] = {
	SIZES("32000", "131072", "4096", "14336", "32", "32"),
	KV_HEADS("8"),
	RMS_EPS("1e-05"),
	THETA("1000000"),
	TIED("false"),
	{ "head_dim", "head_dim", "null= #", "null" },
	SILU,
	NO_DROPOUT("0"),
	WINDOW("null"),
	ROUTER("num_local_experts", "8"),
	{ "num_experts_per_tok", "active", "#", "2" },
	{ "router_jitter_noise", NULL, "0.0 0", "0.0" },
	{ 0 }
};

/* All layers have experts, so intermediate_size, that of the others, has no effect. */
const struct gt_hf_row gt_hf_qwen3_moe_rows[] = {
	{ "vocab_size", "vocab", "#", "151936" },
	{ "max_position_embeddings", "block", "#", "32768" },
	{ "hidden_size", "width", "#", "2048" },
	{ "moe_intermediate_size", "hidden", "#", "768" },
	{ "num_hidden_layers", "layers", "#", "24" },
	{ "num_attention_heads", "heads", "#", "32" },
	KV_HEADS("4"),
	RMS_EPS("1e-06"),
	THETA("10000"),
	TIED("false"),
	{ "head_dim", "head_dim", "null= #", "null" },
	SILU,
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	WINDOW("4096"),
	ROUTER("num_experts num_local_experts", "128"),
	{ "num_experts_per_tok", "active", "#", "8" },
	{ "norm_topk_prob", "renormalize", "false=no true=yes", "false" },
	{ "decoder_sparse_step", NULL, "1", "1" },
	{ "mlp_only_layers", NULL, "[] null", "[]" },
	{ 0 }
};

const struct gt_hf_row gt_hf_olmoe_rows[] = {
	SIZES("50304", "4096", "2048", "2048", "16", "16"),
	KV_HEADS("null"),
	RMS_EPS("1e-05"),
	THETA("10000"),
	TIED("false"),
	SILU,
	ATTENTION_BIAS("false"),
	NO_DROPOUT("0"),
	{ "clip_qkv", NULL, "null", "null" },
	ROUTER("num_experts num_local_experts", "64"),
	{ "num_experts_per_tok", "active", "#", "8" },
	{ "norm_topk_prob", "renormalize", "false=no true=yes", "false" },
	{ 0 }
};

#define YES_NO(KEY, SETTING, INITIAL) { KEY, SETTING, "false=no true=yes", INITIAL }
#define EXACT_GELU(KEY) \
	{ KEY, "gelu", "'gelu'=erf 'gelu_new'=tanh 'gelu_pytorch_tanh'=tanh", "'gelu'" }

const struct gt_hf_row gt_hf_modernbert_rows[] = {
	SIZES("50368", "8192", "768", "1152", "22", "12"),
	{ "global_rope_theta", "theta", "#", "160000" },
	{ "local_rope_theta", "local_theta", "#", "10000" },
	{ "local_attention", "window", "#", "128" },
	{ "norm_eps", "eps", "#", "1e-05" },
	YES_NO("norm_bias", "norm_bias", "false"),
	YES_NO("attention_bias", "attention_bias", "false"),
	YES_NO("mlp_bias", "mlp_bias", "false"),
	YES_NO("classifier_bias", "head_bias", "false"),
	EXACT_GELU("hidden_activation"),
	EXACT_GELU("classifier_activation"),
	{ "decoder_bias", NULL, "true", "true" },
	{ "classifier_pooling", "mean", "'cls'=no 'mean'=yes", "'cls'" },
	{ "embedding_dropout", "dropout", "#", "0" },
	{ "attention_dropout", "dropout", "#", "0" },
	{ "mlp_dropout", "dropout", "#", "0" },
	{ "classifier_dropout", "head_dropout", "#", "0" },
	{ "position_embedding_type", NULL, "'absolute' 'sans_pos'", "'absolute'" }, /* unused */
	{ "is_decoder", NULL, "false", "false" },
	{ 0 }
};
/* clang-format on */
