/* test_tensor_pass.c - the graph of a rank with shards of each layer, and shards' places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/option_names.h"
#include "lib/graph/sharding.h"
#include "lib/train/program.h"
#include "tests/common/device.h"

/* The forward graph of rank 0 of `ranks` that share each layer, or of the last one where they
 * divide rows, as text without scopes. */
static char *rewritten(const char *spec, enum gt_model_purpose purpose, int ranks, bool sequence)
{
	const struct gt_parallel_options options = { .ranks = ranks,
		.rank = sequence ? ranks - 1 : 0,
		.tensor = ranks,
		.sequence = sequence };
	struct gt_err err = GT_ERR_INIT;
	struct gt_parallel *p = NULL;
	struct gt_model_input in;
	struct gt_model_io io;
	struct gt_model *model;
	struct gt_graph *g = NULL;
	char *text;

	assert_int_equal(gt_model_open(&model, spec, &err), 0);
	gt_model_preferred_input(model, &in);
	assert_int_equal(gt_parallel_new(&p, &options, NULL, &err), 0);
	/* The first graph of a session is that of the training. */
	for (int i = purpose == GT_MODEL_TRAIN; i < 2; i++) {
		gt_graph_free(g);
		assert_int_equal(gt_graph_new(&g, &err), 0);
		assert_int_equal(
		    gt_model_build(model, g, &in, 2, i ? purpose : GT_MODEL_TRAIN, &io, &err), 0);
		if (gt_parallel_rewrite(p, g, &err))
			fail_msg("%s", err.text);
	}
	for (size_t i = 0; i < g->node_count; i++)
		g->nodes[i]->scope = "";
	text = gt_graph_print(g, &err);
	gt_graph_free(g);
	gt_parallel_free(p);
	gt_model_close(model);
	return text;
}

static void expect_graph(
    const char *spec, enum gt_model_purpose purpose, int ranks, const char *text)
{
	char *printed = rewritten(spec, purpose, ranks, false);

	assert_string_equal(printed, text);
	free(printed);
}

static void expect_rows(const char *spec, int ranks, const char *text)
{
	char *printed = rewritten(spec, GT_MODEL_TRAIN, ranks, true);

	assert_string_equal(printed, text);
	free(printed);
}

static void layers_are_cut_in_pairs(void **state)
{
	(void)state;
	expect_graph("mlp:8,6,5", GT_MODEL_TRAIN, 1,
	    "%2 float32[2,8] = reshape(input input)\n"
	    "%5 float32[2,6] = matmul(%2, 0.weight, 0.bias) trans_b\n"
	    "%6 float32[2,6] = relu(%5)\n"
	    "%9 float32[2,5] = matmul(%6, 2.weight, 2.bias) trans_b\n"
	    "output loss float32[], %12 float32[2] = cross_entropy(%9, input target, input "
	    "weight)\n");
	expect_graph("mlp:8,6,5", GT_MODEL_TRAIN, 2,
	    "%2 float32[2,8] = reshape(input input)\n"
	    "%13 float32[2,8] = copy_to(%2) axis=tensor\n"
	    "%5 float32[2,3] = matmul(%13, 0.weight, 0.bias) trans_b\n"
	    "%6 float32[2,3] = relu(%5)\n"
	    "%9 float32[2,5] = matmul(%6, 2.weight) trans_b\n"
	    "%14 float32[2,5] = all_reduce(%9) axis=tensor\n"
	    "%15 float32[2,5] = bias_add(%14, 2.bias)\n"
	    "output loss float32[], %12 float32[2] = cross_entropy(%15, input target, input weight)\n");
}

