/* test_train_options.c - options of a run that cannot be combined, and wrong values of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <string.h>

#include "lib/base/option_names.h"
#include "lib/train/train.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

static struct gt_train_options a_run(void)
{
	struct gt_train_options o;

	gt_train_options_init(&o);
	o.model = "mlp:8,16,3";
	o.data = "random:8/3";
	return o;
}

/* `says` has names of options without dashes; NULL: they can be combined. */
static void expect(const char *name, const struct gt_train_options *o, int ranks, const char *says)
{
	struct gt_err err = GT_ERR_INIT;
	char text[sizeof(err.text)] = "";
	int rc = gt_train_check_options(o, ranks, &err);

	if (rc)
		gt_option_names_render(text, sizeof(text), err.text, "");
	if (rc != (says ? GT_EINVAL : 0) || (says && strcmp(text, says) != 0))
		fail_msg("%s on %d ranks: code %d, \"%s\"", name, ranks, rc, text);
}

/* ---- the modes of the data axis, and their partners ---- */

enum partner { COMPRESS, CHECK_REPLICAS, OWN_BUFFERS, TENSOR, STAGES, REPRODUCIBLE, PARTNERS };

static const char *const partner_names[PARTNERS] = { "compress", "check-replicas",
	"broadcast-buffers=no", "tensor-parallel", "pipeline-parallel", "reproducible" };

static void take(struct gt_parallel_options *p, enum partner partner)
{
	switch (partner) {
	case COMPRESS:
		p->compress = GT_COMPRESS_BF16;
		return;
	case CHECK_REPLICAS:
		p->check_every = 10;
		return;
	case OWN_BUFFERS:
		p->own_buffers = true;
		return;
	case TENSOR:
		p->tensor = 2;
		return;
	case STAGES:
		p->stages = 2;
		return;
	case REPRODUCIBLE:
		p->reproducible = true;
		return;
	case PARTNERS:
		break;
	}
	fail();
}

/* On 4 ranks: '+' where both can be given, as gtrain-train(1) says. */
static void modes_have_their_partners(void **state)
{
	static const struct {
		enum gt_parallel_kind kind;
		const char *partners; /* in the order of enum partner */
	} rows[] = {
		{ GT_PARALLEL_DDP, "++++++" },
		{ GT_PARALLEL_MIRRORED, "++++++" },
		{ GT_PARALLEL_DP, "-----+" },
		{ GT_PARALLEL_ZERO1, "++++++" },
		{ GT_PARALLEL_ZERO2, "++++++" },
		{ GT_PARALLEL_ZERO3, "+-++++" },
	};
	enum { RANKS = 4 };

	(void)state;
	assert_int_equal(COUNT(rows), GT_PARALLEL_KINDS);
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (int k = 0; k < PARTNERS; k++) {
			struct gt_train_options o = a_run();
			struct gt_err err = GT_ERR_INIT;
			int rc;

			o.parallel.kind = rows[i].kind;
			take(&o.parallel, (enum partner)k);
			rc = gt_train_check_options(&o, RANKS, &err);
			if (rc != (rows[i].partners[k] == '+' ? 0 : GT_EINVAL))
				fail_msg("%s with %s: code %d, \"%s\"",
				    gt_parallel_names[rows[i].kind], partner_names[k], rc,
				    rc ? err.text : "");
			/* The error names both. */
			if (rc)
				assert_non_null(strstr(err.text, gt_parallel_names[rows[i].kind]));
		}
	}
}

/* On one rank every mode is the same. */
static void one_rank_takes_any_mode(void **state)
{
	(void)state;
	for (int kind = 0; kind < GT_PARALLEL_KINDS; kind++)
		for (int k = 0; k < PARTNERS; k++) {
			struct gt_train_options o = a_run();

			if (k == TENSOR || k == STAGES)
				continue;
			o.parallel.kind = (enum gt_parallel_kind)kind;
			take(&o.parallel, (enum partner)k);
			expect(partner_names[k], &o, 1, NULL);
		}
}

/* ---- numbers of ranks, of stages, of chunks ---- */

