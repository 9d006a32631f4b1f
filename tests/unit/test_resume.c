/* test_resume.c - the place in the data where a resumed run begins, and its changed options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/parallel/state.h"
#include "lib/train/option_table.h"
#include "lib/train/run/resume.h"
#include "lib/train/state.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

/* A run whose session is one axis of ranks; that is all that the place in the data needs. */
struct run {
	struct gt_group data;
	struct gt_parallel parallel;
	struct gt_train t;
};

static void open_run(struct run *r, int64_t samples, int batch, int accumulate, int world)
{
	int64_t step = (int64_t)batch * accumulate * world;

	*r = (struct run){ 0 };
	r->data.size = world;
	r->parallel.axes[GT_AXIS_DATA] = &r->data;
	r->t.s.parallel = &r->parallel;
	r->t.o.batch = batch;
	r->t.o.accumulate = accumulate;
	r->t.sampler.samples = samples;
	r->t.steps_per_epoch = (samples + step - 1) / step;
	r->t.resumes = true;
	r->t.ckpt.path = "last.pth";
}

#define SAVED(done, epochs, read, each, all)                                                       \
	{                                                                                          \
		.step = done, .epoch = epochs, .samples = read, .step_samples = each,              \
		.data_samples = all                                                                \
	}

/* 100 samples; the checkpoint's step, epoch, samples read of the next epoch, and samples a step. */
static const struct {
	const char *name;
	int batch, accumulate, world;
	struct gt_snapshot_progress saved;
	bool other_program;
	int64_t step, place;
} places[] = {
	{ "the same run", 10, 1, 1, SAVED(23, 2, 30, 10, 0), false, 23, 23 },
	{ "half the batch: twice the steps", 5, 1, 1, SAVED(23, 2, 30, 10, 0), false, 23, 46 },
	{ "twice the batch: a cut step comes again", 20, 1, 1, SAVED(23, 2, 30, 10, 0), false, 23,
	    11 },
	{ "accumulation counts as batch", 5, 2, 1, SAVED(23, 2, 30, 10, 0), false, 23, 23 },
	{ "two ranks read as one of twice the batch", 5, 1, 2, SAVED(23, 2, 30, 10, 0), false, 23,
	    23 },
	{ "at the end of an epoch", 10, 1, 1, SAVED(20, 2, 0, 10, 0), false, 20, 20 },
	{ "a short last step", 30, 1, 1, SAVED(4, 1, 0, 30, 0), false, 4, 4 },
	{ "more samples than an epoch has", 10, 1, 1, SAVED(5, 0, 5000, 10, 0), false, 5, 10 },
	{ "no samples: by the step", 10, 1, 1, SAVED(23, -1, -1, 10, 0), false, 23, 23 },
	{ "no samples, half the batch", 5, 1, 1, SAVED(23, -1, -1, 10, 0), false, 23, 46 },
	{ "neither samples nor their number", 10, 1, 1, SAVED(23, -1, -1, 0, 0), false, 23, 23 },
	{ "another program's step", 10, 1, 1, SAVED(23, -1, -1, 0, 0), true, 23, 23 },
	{ "another program's epoch", 10, 1, 1, SAVED(-1, 3, -1, 0, 0), true, 30, 30 },
	{ "its epoch is that of the step", 10, 1, 1, SAVED(23, 2, -1, 0, 0), true, 23, 23 },
	{ "its epoch is the one before", 10, 1, 1, SAVED(23, 1, -1, 0, 0), true, 23, 23 },
	{ "its epoch contradicts the step", 10, 1, 1, SAVED(23, 7, -1, 0, 0), true, 23, 70 },
	{ "it tells nothing", 10, 1, 1, SAVED(-1, -1, -1, 0, 0), true, 0, 0 },
	{ "an epoch beyond all steps", 10, 1, 1, SAVED(-1, INT64_MAX, -1, 0, 0), true, 0, -1 },
};

