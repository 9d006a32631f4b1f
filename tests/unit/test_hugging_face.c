/* test_hugging_face.c - config.json of Hugging Face's models, there and back; names of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/model/hugging_face.h"
#include "lib/model/names.h"

/* Parse text with ' for ". */
static json_t *parse(const char *text)
{
	char *copy = strdup(text);
	json_t *json;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	json = json_loads(copy, JSON_DECODE_ANY, NULL);
	if (!json)
		fail_msg("not JSON: %s", copy);
	free(copy);
	return json;
}

struct known {
	const char *config, *spec;
};

static void expect_known(const struct known *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		json_t *config = parse(cases[i].config);
		struct gt_err err = GT_ERR_INIT;
		const char *wanted = cases[i].spec;
		char *spec;

		if (gt_hf_to_spec(&spec, config, &err))
			fail_msg("%s: %s", wanted, err.text);
		if (!gt_model_same(spec, wanted))
			fail_msg("%s, not %s", spec, wanted);
		free(spec);
		json_decref(config);
	}
}

static const struct known decoders[] = {
	{ "{'model_type':'llama','head_dim':64,'attention_bias':true,'mlp_bias':true,"
	  "'max_position_embeddings':131072,'rope_theta':500000.0,'rope_scaling':{"
	  "'factor':32.0,'high_freq_factor':4.0,'low_freq_factor':1.0,"
	  "'original_max_position_embeddings':8192,'rope_type':'llama3'}}",
	    "llama:vocab=32000,block=131072,width=4096,hidden=11008,layers=32,heads=32,"
	    "kv_heads=32,eps=1e-6,theta=500000,head_dim=64,attention_bias=yes,mlp_bias=yes,"
	    "rope=llama3:32:1:4:8192" },
	{ "{'model_type':'llama','rope_scaling':{'type':'linear','factor':2.0}}",
	    "llama:vocab=32000,block=2048,width=4096,hidden=11008,layers=32,heads=32,"
	    "kv_heads=32,eps=1e-6,rope=linear:2" },
	{ "{'model_type':'llama','is_llama_config':true,'rope_interleaved':false,"
	  "'transformers.js_config':{'kv_cache_dtype':{'q4f16':'float16'}},'num_hidden_layers':1}",
	    "llama:vocab=32000,block=2048,width=4096,hidden=11008,layers=1,heads=32,"
	    "kv_heads=32,eps=1e-6" },
	{ "{'model_type':'mistral','sliding_window':null,'num_hidden_layers':2}",
	    "mistral:vocab=32000,block=131072,width=4096,hidden=14336,layers=2,heads=32,"
	    "kv_heads=8,eps=1e-6" },
	{ "{'model_type':'qwen2','use_sliding_window':false,'sliding_window':131072,"
	  "'max_window_layers':28,'num_hidden_layers':2,'num_key_value_heads':4,'use_mrope':false,"
	  "'rope_parameters':{'rope_type':'yarn','rope_theta':1e6,'factor':4.0,"
	  "'original_max_position_embeddings':32768,'attention_factor':1.5}}",
	    "qwen2:vocab=151936,block=32768,width=4096,hidden=22016,layers=2,heads=32,"
	    "kv_heads=4,rope=yarn:4:32768:32:1:1.5:1" },
	{ "{'model_type':'qwen3','use_sliding_window':true,'max_window_layers':1,"
	  "'num_hidden_layers':3,'sliding_window':8}",
	    "qwen3:vocab=151936,block=32768,width=4096,hidden=22016,layers=3,heads=32,"
	    "kv_heads=32,theta=10000,window=8,windowed=nyy" },
	{ "{'model_type':'gemma2','num_hidden_layers':4,'hidden_act':'gelu_pytorch_tanh',"
	  "'cache_implementation':'hybrid'}",
	    "gemma2:vocab=256000,block=8192,width=2304,hidden=9216,layers=4,heads=8,"
	    "head_dim=256,kv_heads=4,window=4096,windowed=yn" },
	{ "{'model_type':'gemma2','num_hidden_layers':2,'attn_logit_softcapping':null,"
	  "'final_logit_softcapping':null,"
	  "'layer_types':['full_attention','full_attention']}",
	    "gemma2:vocab=256000,block=8192,width=2304,hidden=9216,layers=2,heads=8,"
	    "head_dim=256,kv_heads=4,window=0,score_cap=0,logit_cap=0" },
	{ "{'model_type':'gemma3_text','num_hidden_layers':8,'sliding_window':512,"
	  "'rope_local_base_freq':10000.0,'sliding_window_pattern':4,"
	  "'rope_scaling':{'factor':8.0,'rope_type':'linear'}}",
	    "gemma3:vocab=262208,block=131072,width=2304,hidden=9216,layers=8,heads=8,"
	    "head_dim=256,kv_heads=4,window=512,windowed=yyyn,rope=linear:8" },
	{ "{'model_type':'phi3','partial_rotary_factor':0.75,'num_hidden_layers':2,"
	  "'rope_scaling':null,'sliding_window':null}",
	    "phi3:vocab=32064,block=4096,width=3072,hidden=8192,layers=2,heads=32,"
	    "rotated=0.75" },
	{ "{'model_type':'olmo2','num_hidden_layers':2}",
	    "olmo2:vocab=50304,block=2048,width=4096,hidden=11008,layers=2,heads=32,"
	    "theta=10000,eps=1e-5" },
	{ "{'model_type':'gpt_neox','rotary_pct':0.5,'rotary_emb_base':500,"
	  "'use_parallel_residual':false,'num_hidden_layers':2}",
	    "gpt-neox:vocab=50432,block=2048,width=6144,hidden=24576,layers=2,heads=64,"
	    "rotated=0.5,theta=500,parallel=no" },
	{ "{'model_type':'smollm3','num_hidden_layers':6,'no_rope_layer_interval':3}",
	    "smollm3:vocab=128256,block=32768,width=2048,hidden=11008,layers=6,heads=16,"
	    "kv_heads=4,positions=yyn" },
	{ "{'model_type':'mixtral','num_hidden_layers':2,'num_local_experts':16,"
	  "'router_aux_loss_coef':0.02,'sliding_window':null}",
	    "mixtral:vocab=32000,block=131072,width=4096,hidden=14336,layers=2,heads=32,"
	    "kv_heads=8,experts=16" },
	{ "{'model_type':'qwen3_moe','num_hidden_layers':2,'num_experts':64,'mlp_only_layers':[],"
	  "'norm_topk_prob':true,'intermediate_size':9,'head_dim':128,'rope_theta':1000000.0}",
	    "qwen3-moe:vocab=151936,block=32768,width=2048,hidden=768,layers=2,heads=32,"
	    "kv_heads=4,head_dim=128,experts=64,active=8" },
	{ "{'model_type':'qwen3_moe','num_hidden_layers':2,'num_local_experts':16,"
	  "'num_experts':16}",
	    "qwen3-moe:vocab=151936,block=32768,width=2048,hidden=768,layers=2,heads=32,"
	    "kv_heads=4,experts=16,active=8,renormalize=no,theta=10000" },
	{ "{'model_type':'olmoe','num_hidden_layers':2,'num_experts_per_tok':3}",
	    "olmoe:vocab=50304,block=4096,width=2048,hidden=2048,layers=2,heads=16,experts=64,"
	    "active=3" },
};