/* By columns, which are gathered; or by rows, for more ranks than columns. */
static void a_layer_without_a_partner_is_cut_if_there_are_no_pairs(void **state)
{
	(void)state;
	expect_graph("mlp:5,3", GT_MODEL_TRAIN, 2,
	    "%2 float32[2,5] = reshape(input input)\n"
	    "%9 float32[2,5] = copy_to(%2) axis=tensor\n"
	    "%5 float32[2,1] = matmul(%9, 0.weight, 0.bias) trans_b\n"
	    "%10 float32[2,3] = arrange(%5) 0:[2]0(1)->0(3)\n"
	    "%11 float32[2,3] = all_reduce(%10) axis=tensor\n"
	    "output loss float32[], %8 float32[2] = cross_entropy(%11, input target, input weight)\n");
	expect_graph("mlp:5,3", GT_MODEL_TRAIN, 4,
	    "%2 float32[2,5] = reshape(input input)\n"
	    "%9 float32[2,5] = copy_to(%2) axis=tensor\n"
	    "%10 float32[2,1] = arrange(%9) 0:[2]0(5)->0(1)\n"
	    "%5 float32[2,3] = matmul(%10, 0.weight) trans_b\n"
	    "%11 float32[2,3] = all_reduce(%5) axis=tensor\n"
	    "%12 float32[2,3] = bias_add(%11, 0.bias)\n"
	    "output loss float32[], %8 float32[2] = cross_entropy(%12, input target, input weight)\n");
}

static void a_gpt_is_cut_by_heads_columns_and_tokens(void **state)
{
	(void)state;
	expect_graph("gpt:layers=1,heads=2,width=4,block=3,vocab=7,dropout=0.5", GT_MODEL_TRAIN, 2,
	    "%5 float32[2,3,4] = embedding(transformer.wte.weight, input input, "
	    "transformer.wpe.weight) from 0 of 7\n"
	    "%45 float32[2,3,4] = all_reduce(%5) axis=tensor\n"
	    "%6 float32[2,3,4] = dropout(%45, input rng) p=0.5 stream=0\n"
	    "%9 float32[2,3,4], %10 float32[6], %11 float32[6] = layer_norm(%6, "
	    "transformer.h.0.ln_1.weight, transformer.h.0.ln_1.bias)\n"
	    "%46 float32[2,3,4] = copy_to(%9) axis=tensor\n"
	    "%14 float32[2,3,6] = matmul(%46, transformer.h.0.attn.c_attn.weight, "
	    "transformer.h.0.attn.c_attn.bias)\n"
	    "%15 float32[2,3,2], %16 float32[2,1,3] = attention(%14, input rng) heads=1 of 2 from 0 "
	    "p=0.5 stream=1\n"
	    "%19 float32[2,3,4] = matmul(%15, transformer.h.0.attn.c_proj.weight)\n"
	    "%47 float32[2,3,4] = all_reduce(%19) axis=tensor\n"
	    "%48 float32[2,3,4] = bias_add(%47, transformer.h.0.attn.c_proj.bias)\n"
	    "%20 float32[2,3,4] = dropout(%48, input rng) p=0.5 stream=2\n"
	    "%21 float32[2,3,4] = add(%20, %6)\n"
	    "%24 float32[2,3,4], %25 float32[6], %26 float32[6] = layer_norm(%21, "
	    "transformer.h.0.ln_2.weight, transformer.h.0.ln_2.bias)\n"
	    "%49 float32[2,3,4] = copy_to(%24) axis=tensor\n"
	    "%29 float32[2,3,8] = matmul(%49, transformer.h.0.mlp.c_fc.weight, "
	    "transformer.h.0.mlp.c_fc.bias)\n"
	    "%30 float32[2,3,8] = gelu(%29) tanh\n"
	    "%33 float32[2,3,4] = matmul(%30, transformer.h.0.mlp.c_proj.weight)\n"
	    "%50 float32[2,3,4] = all_reduce(%33) axis=tensor\n"
	    "%51 float32[2,3,4] = bias_add(%50, transformer.h.0.mlp.c_proj.bias)\n"
	    "%34 float32[2,3,4] = dropout(%51, input rng) p=0.5 stream=3\n"
	    "%35 float32[2,3,4] = add(%34, %21)\n"
	    "%38 float32[2,3,4], %39 float32[6], %40 float32[6] = layer_norm(%35, "
	    "transformer.ln_f.weight, transformer.ln_f.bias)\n"
	    "%52 float32[2,3,4] = copy_to(%38) axis=tensor\n"
	    "%41 float32[2,3,3] = matmul(%52, transformer.wte.weight) trans_b\n"
	    "%53 float32[6] = log_sum_exp(%41)\n"
	    "%54 float32[6] = all_reduce(%53) max axis=tensor\n"
	    "%55 float64[6] = exp_difference(%53, %54)\n"
	    "%56 float64[6] = all_reduce(%55) axis=tensor\n"
	    "%57 float32[6] = add_log(%54, %56)\n"
	    "%58 float32[6] = pick(%41, input target) from 0 of 7\n"
	    "%59 float32[6] = all_reduce(%58) axis=tensor\n"
	    "output loss float32[] = cross_entropy_sharded(%41, input target, %57, %59, input "
	    "weight) from 0 of 7\n");
}

