/* test_models.c - architectures: specs, names, shapes, counts of parameters, initial values. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/arch.h"
#include "lib/model/model.h"
#include "lib/store/store.h"
#include "tests/common/device.h"

/* The forward graph of a model for the data that it wishes. */
static struct gt_graph *build(
    const char *spec, enum gt_model_purpose purpose, int batch, struct gt_model_io *io)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input in;
	struct gt_model *m;
	struct gt_graph *g;

	if (gt_model_open(&m, spec, &err))
		fail_msg("%s: %s", spec, err.text);
	gt_model_preferred_input(m, &in);
	in.form.classes = in.form.classes ? in.form.classes : 65;
	for (int i = 0; i < in.form.channels; i++)
		in.form.std[i] = 1;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	if (gt_model_build(m, g, &in, batch, purpose, io, &err))
		fail_msg("%s: %s", spec, err.text);
	gt_model_close(m);
	return g;
}

static int64_t count(const struct gt_graph *g, enum gt_role role, int *values)
{
	int64_t n = 0;

	*values = 0;
	for (size_t i = 0; i < g->value_count; i++)
		if (g->values[i]->role == role) {
			n += gt_value_elements(g->values[i]);
			++*values;
		}
	return n;
}

/* A layer of `llama`, and of the small models of other families. */
enum { EXPERT = 3 * 128 * 352, LAYER = 3 * 128 * 128 + EXPERT + 2 * 128 };
enum { ENCODER = 12 * 128 * 128 + 13 * 128 };

struct size {
	const char *spec;
	int64_t parameters;
	int tensors;
};

/*
 * mlp, LeNet: by hand. CIFAR ResNets with the parameter-free shortcut: He et al. 2016, table 6 give
 * 0.27M, 0.46M, 0.66M, 0.85M, 1.7M; to the digit, 9 n stages of 16, 32, 64 channels by hand. GPT-2:
 * 124,439,808 for the smallest as in Hugging Face's gpt2 (and 354,823,168; 774,030,080;
 * 1,557,611,200), the head tied. ResNets for ImageNet: the counts that torchvision documents.
 */
