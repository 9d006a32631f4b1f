/* hugging_face_tables.c - which keys of config.json are settings, and which change no result. */
#include "lib/model/hugging_face_tables.h"

#include <string.h>

/* ---- the tables ---- */

/* clang-format off */
const struct gt_hf_row gt_hf_common_rows[] = {
	{ "is_encoder_decoder", NULL, "false", "false" },
	{ "is_decoder", NULL, "false true", "false" }, /* either value computes a decoder */
	{ "add_cross_attention", NULL, "false", "false" },
	{ "cross_attention_hidden_size", NULL, "null", "null" },
	{ "tie_encoder_decoder", NULL, "false", "false" },
	{ "pruned_heads", NULL, "{} null", "{}" },
	{ "problem_type", NULL,
	    "null 'single_label_classification' 'multi_label_classification' 'regression'",
	    "null" },
	{ 0 }
};

const char *const gt_hf_common_accepted[] = {
	/* origin of the file, and how Python code loads it */
	"model_type architectures _name_or_path transformers_version tokenizer_class prefix "
	"finetuning_task torchscript _commit_hash transformers.js_config",
	/* type of the weights, which the tensors have, too, and ways to compute */
	"torch_dtype dtype use_bfloat16 tf_legacy_loss use_cache gradient_checkpointing "
	"chunk_size_feed_forward _attn_implementation_autoset attn_implementation",
	/* form of results in Python */
	"return_dict output_hidden_states output_attentions output_scores return_dict_in_generate",
	/* initial values, for which gtrain has its own */
	"initializer_range initializer_factor",
	/* classes, and ids of tokens, which other code reads */
	"id2label label2id num_labels bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id "
	"decoder_start_token_id",
	/* how tokens are drawn: options of generate */
	"task_specific_params max_length min_length do_sample early_stopping num_beams "
	"num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty "
	"length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids "
	"num_return_sequences forced_bos_token_id forced_eos_token_id remove_invalid_values "
	"exponential_decay_length_penalty suppress_tokens begin_suppress_tokens",
	NULL
};

static const struct gt_hf_row gpt2_rows[] = {
	{ "vocab_size", "vocab", "#", "50257" },
	{ "n_positions", "block", "#", "1024" },
	{ "n_embd", "width", "#", "768" },
	{ "n_layer", "layers", "#", "12" },
	{ "n_head", "heads", "#", "12" },
	{ "n_inner", "hidden", "null= #", "null" },
	{ "activation_function", "gelu", "'gelu_new'=tanh 'gelu_pytorch_tanh'=tanh 'gelu'=erf",
	    "'gelu_new'" },
	{ "layer_norm_epsilon", "eps", "#", "1e-05" },
	{ "resid_pdrop", "dropout", "#", "0.1" },
	{ "embd_pdrop", "dropout", "#", "0.1" },
	{ "attn_pdrop", "dropout", "#", "0.1" },
	{ "scale_attn_weights", NULL, "true", "true" },
	{ "scale_attn_by_inverse_layer_idx", NULL, "false", "false" },
	{ "reorder_and_upcast_attn", NULL, "false", "false" },
	{ "tie_word_embeddings", NULL, "true", "true" },
	{ 0 }
};

static const struct gt_hf_row vit_rows[] = {
	{ "image_size", "image", "#", "224" },
	{ "patch_size", "patch", "#", "16" },
	{ "num_channels", NULL, "3 1", "3" },
	{ "hidden_size", "width", "#", "768" },
	{ "num_hidden_layers", "layers", "#", "12" },
	{ "num_attention_heads", "heads", "#", "12" },
	{ "intermediate_size", "hidden", "#", "3072" },
	{ "layer_norm_eps", "eps", "#", "1e-12" },
	{ "hidden_dropout_prob", "dropout", "#", "0" },
	{ "attention_probs_dropout_prob", NULL, "0 0.0", "0" },
	{ "hidden_act", NULL, "'gelu'", "'gelu'" },
	{ "qkv_bias", NULL, "true", "true" },
	{ 0 }
};

