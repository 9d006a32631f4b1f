/* test_generate.c - generation with cached keys and values beside whole forward passes. */
/* This table runs on GPUs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/decode.h"
#include "lib/base/philox.h"
#include "lib/graph/ops/ops.h"
#include "lib/graph/pass.h"
#include "lib/train/generate.h"
#include "tests/common/device.h"

/* Relative to the largest logit, here 3 to 4: float32 sums of some hundred products, in another
 * order. On an H200 two logits near 0 were 1.1e-5 apart. */
static const double tolerance = 1e-5;

enum { TOKENS = 12, MOST = 64 };

static const char *const models[] = {
	"gpt:layers=2,heads=2,width=32,block=16,vocab=29",
	"gpt:layers=1,heads=3,width=33,block=9,vocab=67,bias=no,gelu=erf",
	"gpt2:layers=3,heads=4,width=64,block=24,vocab=50",
	"llama:layers=2,heads=6,kv_heads=2,width=48,block=24,vocab=29",
	"llama:layers=1,heads=2,kv_heads=2,width=32,block=9,vocab=31,tied=yes,theta=500",
	"gemma2:layers=2,heads=4,kv_heads=2,width=32,head_dim=6,block=16,vocab=29,window=5,"
	"score_cap=2,logit_cap=3,score_dim=9",
	"smollm3:layers=2,heads=4,kv_heads=2,width=32,block=16,vocab=29,window=4,windowed=yn,"
	"positions=ny,rope=yarn:4:8:32:1:1.2:1",
	"mixtral:layers=2,heads=4,kv_heads=2,width=32,block=16,vocab=29,experts=3",
};

/* ---- a model with weights that make a difference ---- */

struct fixture {
	struct gt_session s;
	struct gt_generator g;
	int32_t text[MOST]; /* the prompt, and the tokens written */
	int64_t count;
	int64_t tokens;      /* to write */
	enum gt_block block; /* how the weights are stored */
};

/* As from a model that has learned: logits some units apart, biases and norms of all sizes. */
static void fill_weights(struct gt_store *s)
{
	for (size_t i = 0; i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i], plain = gt_slot_plain(slot);
		float *x = malloc(gt_slot_bytes(&plain)), *stored = malloc(gt_slot_bytes(slot));
		struct gt_err err;

		assert_true(x && stored);
		for (int64_t k = 0; k < plain.count; k++) {
			double u = gt_philox_double(
			    gt_philox_u64(7, (uint64_t)k, GT_RNG_DATA, (uint32_t)i));

			x[k] = (float)(0.6 * (u - 0.5)) + (slot->init.kind == GT_INIT_ONES);
		}
		if (slot->packing.block)
			gt_slot_pack(slot, x, stored);
		else
			memcpy(stored, x, gt_slot_bytes(slot));
		assert_int_equal(gt_device_write(test_device(0), gt_store_data(s, slot), stored,
		                     gt_slot_bytes(slot), &err),
		    0);
		free(stored);
		free(x);
	}
}

static int make_prompt(struct gt_session *s, void *self, struct gt_err *err)
{
	struct fixture *f = self;

	(void)err;
	gt_model_preferred_input(s->model, &s->input);
	for (int64_t i = 0; i < f->count; i++)
		f->text[i] = (int32_t)((i * i + 3 * i + 1) % s->input.form.classes);
	return 0;
}

static int plan(struct gt_session *s, void *self, struct gt_err *err)
{
	struct fixture *f = self;

	return gt_generator_init(&f->g, s,
	    &(struct gt_generator_options){
	        .prompt = f->text, .prompt_count = (size_t)f->count, .tokens = f->tokens },
	    err);
}

static int set_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	(void)self;
	(void)err;
	fill_weights(s->store);
	/* NaN: no position is read before it is written */
	if (s->store->caches->memory)
		test_device_ruin(s->store->caches->memory, s->store->caches->elements);
	return 0;
}

static void open_packed(
    struct fixture *f, const char *spec, int64_t prompt, int64_t tokens, enum gt_block block)
{
	static const struct gt_session_purpose generation = {
		.input = make_prompt, .plan = plan, .weights = set_weights
	};
	const struct gt_session_options options = { .model = spec,
		.where.devices = test_device(0)->backend->name,
		.block = block,
		.parallel = { .forward = true } };
	struct gt_err err = GT_ERR_INIT;

	*f = (struct fixture){ .count = prompt, .tokens = tokens };
	if (gt_session_open(&f->s, &options, &generation, f, &err))
		fail_msg("%s: %s", spec, err.text);
}