/*
 * As above between the layers, but 3 of 6 tokens each. A value stays whole if its chain
 * has one sum and one reader of all rows, as the loss, or if it has 2 rows for 4 ranks.
 */
static void rows_between_layers_are_divided(void **state)
{
	(void)state;
	expect_rows("gpt:layers=1,heads=2,width=4,block=3,vocab=7,dropout=0.5", 2,
	    "%5 float32[2,3,4] = embedding(transformer.wte.weight, input input, transformer.wpe.weight) from 3 of 7\n"
	    "%45 float32[3,4] = reduce_rows(%5)\n"
	    "%6 float32[3,4] = dropout(%45, input rng) p=0.5 stream=0 from 12\n"
	    "%61 float32[4] = copy_to(transformer.h.0.ln_1.weight) axis=tensor\n"
	    "%62 float32[4] = copy_to(transformer.h.0.ln_1.bias) axis=tensor\n"
	    "%9 float32[3,4], %10 float32[3], %11 float32[3] = layer_norm(%6, %61, %62)\n"
	    "%46 float32[2,3,4] = gather_rows(%9)\n"
	    "%14 float32[2,3,6] = matmul(%46, transformer.h.0.attn.c_attn.weight, transformer.h.0.attn.c_attn.bias)\n"
	    "%15 float32[2,3,2], %16 float32[2,1,3] = attention(%14, input rng) heads=1 of 2 from 1 p=0.5 stream=1\n"
	    "%19 float32[2,3,4] = matmul(%15, transformer.h.0.attn.c_proj.weight)\n"
	    "%47 float32[3,4] = reduce_rows(%19)\n"
	    "%63 float32[4] = copy_to(transformer.h.0.attn.c_proj.bias) axis=tensor\n"
	    "%48 float32[3,4] = bias_add(%47, %63)\n"
	    "%20 float32[3,4] = dropout(%48, input rng) p=0.5 stream=2 from 12\n"
	    "%21 float32[3,4] = add(%20, %6)\n"
	    "%64 float32[4] = copy_to(transformer.h.0.ln_2.weight) axis=tensor\n"
	    "%65 float32[4] = copy_to(transformer.h.0.ln_2.bias) axis=tensor\n"
	    "%24 float32[3,4], %25 float32[3], %26 float32[3] = layer_norm(%21, %64, %65)\n"
	    "%49 float32[2,3,4] = gather_rows(%24)\n"
	    "%29 float32[2,3,8] = matmul(%49, transformer.h.0.mlp.c_fc.weight, transformer.h.0.mlp.c_fc.bias)\n"
	    "%30 float32[2,3,8] = gelu(%29) tanh\n"
	    "%33 float32[2,3,4] = matmul(%30, transformer.h.0.mlp.c_proj.weight)\n"
	    "%50 float32[3,4] = reduce_rows(%33)\n"
	    "%66 float32[4] = copy_to(transformer.h.0.mlp.c_proj.bias) axis=tensor\n"
	    "%51 float32[3,4] = bias_add(%50, %66)\n"
	    "%34 float32[3,4] = dropout(%51, input rng) p=0.5 stream=3 from 12\n"
	    "%35 float32[3,4] = add(%34, %21)\n"
	    "%67 float32[4] = copy_to(transformer.ln_f.weight) axis=tensor\n"
	    "%68 float32[4] = copy_to(transformer.ln_f.bias) axis=tensor\n"
	    "%38 float32[3,4], %39 float32[3], %40 float32[3] = layer_norm(%35, %67, %68)\n"
	    "%52 float32[2,3,4] = gather_rows(%38)\n"
	    "%41 float32[2,3,4] = matmul(%52, transformer.wte.weight) trans_b\n"
	    "%53 float32[6] = log_sum_exp(%41)\n"
	    "%54 float32[6] = all_reduce(%53) max axis=tensor\n"
	    "%55 float64[6] = exp_difference(%53, %54)\n"
	    "%56 float64[6] = all_reduce(%55) axis=tensor\n"
	    "%57 float32[6] = add_log(%54, %56)\n"
	    "%58 float32[6] = pick(%41, input target) from 3 of 7\n"
	    "%59 float32[6] = all_reduce(%58) axis=tensor\n"
	    "output loss float32[] = cross_entropy_sharded(%41, input target, %57, %59, input weight) from 3 of 7\n");
	expect_rows("mlp:8,6,5,4,3", 2,
	    "%2 float32[2,8] = reshape(input input)\n"
	    "%21 float32[2,8] = copy_to(%2) axis=tensor\n"
	    "%5 float32[2,3] = matmul(%21, 0.weight, 0.bias) trans_b\n"
	    "%6 float32[2,3] = relu(%5)\n"
	    "%9 float32[2,5] = matmul(%6, 2.weight) trans_b\n"
	    "%22 float32[1,5] = reduce_rows(%9)\n"
	    "%27 float32[5] = copy_to(2.bias) axis=tensor\n"
	    "%23 float32[1,5] = bias_add(%22, %27)\n"
	    "%10 float32[1,5] = relu(%23)\n"
	    "%24 float32[2,5] = gather_rows(%10)\n"
	    "%13 float32[2,2] = matmul(%24, 4.weight, 4.bias) trans_b\n"
	    "%14 float32[2,2] = relu(%13)\n"
	    "%17 float32[2,3] = matmul(%14, 6.weight) trans_b\n"
	    "%25 float32[2,3] = all_reduce(%17) axis=tensor\n"
	    "%26 float32[2,3] = bias_add(%25, 6.bias)\n"
	    "output loss float32[], %20 float32[2] = cross_entropy(%26, input target, input weight)\n");
	expect_rows("mlp:8,6,5,4,3", 4,
	    "%2 float32[2,8] = reshape(input input)\n"
	    "%21 float32[2,8] = copy_to(%2) axis=tensor\n"
	    "%5 float32[2,2] = matmul(%21, 0.weight, 0.bias) trans_b\n"
	    "%6 float32[2,2] = relu(%5)\n"
	    "%9 float32[2,5] = matmul(%6, 2.weight) trans_b\n"
	    "%22 float32[2,5] = all_reduce(%9) axis=tensor\n"
	    "%23 float32[2,5] = bias_add(%22, 2.bias)\n"
	    "%10 float32[2,5] = relu(%23)\n"
	    "%24 float32[2,5] = copy_to(%10) axis=tensor\n"
	    "%13 float32[2,1] = matmul(%24, 4.weight, 4.bias) trans_b\n"
	    "%14 float32[2,1] = relu(%13)\n"
	    "%17 float32[2,3] = matmul(%14, 6.weight) trans_b\n"
	    "%25 float32[2,3] = all_reduce(%17) axis=tensor\n"
	    "%26 float32[2,3] = bias_add(%25, 6.bias)\n"
	    "output loss float32[], %20 float32[2] = cross_entropy(%26, input target, input weight)\n");
}

