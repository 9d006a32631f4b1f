/* test_axes.c - grids of ranks: each combination of axes has the numbers of one rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/model_ranks.h"

enum { MOST = 8, SAMPLES = 8, STEPS = 2 };
enum { GRADIENTS = 0, WEIGHTS = 1, STATES = 2 };

/* Parameters that two stages use, shards of unequal size, layers without a partner. */
#define GPT   "gpt:layers=2,heads=3,width=24,block=8,vocab=53"
#define LLAMA "llama:layers=2,heads=4,kv_heads=2,width=32,block=8,vocab=51"
#define VIT   "vit:image=8,patch=4,layers=2,heads=3,width=24,classes=5"
#define MLP   "mlp:20,33,10,14,9"

static const struct grid {
	const char *spec;
	int tensor, data, stages;
	enum gt_parallel_kind kind;
	int chunks;
	enum gt_pipeline_schedule schedule;
	int micro_batches;
	bool drops;    /* dropout, drawn as on one rank */
	bool sequence; /* ranks that share layers divide the rows between them */
} grids[] = {
	{ GPT, 2, 1, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_GPIPE, 1, false, false },
	{ GPT, 2, 2, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_1F1B, 1, false, false },
	{ GPT, 2, 2, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_1F1B, 2, true, false },
	{ GPT, 2, 1, 4, GT_PARALLEL_DDP, 4, GT_PIPELINE_1F1B, 1, false, false },
	{ GPT, 3, 1, 2, GT_PARALLEL_DDP, 1, GT_PIPELINE_GPIPE, 1, false, false },
	{ LLAMA, 2, 1, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_1F1B, 1, false, true },
	{ LLAMA, 2, 2, 1, GT_PARALLEL_ZERO3, 0, 0, 2, false, false },
	{ LLAMA, 2, 2, 1, GT_PARALLEL_DDP, 0, 0, 1, false, true },
	{ LLAMA ",tied=yes", 1, 2, 2, GT_PARALLEL_ZERO1, 2, GT_PIPELINE_GPIPE, 1, false, false },
	{ LLAMA ",tied=yes", 2, 1, 1, GT_PARALLEL_DDP, 0, 0, 1, false, true },
	{ VIT, 2, 1, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_GPIPE, 1, false, false },
	{ VIT, 3, 2, 1, GT_PARALLEL_ZERO3, 0, 0, 2, true, false },
	{ VIT, 1, 2, 2, GT_PARALLEL_ZERO1, 2, GT_PIPELINE_1F1B, 1, true, false },
	{ VIT, 2, 1, 1, GT_PARALLEL_DDP, 0, 0, 1, false, true },
	{ VIT, 2, 2, 1, GT_PARALLEL_ZERO3, 0, 0, 1, false, true },
	{ VIT, 2, 1, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_1F1B, 1, false, true },
	{ MLP, 2, 1, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_1F1B, 1, false, false },
	{ MLP, 3, 1, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_GPIPE, 1, false, false },
	{ MLP, 2, 2, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_GPIPE, 1, false, false },
	{ MLP, 2, 1, 4, GT_PARALLEL_DDP, 8, GT_PIPELINE_1F1B, 1, false, false },
	{ GPT, 2, 2, 1, GT_PARALLEL_ZERO1, 0, 0, 1, false, false },
	{ GPT, 2, 4, 1, GT_PARALLEL_ZERO1, 0, 0, 2, true, false },
	{ GPT, 3, 1, 1, GT_PARALLEL_ZERO1, 0, 0, 1, false, false },
	{ MLP, 2, 2, 1, GT_PARALLEL_ZERO1, 0, 0, 1, false, false },
	{ GPT, 2, 2, 1, GT_PARALLEL_ZERO2, 0, 0, 1, false, false },
	{ GPT, 3, 2, 1, GT_PARALLEL_ZERO2, 0, 0, 2, true, false },
	{ MLP, 2, 2, 1, GT_PARALLEL_ZERO2, 0, 0, 1, false, false },
	{ GPT, 2, 2, 1, GT_PARALLEL_ZERO3, 0, 0, 1, false, false },
	{ GPT, 3, 2, 1, GT_PARALLEL_ZERO3, 0, 0, 2, true, false },
	{ MLP, 2, 4, 1, GT_PARALLEL_ZERO3, 0, 0, 1, false, false },
	{ GPT, 2, 1, 1, GT_PARALLEL_DDP, 0, 0, 1, false, true },
	{ GPT, 2, 2, 1, GT_PARALLEL_DDP, 0, 0, 2, true, true },
	{ GPT, 2, 2, 1, GT_PARALLEL_ZERO1, 0, 0, 1, true, true },
	{ GPT, 2, 2, 1, GT_PARALLEL_ZERO3, 0, 0, 1, true, true },
	{ GPT, 2, 2, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_1F1B, 1, true, true },
	{ GPT, 2, 1, 4, GT_PARALLEL_DDP, 4, GT_PIPELINE_GPIPE, 1, false, true },
	{ "gpt:layers=1,heads=4,width=16,block=8,vocab=11", 4, 1, 1, GT_PARALLEL_DDP, 0, 0, 1, true,
	    true },
	{ "gpt:layers=1,heads=4,width=16,block=8,vocab=11,bias=no", 4, 2, 1, GT_PARALLEL_ZERO1, 0,
	    0, 1, true, true },
	{ MLP, 2, 2, 1, GT_PARALLEL_DDP, 0, 0, 1, false, true },
	{ MLP, 2, 1, 2, GT_PARALLEL_DDP, 2, GT_PIPELINE_1F1B, 1, false, true },
	{ GPT, 1, 2, 2, GT_PARALLEL_MIRRORED, 2, GT_PIPELINE_1F1B, 1, false, false },
	{ GPT, 2, 2, 2, GT_PARALLEL_MIRRORED, 2, GT_PIPELINE_1F1B, 1, false, false },
	{ GPT, 1, 2, 2, GT_PARALLEL_ZERO1, 2, GT_PIPELINE_1F1B, 1, false, false },
	{ GPT, 1, 2, 3, GT_PARALLEL_ZERO1, 4, GT_PIPELINE_GPIPE, 1, false, false },
	{ GPT, 1, 4, 2, GT_PARALLEL_ZERO1, 2, GT_PIPELINE_1F1B, 1, true, false },
	{ "lenet", 1, 2, 2, GT_PARALLEL_ZERO1, 2, GT_PIPELINE_1F1B, 1, false, false },
	{ GPT, 2, 2, 2, GT_PARALLEL_ZERO1, 2, GT_PIPELINE_1F1B, 1, false, false },
	{ MLP, 2, 2, 2, GT_PARALLEL_ZERO1, 2, GT_PIPELINE_GPIPE, 2, false, false },
};