static void open_fixture(struct fixture *f, const char *spec, int64_t prompt, int64_t tokens)
{
	open_packed(f, spec, prompt, tokens, GT_BLOCK_NONE);
}

static void close_fixture(struct fixture *f)
{
	gt_session_close(&f->s);
	gt_generator_release(&f->g);
}

/* ---- the reference: all positions of the window, without caches, by a program of its own ---- */

static int plan_reference(struct gt_graph *g, struct gt_store *store, struct gt_plan **plan,
    void **arena, struct gt_err *err)
{
	const struct gt_pass_options options = { .images = test_device(0)->backend->image_layout };

	if (gt_passes_run(g, &options, err) || gt_plan_new(plan, g, store, NULL, err) ||
	    gt_device_alloc(test_device(0), gt_plan_arena_bytes(*plan), arena, err))
		return err->code;
	return gt_plan_bind(*plan, *arena, err);
}

static void reference_logits(const struct fixture *f, float *logits)
{
	int64_t block = f->s.input.form.block, vocab = f->s.input.form.classes;
	int64_t count = f->count < block ? f->count : block;
	size_t all = (size_t)(count * vocab) * sizeof(float);
	struct gt_model_input input = f->s.input;
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_io io;
	struct gt_graph *g;
	struct gt_plan *plan = NULL;
	float *rows = malloc(all);
	void *arena = NULL;

	input.form.block = (int)count;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	if (gt_model_build(f->s.model, g, &input, 1, GT_MODEL_EVAL, &io, &err))
		fail_msg("%s", err.text);
	gt_output(g, io.logits, "logits");
	if (plan_reference(g, f->s.store, &plan, &arena, &err))
		fail_msg("%s", err.text);
	if (gt_plan_write(plan, io.input, f->text + f->count - count,
	        (size_t)count * sizeof(int32_t), &err) ||
	    gt_plan_write(plan, io.target, f->text, (size_t)count * sizeof(int32_t), &err) ||
	    gt_plan_run(plan, &err) || gt_plan_read(plan, io.logits, rows, all, &err))
		fail_msg("%s", err.text);
	memcpy(logits, rows + (count - 1) * vocab, (size_t)vocab * sizeof(float));
	gt_device_free(test_device(0), arena, gt_plan_arena_bytes(plan));
	gt_plan_free(plan);
	gt_graph_free(g);
	free(rows);
}

/* ---- the cases: every model, and prompts up to the block and beyond ---- */

static int64_t prompt_of(int number, int64_t block)
{
	const int64_t prompts[] = { 1, 2, 5, block - TOKENS / 2, block - 1, block, block + 5 };

	return number < 7 ? prompts[number] : 0;
}

static void for_each_case(void (*check)(const char *spec, int64_t prompt))
{
	for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
		struct gt_model_input input;
		struct gt_model *model;
		struct gt_err err;
		int64_t prompt;

		assert_int_equal(gt_model_open(&model, models[m], &err), 0);
		gt_model_preferred_input(model, &input);
		for (int i = 0; (prompt = prompt_of(i, input.form.block)); i++)
			if (test_takes_row(3, m + (size_t)i))
				check(models[m], prompt);
		gt_model_close(model);
	}
}

static double largest_of(const float *x, int count)
{
	double largest = 0;

	for (int i = 0; i < count; i++)
		largest = fmax(largest, fabs(x[i]));
	return largest;
}

static void check_logits(const char *spec, int64_t prompt)
{
	float logits[128], want[128];
	struct gt_err err = GT_ERR_INIT;
	struct fixture f;

	open_fixture(&f, spec, prompt, TOKENS);
	for (int i = 0; i < TOKENS; i++) {
		if (gt_generator_logits(&f.g, logits, &err))
			fail_msg("%s: %s", spec, err.text);
		reference_logits(&f, want);
		for (int k = 0; k < f.s.input.form.classes; k++)
			if (!(fabs(logits[k] - want[k]) <=
			        tolerance * largest_of(want, f.s.input.form.classes)))
				fail_msg(
				    "%s, %d tokens behind a prompt of %d: logit %d is %g, not %g",
				    spec, i, (int)prompt, k, logits[k], want[k]);
		f.text[f.count++] = (int32_t)((5 * i + prompt) % f.s.input.form.classes);
		gt_generator_append(&f.g, f.text[f.count - 1]);
	}
	close_fixture(&f);
}

static void test_logits(void **state)
{
	(void)state;
	for_each_case(check_logits);
}

static int append(void *self, int32_t id, struct gt_err *err)
{
	struct fixture *f = self;

	(void)err;
	f->text[f->count++] = id;
	return 0;
}

