/* hugging_face_rows.c - which keys of config.json are settings of decoders. */
#include "lib/model/hugging_face_tables.h"

/* clang-format off */
const struct gt_hf_row gt_hf_llama_rows[] = {
	{ "vocab_size", "vocab", "#", "32000" },
	{ "max_position_embeddings", "block", "#", "2048" },
	{ "hidden_size", "width", "#", "4096" },
	{ "intermediate_size", "hidden", "#", "11008" },
	{ "num_hidden_layers", "layers", "#", "32" },
	{ "num_attention_heads", "heads", "#", "32" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "null" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "head_dim", "head_dim", "null= #", "null" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_bias", "attention_bias", "false=no true=yes", "false" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "mlp_bias", "mlp_bias", "false=no true=yes", "false" },
	{ "pretraining_tp", NULL, "1", "1" }, /* products in slices, which round differently */
	{ "rope_interleaved", NULL, "false", "false" },
	{ 0 }
};

const struct gt_hf_row gt_hf_mistral_rows[] = {
	{ "vocab_size", "vocab", "#", "32000" },
	{ "max_position_embeddings", "block", "#", "131072" },
	{ "hidden_size", "width", "#", "4096" },
	{ "intermediate_size", "hidden", "#", "14336" },
	{ "num_hidden_layers", "layers", "#", "32" },
	{ "num_attention_heads", "heads", "#", "32" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "8" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "head_dim", "head_dim", "null= #", "null" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "sliding_window", "window", "null=0 #", "4096" },
	{ 0 }
};

const struct gt_hf_row gt_hf_qwen2_rows[] = {
	{ "vocab_size", "vocab", "#", "151936" },
	{ "max_position_embeddings", "block", "#", "32768" },
	{ "hidden_size", "width", "#", "4096" },
	{ "intermediate_size", "hidden", "#", "22016" },
	{ "num_hidden_layers", "layers", "#", "32" },
	{ "num_attention_heads", "heads", "#", "32" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "32" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "sliding_window", "window", "null=0 #", "4096" },
	{ "use_mrope", NULL, "false", "false" },
	{ 0 }
};

const struct gt_hf_row gt_hf_qwen3_rows[] = {
	{ "vocab_size", "vocab", "#", "151936" },
	{ "max_position_embeddings", "block", "#", "32768" },
	{ "hidden_size", "width", "#", "4096" },
	{ "intermediate_size", "hidden", "#", "22016" },
	{ "num_hidden_layers", "layers", "#", "32" },
	{ "num_attention_heads", "heads", "#", "32" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "32" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "head_dim", "head_dim", "#", "128" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_bias", "attention_bias", "false=no true=yes", "false" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "sliding_window", "window", "null=0 #", "4096" },
	{ 0 }
};

const struct gt_hf_row gt_hf_gemma2_rows[] = {
	{ "vocab_size", "vocab", "#", "256000" },
	{ "max_position_embeddings", "block", "#", "8192" },
	{ "hidden_size", "width", "#", "2304" },
	{ "intermediate_size", "hidden", "#", "9216" },
	{ "num_hidden_layers", "layers", "#", "26" },
	{ "num_attention_heads", "heads", "#", "8" },
	{ "num_key_value_heads", "kv_heads", "#", "4" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "true" },
	{ "head_dim", "head_dim", "#", "256" },
	{ "hidden_activation", "gelu", "'gelu_pytorch_tanh'=tanh 'gelu'=erf",
	    "'gelu_pytorch_tanh'" },
	{ "attention_bias", "attention_bias", "false=no true=yes", "false" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "query_pre_attn_scalar", "score_dim", "#", "256" },
	{ "sliding_window", "window", "null=0 #", "4096" },
	{ "use_bidirectional_attention", NULL, "false null", "false" },
	{ "attn_logit_softcapping", "score_cap", "null=0 #", "50.0" },
	{ "final_logit_softcapping", "logit_cap", "null=0 #", "30.0" },
	{ 0 }
};

const struct gt_hf_row gt_hf_gemma3_rows[] = {
	{ "vocab_size", "vocab", "#", "262208" },
	{ "max_position_embeddings", "block", "#", "131072" },
	{ "hidden_size", "width", "#", "2304" },
	{ "intermediate_size", "hidden", "#", "9216" },
	{ "num_hidden_layers", "layers", "#", "26" },
	{ "num_attention_heads", "heads", "#", "8" },
	{ "num_key_value_heads", "kv_heads", "#", "4" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "1000000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "true" },
	{ "rope_local_base_freq", "local_theta", "#", "10000" },
	{ "head_dim", "head_dim", "#", "256" },
	{ "hidden_activation", "gelu", "'gelu_pytorch_tanh'=tanh 'gelu'=erf",
	    "'gelu_pytorch_tanh'" },
	{ "attention_bias", "attention_bias", "false=no true=yes", "false" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "query_pre_attn_scalar", "score_dim", "#", "256" },
	{ "sliding_window", "window", "null=0 #", "4096" },
	{ "use_bidirectional_attention", NULL, "false null", "false" },
	{ "attn_logit_softcapping", "score_cap", "null=0 #", "null" },
	{ "final_logit_softcapping", "logit_cap", "null=0 #", "null" },
	{ 0 }
};

const struct gt_hf_row gt_hf_phi3_rows[] = {
	{ "vocab_size", "vocab", "#", "32064" },
	{ "max_position_embeddings", "block", "#", "4096" },
	{ "hidden_size", "width", "#", "3072" },
	{ "intermediate_size", "hidden", "#", "8192" },
	{ "num_hidden_layers", "layers", "#", "32" },
	{ "num_attention_heads", "heads", "#", "32" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "null" },
	{ "rms_norm_eps", "eps", "#", "1e-05" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "partial_rotary_factor", "rotated", "#", "1" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "resid_pdrop", NULL, "0 0.0", "0" },
	{ "embd_pdrop", NULL, "0 0.0", "0" },
	{ "sliding_window", "window", "null=0 #", "null" },
	{ "attention_bias", NULL, "false", "false" },
	{ 0 }
};

const struct gt_hf_row gt_hf_olmo2_rows[] = {
	{ "vocab_size", "vocab", "#", "50304" },
	{ "max_position_embeddings", "block", "#", "2048" },
	{ "hidden_size", "width", "#", "4096" },
	{ "intermediate_size", "hidden", "#", "11008" },
	{ "num_hidden_layers", "layers", "#", "32" },
	{ "num_attention_heads", "heads", "#", "32" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "null" },
	{ "rms_norm_eps", "eps", "#", "1e-05" },
	{ "rope_theta", "theta", "#", "10000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_bias", "attention_bias", "false=no true=yes", "false" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ 0 }
};

const struct gt_hf_row gt_hf_gpt_neox_rows[] = {
	{ "vocab_size", "vocab", "#", "50432" },
	{ "max_position_embeddings", "block", "#", "2048" },
	{ "hidden_size", "width", "#", "6144" },
	{ "intermediate_size", "hidden", "#", "24576" },
	{ "num_hidden_layers", "layers", "#", "44" },
	{ "num_attention_heads", "heads", "#", "64" },
	{ "rotary_emb_base", "theta", "#", "10000" },
	{ "layer_norm_eps", "eps", "#", "1e-05" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "false" },
	{ "rotary_pct", "rotated", "#", "0.25" },
	{ "hidden_act", "gelu",
	    "'gelu'=erf 'gelu_new'=tanh 'gelu_pytorch_tanh'=tanh 'gelu_fast'=tanh",
	    "'gelu'" },
	{ "use_parallel_residual", "parallel", "true=yes false=no", "true" },
	{ "attention_bias", "attention_bias", "true=yes false=no", "true" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "hidden_dropout", NULL, "0 0.0", "0" },
	{ 0 }
};

const struct gt_hf_row gt_hf_smollm3_rows[] = {
	{ "vocab_size", "vocab", "#", "128256" },
	{ "max_position_embeddings", "block", "#", "32768" },
	{ "hidden_size", "width", "#", "2048" },
	{ "intermediate_size", "hidden", "#", "11008" },
	{ "num_hidden_layers", "layers", "#", "36" },
	{ "num_attention_heads", "heads", "#", "16" },
	{ "num_key_value_heads", "kv_heads", "null=@heads #", "4" },
	{ "rms_norm_eps", "eps", "#", "1e-06" },
	{ "rope_theta", "theta", "#", "2000000" },
	{ "tie_word_embeddings", "tied", "false=no true=yes", "true" },
	{ "hidden_act", NULL, "'silu'", "'silu'" },
	{ "attention_bias", "attention_bias", "false=no true=yes", "false" },
	{ "attention_dropout", NULL, "0 0.0", "0" },
	{ "mlp_bias", "mlp_bias", "false=no true=yes", "false" },
	{ "sliding_window", "window", "null=0 #", "null" },
	{ 0 }
};
/* clang-format on */