static const struct size sizes[] = {
	{ "mlp:784,256,10", 784 * 256 + 256 + 256 * 10 + 10, 4 },
	{ "mlp:5,4", 5 * 4 + 4, 2 },
	{ "mlp", 784 * 256 + 256 + 256 * 10 + 10, 4 },
	{ "lenet", 61706, 10 },
	{ "resnet20", 269722, 2 + 19 * 3 },
	{ "resnet32", 464154, 2 + 31 * 3 },
	{ "resnet44", 658586, 2 + 43 * 3 },
	{ "resnet56", 853018, 2 + 55 * 3 },
	{ "resnet110", 1727962, 2 + 109 * 3 },
	{ "resnet18", 11689512, 20 * 3 + 2 },
	{ "resnet34", 21797672, 36 * 3 + 2 },
	{ "resnet50", 25557032, 53 * 3 + 2 },
	{ "resnet101", 44549160, 104 * 3 + 2 },
	{ "resnet152", 60192808, 155 * 3 + 2 },
	{ "resnet18:classes=10", 11689512 - 990 * 513, 20 * 3 + 2 },
	{ "gpt", 65 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128, 2 + 4 * 12 + 2 },
	{ "gpt2", 124439808, 2 + 12 * 12 + 2 },
	{ "gpt2:bias=no", 124439808 - 12 * 11 * 768 - 768, 2 + 12 * 6 + 1 },
	{ "gpt2-medium", 354823168, 2 + 24 * 12 + 2 },
	{ "gpt2-large", 774030080, 2 + 36 * 12 + 2 },
	{ "gpt2-xl", 1557611200, 2 + 48 * 12 + 2 },
	{ "tinyllama", 1100048384, 22 * 9 + 3 },
	{ "llama2-7b", 6738415616, 32 * 9 + 3 },
	{ "llama3-8b", 8030261248, 32 * 9 + 3 },
	{ "tinyllama:tied=yes", 1100048384 - 32000 * 2048, 22 * 9 + 2 },
	{ "llama", 2 * 65 * 128 + 4 * LAYER + 128, 4 * 9 + 3 },
	{ "mistral", 2 * 65 * 128 + 4 * LAYER + 128, 4 * 9 + 3 },
	{ "qwen2", 2 * 65 * 128 + 4 * (LAYER + 2 * 128) + 128, 4 * 12 + 3 },
	{ "qwen3", 2 * 65 * 128 + 4 * (LAYER + 2 * 32) + 128, 4 * 11 + 3 },
	{ "gemma2", 65 * 128 + 4 * (LAYER + 2 * 128) + 128, 4 * 11 + 2 },
	{ "gemma3", 65 * 128 + 4 * (LAYER + 2 * 128 + 2 * 32) + 128, 4 * 13 + 2 },
	{ "phi3", 2 * 65 * 128 + 4 * (LAYER + 128 * 128) + 128, 4 * 6 + 3 },
	{ "olmo2", 2 * 65 * 128 + 4 * (LAYER + 128 * 128 + 2 * 128) + 128, 4 * 11 + 3 },
	{ "gpt-neox", 2 * 65 * 128 + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128, 4 * 12 + 4 },
	{ "smollm3", 65 * 128 + 4 * LAYER + 128, 4 * 9 + 2 },
	{ "mixtral", 2 * 65 * 128 + 4 * (LAYER + 3 * EXPERT + 4 * 128) + 128, 4 * 10 + 3 },
	{ "qwen3-moe", 2 * 65 * 128 + 4 * (LAYER + 7 * EXPERT + 8 * 128 + 2 * 32) + 128,
	    4 * 12 + 3 },
	{ "olmoe", 2 * 65 * 128 + 4 * (LAYER + 7 * EXPERT + 8 * 128 + 128 * 128 + 2 * 128) + 128,
	    4 * 12 + 3 },
	{ "llama:head_dim=16,attention_bias=yes,mlp_bias=yes",
	    2 * 65 * 128 + 4 * (LAYER - 3 * 64 * 128 + 2 * 64 + 128 + 2 * 352 + 128) + 128,
	    4 * 16 + 3 },
	{ "bert", (30522 + 512 + 2) * 128 + 4 * ENCODER + 2 * 128 + 129 * 130, 5 + 4 * 16 + 4 },
	{ "roberta", (50265 + 514 + 1) * 128 + 4 * ENCODER + 2 * 128 + 129 * 130, 5 + 4 * 16 + 4 },
	{ "distilbert", (30522 + 512) * 128 + 4 * ENCODER + 2 * 128 + 129 * 130, 4 + 4 * 16 + 4 },
	{ "modernbert",
	    50368 * 128 + 4 * (4 * 128 * 128 + 3 * 128 * 192 + 2 * 128) + 128 + 128 * 128 + 128 +
	        129 * 2,
	    2 + 4 * 6 - 1 + 1 + 2 + 2 },
	{ "vit", 128 * 48 + 67 * 128 + 6 * (12 * 128 * 128 + 13 * 128) + 2 * 128 + 1000 * 129,
	    4 + 6 * 12 + 4 },
	{ "convnext", 1294728, 5 * 9 + 20 },
	{ "convnext-tiny", 28589128, 18 * 9 + 20 },
	{ "convnext-small", 50223688, 36 * 9 + 20 },
	{ "convnext-base", 88591464, 36 * 9 + 20 },
	{ "convnext-large", 197767336, 36 * 9 + 20 },
	{ "convnextv2", 1294728 + 7 * 608, 5 * 10 + 20 },
	{ "convnextv2-tiny", 28635496, 18 * 10 + 20 },
	{ "convnextv2-base", 88717800, 36 * 10 + 20 },
	{ "mobilenet-v2", 3504872, 52 * 3 + 2 },
	{ "vit-tiny", 5717416, 4 + 12 * 12 + 4 },
	{ "vit-small", 22050664, 4 + 12 * 12 + 4 },
	{ "vit-base", 86567656, 4 + 12 * 12 + 4 },
	{ "vit-base:patch=32", 88224232, 4 + 12 * 12 + 4 },
	{ "vit-large", 304326632, 4 + 24 * 12 + 4 },
};

enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

/* Every architecture has a row. */
static void test_sizes_are_known(void **state)
{
	(void)state;
	for (const struct gt_arch *const *a = gt_archs; *a; a++) {
		size_t i = 0, n = strlen((*a)->name);

		while (i < SIZES && (strncmp(sizes[i].spec, (*a)->name, n) != 0 ||
		                        (sizes[i].spec[n] && sizes[i].spec[n] != ':')))
			i++;
		if (i == SIZES)
			fail_msg("'%s' has no row in sizes[]", (*a)->name);
	}
}