/* Encoders: sizes and the activation, which three families call by two sets of names. */
#define ENCODER_SIZES(VOCAB, WIDTH, HIDDEN, LAYERS, N, HEADS, ACTIVATION) \
	{ "vocab_size", "vocab", "#", VOCAB }, \
	{ "max_position_embeddings", "block", "#", "512" }, \
	{ WIDTH, "width", "#", "768" }, { HIDDEN, "hidden", "#", "3072" }, \
	{ LAYERS, "layers", "#", N }, { HEADS, "heads", "#", "12" }, \
	{ ACTIVATION, "gelu", "'gelu'=erf 'gelu_python'=erf 'gelu_new'=tanh " \
	  "'gelu_pytorch_tanh'=tanh", "'gelu'" }, \
	{ "is_decoder", NULL, "false", "false" }

#define BERT_ROWS(VOCAB) \
	ENCODER_SIZES(VOCAB, "hidden_size", "intermediate_size", "num_hidden_layers", "12", \
	    "num_attention_heads", "hidden_act"), \
	{ "type_vocab_size", "types", "#", "2" }, \
	{ "layer_norm_eps", "eps", "#", "1e-12" }, \
	{ "hidden_dropout_prob", "dropout", "#", "0.1" }, \
	{ "attention_probs_dropout_prob", "dropout", "#", "0.1" }, \
	{ "classifier_dropout", "head_dropout", "null=@dropout #", "null" }, \
	{ "position_embedding_type", NULL, "'absolute'", "'absolute'" }

static const struct gt_hf_row bert_rows[] = { BERT_ROWS("30522"), { 0 } };

/* Positions are counted from the id of padding on. */
static const struct gt_hf_row roberta_rows[] = { BERT_ROWS("50265"),
	{ "pad_token_id", NULL, "1", "1" }, { 0 } };

static const struct gt_hf_row distilbert_rows[] = {
	ENCODER_SIZES("30522", "dim", "hidden_dim", "n_layers", "6", "n_heads", "activation"),
	{ "dropout", "dropout", "#", "0.1" },
	{ "attention_dropout", "dropout", "#", "0.1" },
	{ "seq_classif_dropout", "head_dropout", "#", "0.2" },
	{ "sinusoidal_pos_embds", NULL, "false", "false" },
	{ 0 }
};

static const struct gt_hf_row resnet_rows[] = {
	{ "num_channels", NULL, "3 1", "3" },
	{ "embedding_size", NULL, "64", "64" },
	{ "hidden_act", NULL, "'relu'", "'relu'" },
	{ "downsample_in_first_stage", NULL, "false", "false" },
	{ "downsample_in_bottleneck", NULL, "false", "false" },
	{ 0 }
};

/* The first norms have an eps of their own in transformers, too. */
#define CONVNEXT_ROWS \
	{ "num_channels", NULL, "3 1", "3" }, \
	{ "patch_size", NULL, "4", "4" }, \
	{ "num_stages", NULL, "4", "4" }, \
	{ "hidden_sizes", "widths", "##", "[96,192,384,768]" }, \
	{ "depths", "depths", "##", "[3,3,9,3]" }, \
	{ "hidden_act", NULL, "'gelu'", "'gelu'" }, \
	{ "layer_norm_eps", "eps", "#", "1e-12" }, \
	{ "drop_path_rate", NULL, "0.0 0", "0.0" }

static const struct gt_hf_row convnext_rows[] = { CONVNEXT_ROWS,
	{ "layer_scale_init_value", NULL, "1e-06", "1e-06" }, { 0 } };

static const struct gt_hf_row convnextv2_rows[] = { CONVNEXT_ROWS, { 0 } };

static const struct gt_hf_row mobilenet_v2_rows[] = {
	{ "num_channels", NULL, "3 1", "3" },
	{ "depth_multiplier", "multiplier", "#", "1.0" },
	{ "depth_divisible_by", NULL, "8", "8" },
	{ "min_depth", NULL, "8", "8" },
	{ "expand_ratio", NULL, "6.0 6", "6.0" },
	{ "output_stride", NULL, "32", "32" },
	{ "first_layer_is_expansion", NULL, "true", "true" },
	{ "finegrained_output", "fine", "true=yes false=no", "true" },
	{ "hidden_act", NULL, "'relu6'", "'relu6'" },
	{ "tf_padding", "same", "true=yes false=no", "true" },
	{ "classifier_dropout_prob", "dropout", "#", "0.8" },
	{ "layer_norm_eps", "eps", "#", "0.001" },
	{ 0 }
};