enum { GRIDS = sizeof(grids) / sizeof(*grids) };

static const struct gt_optim_options adamw = {
	.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1, .clip = 0.1
};

static struct model_rank told(const struct grid *g, char *spec, size_t size)
{
	snprintf(spec, size, "%s%s", g->spec, g->drops ? ",dropout=0.3" : "");
	return (struct model_rank){ .spec = spec,
		.options = { .kind = g->kind,
		    .bucket_bytes = 4096,
		    .tensor = g->tensor,
		    .sequence = g->sequence,
		    .stages = g->stages,
		    .chunks = g->chunks,
		    .pipeline_schedule = g->schedule },
		.samples = SAMPLES,
		.micro_batches = g->micro_batches,
		.accumulate = g->stages > 1,
		.optimizer = &adamw };
}

static const char *name_of(const struct grid *g)
{
	static char name[128];

	snprintf(name, sizeof(name), "%s, %d x %d x %d, %s%s", g->spec, g->stages, g->data,
	    g->tensor, gt_parallel_names[g->kind], g->sequence ? ", sequence" : "");
	return name;
}

/* ---- training ---- */

static int train(struct model_rank *r)
{
	int rc = 0;

	for (int i = 0; !rc && i < STEPS; i++) {
		if (i && r->accumulate)
			rc = gt_optim_zero_grad(r->optim, &r->err);
		if (!rc)
			rc = model_rank_step(r, 1);
		if (!rc && !i)
			rc = model_rank_collect(r, GRADIENTS, r->store->gradients);
		if (!rc)
			rc = model_rank_update(r, 0.01);
	}
	if (!rc)
		rc = model_rank_collect(r, WEIGHTS, r->store->parameters);
	return rc ? rc : model_rank_collect_state(r, STATES, 1);
}