static void test_sizes(void **state)
{
	(void)state;
	for (size_t i = 0; i < SIZES; i++) {
		struct gt_model_io io;
		struct gt_graph *g = build(sizes[i].spec, GT_MODEL_TRAIN, 2, &io);
		int tensors;
		int64_t n = count(g, GT_PARAMETER, &tensors);

		if (n != sizes[i].parameters || tensors != sizes[i].tensors)
			fail_msg("%s: %lld parameters in %d tensors, %lld in %d wanted",
			    sizes[i].spec, (long long)n, tensors, (long long)sizes[i].parameters,
			    sizes[i].tensors);
		gt_graph_free(g);
	}
}

/* ---- names ---- */

struct named {
	const char *spec, *name;
	enum gt_role role;
	int ndim;
	int64_t shape[4];
	bool decay, hidden;
};

static const struct named names[] = {
	{ "mlp:20,30,10", "0.weight", GT_PARAMETER, 2, { 30, 20 }, true, true },
	{ "mlp:20,30,10", "2.bias", GT_PARAMETER, 1, { 10 }, true, false },
	{ "lenet", "conv1.weight", GT_PARAMETER, 4, { 6, 1, 5, 5 }, true, true },
	{ "lenet", "fc1.weight", GT_PARAMETER, 2, { 120, 400 }, true, true },
	{ "lenet", "fc3.weight", GT_PARAMETER, 2, { 10, 84 }, true, false },
	{ "mlp:20,30,10", "2.weight", GT_PARAMETER, 2, { 10, 30 }, true, false },
	{ "resnet20", "conv1.weight", GT_PARAMETER, 4, { 16, 3, 3, 3 }, true, true },
	{ "resnet20", "layer2.0.conv1.weight", GT_PARAMETER, 4, { 32, 16, 3, 3 }, true, true },
	{ "resnet20", "layer3.2.bn2.running_var", GT_BUFFER, 1, { 64 }, false, false },
	{ "resnet20", "bn1.num_batches_tracked", GT_BUFFER, 0, { 0 }, false, false },
	{ "resnet20", "linear.weight", GT_PARAMETER, 2, { 10, 64 }, true, false },
	{ "resnet18", "conv1.weight", GT_PARAMETER, 4, { 64, 3, 7, 7 }, true, true },
	{ "resnet18", "layer2.0.conv1.weight", GT_PARAMETER, 4, { 128, 64, 3, 3 }, true, true },
	{ "resnet34", "layer3.5.bn2.running_mean", GT_BUFFER, 1, { 256 }, false, false },
	{ "resnet50", "layer1.0.conv1.weight", GT_PARAMETER, 4, { 64, 64, 1, 1 }, true, true },
	{ "resnet50", "layer1.0.downsample.0.weight", GT_PARAMETER, 4, { 256, 64, 1, 1 }, true,
	    true },
	{ "resnet101", "layer3.22.conv3.weight", GT_PARAMETER, 4, { 1024, 256, 1, 1 }, true, true },
	{ "resnet152", "layer4.0.downsample.1.running_var", GT_BUFFER, 1, { 2048 }, false, false },
	{ "resnet50", "fc.weight", GT_PARAMETER, 2, { 1000, 2048 }, true, false },
	{ "gpt2", "transformer.wte.weight", GT_PARAMETER, 2, { 50257, 768 }, true, false },
	{ "gpt2", "transformer.wpe.weight", GT_PARAMETER, 2, { 1024, 768 }, true, false },
	{ "gpt2", "transformer.h.11.attn.c_attn.weight", GT_PARAMETER, 2, { 768, 2304 }, true,
	    true },
	{ "gpt2", "transformer.h.0.attn.c_attn.bias", GT_PARAMETER, 1, { 2304 }, false, false },
	{ "gpt2", "transformer.h.0.ln_1.weight", GT_PARAMETER, 1, { 768 }, false, false },
	{ "gpt2", "transformer.h.3.mlp.c_proj.weight", GT_PARAMETER, 2, { 3072, 768 }, true, true },
	{ "gpt2", "transformer.ln_f.bias", GT_PARAMETER, 1, { 768 }, false, false },
	{ "bert", "bert.encoder.layer.3.attention.self.key.weight", GT_PARAMETER, 2, { 128, 128 },
	    true, true },
	{ "bert", "bert.pooler.dense.bias", GT_PARAMETER, 1, { 128 }, false, false },
	{ "roberta", "classifier.out_proj.weight", GT_PARAMETER, 2, { 2, 128 }, true, false },
	{ "distilbert", "distilbert.embeddings.LayerNorm.weight", GT_PARAMETER, 1, { 128 }, false,
	    false },
	{ "tinyllama", "model.embed_tokens.weight", GT_PARAMETER, 2, { 32000, 2048 }, true, false },
	{ "tinyllama", "model.layers.21.self_attn.q_proj.weight", GT_PARAMETER, 2, { 2048, 2048 },
	    true, true },
	{ "tinyllama", "model.layers.0.self_attn.k_proj.weight", GT_PARAMETER, 2, { 256, 2048 },
	    true, true },
	{ "tinyllama", "model.layers.0.input_layernorm.weight", GT_PARAMETER, 1, { 2048 }, false,
	    false },
	{ "tinyllama", "model.layers.3.mlp.down_proj.weight", GT_PARAMETER, 2, { 2048, 5632 }, true,
	    true },
	{ "tinyllama", "model.norm.weight", GT_PARAMETER, 1, { 2048 }, false, false },
	{ "tinyllama", "lm_head.weight", GT_PARAMETER, 2, { 32000, 2048 }, true, false },
	{ "vit-base", "class_token", GT_PARAMETER, 3, { 1, 1, 768 }, false, false },
	{ "vit-base", "conv_proj.weight", GT_PARAMETER, 4, { 768, 3, 16, 16 }, true, true },
	{ "vit-base", "encoder.pos_embedding", GT_PARAMETER, 3, { 1, 197, 768 }, false, false },
	{ "vit-base", "encoder.layers.encoder_layer_11.ln_1.weight", GT_PARAMETER, 1, { 768 },
	    false, false },
	{ "vit-base", "encoder.layers.encoder_layer_0.self_attention.in_proj_weight", GT_PARAMETER,
	    2, { 2304, 768 }, true, true },
	{ "vit-base", "encoder.layers.encoder_layer_0.self_attention.in_proj_bias", GT_PARAMETER, 1,
	    { 2304 }, false, false },
	{ "vit-base", "encoder.layers.encoder_layer_3.self_attention.out_proj.weight", GT_PARAMETER,
	    2, { 768, 768 }, true, true },
	{ "vit-base:hidden=99", "encoder.layers.encoder_layer_0.mlp.0.weight", GT_PARAMETER, 2,
	    { 99, 768 }, true, true },
	{ "vit-base", "encoder.layers.encoder_layer_0.mlp.3.bias", GT_PARAMETER, 1, { 768 }, false,
	    false },
	{ "vit-base", "encoder.ln.bias", GT_PARAMETER, 1, { 768 }, false, false },
	{ "vit:classes=7", "heads.head.weight", GT_PARAMETER, 2, { 7, 128 }, true, false },
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct named *n = &names[i];
		struct gt_model_io io;
		struct gt_graph *g = build(n->spec, GT_MODEL_TRAIN, 1, &io);
		const struct gt_value *v = gt_graph_find_stored(g, n->name);

		if (!v)
			fail_msg("%s has no '%s'", n->spec, n->name);
		assert_int_equal(v->role, n->role);
		assert_int_equal(v->ndim, n->ndim);
		for (int k = 0; k < n->ndim; k++)
			assert_int_equal(v->shape[k], n->shape[k]);
		assert_int_equal(v->decay, n->decay);
		assert_int_equal(v->hidden, n->hidden);
		gt_graph_free(g);
	}
}