static const struct gt_sampling samplings[] = {
	{ .temperature = 0, .top_p = 1 },
	{ .temperature = 1, .top_p = 1, .seed = 5 },
	{ .temperature = 0.8, .top_k = 4, .top_p = 1, .seed = 6 },
	{ .temperature = 1.5, .top_p = 0.7, .seed = 7 },
};

/* The tokens that the generator has written behind the prompt, one by one from whole passes. */
static void check_text(
    const char *spec, const struct gt_sampling *o, struct fixture *f, int64_t prompt)
{
	int32_t written[MOST];
	float logits[128];
	struct gt_token_sampler sampler;

	memcpy(written, f->text, sizeof(written));
	assert_int_equal(
	    gt_token_sampler_init(&sampler, f->s.input.form.classes, o, GT_ERR_IGNORED), 0);
	f->count = prompt;
	for (int i = 0; i < TOKENS; i++) {
		int32_t id;

		reference_logits(f, logits);
		id = gt_token_sampler_draw(&sampler, logits, i);
		if (id != written[f->count])
			fail_msg("%s: token %d behind a prompt of %d is %d, not %d", spec, i,
			    (int)prompt, written[f->count], id);
		f->text[f->count++] = id;
	}
	gt_token_sampler_release(&sampler);
}

static void check_tokens(const char *spec, int64_t prompt)
{
	/* On other devices only the likeliest token is drawn: the host draws, from logits that
	 * test_logits() compares. */
	const size_t ways = test_device_is_cpu() ? sizeof(samplings) / sizeof(samplings[0]) : 1;

	for (size_t i = 0; i < ways; i++) {
		struct gt_err err = GT_ERR_INIT;
		struct fixture f;

		open_fixture(&f, spec, prompt, TOKENS);
		if (gt_generate(&f.g, TOKENS, &samplings[i], append, &f, &err))
			fail_msg("%s: %s", spec, err.text);
		assert_int_equal(f.count, prompt + TOKENS);
		check_text(spec, &samplings[i], &f, prompt);
		close_fixture(&f);
	}
}

static void test_tokens(void **state)
{
	(void)state;
	for_each_case(check_tokens);
}

/* ---- weights in blocks ---- */

/* Write the elements of a packed slot as the model has them. */
static void decode_slot(const struct gt_slot *slot, const unsigned char *stored, float *plain)
{
	const bool transposed = slot->packing.transposed;
	const int64_t rows = slot->shape[0], columns = slot->packing.shape[transposed ? 0 : 1];
	float row[512];

	assert_true(columns <= 512);
	for (int64_t r = 0; r < rows; r++) {
		gt_decode_row(row, stored + r * slot->shape[1], columns, slot->packing.block);
		for (int64_t c = 0; c < columns; c++)
			plain[transposed ? c * rows + r : r * columns + c] = row[c];
	}
}

/* Give a store the elements that another one has in blocks; the others are equal. Returns how many
 * slots have blocks of this type. */
static int copy_decoded(struct gt_store *to, const struct gt_store *from, enum gt_block block)
{
	int found = 0;

	for (size_t i = 0; i < to->slot_count; i++) {
		const struct gt_slot *slot = gt_store_find(from, to->slots[i].name);

		if (slot->packing.block)
			decode_slot(
			    slot, gt_store_data(from, slot), gt_store_data(to, &to->slots[i]));
		found += slot->packing.block == block;
	}
	return found;
}

/* The logits are those of the decoded weights in float32. Rounding the factors of products to 16
 * bits moves them by less than 3e-4 of the largest. */
static void check_blocks(const char *spec, int64_t prompt, enum gt_block block)
{
	float logits[128], want[128];
	struct gt_err err = GT_ERR_INIT;
	struct fixture packed, f;

	open_packed(&packed, spec, prompt, TOKENS, block);
	open_fixture(&f, spec, prompt, TOKENS);
	if (!copy_decoded(f.s.store, packed.s.store, block) && !strstr(spec, "width=33"))
		fail_msg("%s: no weight is in blocks of %s", spec, gt_block_names[block]);
	for (int i = 0; i < TOKENS; i++) {
		const int classes = f.s.input.form.classes;
		int32_t id = (int32_t)((5 * i + prompt) % classes);

		if (gt_generator_logits(&packed.g, logits, &err) ||
		    gt_generator_logits(&f.g, want, &err))
			fail_msg("%s: %s", spec, err.text);
		for (int k = 0; k < classes; k++)
			if (!(fabs(logits[k] - want[k]) <= 3e-4 * largest_of(want, classes)))
				fail_msg("%s in %s, %d tokens behind a prompt of %d: logit %d is "
				         "%g, not %g",
				    spec, gt_block_names[block], i, (int)prompt, k, logits[k],
				    want[k]);
		gt_generator_append(&packed.g, id);
		gt_generator_append(&f.g, id);
	}
	close_fixture(&packed);
	close_fixture(&f);
}