#define SCALED .rope_kinds = "default linear dynamic llama3 yarn"

/* The arguments after ACCEPTED are rope_kinds, and designated initializers. */
#define DECODER(TYPE, CLASSES, BASE, ROWS, ACCEPTED, ...)                                          \
	{ TYPE, CLASSES, BASE, ROWS, GT_HF_DECODER, ACCEPTED " rope_parameters rope_scaling",      \
	    "rope windowed positions masks", __VA_ARGS__ }

const struct gt_hf_family gt_hf_families[GT_HF_FAMILIES] = {
	/* n_ctx equals n_positions; summary_* belong to a head that is not loaded */
	{ "gpt2", "GPT2LMHeadModel GPT2Model", "gpt2", gpt2_rows, GT_HF_NOTHING,
	    "n_ctx summary_type summary_use_proj summary_activation summary_proj_to_labels "
	    "summary_first_dropout", .settings_without_key = "bias=yes" },
	/* is_llama_config, and max_window_layers of smollm3, are keys that no class reads */
	DECODER("llama", "LlamaForCausalLM LlamaModel", "llama", gt_hf_llama_rows,
	    "is_llama_config", SCALED),
	DECODER("mistral", "MistralForCausalLM MistralModel", "mistral", gt_hf_mistral_rows, "",
	    SCALED),
	DECODER("qwen2", "Qwen2ForCausalLM Qwen2Model", "qwen2", gt_hf_qwen2_rows,
	    "layer_types use_sliding_window max_window_layers", SCALED,
	    .windows = GT_HF_WINDOWS_FROM),
	DECODER("qwen3", "Qwen3ForCausalLM Qwen3Model", "qwen3", gt_hf_qwen3_rows,
	    "layer_types use_sliding_window max_window_layers", SCALED,
	    .windows = GT_HF_WINDOWS_FROM),
	/* cache_implementation is a way to compute, hidden_act an older key without an effect */
	DECODER("gemma2", "Gemma2ForCausalLM Gemma2Model", "gemma2", gt_hf_gemma2_rows,
	    "layer_types hidden_act cache_implementation", SCALED, .windows = GT_HF_WINDOWS_EVERY,
	    .window_period = 2),
	DECODER("gemma3_text", "Gemma3ForCausalLM Gemma3TextModel", "gemma3", gt_hf_gemma3_rows,
	    "layer_types sliding_window_pattern _sliding_window_pattern hidden_act "
	    "cache_implementation",
	    SCALED, .windows = GT_HF_WINDOWS_EVERY, .window_period = 6),
	/* original_max_position_embeddings belongs to angles that are refused; auto_map names
	 * Python code of the same network */
	DECODER("phi3", "Phi3ForCausalLM Phi3Model", "phi3", gt_hf_phi3_rows,
	    "original_max_position_embeddings auto_map", .rope_kinds = "default"),
	DECODER("olmo2", "Olmo2ForCausalLM Olmo2Model", "olmo2", gt_hf_olmo2_rows, "", SCALED),
	/* classifier_dropout belongs to another head */
	DECODER("gpt_neox", "GPTNeoXForCausalLM GPTNeoXModel", "gpt-neox", gt_hf_gpt_neox_rows,
	    "classifier_dropout", SCALED),
	DECODER("smollm3", "SmolLM3ForCausalLM SmolLM3Model", "smollm3", gt_hf_smollm3_rows,
	    "layer_types use_sliding_window no_rope_layers no_rope_layer_interval "
	    "max_window_layers pretraining_tp", SCALED,
	    .windows = GT_HF_WINDOWS_UNROTATED),
	DECODER("mixtral", "MixtralForCausalLM MixtralModel", "mixtral", gt_hf_mixtral_rows,
	    "router_aux_loss_coef", SCALED),
	DECODER("qwen3_moe", "Qwen3MoeForCausalLM Qwen3MoeModel", "qwen3-moe", gt_hf_qwen3_moe_rows,
	    "use_sliding_window max_window_layers intermediate_size "
	    "router_aux_loss_coef", SCALED),
	DECODER("olmoe", "OlmoeForCausalLM OlmoeModel", "olmoe", gt_hf_olmoe_rows,
	    "router_aux_loss_coef", SCALED),
	/* the pooler_ keys of multilingual BERTs describe another pooler, which no class has */
	{ "bert", "BertForSequenceClassification BertModel BertForPreTraining BertForMaskedLM",
	    "bert", bert_rows, GT_HF_NOTHING,
	    "tie_word_embeddings directionality pooler_fc_size pooler_num_attention_heads "
	    "pooler_num_fc_layers pooler_size_per_head pooler_type output_past",
	    .settings_without_key = "masks" },
	{ "roberta", "RobertaForSequenceClassification RobertaModel RobertaForMaskedLM", "roberta",
	    roberta_rows, GT_HF_NOTHING, "tie_word_embeddings output_past",
	    .settings_without_key = "masks" },
	/* other heads, and an older key of the weights' names */
	{ "distilbert", "DistilBertForSequenceClassification DistilBertModel DistilBertForMaskedLM",
	    "distilbert", distilbert_rows, GT_HF_NOTHING,
	    "tie_word_embeddings tie_weights_ qa_dropout output_past",
	    .settings_without_key = "eps=1e-12 masks" },
	/* other heads, ids of tokens, and ways to compute; no class reads layer_norm_eps */
	DECODER("modernbert",
	    "ModernBertForSequenceClassification ModernBertModel ModernBertForMaskedLM",
	    "modernbert", gt_hf_modernbert_rows,
	    "layer_types global_attn_every_n_layers sparse_prediction "
	    "sparse_pred_ignore_index deterministic_flash_attn reference_compile "
	    "repad_logits_with_grad initializer_cutoff_factor tie_word_embeddings "
	    "layer_norm_eps",
	    .rope_kinds = "default", .windows = GT_HF_WINDOWS_BUT_FIRST, .window_period = 3),
	/* encoder_stride belongs to another head; the classifier has no pooler */
	{ "vit", "ViTForImageClassification ViTModel", "vit-base", vit_rows, GT_HF_NOTHING,
	    "encoder_stride pooler_act pooler_output_size", .settings_without_key = "classes" },
	/* outputs of a backbone, and a size that no class checks */
	{ "convnext", "ConvNextForImageClassification ConvNextModel", "convnext-tiny",
	    convnext_rows, GT_HF_NOTHING, "image_size out_features out_indices stage_names",
	    .settings_without_key = "image classes" },
	{ "convnextv2", "ConvNextV2ForImageClassification ConvNextV2Model", "convnextv2-tiny",
	    convnextv2_rows, GT_HF_NOTHING, "image_size out_features out_indices stage_names",
	    .settings_without_key = "image classes" },
	/* a size that no class checks, and a number of another head */
	{ "mobilenet_v2", "MobileNetV2ForImageClassification MobileNetV2Model", "mobilenet-v2",
	    mobilenet_v2_rows, GT_HF_NOTHING, "image_size semantic_loss_ignore_index",
	    .settings_without_key = "image classes" },
	/* outputs of a backbone, and initial values */
	{ "resnet", "ResNetForImageClassification ResNetModel", NULL, resnet_rows, GT_HF_DEPTHS,
	    "depths hidden_sizes layer_type out_features out_indices stage_names",
	    .settings_without_key = "image classes zero_init_residual" },
};

const struct gt_hf_resnet gt_hf_resnets[GT_HF_RESNETS] = {
	{ "resnet50", "bottleneck", "[3,4,6,3]", "[256,512,1024,2048]" }, /* the default */
	{ "resnet18", "basic", "[2,2,2,2]", "[64,128,256,512]" },
	{ "resnet34", "basic", "[3,4,6,3]", "[64,128,256,512]" },
	{ "resnet101", "bottleneck", "[3,4,23,3]", "[256,512,1024,2048]" },
	{ "resnet152", "bottleneck", "[3,8,36,3]", "[256,512,1024,2048]" },
};
/* clang-format on */

/* ---- words ---- */

size_t gt_hf_next_word(const char **list)
{
	*list += strspn(*list, " ");
	return strcspn(*list, " ");
}

bool gt_hf_in_list(const char *list, const char *word)
{
	size_t n;

	for (; (n = gt_hf_next_word(&list)); list += n)
		if (n == strlen(word) && !strncmp(list, word, n))
			return true;
	return false;
}