/* Training and evaluation declare the same names in the same order: they share a store. */
static void test_purposes_agree(void **state)
{
	static const char *const specs[] = { "mlp:4,3", "lenet", "resnet20", "resnet50:image=32",
		"vit:dropout=0.1", "llama", "gpt:dropout=0.2" };

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct gt_model_io a_io, b_io;
		struct gt_graph *a = build(specs[i], GT_MODEL_TRAIN, 3, &a_io);
		struct gt_graph *b = build(specs[i], GT_MODEL_EVAL, 5, &b_io);
		size_t k = 0;

		for (size_t j = 0; j < a->value_count; j++) {
			if (a->values[j]->role != GT_PARAMETER && a->values[j]->role != GT_BUFFER)
				continue;
			while (k < b->value_count && b->values[k]->role != GT_PARAMETER &&
			       b->values[k]->role != GT_BUFFER)
				k++;
			assert_true(k < b->value_count);
			assert_string_equal(a->values[j]->name, b->values[k++]->name);
		}
		assert_non_null(a_io.loss);
		assert_int_equal(a_io.loss->ndim, 0);
		assert_null(a_io.stats);
		assert_non_null(b_io.stats);
		assert_null(b_io.rng);
		assert_int_equal(a_io.rng != NULL, strstr(specs[i], "dropout") != NULL);
		gt_graph_free(a);
		gt_graph_free(b);
	}
}