/* The keys of published files. */
static const struct known encoders[] = {
	{ "{'architectures':['BertForMaskedLM'],'attention_probs_dropout_prob':0.1,"
	  "'gradient_checkpointing':false,'hidden_act':'gelu','hidden_dropout_prob':0.1,"
	  "'hidden_size':768,'initializer_range':0.02,'intermediate_size':3072,"
	  "'layer_norm_eps':1e-12,'max_position_embeddings':512,'model_type':'bert',"
	  "'num_attention_heads':12,'num_hidden_layers':12,'pad_token_id':0,"
	  "'position_embedding_type':'absolute','transformers_version':'4.6.0.dev0',"
	  "'type_vocab_size':2,'use_cache':true,'vocab_size':30522}",
	    "bert:layers=12,heads=12,width=768,hidden=3072,dropout=0.1,head_dropout=0.1" },
	{ "{'model_type':'bert','classifier_dropout':0.0,'pooler_type':'first_token_transform',"
	  "'directionality':'bidi'}",
	    "bert:layers=12,heads=12,width=768,hidden=3072,dropout=0.1,head_dropout=0" },
	{ "{'architectures':['RobertaForMaskedLM'],'attention_probs_dropout_prob':0.1,"
	  "'bos_token_id':0,'eos_token_id':2,'hidden_act':'gelu','hidden_dropout_prob':0.1,"
	  "'hidden_size':768,'initializer_range':0.02,'intermediate_size':3072,"
	  "'layer_norm_eps':1e-05,'max_position_embeddings':514,'model_type':'roberta',"
	  "'num_attention_heads':12,'num_hidden_layers':12,'pad_token_id':1,"
	  "'type_vocab_size':1,'vocab_size':50265}",
	    "roberta:layers=12,heads=12,width=768,hidden=3072,dropout=0.1,head_dropout=0.1" },
	{ "{'activation':'gelu','architectures':['DistilBertForMaskedLM'],"
	  "'attention_dropout':0.1,'dim':768,'dropout':0.1,'hidden_dim':3072,"
	  "'initializer_range':0.02,'max_position_embeddings':512,'model_type':'distilbert',"
	  "'n_heads':12,'n_layers':6,'pad_token_id':0,'qa_dropout':0.1,"
	  "'seq_classif_dropout':0.2,'sinusoidal_pos_embds':false,'tie_weights_':true,"
	  "'transformers_version':'4.10.0.dev0','vocab_size':30522}",
	    "distilbert:layers=6,heads=12,width=768,hidden=3072,dropout=0.1,head_dropout=0.2" },
	{ "{'architectures':['ModernBertForMaskedLM'],'attention_bias':false,"
	  "'attention_dropout':0.0,'bos_token_id':50281,'classifier_activation':'gelu',"
	  "'classifier_bias':false,'classifier_dropout':0.0,'classifier_pooling':'mean',"
	  "'cls_token_id':50281,'decoder_bias':true,'deterministic_flash_attn':false,"
	  "'embedding_dropout':0.0,'eos_token_id':50282,'global_attn_every_n_layers':3,"
	  "'global_rope_theta':160000.0,'gradient_checkpointing':false,"
	  "'hidden_activation':'gelu','hidden_size':768,'initializer_cutoff_factor':2.0,"
	  "'initializer_range':0.02,'intermediate_size':1152,'layer_norm_eps':1e-05,"
	  "'local_attention':128,'local_rope_theta':10000.0,'max_position_embeddings':8192,"
	  "'mlp_bias':false,'mlp_dropout':0.0,'model_type':'modernbert','norm_bias':false,"
	  "'norm_eps':1e-05,'num_attention_heads':12,'num_hidden_layers':22,"
	  "'pad_token_id':50283,'position_embedding_type':'absolute','sep_token_id':50282,"
	  "'tie_word_embeddings':true,'torch_dtype':'float32','transformers_version':"
	  "'4.47.0.dev0','vocab_size':50368}",
	    "modernbert:layers=22,heads=12,width=768,hidden=1152,mean=yes" },
};

