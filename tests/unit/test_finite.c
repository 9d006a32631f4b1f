/* test_finite.c - numbers that are not finite are found, by all ranks, wherever they are held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/train/finite.h"
#include "tests/common/model_ranks.h"

enum { MOST = 4, STATES = 2 };

static const struct gt_optim_options adamw = {
	.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3
};

static const double values[] = { NAN, INFINITY, -INFINITY };

/* The rank that is given its part of a tensor; -1: all are. */
static int only;

static int give(struct model_rank *r, const struct gt_slot *slot, int state, const void *whole)
{
	enum gt_held what = state < 0 ? GT_HELD_DATA : GT_HELD_STATE;
	float *flat =
	    slot->role == GT_BUFFER ? r->store->buffers->memory : r->store->parameters->memory;

	if (only >= 0 && r->group->rank != only)
		return 0;
	if (state >= 0)
		gt_optim_state(r->optim, slot, state, &flat);
	return gt_parallel_scatter_slot(r->parallel, slot, what, flat, whole, &r->err);
}

static void expect(struct model_rank *r, const struct gt_slot *slot, int state, double value)
{
	static const char *const states[STATES] = { "exp_avg", "exp_avg_sq" };
	struct gt_nonfinite found;

	if (gt_find_nonfinite(&found, r->store, r->optim, r->group, &r->err))
		return;
	if (found.slot != slot || (slot && memcmp(&found.value, &value, sizeof(value)) != 0) ||
	    (slot && (found.state ? state < 0 || strcmp(found.state, states[state]) : state >= 0)))
		gt_err_set(&r->err, GT_EINVAL, "rank %d: '%s' %s %g, not '%s' %d %g",
		    r->group->rank, found.slot ? found.slot->name : "",
		    found.state ? found.state : "", found.value, slot ? slot->name : "", state,
		    value);
}

/* One number at the ends and in the middle of each tensor, and nothing once it is gone. */
static int look(struct model_rank *r)
{
	const struct gt_store *s = r->store;

	expect(r, NULL, -1, 0);
	for (size_t i = 0; !r->err.code && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		const int64_t places[] = { 0, slot->count / 2, slot->count - 1 };
		float *whole = calloc((size_t)slot->count, sizeof(*whole));

		for (int state = -1; state < (slot->role == GT_PARAMETER ? STATES : 0); state++)
			for (int k = 0; slot->dtype == GT_F32 && k < 3; k++) {
				whole[places[k]] = (float)values[k];
				give(r, slot, state, whole);
				expect(r, slot, state, values[k]);
				whole[places[k]] = 0;
				give(r, slot, state, whole);
			}
		free(whole);
	}
	expect(r, NULL, -1, 0);
	return r->err.code;
}

static void run(const char *spec, int count, int rank, struct gt_parallel_options options)
{
	struct model_rank like = { .spec = spec,
		.options = options,
		.samples = 12,
		.accumulate = options.kind >= GT_PARALLEL_ZERO1 || options.stages > 1,
		.optimizer = &adamw };
	struct model_rank ranks[MOST];

	only = rank;
	like.options.bucket_bytes = 256;
	model_ranks_run(ranks, count, &like, look);
	model_ranks_expect_well(ranks, count);
	model_ranks_close(ranks, count);
}

static void whatever_ranks_hold(void **state)
{
	const char *mlp = "mlp:7,5,4,3";

	(void)state;
	for (int n = 1; n <= MOST; n++) {
		run(mlp, n, n - 1, (struct gt_parallel_options){ .kind = GT_PARALLEL_DDP });
		run(mlp, n, -1, (struct gt_parallel_options){ .kind = GT_PARALLEL_ZERO1 });
		run(mlp, n, -1, (struct gt_parallel_options){ .kind = GT_PARALLEL_ZERO2 });
		run(mlp, n, -1, (struct gt_parallel_options){ .kind = GT_PARALLEL_ZERO3 });
	}
	for (int n = 2; n <= 3; n++) {
		run(mlp, n, -1, (struct gt_parallel_options){ .tensor = n });
		run(mlp, n, -1, (struct gt_parallel_options){ .stages = n });
	}
	run(mlp, 4, -1, (struct gt_parallel_options){ .tensor = 2 });
}

static void running_statistics(void **state)
{
	(void)state;
	run("resnet20", 2, 1, (struct gt_parallel_options){ .kind = GT_PARALLEL_DDP });
}

static void the_first_is_named(void **state)
{
	struct gt_slot weight = { .name = "fc.weight", .role = GT_PARAMETER };
	struct gt_slot mean = { .name = "bn.running_mean", .role = GT_BUFFER };
	const struct {
		struct gt_nonfinite found;
		const char *text;
	} cases[] = {
		{ { &weight, NULL, -INFINITY }, "the parameter 'fc.weight' holds -inf" },
		{ { &mean, NULL, copysign(NAN, -1) }, "the buffer 'bn.running_mean' holds nan" },
		{ { &weight, "exp_avg", INFINITY },
		    "the optimizer's 'exp_avg' of 'fc.weight' holds inf" },
	};
	char text[GT_NONFINITE_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(gt_nonfinite_text(text, &cases[i].found), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_ranks_hold),
		cmocka_unit_test(running_statistics),
		cmocka_unit_test(the_first_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