/* ---- initial values ---- */

struct moments {
	const char *name;
	double mean, deviation;
};

static void expect_moments(const struct gt_store *s, const struct moments *want)
{
	const struct gt_slot *slot = gt_store_find(s, want->name);
	float *x;
	double sum = 0, squares = 0, mean, deviation, error;

	assert_non_null(slot);
	x = test_device_copy(gt_store_data(s, slot), gt_slot_bytes(slot));
	for (int64_t i = 0; i < slot->count; i++)
		sum += x[i];
	mean = sum / (double)slot->count;
	for (int64_t i = 0; i < slot->count; i++)
		squares += (x[i] - mean) * (x[i] - mean);
	free(x);
	deviation = sqrt(squares / (double)slot->count);
	error = 4 * want->deviation / sqrt((double)slot->count); /* four standard errors */
	if (!(fabs(mean - want->mean) <= error) || !(fabs(deviation - want->deviation) <= error))
		fail_msg("%s: mean %g, deviation %g; %g, %g wanted", want->name, mean, deviation,
		    want->mean, want->deviation);
}

static struct gt_store *initialised(const char *spec, uint64_t seed)
{
	struct gt_model_io io;
	struct gt_graph *g = build(spec, GT_MODEL_TRAIN, 1, &io);
	struct gt_store *s;