/* All ranks compute a ViT's first values, and its class token alone at the end. take_rows and
 * join_rows are worth it only for more than two sums, so a ViT of one layer stays whole. */
static void ends_of_a_vit_take_and_join_rows(void **state)
{
	const char *const spec = "vit:image=8,patch=4,heads=2,width=4,hidden=6,classes=3";
	char deep[128], shallow[128], *text;

	(void)state;
	snprintf(deep, sizeof(deep), "%s,layers=2", spec);
	text = rewritten(deep, GT_MODEL_TRAIN, 2, true);
	assert_non_null(strstr(text, "%88 float32[5,4] = take_rows(%8)\n"));
	assert_non_null(strstr(text, "%22 float32[5,4] = add(%78, %88)\n"));
	assert_non_null(strstr(text, "%89 float32[2,5,4] = join_rows(%62)\n"
	                             "%63 float32[2,1,4] = arrange(%89) 0:[2,4]0(20,1)->0(4,1)\n"));
	free(text);
	snprintf(shallow, sizeof(shallow), "%s,layers=1", spec);
	text = rewritten(shallow, GT_MODEL_TRAIN, 2, true);
	assert_null(strstr(text, "_rows("));
	free(text);
}

static void evaluation_is_cut_by_tokens(void **state)
{
	(void)state;
	expect_graph("gpt:layers=1,heads=2,width=4,block=3,vocab=7,bias=no", GT_MODEL_EVAL, 2,
	    "%4 float32[2,3,4] = embedding(transformer.wte.weight, input input, "
	    "transformer.wpe.weight) from 0 of 7\n"
	    "%32 float32[2,3,4] = all_reduce(%4) axis=tensor\n"
	    "%6 float32[2,3,4], %7 float32[6], %8 float32[6] = layer_norm(%32, "
	    "transformer.h.0.ln_1.weight)\n"
	    "%33 float32[2,3,4] = copy_to(%6) axis=tensor\n"
	    "%10 float32[2,3,6] = matmul(%33, transformer.h.0.attn.c_attn.weight)\n"
	    "%11 float32[2,3,2], %12 float32[2,1,3] = attention(%10) heads=1 of 2 from 0\n"
	    "%14 float32[2,3,4] = matmul(%11, transformer.h.0.attn.c_proj.weight)\n"
	    "%34 float32[2,3,4] = all_reduce(%14) axis=tensor\n"
	    "%15 float32[2,3,4] = add(%34, %32)\n"
	    "%17 float32[2,3,4], %18 float32[6], %19 float32[6] = layer_norm(%15, "
	    "transformer.h.0.ln_2.weight)\n"
	    "%35 float32[2,3,4] = copy_to(%17) axis=tensor\n"
	    "%21 float32[2,3,8] = matmul(%35, transformer.h.0.mlp.c_fc.weight)\n"
	    "%22 float32[2,3,8] = gelu(%21) tanh\n"
	    "%24 float32[2,3,4] = matmul(%22, transformer.h.0.mlp.c_proj.weight)\n"
	    "%36 float32[2,3,4] = all_reduce(%24) axis=tensor\n"
	    "%25 float32[2,3,4] = add(%36, %15)\n"
	    "%27 float32[2,3,4], %28 float32[6], %29 float32[6] = layer_norm(%25, "
	    "transformer.ln_f.weight)\n"
	    "%37 float32[2,3,4] = copy_to(%27) axis=tensor\n"
	    "%30 float32[2,3,3] = matmul(%37, transformer.wte.weight) trans_b\n"
	    "%38 float32[6] = log_sum_exp(%30)\n"
	    "%39 float32[6] = all_reduce(%38) max axis=tensor\n"
	    "%40 float64[6] = exp_difference(%38, %39)\n"
	    "%41 float64[6] = all_reduce(%40) axis=tensor\n"
	    "%42 float32[6] = add_log(%39, %41)\n"
	    "%43 float32[6] = pick(%30, input target) from 0 of 7\n"
	    "%44 float32[6] = all_reduce(%43) axis=tensor\n"
	    "%45 float64[6] = count_before(%30, input target, %44) from 0 of 7\n"
	    "%46 float64[6] = all_reduce(%45) axis=tensor\n"
	    "output stats float64[4] = classify_stats_sharded(%42, %44, %46, input target)\n");
}

