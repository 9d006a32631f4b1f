/* test_tensor.c - ranks that hold parts of each layer have the loss and the gradients of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "lib/parallel/tensor/tensor.h"
#include "tests/common/model_ranks.h"

enum { SAMPLES = 4, MOST = 4, GRADIENTS = 0, WEIGHTS = 1 };

static const struct gt_optim_options adamw = {
	.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1, .clip = 0.1
};

/* Sizes that no number of ranks divides, dropout, layers without a partner, no biases. */
static const char *const specs[] = {
	"mlp:20,32,10",
	"mlp:7,5,4,3",
	"gpt:layers=2,heads=4,width=32,block=8,vocab=51",
	"gpt:layers=1,heads=5,width=20,block=7,vocab=13,dropout=0.3",
	"gpt2:layers=1,heads=4,width=16,block=6,vocab=37,bias=no,gelu=erf",
	"llama:layers=1,heads=8,kv_heads=4,width=32,block=6,vocab=37,tied=yes",
	"llama:layers=1,heads=5,kv_heads=5,width=20,hidden=23,block=7,vocab=13",
	"vit:image=8,patch=4,layers=2,heads=4,width=32,classes=5",
};

enum { SPECS = sizeof(specs) / sizeof(*specs) };

static struct model_rank told(const char *spec, int tensor, bool evaluates)
{
	return (struct model_rank){ .spec = spec,
		.options = { .bucket_bytes = 4096, .tensor = tensor },
		.samples = SAMPLES,
		.evaluates = evaluates,
		.optimizer = &adamw };
}

/* ---- ranks beside one ---- */

static int count_once(struct model_rank *r)
{
	return model_rank_step(r, 1);
}

static int train(struct model_rank *r)
{
	int rc = model_rank_step(r, 1);

	if (!rc)
		rc = model_rank_collect(r, GRADIENTS, r->store->gradients);
	if (!rc)
		rc = model_rank_update(r, 0.01);
	return rc ? rc : model_rank_collect(r, WEIGHTS, r->store->parameters);
}

static void run_ranks(struct model_rank *ranks, int size, const struct model_rank *like,
    int (*then)(struct model_rank *r))
{
	model_ranks_run(ranks, size, like, then);
	model_ranks_expect_well(ranks, size);
}

/*
 * Keys' biases do not change the loss: their gradient is rounding alone, of the size of other
 * gradients'.
 */
static void compare_tensors(const struct model_rank *one, void **a, void **b, const char *what)
{
	double largest = 0;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < one->store->slot_count; i++) {
			const struct gt_slot *slot = &one->store->slots[i];

			for (int64_t k = 0; k < slot->count; k++) {
				double x = ((float *)a[i])[k], y = ((float *)b[i])[k];

				largest = pass ? largest : fmax(largest, fabs(x));
				if (pass && !(fabs(x - y) <= 2e-6 * largest))
					fail_msg("%s: %s of '%s', element %lld: %g, of ranks %g",
					    one->spec, what, slot->name, (long long)k, x, y);
			}
		}
	assert_true(largest > 1e-3);
}

/* All ranks have the same bits of parameters that are not sharded. */
static void compare_replicas(const struct model_rank *ranks, int size)
{
	size_t compared = 0;

	for (size_t i = 0; i < ranks->store->slot_count; i++) {
		const struct gt_slot *slot = &ranks->store->slots[i];

		if (gt_tp_sharding(ranks->parallel, slot->name))
			continue;
		compared++;
		for (int r = 1; r < size; r++) {
			const struct gt_slot *other = &ranks[r].store->slots[i];

			assert_memory_equal(gt_slot_address(ranks->store->gradients, slot),
			    gt_slot_address(ranks[r].store->gradients, other), gt_slot_bytes(slot));
			assert_memory_equal(gt_store_data(ranks->store, slot),
			    gt_store_data(ranks[r].store, other), gt_slot_bytes(slot));
		}
	}
	assert_true(compared > 0);
}