static void places_in_the_data(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(places); i++) {
		struct gt_err err = GT_ERR_INIT;
		struct run r;
		int rc;

		open_run(&r, 100, places[i].batch, places[i].accumulate, places[i].world);
		r.t.resumed = places[i].saved;
		r.t.saved.other_program = places[i].other_program;
		rc = gt_resume_find_position(&r.t, &err);
		if (places[i].place < 0) {
			assert_int_equal(rc, GT_EFORMAT);
			assert_non_null(strstr(err.text, "last.pth: too many epochs"));
			continue;
		}
		if (rc || r.t.from_step != places[i].step || r.t.from_position != places[i].place)
			print_error("%s: step %lld, place %lld\n", places[i].name,
			    (long long)r.t.from_step, (long long)r.t.from_position);
		assert_int_equal(rc, 0);
		assert_int_equal(r.t.from_step, places[i].step);
		assert_int_equal(r.t.from_position, places[i].place);
		assert_int_equal(gt_resume_position(&r.t, r.t.from_step + 7), places[i].place + 7);
	}
}

static void a_new_run_begins_at_0(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct run r;

	(void)state;
	open_run(&r, 100, 10, 1, 1);
	r.t.resumes = false;
	r.t.from_step = r.t.from_position = 5;
	assert_int_equal(gt_resume_find_position(&r.t, &err), 0);
	assert_int_equal(r.t.from_step, 0);
	assert_int_equal(gt_resume_position(&r.t, 3), 3);
}

/* The options of the checkpoint's run, those of this one, and the lines of the log. */
static const struct {
	const char *before, *now, *lines;
} changes[] = {
	{ "{'lr': 0.1}", "{'lr': 0.1}", "" }, { "{'lr': 1}", "{'lr': 1.0}", "" },
	{ "{'workers': 2, 'lr': 0.1}", "{'workers': 4}",
	    "workers 2 -> 4: the same steps, computed in another way\n" },
	{ "{'drop-last': false}", "{'drop-last': true}",
	    "drop-last no -> yes: an epoch has 10 steps, as before\n" },
	{ "{'batch': 20}", "{'batch': 10}", "batch 20 -> 10: an epoch has 10 steps now, not 5\n" },
	{ "{'epochs': 2}", "{'epochs': 3}", "epochs 2 -> 3: the run ends at step 30\n" },
	{ "{'steps': 5}", "{'steps': null}", "" }, { "{'amp': 'none'}", "{'amp': 'bf16'}", "" },
	{ "{'seed': 1}", "{'seed': 2}", "" }, /* refused elsewhere */
};

/* JSON with ' in place of ". */
static json_t *parse(const char *text)
{
	char quoted[100];
	json_t *value;

	snprintf(quoted, sizeof(quoted), "%s", text);
	for (char *p = quoted; (p = strchr(p, '\'')) != NULL;)
		*p = '"';
	value = json_loads(quoted, 0, NULL);
	assert_non_null(value);
	return value;
}

static void changes_are_logged(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(changes); i++) {
		json_t *now = parse(changes[i].now);
		char *text = NULL;
		size_t size = 0;
		struct run r;
		struct gt_log log = { .level = GT_LOG_NORMAL };

		open_run(&r, 100, 10, 1, 1);
		r.t.resumed.config = parse(changes[i].before);
		r.t.resumed.step_samples = json_object_get(r.t.resumed.config, "batch") ? 20 : 10;
		r.t.o.lr_schedule.total = 30;
		log.stream = open_memstream(&text, &size);
		r.t.log = &log;
		assert_non_null(log.stream);
		gt_resume_log_changes(&r.t, now);
		assert_int_equal(fclose(log.stream), 0);
		assert_string_equal(text, changes[i].lines);
		free(text);
		json_decref(now);
		json_decref(r.t.resumed.config);
	}
}

/* Each option that a run keeps has a rule with a text, and no other option has one. */
static void rules_are_complete(void **state)
{
	(void)state;
	for (const struct gt_opt *row = gt_train_option_table(); row->type != GT_OPT_END; row++) {
		bool kept = row->type != GT_OPT_HEADING && !(row->flags & GT_OPT_ONCE);

		assert_int_equal(row->resume.kind != GT_RESUME_UNSAVED, kept);
		assert_true(!kept || *row->resume.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_in_the_data),
		cmocka_unit_test(a_new_run_begins_at_0),
		cmocka_unit_test(changes_are_logged),
		cmocka_unit_test(rules_are_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