/* Files as transformers 2, 4 and 5 write them; some keys of each. */
static void test_known(void **state)
{
	static const struct known cases[] = {
		{ "{'activation_function':'gelu_new','architectures':['GPT2LMHeadModel'],"
		  "'attn_pdrop':0.1,'bos_token_id':50256,'embd_pdrop':0.1,'eos_token_id':50256,"
		  "'initializer_range':0.02,'layer_norm_epsilon':1e-05,'model_type':'gpt2',"
		  "'n_ctx':1024,'n_embd':768,'n_head':12,'n_layer':12,'n_positions':1024,"
		  "'resid_pdrop':0.1,'summary_activation':null,'summary_first_dropout':0.1,"
		  "'summary_proj_to_labels':true,'summary_type':'cls_index','summary_use_proj':true,"
		  "'task_specific_params':{'text-generation':{'do_sample':true,'max_length':50}},"
		  "'vocab_size':50257}",
		    "gpt2:dropout=0.1" },
		{ "{'model_type':'gpt2'}", "gpt2:dropout=0.1" },
		{ "{'model_type':'gpt2','n_inner':32,'n_embd':16,'n_head':2,'n_layer':1,"
		  "'n_positions':8,'vocab_size':9,'activation_function':'gelu','resid_pdrop':0,"
		  "'embd_pdrop':0.0,'attn_pdrop':0,'layer_norm_epsilon':1e-6}",
		    "gpt2:hidden=32,width=16,heads=2,layers=1,block=8,vocab=9,gelu=erf,eps=1e-6" },
		{ "{'model_type':'llama','architectures':['LlamaForCausalLM'],'hidden_act':'silu',"
		  "'hidden_size':2048,'intermediate_size':5632,'max_position_embeddings':2048,"
		  "'num_attention_heads':32,'num_hidden_layers':22,'num_key_value_heads':4,"
		  "'pretraining_tp':1,'rms_norm_eps':1e-05,'rope_scaling':null,"
		  "'tie_word_embeddings':false,'torch_dtype':'float32','vocab_size':32000}",
		    "llama:width=2048,hidden=5632,block=2048,heads=32,layers=22,kv_heads=4,"
		    "vocab=32000" },
		{ "{'model_type':'llama','hidden_size':32,'num_attention_heads':4,'head_dim':8,"
		  "'num_hidden_layers':2,'intermediate_size':48,'vocab_size':50,"
		  "'max_position_embeddings':64,'tie_word_embeddings':true,'attention_dropout':0.0,"
		  "'rope_parameters':{'rope_theta':500.0,'rope_type':'default'}}",
		    "llama:width=32,heads=4,kv_heads=4,layers=2,hidden=48,vocab=50,block=64,"
		    "tied=yes,theta=500,eps=1e-6" },
		{ "{'model_type':'vit','hidden_act':'gelu','encoder_stride':16,'qkv_bias':true}",
		    "vit-base:image=224,hidden=3072,eps=1e-12" },
		{ "{'model_type':'vit','hidden_size':32,'num_hidden_layers':2,"
		  "'num_attention_heads':4,'intermediate_size':48,'image_size':32,'patch_size':8,"
		  "'hidden_dropout_prob':0.1,'layer_norm_eps':1e-6,'id2label':{'0':'cat'}}",
		    "vit-base:width=32,layers=2,heads=4,hidden=48,image=32,patch=8,dropout=0.1" },
		{ "{'model_type':'resnet'}", "resnet50" },
		{ "{'model_type':'resnet','depths':[2,2,2,2],'hidden_sizes':[64,128,256,512],"
		  "'layer_type':'basic','embedding_size':64,'out_features':['stage4']}",
		    "resnet18" },
	};

	(void)state;
	expect_known(cases, sizeof(cases) / sizeof(*cases));
	expect_known(decoders, sizeof(decoders) / sizeof(*decoders));
	expect_known(encoders, sizeof(encoders) / sizeof(*encoders));
}

struct bad {
	const char *config, *text;
};

/* The file is at fault, not the command line: no hint names an option or a setting. */
static void expect_refused(const struct bad *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		json_t *config = parse(cases[i].config);
		struct gt_err err = GT_ERR_INIT;
		char *spec;

		if (!gt_hf_to_spec(&spec, config, &err))
			fail_msg("%s: taken as %s", cases[i].config, spec);
		assert_null(spec);
		if (err.code != GT_EFORMAT && err.code != GT_ENOTSUP)
			fail_msg("%s: code %d", cases[i].config, err.code);
		assert_null(strstr(err.hint, "gtrain help"));
		if (strncmp(err.text, cases[i].text, strlen(cases[i].text)) != 0)
			fail_msg("%s: '%s', not '%s'", cases[i].config, err.text, cases[i].text);
		json_decref(config);
	}
}