static void compare_training(const char *spec, int size, int tensor)
{
	const struct model_rank like = told(spec, tensor, false);
	struct model_rank ranks[MOST], one;
	double loss = 0;

	run_ranks(&one, 0, &like, train);
	run_ranks(ranks, size, &like, train);
	for (int i = 0; i < size; i++) {
		assert_true(ranks[i].loss == ranks[i - i % tensor].loss);
		loss += i % tensor ? 0 : ranks[i].loss;
		assert_true(ranks[i].norm == ranks->norm);
	}
	if (!(fabs(loss - one.loss) <= 1e-6 * one.loss))
		fail_msg("%s on %d: loss %.9g, of one %.9g", spec, size, loss, one.loss);
	if (!(fabs(ranks->norm - one.norm) <= 1e-6 * one.norm))
		fail_msg("%s on %d: norm %.9g, of one %.9g", spec, size, ranks->norm, one.norm);
	compare_tensors(&one, one.whole[GRADIENTS], ranks->whole[GRADIENTS], "gradient");
	compare_tensors(&one, one.whole[WEIGHTS], ranks->whole[WEIGHTS], "weight");
	compare_replicas(ranks, size);
	model_ranks_close(&one, 0);
	model_ranks_close(ranks, size);
}

static void parts_have_the_gradients_of_one(void **state)
{
	(void)state;
	for (int i = 0; i < SPECS; i++)
		for (int n = 2; n <= MOST; n++)
			compare_training(specs[i], n, n);
}

static void two_by_two_have_the_gradients_of_one(void **state)
{
	(void)state;
	for (int i = 0; i < SPECS; i++)
		compare_training(specs[i], 4, 2);
}

static void evaluation_counts_as_one_does(void **state)
{
	(void)state;
	for (int i = 0; i < SPECS; i++) {
		for (int n = 2; n <= MOST; n++) {
			const struct model_rank like = told(specs[i], n, true);
			struct model_rank ranks[MOST], one;

			run_ranks(&one, 0, &like, count_once);
			run_ranks(ranks, n, &like, count_once);
			assert_true(one.stats[1] > 0 && one.stats[3] > 0);
			for (int r = 0; r < n; r++) {
				assert_true(
				    fabs(ranks[r].stats[0] - one.stats[0]) <= 1e-6 * one.stats[0]);
				for (int k = 1; k < MODEL_RANK_STATS; k++)
					assert_true(ranks[r].stats[k] == one.stats[k]);
			}
			model_ranks_close(&one, 0);
			model_ranks_close(ranks, n);
		}
	}
}

/* ---- classes ranked before the target ---- */

enum { WIDTH = 4, VOCAB = 13 };

/* Logits that tie: row i of the table, which is the head, is i mod 3 in its first column and 0 in
 * the others. And one that is NaN. */
static int set_table(struct model_rank *r, bool nan)
{
	float whole[VOCAB * WIDTH];
	const struct gt_slot *slot = gt_store_find(r->store, "transformer.wte.weight");

	for (int i = 0; i < VOCAB; i++)
		for (int k = 0; k < WIDTH; k++)
			whole[i * WIDTH + k] = k ? 0 : (float)(i % 3);
	if (nan)
		whole[(VOCAB - 1) * WIDTH] = NAN;
	if (r->parallel)
		return gt_parallel_scatter_slot(
		    r->parallel, r->store->parameters, slot, whole, &r->err);
	memcpy(gt_store_data(r->store, slot), whole, sizeof(whole));
	return 0;
}

static int evaluate_ties(struct model_rank *r)
{
	int rc = set_table(r, false);

	return rc ? rc : model_rank_step(r, 1);
}

static int evaluate_nan(struct model_rank *r)
{
	int rc = set_table(r, true);

	return rc ? rc : model_rank_step(r, 1);
}

static void ties_and_nans_are_judged_alike(void **state)
{
	const struct model_rank like =
	    told("gpt:layers=1,heads=2,width=4,block=8,vocab=13", 2, true);

	(void)state;
	for (int nan = 0; nan < 2; nan++) {
		struct model_rank ranks[2], one;

		run_ranks(&one, 0, &like, nan ? evaluate_nan : evaluate_ties);
		run_ranks(ranks, 2, &like, nan ? evaluate_nan : evaluate_ties);
		assert_true(isnan(one.stats[0]) == (nan == 1));
		assert_true(isnan(ranks[1].stats[0]) == (nan == 1));
		for (int k = 1; k < MODEL_RANK_STATS; k++)
			assert_true(ranks[0].stats[k] == one.stats[k]);
		assert_true(nan ? one.stats[3] == 0 : one.stats[3] > one.stats[2]);
		model_ranks_close(&one, 0);
		model_ranks_close(ranks, 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_have_the_gradients_of_one),
		cmocka_unit_test(two_by_two_have_the_gradients_of_one),
		cmocka_unit_test(evaluation_counts_as_one_does),
		cmocka_unit_test(ties_and_nans_are_judged_alike),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
