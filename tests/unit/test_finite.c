/* test_finite.c - numbers that are not finite are found, by all ranks, wherever they are held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/optim/average.h"
#include "lib/train/finite.h"
#include "tests/common/model_ranks.h"

enum { MOST = 4 };

/* The planes beside the data: the states of AdamW, and the mean. */
static const char *const beside[] = { "exp_avg", "exp_avg_sq", "ema" };

enum { BESIDE = sizeof(beside) / sizeof(*beside) };

static const struct gt_optim_options adamw = {
	.kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3
};

static const double values[] = { NAN, INFINITY, -INFINITY };

/* The rank that is given its part of a tensor; -1: all are. */
static int only;

/* `plane`: NULL for the data. */
static int give(struct model_rank *r, const struct gt_slot *slot, const struct gt_plane *plane,
    const void *whole)
{
	if (only >= 0 && r->group->rank != only)
		return 0;
	return gt_parallel_scatter_slot(r->parallel,
	    plane ? plane : gt_store_plane_of(r->store, slot->role), slot, whole, &r->err);
}

static void expect(
    struct model_rank *r, const struct gt_slot *slot, const struct gt_plane *plane, double value)
{
	struct gt_nonfinite found;

	if (gt_find_nonfinite(&found, r->store, r->group, &r->err))
		return;
	if (found.slot != slot || (slot && memcmp(&found.value, &value, sizeof(value)) != 0) ||
	    (slot && found.plane != plane))
		gt_err_set(&r->err, GT_EINVAL, "rank %d: '%s' %s %g, not '%s' %s %g",
		    r->group->rank, found.slot ? found.slot->name : "",
		    found.plane ? found.plane->name : "", found.value, slot ? slot->name : "",
		    plane ? plane->name : "", value);
}

/* One number at the ends and in the middle of each tensor, and nothing once it is gone. */
static int look(struct model_rank *r)
{
	struct gt_store *s = r->store;

	if (gt_average_add_plane(s, &(struct gt_average_options){ .ema = 0.5 }, &r->err))
		return r->err.code;
	expect(r, NULL, NULL, 0);
	for (size_t i = 0; !r->err.code && i < s->slot_count; i++) {
		const struct gt_slot *slot = &s->slots[i];
		const int64_t places[] = { 0, slot->count / 2, slot->count - 1 };
		float *whole = calloc((size_t)slot->count, sizeof(*whole));

		for (int p = -1; p < (slot->role == GT_PARAMETER ? BESIDE : 0); p++)
			for (int k = 0; slot->dtype == GT_F32 && k < 3; k++) {
				const struct gt_plane *plane =
				    p < 0 ? NULL : gt_store_plane(s, beside[p]);

				whole[places[k]] = (float)values[k];
				give(r, slot, plane, whole);
				expect(r, slot, plane, values[k]);
				whole[places[k]] = 0;
				give(r, slot, plane, whole);
			}
		free(whole);
	}
	expect(r, NULL, NULL, 0);
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
	const struct gt_plane state_plane = { .name = "exp_avg", .saved = GT_SAVED_STATE };
	const struct gt_plane mean_plane = { .name = "ema", .saved = GT_SAVED_MEAN };
	const struct {
		struct gt_nonfinite found;
		const char *text;
	} cases[] = {
		{ { &weight, NULL, -INFINITY }, "the parameter 'fc.weight' holds -inf" },
		{ { &mean, NULL, copysign(NAN, -1) }, "the buffer 'bn.running_mean' holds nan" },
		{ { &weight, &state_plane, INFINITY },
		    "the optimizer's 'exp_avg' of 'fc.weight' holds inf" },
		{ { &weight, &mean_plane, INFINITY }, "the running mean of 'fc.weight' holds inf" },
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