static const struct bad refused_decoders[] = {
	{ "{'model_type':'llama','rope_scaling':{'type':'linear'}}",
	    "'rope_scaling': 'factor' is missing" },
	{ "{'model_type':'llama','rope_scaling':{'type':'linear','factor':-1}}",
	    "'rope_scaling': the value of 'factor' is not supported" },
	{ "{'model_type':'llama','rope_scaling':{'type':'default','factor':2.0}}",
	    "'rope_scaling': 'factor' is not supported" },
	{ "{'model_type':'llama','rope_scaling':{'rope_type':'longrope','factor':2}}",
	    "'rope_scaling': positions of type 'longrope' are not supported" },
	{ "{'model_type':'llama','rope_scaling':{'rope_type':'linear','type':'default'}}",
	    "'rope_scaling': positions of type 'linear' and of type 'default'" },
	{ "{'model_type':'llama','rope_scaling':{'rope_type':'llama3','factor':2,"
	  "'low_freq_factor':1,'high_freq_factor':4,'beta_fast':3}}",
	    "'rope_scaling': 'beta_fast' is not supported" },
	{ "{'model_type':'llama','rope_parameters':{'full_attention':{}}}",
	    "'rope_parameters': 'full_attention' is not supported" },
	{ "{'model_type':'gemma3_text','rope_parameters':{'full_attention':3}}",
	    "'rope_parameters': 'full_attention' is not supported" },
	{ "{'model_type':'phi3','rope_scaling':{'type':'yarn','factor':2}}",
	    "'rope_scaling': positions of type 'yarn' are not supported" },
	{ "{'model_type':'gemma3_text','rope_parameters':{'sliding_attention':"
	  "{'rope_type':'linear','factor':2}}}",
	    "'rope_parameters.sliding_attention': positions of type 'linear'" },
	{ "{'model_type':'gemma2','num_hidden_layers':1,"
	  "'layer_types':['chunked_attention']}",
	    "'layer_types': 'chunked_attention' is not supported" },
	{ "{'model_type':'qwen2','num_hidden_layers':2,"
	  "'layer_types':['sliding_attention','full_attention']}",
	    "'layer_types' has 'sliding_attention', but 'sliding_window' is not used" },
	{ "{'model_type':'gemma2','use_bidirectional_attention':true}",
	    "'use_bidirectional_attention' is true, which is not supported" },
	{ "{'model_type':'qwen2','use_sliding_window':true,'num_hidden_layers':80,"
	  "'max_window_layers':70}",
	    "'layer_types': blocks that do not repeat after at most 63" },
	{ "{'model_type':'smollm3','no_rope_layers':[1,0]}",
	    "'no_rope_layers' must be a list with a number for each layer" },
	{ "{'model_type':'mistral','layer_types':[]}",
	    "'layer_types' is a setting that gtrain does not know" },
	{ "{'model_type':'qwen2','hidden_act':'gelu'}",
	    "'hidden_act' is 'gelu', which is not supported" },
	{ "{'model_type':'mixtral','router_jitter_noise':0.1}",
	    "'router_jitter_noise' is 0.1, which is not supported" },
	{ "{'model_type':'mixtral','output_router_logits':true}",
	    "'output_router_logits' is true, which is not supported" },
	{ "{'model_type':'mixtral','num_local_experts':2,'num_experts_per_tok':3}",
	    "'num_experts_per_tok' is 3, more than 'num_local_experts', 2" },
	{ "{'model_type':'qwen3_moe','decoder_sparse_step':2}",
	    "'decoder_sparse_step' is 2, which is not supported" },
	{ "{'model_type':'qwen3_moe','mlp_only_layers':[0]}",
	    "'mlp_only_layers' is [0], which is not supported" },
	{ "{'model_type':'mixtral','num_local_experts':[8]}",
	    "'num_local_experts' is [8], which is not supported" },
	{ "{'model_type':'mobilenet_v2','output_stride':16}",
	    "'output_stride' is 16, which is not supported" },
	{ "{'model_type':'convnext','depths':3}", "'depths' is 3, which is not supported" },
	{ "{'model_type':'convnext','depths':[3,3,9]}",
	    "'depths': model 'convnext-tiny': '3-3-9' is not a value for 'depths'" },
	{ "{'model_type':'convnext','hidden_sizes':[96,192,0,768]}",
	    "'hidden_sizes': model 'convnext-tiny': '96-192-0-768' is not a value for 'widths'" },
	{ "{'model_type':'convnext','drop_path_rate':0.1}",
	    "'drop_path_rate' is 0.1, which is not supported" },
	{ "{'model_type':'convnext','layer_scale_init_value':0}",
	    "'layer_scale_init_value' is 0, which is not supported" },
	{ "{'model_type':'olmoe','num_experts':4,'num_local_experts':8}",
	    "'num_experts' and 'num_local_experts', which mean the same, differ" },
	{ "{'model_type':'olmoe','clip_qkv':8.0}", "'clip_qkv' is 8.0, which is not supported" },
};