static double largest_of(const struct gt_store *s, void **tensors)
{
	double largest = 0;

	for (size_t i = 0; i < s->slot_count; i++)
		for (int64_t k = 0; tensors[i] && k < s->slots[i].count; k++)
			largest = fmax(largest, fabs(((float *)tensors[i])[k]));
	return largest;
}

/* Keys' biases change no loss: their gradient is rounding, so differences are measured by the
 * largest element of all tensors. */
static void compare(const struct grid *g, const struct model_rank *one,
    const struct model_rank *many, int which, double max)
{
	const struct gt_store *s = one->store;
	double largest = largest_of(s, one->whole[which]);

	assert_true(largest > 0);
	for (size_t i = 0; i < s->slot_count; i++) {
		const float *a = one->whole[which][i], *b = many->whole[which][i];

		for (int64_t k = 0; a && k < s->slots[i].count; k++)
			if (!(fabs((double)a[k] - (double)b[k]) <= max * largest))
				fail_msg("%s: whole %d of '%s', element %lld: %g, of one %g",
				    name_of(g), which, s->slots[i].name, (long long)k, b[k], a[k]);
	}
}

/* Ranks that share layers have the same loss, so one of them counts. */
static void compare_with_one(const struct grid *g)
{
	struct model_rank ranks[MOST], one, like;
	int count = g->tensor * g->data * g->stages;
	double loss = 0;
	char spec[128];

	like = told(g, spec, sizeof(spec));
	model_ranks_run(ranks, count, &like, train);
	model_ranks_expect_well(ranks, count);
	like.accumulate = false;
	model_ranks_run(&one, 0, &like, train);
	model_ranks_expect_well(&one, 0);
	for (int i = 0; i < count; i++) {
		assert_true(ranks[i].loss == ranks[i - i % g->tensor].loss);
		assert_true(ranks[i].norm == ranks->norm);
		loss += i % g->tensor ? 0 : ranks[i].loss;
	}
	if (!(one.loss > 0.1 && fabs(loss - one.loss) <= 1e-6 * one.loss))
		fail_msg("%s: loss %.9g, of one %.9g", name_of(g), loss, one.loss);
	if (!(one.norm > 0.1 && fabs(ranks->norm - one.norm) <= 2e-6 * one.norm))
		fail_msg("%s: norm %.9g, of one %.9g", name_of(g), ranks->norm, one.norm);
	compare(g, &one, ranks, GRADIENTS, 4e-6);
	compare(g, &one, ranks, WEIGHTS, 4e-6);
	compare(g, &one, ranks, STATES, 8e-6);
	model_ranks_close(ranks, count);
	model_ranks_close(&one, 0);
}

static void grids_have_the_gradients_weights_and_states_of_one(void **state)
{
	(void)state;
	for (int i = 0; i < GRIDS; i++)
		compare_with_one(&grids[i]);
}

/* ---- the elements that ranks hold ---- */

static float number(const struct gt_slot *slot, int64_t element)
{
	return (float)(slot->index * 7 + element);
}

static int scatter_slot(
    struct model_rank *r, const struct gt_plane *plane, const struct gt_slot *slot)
{
	float *whole = calloc((size_t)slot->count, sizeof(*whole));
	int rc;

	for (int64_t k = 0; k < slot->count; k++)
		whole[k] = number(slot, k);
	rc = gt_parallel_scatter_slot(r->parallel, plane, slot, whole, &r->err);
	free(whole);
	return rc;
}