/* Products whose columns are sliced have no partner, and the head alone is no reason to leave them
 * whole. Logits that are capped are those of some tokens, as others are. */
static void layers_of_decoders_are_cut(void **state)
{
	static const struct {
		const char *spec, *nodes[5];
	} rows[] = {
		{ "phi3:layers=1,heads=2,width=4,hidden=6,block=3,vocab=7",
		    { "float32[2,3,6] = matmul(%38, model.layers.0.self_attn.qkv_proj.weight)",
		        "float32[2,3,12] = all_reduce(%39) axis=tensor\n",
		        "float32[2,3,6] = matmul(%44, model.layers.0.mlp.gate_up_proj.weight)",
		        ", lm_head.weight) trans_b\n", "log_sum_exp(" } },
		{ "gemma2:layers=1,heads=2,kv_heads=1,width=4,hidden=6,block=3,vocab=7",
		    { "embedding(model.embed_tokens.weight, input input) from 0 of 7\n",
		        "float32[2,3,3] = matmul(", ", model.embed_tokens.weight) trans_b\n",
		        "float32[2,3,3] = map(", "log_sum_exp(" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *text = rewritten(rows[i].spec, GT_MODEL_TRAIN, 2, false);

		for (int k = 0; k < 5; k++)
			if (!strstr(text, rows[i].nodes[k]))
				fail_msg("no\n%s\nin\n%s", rows[i].nodes[k], text);
		free(text);
	}
}

/* Each rank caches the keys and values of its heads, and all ranks get all logits. */
static void the_next_token_is_cut_by_heads_and_its_logits_are_gathered(void **state)
{
	static const struct {
		const char *spec, *nodes[2];
	} rows[] = {
		{ "gpt:layers=1,heads=2,width=4,block=3,vocab=7",
		    { "attention_cached(%12, input past, cache transformer.h.0.attn.keys, cache "
		      "transformer.h.0.attn.values) heads=1 of 2 from 0\n",
		        "%39 float32[2,3] = matmul(%47, transformer.wte.weight) trans_b\n"
		        "%48 float32[2,7] = arrange(%39) 0:[2,3]0(3,1)->0(7,1)\n"
		        "output logits float32[2,7] = all_reduce(%48) axis=tensor\n" } },
		{ "llama:layers=1,heads=4,kv_heads=2,width=8,hidden=6,block=3,vocab=7",
		    { "%21 float32[2,3,4] = attention_cached(%18, input past, cache "
		      "model.layers.0.self_attn.keys, cache model.layers.0.self_attn.values) "
		      "heads=2 kv_heads=1 of 4 from 0\n",
		        "%46 float32[2,7] = arrange(%36) 0:[2,3]0(3,1)->0(7,1)\n"
		        "output logits float32[2,7] = all_reduce(%46) axis=tensor\n" } },
		/* Both ranks compute the keys and values of the one head. */
		{ "llama:layers=1,heads=2,kv_heads=1,width=8,hidden=6,block=3,vocab=7",
		    { "copy_to(model.layers.0.self_attn.k_proj.weight) axis=tensor\n",
		        "model.layers.0.self_attn.values) heads=1 of 2 from 0\n" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *text = rewritten(rows[i].spec, GT_MODEL_CONTINUE, 2, false);

		for (int k = 0; k < 2; k++)
			if (!strstr(text, rows[i].nodes[k]))
				fail_msg("no\n%s\nin\n%s", rows[i].nodes[k], text);
		free(text);
	}
}

/* The second head of two, of the queries, the keys and the values of two rows. */
static void shards_are_taken_of_every_block(void **state)
{
	const struct gt_sharding s = {
		.ndim = 2, .dim = 1, .shape = { 2, 3 * 2 * 2 }, .blocks = 3, .units = 2
	};
	const float expected[] = { 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23 };
	const struct gt_slice slice = gt_sharding_slice(&s, 1, 2);
	float whole[24], shard[12];

	(void)state;
	for (int i = 0; i < 24; i++)
		whole[i] = (float)i;
	assert_int_equal(gt_slice_elements(&slice), 12);
	gt_slice_pack(&slice, shard, whole, sizeof(*shard));
	assert_memory_equal(shard, expected, sizeof(shard));
}

/* Nothing is lost where nothing divides. */
static void shards_make_up_the_whole(void **state)
{
	static const struct gt_sharding shardings[] = {
		{ .ndim = 1, .dim = 0, .shape = { 13 }, .blocks = 1, .units = 13 },
		{ .ndim = 2, .dim = 0, .shape = { 7, 3 }, .blocks = 1, .units = 7 },
		{ .ndim = 2, .dim = 1, .shape = { 2, 3 * 5 * 4 }, .blocks = 3, .units = 5 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(shardings) / sizeof(*shardings); i++) {
		for (int ranks = 1; ranks <= 5; ranks++) {
			const struct gt_sharding *s = &shardings[i];
			float whole[128], back[128] = { 0 }, parts[128] = { 0 }, shard[128];
			int64_t count = s->shape[0] * (s->ndim > 1 ? s->shape[1] : 1), sum = 0;

			for (int64_t k = 0; k < count; k++)
				whole[k] = (float)k + 1;
			for (int r = 0; r < ranks; r++) {
				struct gt_slice slice = gt_sharding_slice(s, r, ranks);

				gt_slice_pack(&slice, shard, whole, sizeof(*shard));
				gt_slice_unpack(&slice, back, 0, count, shard, sizeof(*shard));
				for (int64_t at = 0, n = 5; at < count; at += n)
					gt_slice_unpack(&slice, parts + at, at,
					    count - at < n ? count - at : n,
					    shard + gt_slice_below(&slice, at), sizeof(*shard));
				sum += gt_slice_elements(&slice);
			}
			assert_int_equal(sum, count);
			assert_memory_equal(whole, back, (size_t)count * sizeof(*whole));
			assert_memory_equal(whole, parts, (size_t)count * sizeof(*whole));
		}
	}
}

static void expect_refusal(
    const char *spec, const struct gt_parallel_options *options, const char *text)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_parallel *p = NULL;
	struct gt_store *store = NULL;
	struct gt_model_input in;
	char shown[sizeof(err.text)];
	struct gt_model *model;
	int rc;

	assert_int_equal(gt_model_open(&model, spec, &err), 0);
	gt_model_preferred_input(model, &in);
	for (int i = 0; i < in.form.channels; i++)
		in.form.std[i] = 1;
	rc = gt_parallel_check(options, options->ranks, 1, &err);
	if (!rc)
		rc = gt_parallel_new(&p, options, NULL, &err);
	if (!rc)
		rc = gt_program_store(&store, model, &in, test_device(0), true, p, &err);
	assert_true(rc < 0);
	gt_option_names_render(shown, sizeof(shown), err.text, "");
	assert_string_equal(shown, text);
	assert_true(*err.hint);
	gt_store_free(store);
	gt_parallel_free(p);
	gt_model_close(model);
}

static void models_that_cannot_be_sharded_fail(void **state)
{
	const struct gt_parallel_options two = { .ranks = 2, .tensor = 2 };

	(void)state;
	expect_refusal("resnet20", &two,
	    "tensor parallelism can shard only 650 of 269722 weights of this model");
	expect_refusal("mlp:5,3", &(struct gt_parallel_options){ .ranks = 8, .tensor = 8 },
	    "tensor parallelism can shard no layer of this model");
	expect_refusal("llama:layers=1,heads=6,kv_heads=3,width=24,hidden=8,block=3,vocab=7",
	    &(struct gt_parallel_options){ .ranks = 4, .tensor = 4 },
	    "model.layers.0.self_attn: 4 ranks cannot share 6 heads so that each needs one of 3 "
	    "heads of keys and values");
	expect_refusal("mlp:5,2,3", &(struct gt_parallel_options){ .ranks = 3, .tensor = 3 },
	    "'0.weight' divides into 2 shards at most, not into 3");
	expect_refusal("gpt:heads=2,vocab=9",
	    &(struct gt_parallel_options){ .ranks = 4, .tensor = 4 },
	    "'transformer.h.0.attn.c_attn.weight' divides into 2 shards at most, not into 4");
	expect_refusal("mlp:5,4,3", &(struct gt_parallel_options){ .ranks = 3, .tensor = 2 },
	    "tensor-parallel: 2 does not divide 3 ranks");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .kind = GT_PARALLEL_DP, .ranks = 2, .tensor = 2 },
	    "tensor-parallel cannot be combined with parallel dp");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .kind = GT_PARALLEL_DP, .ranks = 2, .stages = 2 },
	    "pipeline-parallel cannot be combined with parallel dp");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .ranks = 6, .tensor = 2, .stages = 2 },
	    "pipeline-parallel: 2 stages of 2 ranks each do not divide 6 ranks");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .ranks = 4, .tensor = 2, .stages = 2, .check_every = 1 },
	    "check-replicas: no two of 4 ranks hold the same part of the model");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .ranks = 2, .tensor = 2, .check_every = 1 },
	    "check-replicas: no two of 2 ranks hold the same part of the model");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .ranks = 2, .stages = 2, .check_every = 1 },
	    "check-replicas: no two of 2 ranks hold the same part of the model");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .ranks = 2, .tensor = 2, .compress = GT_COMPRESS_BF16 },
	    "compress: no two of 2 ranks hold the same part of the model");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){ .ranks = 2, .stages = 2, .compress = GT_COMPRESS_FP16 },
	    "compress: no two of 2 ranks hold the same part of the model");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){
	        .kind = GT_PARALLEL_DP, .ranks = 2, .compress = GT_COMPRESS_BF16 },
	    "compress cannot be combined with parallel dp, which sends gradients as they are");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){
	        .kind = GT_PARALLEL_ZERO3, .ranks = 2, .check_every = 1 },
	    "check-replicas cannot be combined with parallel zero3, whose ranks hold different weights");
	expect_refusal("mlp:5,4,3",
	    &(struct gt_parallel_options){
	        .kind = GT_PARALLEL_DP, .ranks = 2, .own_buffers = true },
	    "broadcast-buffers=no cannot be combined with parallel dp, which keeps those of rank 0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layers_are_cut_in_pairs),
		cmocka_unit_test(a_layer_without_a_partner_is_cut_if_there_are_no_pairs),
		cmocka_unit_test(layers_of_decoders_are_cut),
		cmocka_unit_test(a_gpt_is_cut_by_heads_columns_and_tokens),
		cmocka_unit_test(rows_between_layers_are_divided),
		cmocka_unit_test(ends_of_a_vit_take_and_join_rows),
		cmocka_unit_test(evaluation_is_cut_by_tokens),
		cmocka_unit_test(the_next_token_is_cut_by_heads_and_its_logits_are_gathered),
		cmocka_unit_test(shards_are_taken_of_every_block),
		cmocka_unit_test(shards_make_up_the_whole),
		cmocka_unit_test(models_that_cannot_be_sharded_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