static void test_refused(void **state)
{
	static const struct bad cases[] = {
		{ "[]", "there is no 'model_type'" },
		{ "7", "there is no 'model_type'" },
		{ "{'model_type':7}", "there is no 'model_type'" },
		{ "{'model_type':'t5'}", "'model_type': 't5' is not supported" },
		{ "{'model_type':'bert','hidden_act':'relu'}",
		    "'hidden_act' is 'relu', which is not supported" },
		{ "{'model_type':'bert','is_decoder':true}",
		    "'is_decoder' is true, which is not supported" },
		{ "{'model_type':'bert','hidden_dropout_prob':0.2}",
		    "'attention_probs_dropout_prob' is 0.1, but 'hidden_dropout_prob' is 0.2" },
		{ "{'model_type':'roberta','pad_token_id':0}",
		    "'pad_token_id' is 0, which is not supported" },
		{ "{'model_type':'gpt2','sliding_window':4}",
		    "'sliding_window' is a setting that gtrain does not know" },
		{ "{'model_type':'gpt2','quantization_config':{}}",
		    "'quantization_config' is a setting that gtrain does not know" },
		{ "{'model_type':'gpt2','n_layer':'12'}",
		    "'n_layer' is '12', which is not supported" },
		{ "{'model_type':'gpt2','n_layer':null}",
		    "'n_layer' is null, which is not supported" },
		{ "{'model_type':'gpt2','n_layer':[12]}",
		    "'n_layer' is [12], which is not supported" },
		{ "{'model_type':'gpt2','activation_function':'relu'}",
		    "'activation_function' is 'relu', which is not supported" },
		{ "{'model_type':'gpt2','activation_function':'#'}",
		    "'activation_function' is '#', which is not supported" },
		{ "{'model_type':'gpt2','scale_attn_weights':'true'}",
		    "'scale_attn_weights' is 'true', which is not supported" },
		{ "{'model_type':'gpt2','attn_pdrop':0.2}",
		    "'attn_pdrop' is 0.2, but 'embd_pdrop' is 0.1" },
		{ "{'model_type':'gpt2','is_encoder_decoder':true}",
		    "'is_encoder_decoder' is true, which is not supported" },
		{ "{'model_type':'gpt2','architectures':['GPT2ForSequenceClassification']}",
		    "'architectures': 'GPT2ForSequenceClassification' is not supported" },
		{ "{'model_type':'gpt2','architectures':'GPT2LMHeadModel'}",
		    "'architectures' must be a list" },
		{ "{'model_type':'llama','rope_parameters':7}",
		    "'rope_parameters' must be an object" },
		{ "{'model_type':'llama','rope_theta':100,'rope_parameters':{'rope_theta':10}}",
		    "'rope_parameters.rope_theta' is 10, but 'rope_theta' is 100" },
		{ "{'model_type':'llama','rope_parameters':{'factor':8.0,'rope_type':'llama3'}}",
		    "'rope_parameters': 'low_freq_factor' is missing" },
		{ "{'model_type':'llama','rope_parameters':{'factor':8.0,'rope_type':'default'}}",
		    "'rope_parameters': 'factor' is not supported" },
		{ "{'model_type':'llama','rope_parameters':{'rope_type':7}}",
		    "'rope_parameters.rope_type' must be a string" },
		{ "{'model_type':'vit','image_size':[224,224]}",
		    "'image_size' is [224,224], which is not supported" },
		{ "{'model_type':'vit','qkv_bias':false}",
		    "'qkv_bias' is false, which is not supported" },
		{ "{'model_type':'resnet','depths':[3,4,6]}",
		    "'depths', 'hidden_sizes' and 'layer_type' are of no ResNet" },
		{ "{'model_type':'resnet','layer_type':'basic'}",
		    "'depths', 'hidden_sizes' and 'layer_type' are of no ResNet" },
		{ "{'model_type':'resnet','downsample_in_bottleneck':true}",
		    "'downsample_in_bottleneck' is true, which is not supported" },
	};

	(void)state;
	expect_refused(cases, sizeof(cases) / sizeof(*cases));
	expect_refused(refused_decoders, sizeof(refused_decoders) / sizeof(*refused_decoders));
}