/* Rank 0 reads all parameters, the last first, in an order that the other ranks do not know. */
static int fetch_backwards(struct model_rank *r)
{
	const struct gt_store *s = r->store;
	float part[7];

	if (r->group->rank)
		return gt_parallel_serve(r->parallel, &r->err);
	for (size_t i = s->slot_count; i-- > 0;) {
		const struct gt_slot *slot = &s->slots[i];
		int64_t count = slot->count < 7 ? slot->count : 7, first = slot->count - count;

		if (slot->role != GT_PARAMETER)
			continue;
		if (gt_parallel_fetch(
		        r->parallel, s->parameters, slot, first, count, part, &r->err))
			break;
		for (int64_t k = 0; k < count; k++)
			if (part[k] != number(slot, first + k))
				gt_err_set(&r->err, GT_EINVAL, "'%s': element %lld is %g",
				    slot->name, (long long)(first + k), (double)part[k]);
	}
	return gt_parallel_end_fetches(r->parallel, GT_ERR_IGNORED) ? GT_EINVAL : r->err.code;
}

/* Every element is held somewhere, and comes back from where it went. */
static int scatter_and_gather(struct model_rank *r)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < r->store->slot_count; i++) {
		const struct gt_slot *slot = &r->store->slots[i];

		if (slot->role != GT_PARAMETER)
			continue;
		rc = scatter_slot(r, r->store->parameters, slot);
		if (!rc)
			rc = scatter_slot(r, model_rank_state(r, slot, 1), slot);
	}
	if (!rc)
		rc = model_rank_collect(r, 0, r->store->parameters);
	if (!rc)
		rc = model_rank_collect_state(r, 1, 1);
	return rc ? rc : fetch_backwards(r);
}

static void gather_inverts_scatter(void **state)
{
	(void)state;
	for (int i = 0; i < GRIDS; i++) {
		const struct grid *g = &grids[i];
		int count = g->tensor * g->data * g->stages;
		struct model_rank ranks[MOST], like;
		char spec[128];

		like = told(g, spec, sizeof(spec));
		model_ranks_run(ranks, count, &like, scatter_and_gather);
		model_ranks_expect_well(ranks, count);
		for (size_t k = 0; k < 2 * ranks->store->slot_count; k++) {
			const struct gt_slot *slot = &ranks->store->slots[k / 2];
			const float *whole = ranks->whole[k % 2][k / 2];

			for (int64_t e = 0; whole && e < slot->count; e++)
				if (whole[e] != number(slot, e))
					fail_msg("%s: '%s', element %lld is %g, not %g", name_of(g),
					    slot->name, (long long)e, whole[e], number(slot, e));
		}
		model_ranks_close(ranks, count);
	}
}

/* ---- the grid ---- */

/* rank = (pipeline seat * data seats + data seat) * tensor seats + tensor seat */
static void ranks_have_their_seats(void **state)
{
	const struct gt_parallel_options options = { .ranks = 12, .tensor = 2, .stages = 3 };

	(void)state;
	for (int rank = 0; rank < options.ranks; rank++) {
		struct gt_parallel_options o = options;
		struct gt_err err = GT_ERR_INIT;
		struct gt_parallel *p;

		o.rank = rank;
		assert_int_equal(gt_parallel_new(&p, &o, NULL, &err), 0);
		assert_int_equal(gt_parallel_seat(p, GT_AXIS_TENSOR), rank % 2);
		assert_int_equal(gt_parallel_seat(p, GT_AXIS_DATA), rank / 2 % 2);
		assert_int_equal(gt_parallel_seat(p, GT_AXIS_PIPELINE), rank / 4);
		assert_int_equal(gt_parallel_axis(p, GT_AXIS_PIPELINE)->size, 3);
		assert_int_equal(gt_parallel_axis(p, GT_AXIS_VIRTUAL)->size, 1);
		gt_parallel_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_have_their_seats),
		cmocka_unit_test(gather_inverts_scatter),
		cmocka_unit_test(grids_have_the_gradients_weights_and_states_of_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