	assert_int_equal(gt_store_new(&s, g, test_device(0), false, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_store_alloc(s, GT_ERR_IGNORED), 0);
	assert_int_equal(gt_store_init(s, seed, GT_ERR_IGNORED), 0);
	gt_graph_free(g);
	return s;
}

static void expect_initial(const char *spec, const struct moments *want, size_t count)
{
	struct gt_store *s = initialised(spec, 5);

	for (size_t i = 0; i < count; i++)
		expect_moments(s, &want[i]);
	gt_store_free(s);
}

#define EXPECT_INITIAL(spec, want) expect_initial(spec, want, sizeof(want) / sizeof((want)[0]))

/* Uniform in +-1/sqrt(fan-in) has deviation 1/sqrt(3 fan-in); kaiming_normal_ sqrt(2 / fan-in). */
static void test_initial_values(void **state)
{
	const struct moments lenet[] = {
		{ "conv2.weight", 0, 1 / sqrt(3.0 * 150) },
		{ "fc1.weight", 0, 1 / sqrt(3.0 * 400) },
		{ "fc1.bias", 0, 1 / sqrt(3.0 * 400) },
	};
	const struct moments resnet[] = {
		{ "conv1.weight", 0, sqrt(2.0 / 27) },
		{ "layer3.1.conv2.weight", 0, sqrt(2.0 / 576) },
		{ "linear.weight", 0, sqrt(2.0 / 64) },
		{ "linear.bias", 0, 1 / sqrt(3.0 * 64) },
		{ "bn1.weight", 1, 0 },
		{ "bn1.bias", 0, 0 },
		{ "bn1.running_mean", 0, 0 },
		{ "bn1.running_var", 1, 0 },
	};
	/* kaiming_normal_ with fan_out; torchvision leaves fc to torch.nn.Linear. */
	const struct moments resnet18[] = {
		{ "conv1.weight", 0, sqrt(2.0 / (64 * 49)) },
		{ "layer2.0.conv1.weight", 0, sqrt(2.0 / (128 * 9)) },
		{ "layer2.0.downsample.0.weight", 0, sqrt(2.0 / 128) },
		{ "layer4.1.bn2.weight", 1, 0 },
		{ "fc.weight", 0, 1 / sqrt(3.0 * 512) },
		{ "fc.bias", 0, 1 / sqrt(3.0 * 512) },
	};
	/* The last norm of each block alone begins at zero. */
	const struct moments two_norms[] = {
		{ "bn1.weight", 1, 0 },
		{ "layer4.1.bn1.weight", 1, 0 },
		{ "layer4.1.bn2.weight", 0, 0 },
		{ "layer2.0.downsample.1.weight", 1, 0 },
	};
	const struct moments three_norms[] = {
		{ "layer1.0.bn2.weight", 1, 0 },
		{ "layer1.0.bn3.weight", 0, 0 },
		{ "layer4.2.bn3.weight", 0, 0 },
		{ "layer4.2.bn3.running_var", 1, 0 },
	};

	(void)state;
	EXPECT_INITIAL("lenet", lenet);
	EXPECT_INITIAL("resnet20", resnet);
	EXPECT_INITIAL("resnet18:image=32", resnet18);
	EXPECT_INITIAL("resnet18:image=32,zero_init_residual=yes", two_norms);
	EXPECT_INITIAL("resnet50:image=32,zero_init_residual=yes", three_norms);
}

/* GPT-2's and LLaMA's deviation is 0.02. */
static void test_initial_values_of_transformers(void **state)
{
	const struct moments gpt[] = {
		{ "transformer.wte.weight", 0, 0.02 },
		{ "transformer.wpe.weight", 0, 0.02 },
		{ "transformer.h.1.attn.c_attn.weight", 0, 0.02 },
		{ "transformer.h.1.attn.c_proj.weight", 0, 0.02 / sqrt(8) },
		{ "transformer.h.3.mlp.c_proj.weight", 0, 0.02 / sqrt(8) },
		{ "transformer.h.0.mlp.c_fc.bias", 0, 0 },
		{ "transformer.h.0.ln_2.weight", 1, 0 },
	};
	const struct moments llama[] = {
		{ "model.embed_tokens.weight", 0, 0.02 },
		{ "model.layers.1.self_attn.o_proj.weight", 0, 0.02 },
		{ "model.layers.3.mlp.down_proj.weight", 0, 0.02 },
		{ "model.layers.0.post_attention_layernorm.weight", 1, 0 },
		{ "lm_head.weight", 0, 0.02 },
	};
	/* xavier_uniform_ has deviation sqrt(2 / (fan-in + fan-out)). */
	const struct moments vit[] = {
		{ "conv_proj.weight", 0, sqrt(1.0 / 48) },
		{ "conv_proj.bias", 0, 0 },
		{ "class_token", 0, 0 },
		{ "encoder.pos_embedding", 0, 0.02 },
		{ "encoder.layers.encoder_layer_0.ln_1.weight", 1, 0 },
		{ "encoder.layers.encoder_layer_0.self_attention.in_proj_weight", 0,
		    sqrt(2.0 / (4 * 128)) },
		{ "encoder.layers.encoder_layer_0.self_attention.in_proj_bias", 0, 0 },
		{ "encoder.layers.encoder_layer_5.self_attention.out_proj.weight", 0,
		    1 / sqrt(3.0 * 128) },
		{ "encoder.layers.encoder_layer_5.mlp.0.weight", 0, sqrt(2.0 / (5 * 128)) },
		{ "encoder.layers.encoder_layer_5.mlp.0.bias", 0, 1e-6 },
		{ "heads.head.weight", 0, 0 },
	};

	(void)state;
	EXPECT_INITIAL("gpt", gpt);
	EXPECT_INITIAL("llama", llama);
	EXPECT_INITIAL("vit", vit);
}

static void test_seeds(void **state)
{
	struct gt_store *a = initialised("lenet", 1), *b = initialised("lenet", 1),
	                *c = initialised("lenet", 2);
	size_t bytes = (size_t)a->flat_count * sizeof(float);
	void *of_a = test_device_copy(a->parameters->memory, bytes),
	     *of_b = test_device_copy(b->parameters->memory, bytes),
	     *of_c = test_device_copy(c->parameters->memory, bytes);

	(void)state;
	assert_memory_equal(of_a, of_b, bytes);
	assert_memory_not_equal(of_a, of_c, bytes);
	free(of_a);
	free(of_b);
	free(of_c);
	gt_store_free(a);
	gt_store_free(b);
	gt_store_free(c);
}

/* Ranges of the flat buffer: apart, aligned, in the order of the backward pass (the head first),
 * tied weights last. */
static void test_store_order(void **state)
{
	struct gt_store *s = initialised("gpt", 1);
	const struct gt_slot *head = gt_store_find(s, "transformer.ln_f.bias");
	const struct gt_slot *first = gt_store_find(s, "transformer.h.0.ln_1.weight");
	const struct gt_slot *table = gt_store_find(s, "transformer.wte.weight");
	int64_t elements = 0;

	(void)state;
	assert_int_equal(head->offset, 0);
	assert_true(first->offset > gt_store_find(s, "transformer.h.3.ln_1.weight")->offset);
	assert_true(table->offset > first->offset);
	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *a = &s->slots[i];

		assert_int_equal(a->offset % 16, 0);
		assert_true(a->offset + a->count <= s->flat_count);
		elements += a->count;
		for (size_t k = 0; k < i; k++)
			assert_true(a->offset >= s->slots[k].offset + s->slots[k].count ||
			            s->slots[k].offset >= a->offset + a->count);
	}
	assert_int_equal(elements, s->parameter_count);
	gt_store_free(s);
}