/* Hints list the values of a key as a file has them, each once. */
static void test_hints(void **state)
{
	static const struct bad cases[] = {
		{ "{'model_type':'gpt2','activation_function':'relu'}",
		    "gtrain computes with 'gelu_new', 'gelu_pytorch_tanh' or 'gelu' alone" },
		{ "{'model_type':'llama','attention_dropout':0.5}",
		    "gtrain computes with 0 alone" },
		{ "{'model_type':'vit','num_channels':4}", "gtrain computes with 3 or 1 alone" },
		{ "{'model_type':'gpt2','n_inner':'4'}",
		    "gtrain computes with null or a number alone" },
		{ "{'model_type':'gpt2','n_layer':'12'}", "it is a number" },
		{ "{'model_type':'llama','tie_word_embeddings':1}",
		    "gtrain computes with false or true alone" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		json_t *config = parse(cases[i].config);
		struct gt_err err = GT_ERR_INIT;
		char *spec;

		assert_int_equal(gt_hf_to_spec(&spec, config, &err), GT_ENOTSUP);
		assert_string_equal(err.hint, cases[i].text);
		json_decref(config);
	}
}

static void test_wrong_numbers(void **state)
{
	static const struct bad cases[] = {
		{ "{'model_type':'gpt2','n_layer':-1}",
		    "'n_layer': model 'gpt2': '-1' is not a value for 'layers'" },
		{ "{'model_type':'gpt2','n_layer':1.5}",
		    "'n_layer': model 'gpt2': '1.5' is not a value for 'layers'" },
		{ "{'model_type':'gpt2','n_head':0}",
		    "'n_head': model 'gpt2': '0' is not a value for 'heads'" },
		{ "{'model_type':'gpt2','n_layer':1000000}",
		    "'n_layer': model 'gpt2': '1000000' is not a value for 'layers'" },
		{ "{'model_type':'gpt2','n_layer':12.0}",
		    "'n_layer': model 'gpt2': '12.0' is not a value for 'layers'" },
		{ "{'model_type':'gpt2','n_embd':1099511627776}",
		    "'n_embd': model 'gpt2': '1099511627776' is not a value for 'width'" },
		{ "{'model_type':'gpt2','layer_norm_epsilon':0}",
		    "'layer_norm_epsilon': model 'gpt2': '0' is not a value for 'eps'" },
		{ "{'model_type':'gpt2','vocab_size':-1}",
		    "'vocab_size': model 'gpt2': '-1' is not a value for 'vocab'" },
		{ "{'model_type':'gpt2','n_head':7}",
		    "'n_head' is 7, which does not divide 'n_embd', 768" },
		{ "{'model_type':'llama','rope_theta':0}",
		    "'rope_theta': model 'llama': '0' is not a value for 'theta'" },
		{ "{'model_type':'llama','num_attention_heads':3}",
		    "'num_attention_heads' is 3, which does not divide 'hidden_size', 4096" },
		{ "{'model_type':'llama','num_key_value_heads':3}",
		    "'num_key_value_heads' is 3, which does not divide 'num_attention_heads', 32" },
		{ "{'model_type':'llama','num_attention_heads':4096}",
		    "'hidden_size' / 'num_attention_heads' is 1: it must be even" },
		{ "{'model_type':'vit','patch_size':5}",
		    "'patch_size' is 5, which does not divide 'image_size', 224" },
		{ "{'model_type':'vit','num_attention_heads':5}",
		    "'num_attention_heads' is 5, which does not divide 'hidden_size', 768" },
		{ "{'model_type':'vit','hidden_dropout_prob':7}",
		    "'hidden_dropout_prob': model 'vit-base': '7' is not a value for 'dropout'" },
		{ "{'model_type':'gpt2','n_embd':1e30}",
		    "'n_embd': model 'gpt2': '1e+30' is not a value for 'width'" },
	};

	(void)state;
	expect_refused(cases, sizeof(cases) / sizeof(*cases));
}

/* A spec to config.json and back is the same model, with the settings that the data decided. */
static void test_back(void **state)
{
	static const struct known cases[] = {
		{ "gpt", "gpt2:layers=4,heads=4,width=128,block=64,hidden=512,vocab=65" },
		{ "gpt2-xl:gelu=erf,dropout=0.25", "gpt2-xl:gelu=erf,dropout=0.25,hidden=6400" },
		{ "llama", "llama:hidden=352,vocab=65" },
		{ "llama3-8b:tied=yes,eps=1e-6", "llama3-8b:tied=yes,eps=1e-6" },
		{ "llama:rope=yarn:4:32:32:1:1.25:0,head_dim=20,mlp_bias=yes",
		    "llama:rope=yarn:4:32:32:1:1.25:0,head_dim=20,mlp_bias=yes,hidden=352,vocab=65" },
		{ "mistral", "mistral:hidden=352,vocab=65" },
		{ "qwen2:window=7,windowed=nny",
		    "qwen2:window=7,windowed=nny,hidden=352,vocab=65" },
		{ "qwen3", "qwen3:hidden=352,vocab=65" },
		{ "gemma2:gelu=erf", "gemma2:gelu=erf,hidden=352,vocab=65" },
		{ "gemma2:window=0,score_cap=0,tied=no",
		    "gemma2:window=0,score_cap=0,tied=no,hidden=352,vocab=65" },
		{ "gemma3:layers=7,rope=linear:8,local_theta=5",
		    "gemma3:layers=7,rope=linear:8,local_theta=5,hidden=352,vocab=65" },
		{ "phi3:rotated=0.5,window=9", "phi3:rotated=0.5,window=9,hidden=352,vocab=65" },
		{ "olmo2:attention_bias=yes", "olmo2:attention_bias=yes,hidden=352,vocab=65" },
		{ "gpt-neox:parallel=no,attention_bias=no",
		    "gpt-neox:parallel=no,attention_bias=no,hidden=512,vocab=65" },
		{ "smollm3:positions=yn", "smollm3:positions=yn,hidden=352,vocab=65" },
		{ "mixtral:experts=3,active=1,window=9",
		    "mixtral:experts=3,active=1,window=9,hidden=352,vocab=65" },
		{ "qwen3-moe:renormalize=no", "qwen3-moe:renormalize=no,hidden=352,vocab=65" },
		{ "olmoe:hidden=20,renormalize=yes", "olmoe:hidden=20,renormalize=yes,vocab=65" },
		{ "bert:dropout=0.1,gelu=tanh", "bert:dropout=0.1,gelu=tanh,hidden=512" },
		{ "roberta:types=3,head_dropout=0.5",
		    "roberta:types=3,head_dropout=0.5,hidden=512" },
		{ "distilbert:layers=2", "distilbert:layers=2,hidden=512" },
		{ "modernbert:windowed=yn,norm_bias=yes,mean=yes",
		    "modernbert:windowed=yn,norm_bias=yes,mean=yes,hidden=192" },
		{ "vit:dropout=0.1", "vit:image=32,hidden=512,dropout=0.1" },
		{ "resnet18:classes=65", "resnet18" },
		{ "convnext:classes=65", "convnext" },
		{ "mobilenet-v2:multiplier=1.4,same=no,fine=no",
		    "mobilenet-v2:multiplier=1.4,same=no,fine=no" },
		{ "convnextv2-base:depths=1-2-3-4,eps=1e-5",
		    "convnextv2-base:depths=1-2-3-4,eps=1e-5" },
		{ "resnet152", "resnet152" },
		{ "resnet50:zero_init_residual=yes", "resnet50" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_model_input in;
		char *spec = NULL, *settings;
		struct gt_model *m;
		json_t *config;

		assert_int_equal(gt_model_open(&m, cases[i].config, &err), 0);
		gt_model_preferred_input(m, &in);
		in.form.classes = 65;
		if (gt_hf_from_model(&config, m, &in, &err) || gt_hf_to_spec(&spec, config, &err))
			fail_msg("%s: %s", cases[i].config, err.text);
		gt_model_close(m);
		assert_int_equal(gt_model_open(&m, cases[i].spec, &err), 0);
		/* Presets differ in their names alone. */
		settings = gt_model_spec(m, &err);
		assert_non_null(settings);
		assert_string_equal(spec + strcspn(spec, ":"), settings + strcspn(settings, ":"));
		gt_model_close(m);
		json_decref(config);
		free(settings);
		free(spec);
	}
}

static void test_no_counterpart(void **state)
{
	static const struct bad cases[] = {
		{ "mlp:5,4", "model 'mlp' has no counterpart among Hugging Face's" },
		{ "resnet20", "model 'resnet20' has no counterpart among Hugging Face's" },
		{ "gpt:bias=no",
		    "a model with bias=no has no counterpart among Hugging Face's 'gpt2'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_model_input in;
		struct gt_model *m;
		json_t *config;

		assert_int_equal(gt_model_open(&m, cases[i].config, &err), 0);
		gt_model_preferred_input(m, &in);
		assert_int_equal(gt_hf_from_model(&config, m, &in, &err), GT_ENOTSUP);
		assert_null(config);
		assert_string_equal(err.text, cases[i].text);
		gt_model_close(m);
	}
}

static void test_same_network(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "gpt2", "gpt2:dropout=0.1", true },
		{ "gpt:layers=12,heads=12,width=768,block=1024", "gpt2:hidden=3072", true },
		{ "gpt2", "gpt2:heads=6", false },
		{ "gpt2", "gpt2:eps=1e-6", false },
		{ "gpt2", "llama", false },
		{ "vit", "vit:classes=5,image=32", true },
		{ "resnet18", "resnet34", false },
		{ "resnet20", "resnet18", false },
		{ "resnet50", "resnet50:zero_init_residual=yes", true },
		{ "mlp:4,3", "mlp:4,3", true },
		{ "mlp:4,3", "mlp:4,5,3", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (gt_model_same_network(cases[i].a, cases[i].b) != cases[i].same)
			fail_msg("%s, %s", cases[i].a, cases[i].b);
}

/* ---- names ---- */

struct renamed {
	const char *model;
	enum gt_names program;
	const char *theirs, *own;
	bool without_head;
	int part, parts;
};

static const struct gt_names_table *table_of(const char *spec, enum gt_names program)
{
	struct gt_err err = GT_ERR_INIT;
	const struct gt_names_table *t;
	struct gt_model *m;

	assert_int_equal(gt_model_open(&m, spec, &err), 0);
	t = gt_names_find(m, program, &err);
	if (!t)
		fail_msg("%s: %s", spec, err.text);
	gt_model_close(m);
	return t;
}

static void test_names_by_hand(void **state)
{
	static const struct renamed cases[] = {
		{ "resnet50", GT_NAMES_HUGGINGFACE,
		    "resnet.encoder.stages.2.layers.10.layer.0.normalization.running_var",
		    "layer3.10.bn1.running_var", false, 0, 1 },
		{ "resnet18", GT_NAMES_HUGGINGFACE,
		    "resnet.encoder.stages.3.layers.0.shortcut.convolution.weight",
		    "layer4.0.downsample.0.weight", false, 0, 1 },
		{ "vit", GT_NAMES_HUGGINGFACE,
		    "vit.encoder.layer.11.attention.attention.value.bias",
		    "encoder.layers.encoder_layer_11.self_attention.in_proj_bias", false, 2, 3 },
		{ "vit", GT_NAMES_HUGGINGFACE, "embeddings.cls_token", "class_token", true, 0, 1 },
		{ "vit", GT_NAMES_TIMM, "blocks.0.attn.qkv.weight",
		    "encoder.layers.encoder_layer_0.self_attention.in_proj_weight", false, 0, 1 },
		{ "gpt2", GT_NAMES_HUGGINGFACE, "h.3.ln_1.weight", "transformer.h.3.ln_1.weight",
		    true, 0, 1 },
		{ "llama", GT_NAMES_HUGGINGFACE, "norm.weight", "model.norm.weight", true, 0, 1 },
		{ "mixtral", GT_NAMES_HUGGINGFACE,
		    "model.layers.1.block_sparse_moe.experts.7.w3.weight",
		    "model.layers.1.mlp.experts.up_proj", false, 7, 1 },
		{ "mixtral", GT_NAMES_HUGGINGFACE, "layers.1.block_sparse_moe.gate.weight",
		    "model.layers.1.mlp.gate.weight", true, 0, 1 },
		{ "olmoe", GT_NAMES_HUGGINGFACE, "model.layers.0.mlp.experts.12.down_proj.weight",
		    "model.layers.0.mlp.experts.down_proj", false, 12, 1 },
		{ "olmoe", GT_NAMES_HUGGINGFACE, "lm_head.weight", "lm_head.weight", false, 0, 1 },
		/* no rule */
		{ "vit", GT_NAMES_HUGGINGFACE, "vit.embeddings.cls_token.x", NULL, false, 0, 0 },
		{ "vit", GT_NAMES_HUGGINGFACE, "vit.layernorm.", NULL, false, 0, 0 },
		{ "vit", GT_NAMES_HUGGINGFACE, "vit.encoder.layer.01.layernorm_before.bias", NULL,
		    false, 0, 0 },
		{ "vit", GT_NAMES_HUGGINGFACE, "vit.encoder.layer.x.layernorm_before.bias", NULL,
		    false, 0, 0 },
		{ "vit", GT_NAMES_HUGGINGFACE, "vit.encoder.layer.9999999.layernorm_before.bias",
		    NULL, false, 0, 0 },
		{ "gpt2", GT_NAMES_HUGGINGFACE, "transformer.wte.weight", NULL, false, 0, 0 },
		{ "resnet18", GT_NAMES_TIMM, "conv1.weight", NULL, false, 0, 0 },
		{ "resnet18", GT_NAMES_TORCHVISION, "conv1.weight", NULL, true, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct renamed *c = &cases[i];
		struct gt_names_place place;
		bool found = gt_names_to_own(
		    &place, table_of(c->model, c->program), c->theirs, c->without_head);

		if (found != (c->own != NULL) || (found && strcmp(place.name, c->own) != 0))
			fail_msg("%s: '%s'", c->theirs, found ? place.name : "");
		if (found)
			assert_true(place.part == c->part && place.parts == c->parts);
	}
}

/* Each parameter has a name there, or one for each part, which leads back to it. */
static void test_names_lead_back(void **state)
{
	static const struct {
		const char *model;
		enum gt_names program;
	} cases[] = { { "gpt:layers=11", GT_NAMES_HUGGINGFACE }, { "llama", GT_NAMES_HUGGINGFACE },
		{ "gemma3", GT_NAMES_HUGGINGFACE }, { "gpt-neox", GT_NAMES_HUGGINGFACE },
		{ "mixtral", GT_NAMES_HUGGINGFACE }, { "olmoe", GT_NAMES_HUGGINGFACE },
		{ "convnext", GT_NAMES_TIMM }, { "convnextv2", GT_NAMES_HUGGINGFACE },
		{ "vit:layers=11", GT_NAMES_HUGGINGFACE }, { "vit:layers=11", GT_NAMES_TIMM },
		{ "resnet18", GT_NAMES_HUGGINGFACE }, { "resnet50", GT_NAMES_HUGGINGFACE } };

	(void)state;
	for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
		const struct gt_names_table *t = table_of(cases[k].model, cases[k].program);
		struct gt_names_place there, back;
		struct gt_err err = GT_ERR_INIT;
		struct gt_model_input in;
		struct gt_model_io io;
		struct gt_model *m;
		struct gt_graph *g;

		assert_int_equal(gt_model_open(&m, cases[k].model, &err), 0);
		gt_model_preferred_input(m, &in);
		in.form.classes = in.form.classes ? in.form.classes : 65;
		for (int i = 0; i < in.form.channels; i++)
			in.form.std[i] = 1;
		assert_int_equal(gt_graph_new(&g, &err), 0);
		assert_int_equal(gt_model_build(m, g, &in, 1, GT_MODEL_EVAL, &io, &err), 0);
		for (size_t i = 0; i < g->value_count; i++) {
			const struct gt_value *v = g->values[i];
			int parts = 0;

			if (v->role != GT_PARAMETER && v->role != GT_BUFFER)
				continue;
			for (; gt_names_to_theirs(&there, t, v->name, parts); parts++) {
				if (there.stacked && parts == v->shape[0])
					break;
				if (!gt_names_to_own(&back, t, there.name, false))
					strcpy(back.name, there.name); /* the same names */
				assert_string_equal(back.name, v->name);
				assert_int_equal(there.part, parts);
			}
			(void)gt_names_to_theirs(&there, t, v->name, 0);
			if (parts != there.parts * (there.stacked ? v->shape[0] : 1))
				fail_msg("%s: %d names of %d", v->name, parts, there.parts);
		}
		gt_graph_free(g);
		gt_model_close(m);
	}
}

static void test_names_of_none(void **state)
{
	static const struct {
		const char *model;
		enum gt_names program;
		const char *text;
	} cases[] = {
		{ "mlp:4,2", GT_NAMES_HUGGINGFACE, "names huggingface: there is no model 'mlp'" },
		{ "gpt2", GT_NAMES_TIMM, "names timm: there is no model 'gpt2'" },
		{ "convnextv2", GT_NAMES_TIMM, "names timm: there is no model 'convnextv2'" },
		{ "resnet20", GT_NAMES_TORCHVISION,
		    "names torchvision: there is no model 'resnet20'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_model *m;

		assert_int_equal(gt_model_open(&m, cases[i].model, &err), 0);
		assert_null(gt_names_find(m, cases[i].program, &err));
		assert_int_equal(err.code, GT_EINVAL);
		assert_string_equal(err.text + 1, cases[i].text); /* behind the option's mark */
		gt_model_close(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_wrong_numbers),
		cmocka_unit_test(test_back),
		cmocka_unit_test(test_no_counterpart),
		cmocka_unit_test(test_same_network),
		cmocka_unit_test(test_names_by_hand),
		cmocka_unit_test(test_names_lead_back),
		cmocka_unit_test(test_names_of_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