static void ranks_must_divide(void **state)
{
	static const struct {
		const char *name;
		int ranks, batch, tensor, stages, chunks;
		enum gt_compress compress;
		const char *says;
	} cases[] = {
		{ "stages", 4, 8, 1, 4, 0, 0, NULL },
		{ "stages", 6, 8, 1, 4, 0, 0, "pipeline-parallel: 4 stages do not divide 6 ranks" },
		{ "stages", 1, 8, 1, 2, 0, 0, "pipeline-parallel: 2 stages do not divide 1 rank" },
		{ "tensor", 6, 8, 3, 1, 0, 0, NULL },
		{ "tensor", 4, 8, 3, 1, 0, 0, "tensor-parallel: 3 does not divide 4 ranks" },
		{ "tensor", 1, 8, 2, 1, 0, 0, "tensor-parallel: 2 does not divide 1 rank" },
		{ "both", 8, 8, 2, 4, 0, 0, NULL },
		{ "both", 12, 8, 2, 4, 0, 0,
		    "pipeline-parallel: 4 stages of 2 ranks each do not divide 12 ranks" },
		{ "chunks", 2, 8, 1, 2, 8, 0, NULL },
		{ "chunks", 2, 8, 1, 2, 3, 0, "chunks: 3 do not divide batch 8" },
		{ "chunks", 2, 8, 1, 2, 16, 0, "chunks: 16 do not divide batch 8" },
		{ "compress", 4, 8, 2, 1, 0, GT_COMPRESS_FP16, NULL },
		{ "compress", 4, 8, 2, 2, 0, GT_COMPRESS_FP16,
		    "compress: no two of 4 ranks hold the same part of the model" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();

		o.batch = cases[i].batch;
		o.parallel.tensor = cases[i].tensor;
		o.parallel.stages = cases[i].stages;
		o.parallel.chunks = cases[i].chunks;
		o.parallel.compress = cases[i].compress;
		expect(cases[i].name, &o, cases[i].ranks, cases[i].says);
	}
}

static void the_same_bits_need_a_divisible_step(void **state)
{
	static const struct {
		int ranks, batch, accumulate;
		enum gt_parallel_kind kind;
		bool sync_bn;
		enum gt_compress compress;
		bool own_buffers;
		int stages, chunks;
		const char *says;
	} cases[] = {
		{ 1, 8, 1, GT_PARALLEL_DDP, .says = NULL },
		{ 8, 1, 1, GT_PARALLEL_DDP, .says = NULL },
		{ 3, 8, 1, GT_PARALLEL_DDP,
		    .says = "reproducible: 3 ranks; it takes 1, 2, 4 or 8 ranks for a global "
		            "batch of 24" },
		{ 3, 2, 1, GT_PARALLEL_DDP,
		    .says = "reproducible: 3 ranks; it takes 1 or 2 ranks for a global batch of "
		            "6" },
		{ 16, 1, 1, GT_PARALLEL_DDP,
		    .says = "reproducible: 16 ranks; it takes 1, 2, 4 or 8 ranks for a global "
		            "batch of 16" },
		{ 2, 8, 4, GT_PARALLEL_DDP, .says = NULL },
		{ 2, 8, 5, GT_PARALLEL_DDP,
		    .says = "reproducible: accumulate 5, where a rank does a step in 4 parts" },
		{ 8, 8, 2, GT_PARALLEL_DDP,
		    .says = "reproducible: accumulate 2, where a rank does a step in 1 part" },
		{ 2, 8, 2, GT_PARALLEL_DDP, .sync_bn = true,
		    .says = "reproducible with accumulate cannot be combined with sync-bn" },
		{ 2, 8, 2, GT_PARALLEL_ZERO3,
		    .says = "reproducible with accumulate cannot be combined with parallel zero3" },
		{ 2, 8, 1, GT_PARALLEL_DDP, .compress = GT_COMPRESS_BF16,
		    .says = "reproducible cannot be combined with compress" },
		{ 2, 8, 1, GT_PARALLEL_DDP, .own_buffers = true,
		    .says = "reproducible cannot be combined with broadcast-buffers=no" },
		{ 2, 8, 1, GT_PARALLEL_DDP, .stages = 2, .chunks = 2,
		    .says = "reproducible cannot be combined with chunks" },
		{ 2, 8, 1, GT_PARALLEL_DDP, .stages = 2, .says = NULL },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_train_options o = a_run();

		o.batch = cases[i].batch;
		o.accumulate = cases[i].accumulate;
		o.parallel.reproducible = true;
		o.parallel.kind = cases[i].kind;
		o.parallel.sync_bn = cases[i].sync_bn;
		o.parallel.compress = cases[i].compress;
		o.parallel.own_buffers = cases[i].own_buffers;
		o.parallel.stages = cases[i].stages;
		o.parallel.chunks = cases[i].chunks;
		expect(cases[i].says ? cases[i].says : "the same bits", &o, cases[i].ranks,
		    cases[i].says);
	}
}

/* ---- texts ---- */

static void texts_are_parsed(void **state)
{
	static const char *const good[] = { "wait=0", "active=1", "warmup=1000000,wait=0,active=1",
		"wait=2,warmup=3,active=4", "repeat=0", "wait=2,warmup=3,active=4,repeat=5" };
	static const char *const bad[] = { "", ",", "wait", "wait=", "wait=-1", "active=0",
		"wait=1,", "wait=1,wait=1", "repeat=-1", "repeat=2,repeat=2", "active=1000001",
		"wait=1;active=2", "wait=1x", "wait=99999999999999999999", " wait=1", "Wait=1" };

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		struct gt_train_options o = a_run();

		o.profile = good[i];
		expect(good[i], &o, 1, NULL);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct gt_train_options o = a_run();
		struct gt_err err = GT_ERR_INIT;

		o.profile = bad[i];
		if (gt_train_check_options(&o, 1, &err) != GT_EINVAL)
			fail_msg("profile '%s' is taken", bad[i]);
		assert_non_null(strstr(err.text, bad[i]));
	}
}

static void the_parts_of_a_profile_have_defaults(void **state)
{
	static const struct {
		const char *text;
		struct gt_profile_options o;
	} cases[] = {
		{ "wait=7", { 7, 1, 3, 1 } },
		{ "active=2", { 1, 1, 2, 1 } },
		{ "active=9,wait=0,warmup=5", { 0, 5, 9, 1 } },
		{ "repeat=0,active=2", { 1, 1, 2, 0 } },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct gt_profile_options o;

		assert_int_equal(gt_profile_parse(&o, cases[i].text, &err), 0);
		assert_int_equal(o.wait, cases[i].o.wait);
		assert_int_equal(o.warmup, cases[i].o.warmup);
		assert_int_equal(o.active, cases[i].o.active);
		assert_int_equal(o.repeat, cases[i].o.repeat);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modes_have_their_partners),
		cmocka_unit_test(one_rank_takes_any_mode),
		cmocka_unit_test(ranks_must_divide),
		cmocka_unit_test(the_same_bits_need_a_divisible_step),
		cmocka_unit_test(texts_are_parsed),
		cmocka_unit_test(the_parts_of_a_profile_have_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