static void check_all_blocks(const char *spec, int64_t prompt)
{
	for (int block = GT_BLOCK_BF16; block < GT_BLOCKS; block++)
		check_blocks(spec, prompt, (enum gt_block)block);
}

static void test_blocks(void **state)
{
	(void)state;
	test_device_host_only();
	for_each_case(check_all_blocks);
}

/* ---- plans ---- */

/* Every program hands over one row of logits, and none is made that no text needs. */
static void test_programs(void **state)
{
	static const struct {
		int64_t prompt, tokens;
		bool first, next, window;
	} cases[] = {
		{ 1, 1, false, true, false },
		{ 1, 16, false, true, false },
		{ 1, 17, false, true, true },
		{ 7, 1, true, false, false },
		{ 7, 10, true, true, false },
		{ 7, 11, true, true, true },
		{ 15, 2, true, true, false },
		{ 15, 3, true, true, true },
		{ 16, 1, false, false, true },
		{ 40, 9, false, false, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture f;

		open_fixture(&f, models[0], cases[i].prompt, cases[i].tokens);
		assert_int_equal(f.g.first.plan != NULL, cases[i].first);
		assert_int_equal(f.g.next.plan != NULL, cases[i].next);
		assert_int_equal(f.g.window.plan != NULL, cases[i].window);
		assert_int_equal(f.g.vocab, 29);
		for (int k = 0; k < 3; k++) {
			const struct gt_program *p[] = { &f.g.first, &f.g.next, &f.g.window };

			if (p[k]->plan)
				assert_int_equal(gt_value_elements(p[k]->io.logits), 29);
		}
		close_fixture(&f);
	}
}

/* Both cached programs use one cache, of 2 x layers x block x width numbers, and state_dicts are
 * without it. */
static void test_caches(void **state)
{
	struct fixture f;
	size_t slots;

	(void)state;
	open_fixture(&f, models[0], 7, 2);
	slots = 2 + 2 * 12 + 2;
	assert_int_equal(f.s.store->slot_count, slots);
	assert_int_equal(f.s.store->cache_count, 4);
	assert_int_equal(f.s.store->caches->elements, 2 * 2 * 16 * 32 * sizeof(float));
	assert_null(gt_store_find(f.s.store, "transformer.h.0.attn.keys"));
	assert_non_null(gt_store_find_cache(f.s.store, "transformer.h.1.attn.values"));
	close_fixture(&f);
}

static void add_cache(struct gt_store *store, const char *name, int64_t n, const char *refusal)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_graph *g;
	int rc;

	assert_int_equal(gt_graph_new(&g, &err), 0);
	assert_non_null(gt_cache(g, name, GT_F32, 1, &n));
	rc = gt_store_add_caches(store, g, &err);
	assert_string_equal(rc ? err.text : "", refusal);
	gt_graph_free(g);
}

static void test_cache_refusals(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_store *store;
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_graph_new(&g, &err), 0);
	assert_int_equal(gt_store_new(&store, g, test_device(0), false, &err), 0);
	add_cache(store, "a", 5, "");
	add_cache(store, "b", 40, "");
	add_cache(store, "a", 6, "cache 'a' has another type or shape in this store");
	assert_int_equal(gt_store_alloc(store, &err), 0);
	add_cache(store, "b", 40, "");
	add_cache(store, "c", 1, "cache 'c' comes after the store's memory");
	assert_int_equal(store->cache_count, 2);
	assert_int_equal((char *)gt_store_data(store, gt_store_find_cache(store, "b")) -
	                     (char *)gt_store_data(store, gt_store_find_cache(store, "a")),
	    64);
	gt_store_free(store);
	gt_graph_free(g);
}

static void test_models_that_write_no_text(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_model_input input;
	struct gt_model_io io;
	struct gt_model *model;
	struct gt_graph *g;

	(void)state;
	assert_int_equal(gt_model_open(&model, "mlp:4,3", &err), 0);
	gt_model_preferred_input(model, &input);
	assert_int_equal(gt_graph_new(&g, &err), 0);
	assert_int_equal(
	    gt_model_build(model, g, &input, 1, GT_MODEL_GENERATE, &io, &err), GT_EINVAL);
	assert_string_equal(err.text, "model 'mlp' writes no text");
	gt_graph_free(g);
	gt_model_close(model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logits),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_caches),
		cmocka_unit_test(test_cache_refusals),
		cmocka_unit_test(test_models_that_write_no_text),
	};

	omp_set_num_threads(1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