/* ---- specs and inputs ---- */

struct bad {
	const char *spec, *text, *hint;
};

#define DESCRIBED(FORM) "write " FORM "; 'gtrain help models' describes the settings"

#define MLP "inputs, hidden layers and classes, as in mlp:784,256,10"

static void test_bad_specs(void **state)
{
	static const struct bad cases[] = {
		{ "resnet2", "unknown model 'resnet2'", "did you mean 'resnet20'?" },
		{ "gpt:layer=2", "model 'gpt': unknown setting 'layer'",
		    "did you mean 'layers=2'? It takes: layers heads width eps hidden block vocab "
		    "dropout bias gelu" },
		{ "resnet18:width=2", "model 'resnet18': unknown setting 'width'",
		    "it takes: image classes zero_init_residual" },
		{ "gpt:layers=2,width=64,layers=3", "model 'gpt': 'layers' is given twice", "" },
		{ "llama:theta=0", "model 'llama': '0' is not a value for 'theta'",
		    DESCRIBED("theta=X") },
		{ "llama:rope=llama3:8:1:4",
		    "model 'llama': 'llama3:8:1:4' is not a value for 'rope'",
		    DESCRIBED("rope=KIND:N:...") },
		{ "llama:rope=linear:0", "model 'llama': 'linear:0' is not a value for 'rope'",
		    DESCRIBED("rope=KIND:N:...") },
		{ "smollm3:positions=yx", "model 'smollm3': 'yx' is not a value for 'positions'",
		    DESCRIBED("positions=PATTERN") },
		{ "gpt-neox:rotated=0", "model 'gpt-neox': '0' is not a value for 'rotated'",
		    DESCRIBED("rotated=X") },
		{ "llama:eps=nan", "model 'llama': 'nan' is not a value for 'eps'",
		    DESCRIBED("eps=X") },
		{ "vit:pach=4", "model 'vit': unknown setting 'pach'",
		    "did you mean 'patch=4'? It takes: image patch layers heads width eps hidden "
		    "classes dropout" },
		{ "convnext:depths=1-2-3", "model 'convnext': '1-2-3' is not a value for 'depths'",
		    DESCRIBED("depths=N-N-N-N") },
		{ "convnext:widths=8-8-8-8-8",
		    "model 'convnext': '8-8-8-8-8' is not a value for 'widths'",
		    DESCRIBED("widths=N-N-N-N") },
		{ "vit:patch=0", "model 'vit': '0' is not a value for 'patch'",
		    DESCRIBED("patch=N") },
		{ "lenet:x=1", "model 'lenet': unknown setting 'x'", "it takes none" },
		{ "gpt:layers=0", "model 'gpt': '0' is not a value for 'layers'",
		    DESCRIBED("layers=N") },
		{ "gpt:layers=3x", "model 'gpt': '3x' is not a value for 'layers'",
		    DESCRIBED("layers=N") },
		{ "gpt:dropout=1", "model 'gpt': '1' is not a value for 'dropout'",
		    DESCRIBED("dropout=P") },
		{ "gpt:bias=maybe", "model 'gpt': 'maybe' is not a value for 'bias'",
		    DESCRIBED("bias=yes|no") },
		{ "gpt:gelu=", "model 'gpt': '' is not a value for 'gelu'",
		    DESCRIBED("gelu=erf|tanh") },
		{ "mlp:5", "model 'mlp': at least two sizes", MLP },
		{ "mlp:5,x", "model 'mlp': 'x' is not a size", MLP },
		{ "mlp:1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "model 'mlp': more than 16 sizes", MLP },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_model *m;

		assert_int_equal(gt_model_open(&m, cases[i].spec, &err), GT_EINVAL);
		assert_null(m);
		assert_string_equal(err.text, cases[i].text);
		assert_string_equal(err.hint, cases[i].hint);
	}
}

#define IMAGES(HEIGHT, WIDTH, CHANNELS)                                                            \
	{                                                                                          \
		.form = {                                                                          \
			.kind = GT_SAMPLE_IMAGE,                                                   \
			.height = HEIGHT,                                                          \
			.width = WIDTH,                                                            \
			.channels = CHANNELS,                                                      \
			.classes = 10                                                              \
		}                                                                                  \
	}

static void test_bad_inputs(void **state)
{
	static const struct {
		const char *spec;
		struct gt_model_input in;
	} cases[] = {
		{ "lenet", { .form = { .kind = GT_SAMPLE_TOKENS, .block = 8, .classes = 10 } } },
		{ "lenet", IMAGES(8, 8, 1) },
		{ "resnet20", IMAGES(32, 16, 3) },
		{ "resnet20", IMAGES(32, 32, 9) },
		{ "resnet18", IMAGES(16, 16, 3) },
		{ "resnet18:image=64", IMAGES(32, 32, 3) },
		{ "resnet18:classes=9", IMAGES(32, 32, 3) },
		{ "resnet50", { .form = { .kind = GT_SAMPLE_TOKENS, .block = 8, .classes = 10 } } },
		{ "vit", IMAGES(30, 30, 3) },
		{ "vit", IMAGES(32, 16, 3) },
		{ "vit:image=64", IMAGES(32, 32, 3) },
		{ "vit:heads=5", IMAGES(32, 32, 3) },
		{ "vit", { .form = { .kind = GT_SAMPLE_TOKENS, .block = 8, .classes = 10 } } },
		{ "mlp:20,10",
		    { .form = { .kind = GT_SAMPLE_VECTOR, .features = 21, .classes = 10 } } },
		{ "mlp:20,10",
		    { .form = { .kind = GT_SAMPLE_VECTOR, .features = 20, .classes = 11 } } },
		{ "gpt", { .form = { .kind = GT_SAMPLE_VECTOR, .features = 20, .classes = 11 } } },
		{ "gpt:block=8",
		    { .form = { .kind = GT_SAMPLE_TOKENS, .block = 9, .classes = 11 } } },
		{ "gpt:vocab=10",
		    { .form = { .kind = GT_SAMPLE_TOKENS, .block = 9, .classes = 11 } } },
		{ "llama:heads=4,kv_heads=3",
		    { .form = { .kind = GT_SAMPLE_TOKENS, .block = 9, .classes = 11 } } },
		{ "llama:heads=4,width=12",
		    { .form = { .kind = GT_SAMPLE_TOKENS, .block = 9, .classes = 11 } } },
		{ "llama:block=8",
		    { .form = { .kind = GT_SAMPLE_TOKENS, .block = 9, .classes = 11 } } },
		{ "llama", IMAGES(8, 8, 1) },
		{ "gpt:width=10,heads=3",
		    { .form = { .kind = GT_SAMPLE_TOKENS, .block = 9, .classes = 11 } } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_model_io io;
		struct gt_model *m;
		struct gt_graph *g;

		assert_int_equal(gt_model_open(&m, cases[i].spec, &err), 0);
		assert_int_equal(gt_graph_new(&g, &err), 0);
		assert_int_equal(
		    gt_model_build(m, g, &cases[i].in, 2, GT_MODEL_TRAIN, &io, &err), GT_EINVAL);
		assert_true(strlen(err.text) > 0);
		gt_graph_free(g);
		gt_model_close(m);
	}
}

/* Mean pooling takes the whole image, however large. */
static void test_large_images(void **state)
{
	const struct gt_model_input in = { .form = { .kind = GT_SAMPLE_IMAGE,
		                               .height = 96,
		                               .width = 96,
		                               .channels = 3,
		                               .std = { 1, 1, 1 },
		                               .classes = 10 } };
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_io io;
	struct gt_model *m;
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_model_open(&m, "resnet20", &err), 0);
	assert_int_equal(gt_graph_new(&g, &err), 0);
	if (gt_model_build(m, g, &in, 2, GT_MODEL_TRAIN, &io, &err))
		fail_msg("%s", err.text);
	gt_graph_free(g);
	gt_model_close(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_sizes_are_known),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_purposes_agree),
		cmocka_unit_test(test_initial_values),
		cmocka_unit_test(test_initial_values_of_transformers),
		cmocka_unit_test(test_seeds),
		cmocka_unit_test(test_store_order),
		cmocka_unit_test(test_bad_specs),
		cmocka_unit_test(test_bad_inputs),
		cmocka_unit_test(test_large_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
