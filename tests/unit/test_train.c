/* test_train.c - runs of a small model: the best score, the end, the checkpoints that are left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/file.h"
#include "lib/train/checkpoint/saved.h"
#include "lib/train/checkpoint/snapshot.h"
#include "lib/train/run/run_dir.h"
#include "lib/train/train.h"
#include "tests/common/planted.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define OURS     "{\"model\": \"lenet\", \"data\": \"random\"}"
#define STEP     "/run/checkpoints/step-0000000"

enum { MOST = 64, PATH_SIZE = 256 };

/* Events of a run. */
struct record {
	atomic_bool stop;
	int64_t stop_at; /* 0: nobody stops it */
	int64_t steps[MOST], evaluations[MOST], saves[MOST];
	double scores[MOST], losses[MOST];
	bool best[MOST];
	int step_count, evaluation_count, save_count;
};

static int see_gradients(void *self, int64_t step, struct gt_err *err)
{
	struct record *r = self;

	(void)err;
	if (r->stop_at && step == r->stop_at)
		r->stop = true;
	return 0;
}

static int see_step(void *self, const struct gt_step_report *report, struct gt_err *err)
{
	struct record *r = self;

	(void)err;
	assert_true(r->step_count < MOST);
	r->steps[r->step_count++] = report->step;
	return 0;
}

static int see_evaluation(void *self, const struct gt_eval_report *report, struct gt_err *err)
{
	const struct gt_metrics *m = report->metrics;
	struct record *r = self;

	(void)err;
	assert_true(r->evaluation_count < MOST);
	r->evaluations[r->evaluation_count] = report->step;
	r->scores[r->evaluation_count] = m->target == GT_SAMPLE_NUMBER ? -m->loss : m->top1;
	r->losses[r->evaluation_count] = m->loss;
	r->best[r->evaluation_count++] = report->best;
	return 0;
}

static int see_save(void *self, int64_t step, const char *path, struct gt_err *err)
{
	struct record *r = self;
	struct stat st;

	(void)err;
	assert_true(r->save_count < MOST);
	assert_int_equal(stat(path, &st), 0);
	r->saves[r->save_count++] = step;
	return 0;
}

/* Samples of 8 numbers and 3 classes, whose labels a small network learns by heart. */
static struct gt_train_options a_run(void)
{
	struct gt_train_options o;

	gt_train_options_init(&o);
	o.model = "mlp:8,16,3";
	o.data = "random:8/3,samples=40";
	o.batch = 8;
	o.steps = 10;
	o.workers = 0;
	o.save_every = 0;
	o.lr_schedule.kind = GT_CONSTANT;
	o.lr_schedule.lr = 0.1;
	return o;
}

/* Run it to its end; on failure the test ends unless *rc is wanted. */
static struct gt_train_result run(struct gt_train_options o, struct record *r)
{
	struct gt_log log = { .stream = fopen("/dev/null", "w"), .level = GT_LOG_QUIET };
	const struct gt_observer observer = { .self = r,
		.gradients = see_gradients,
		.step = see_step,
		.evaluated = see_evaluation,
		.saved = see_save };
	struct gt_err err = GT_ERR_INIT;
	struct gt_train_result result;
	struct gt_train *t;

	assert_non_null(log.stream);
	if (gt_train_open(&t, &o, false, &log, &err))
		fail_msg("%s", err.text);
	if (gt_train_run(t, NULL, &observer, 1, &r->stop, &result, &err))
		fail_msg("%s", err.text);
	gt_train_close(t);
	fclose(log.stream);
	return result;
}

/* ---- the best score, and patience ---- */

/* Data of other labels than those that are learnt: scores go up and down. */
static const struct trial {
	const char *model, *data, *val;
	int64_t steps, eval_every;
	double val_split;
} trials[] = {
	{ "mlp:8,16,3", "random:8/3,samples=40", NULL, 40, 1, 0.3 },
	{ "mlp:8,16,3", "random:8/3,samples=40", NULL, 39, 2, 0.5 },
	/* after each epoch of 4 steps, the last one cut */
	{ "mlp:8,16,3", "random:8/3,samples=40", NULL, 43, 0, 0.2 },
	{ "mlp:8,16,3", "random:8/3,samples=40", "random:8/3,samples=17", 30, 3, 0 },
};

static struct gt_train_options options_of(const struct trial *trial)
{
	struct gt_train_options o = a_run();

	o.model = trial->model;
	o.data = trial->data;
	o.val = trial->val;
	o.val_split = trial->val_split;
	o.steps = trial->steps;
	o.eval_every = trial->eval_every;
	return o;
}

/* The best evaluation has the highest score and, of those, the lowest loss; none: -1. */
static int best_of(const struct record *r, int count)
{
	int best = -1;

	for (int i = 0; i < count; i++)
		if (best < 0 || r->scores[i] > r->scores[best] ||
		    (r->scores[i] == r->scores[best] && r->losses[i] < r->losses[best]))
			best = i;
	return best;
}

static void an_evaluation_is_the_best_if_it_is_better_than_all_before(void **state)
{
	int ties = 0; /* that the loss decides */

	(void)state;
	for (size_t i = 0; i < COUNT(trials); i++) {
		struct record r = { 0 };
		struct gt_train_result result = run(options_of(&trials[i]), &r);
		int changes = 0;

		assert_true(r.evaluation_count > 5);
		for (int k = 0; k < r.evaluation_count; k++) {
			if (r.best[k] != (best_of(&r, k + 1) == k))
				fail_msg("trial %zu, evaluation %d: %s", i, k,
				    r.best[k] ? "the best" : "not the best");
			changes += r.best[k];
			ties += k && r.best[k] && r.scores[k] == r.scores[best_of(&r, k)];
		}
		/* The trial shows something only if the best is neither the first nor the last. */
		assert_true(changes > 1);
		assert_false(r.best[r.evaluation_count - 1]);
		assert_int_equal(result.best_step, r.evaluations[best_of(&r, r.evaluation_count)]);
		assert_true(result.evaluated && !result.ended && !result.stopped);
		assert_int_equal(result.step, trials[i].steps);
		assert_int_equal(r.evaluations[r.evaluation_count - 1], trials[i].steps);
	}
	assert_true(ties > 1);
}

/* The run ends at the first evaluation that is the `patience`-th since the best one. */
static void a_run_ends_when_patience_is_over(void **state)
{
	int ended = 0, to_the_end = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(trials); i++) {
		struct record whole = { 0 };
		int patience[] = { 1, 3, 5, 8, 0 };

		run(options_of(&trials[i]), &whole);
		/* The last one is over at the last step, where the run ends anyway. */
		patience[COUNT(patience) - 1] =
		    whole.evaluation_count - 1 - best_of(&whole, whole.evaluation_count);
		for (size_t p = 0; p < COUNT(patience); p++) {
			struct gt_train_options o = options_of(&trials[i]);
			struct gt_train_result result;
			struct record r = { 0 };
			int count = 1, best;

			while (count < whole.evaluation_count &&
			       count - 1 - best_of(&whole, count) < patience[p])
				count++;
			best = best_of(&whole, count);
			o.patience = patience[p];
			result = run(o, &r);
			if (r.evaluation_count != count ||
			    result.step != whole.evaluations[count - 1] ||
			    result.best_step != whole.evaluations[best])
				fail_msg("trial %zu, patience %d: %d evaluations, not %d; ends at "
				         "%lld",
				    i, patience[p], r.evaluation_count, count,
				    (long long)result.step);
			assert_int_equal(result.ended, result.step < trials[i].steps);
			assert_false(result.stopped);
			ended += result.ended;
			to_the_end += !result.ended;
		}
	}
	assert_true(ended > 3 && to_the_end > 3);
}

/* ---- files ---- */

static void make_root(char root[PLANTED_ROOT], char out[PATH_SIZE])
{
	planted_make(root, &(struct planted_file){ 0 });
	snprintf(out, PATH_SIZE, "%s/run", root);
}

static bool exists(const char *out, const char *name)
{
	char path[PATH_SIZE + 64];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", out, name);
	return !stat(path, &st);
}

/* The steps of the checkpoints in checkpoints/, as "3 6 9 ". */
static void list_steps(char text[PATH_SIZE], const char *out)
{
	char name[64];
	int at = 0;

	text[0] = '\0';
	for (int step = 0; step < MOST; step++) {
		snprintf(name, sizeof(name), "checkpoints/step-%08d.pth", step);
		if (exists(out, name))
			at += snprintf(text + at, (size_t)(PATH_SIZE - at), "%d ", step);
	}
}

static void checkpoints_come_when_they_are_due_and_the_newest_stay(void **state)
{
	static const struct {
		int64_t save_every, keep, stop_at;
		const char *saves, *left;
	} cases[] = {
		{ 3, 0, 0, "3 6 9 10 ", "3 6 9 10 " },
		{ 3, 2, 0, "3 6 9 10 ", "9 10 " },
		{ 5, 3, 0, "5 10 ", "5 10 " },
		{ 0, 3, 0, "10 ", "10 " },
		/* A run that is told to stop saves the step it is at, once. */
		{ 3, 1, 6, "3 6 ", "6 " },
		{ 0, 0, 1, "1 ", "1 " },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char root[PLANTED_ROOT], out[PATH_SIZE], text[PATH_SIZE] = "", left[PATH_SIZE];
		struct record r = { .stop_at = cases[i].stop_at };
		struct gt_train_options o = a_run();
		struct gt_train_result result;
		int64_t end = cases[i].stop_at ? cases[i].stop_at : 10;

		make_root(root, out);
		o.out = out;
		o.save_every = cases[i].save_every;
		o.keep = cases[i].keep;
		result = run(o, &r);
		for (int k = 0, at = 0; k < r.save_count; k++)
			at += snprintf(
			    text + at, sizeof(text) - (size_t)at, "%lld ", (long long)r.saves[k]);
		list_steps(left, out);
		if (strcmp(text, cases[i].saves) || strcmp(left, cases[i].left))
			fail_msg("case %zu: saved %s, left %s", i, text, left);
		assert_int_equal(result.step, end);
		assert_int_equal(result.stopped, end < 10);
		assert_int_equal(r.steps[r.step_count - 1], end);
		assert_true(exists(out, "model.pth") && exists(out, "config.json"));
		assert_false(exists(out, "best.pth") || exists(out, "model_ema.pth"));
		planted_remove(root);
	}
}

static void files_of_the_best_and_of_the_mean_are_there_where_they_are_asked_for(void **state)
{
	static const struct {
		double val_split, ema;
	} cases[] = { { 0.3, 0 }, { 0, 0.9 } };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char root[PLANTED_ROOT], out[PATH_SIZE];
		struct gt_train_options o = a_run();
		struct record r = { 0 };

		make_root(root, out);
		o.out = out;
		o.val_split = cases[i].val_split;
		o.average.ema = cases[i].ema;
		run(o, &r);
		assert_int_equal(exists(out, "best.pth"), cases[i].val_split > 0);
		assert_int_equal(exists(out, "model_ema.pth"), cases[i].ema > 0);
		planted_remove(root);
	}
}

/* Without a run directory nothing is written, and everything else is the same. */
static void a_run_without_a_directory_writes_nothing(void **state)
{
	struct gt_train_options o = a_run();
	struct record r = { 0 };

	(void)state;
	o.save_every = 2;
	assert_int_equal(run(o, &r).step, 10);
	assert_int_equal(r.save_count, 0);
	assert_int_equal(r.step_count, 10);
}

/* ---- going on ---- */

/* The place in the data that the checkpoint of a step tells: epochs, and samples of the next. */
static void checkpoints_tell_their_place(void **state)
{
	static const struct {
		const char *data;
		int batch, accumulate;
		bool drop_last;
		int64_t step, epoch, samples, step_samples;
	} cases[] = {
		{ "random:8/3,samples=40", 8, 1, false, 5, 1, 0, 8 },
		{ "random:8/3,samples=40", 8, 1, false, 12, 2, 16, 8 },
		/* the last step of an epoch is shorter */
		{ "random:8/3,samples=41", 8, 1, false, 6, 1, 0, 8 },
		{ "random:8/3,samples=41", 8, 1, false, 7, 1, 8, 8 },
		{ "random:8/3,samples=41", 8, 1, true, 6, 1, 8, 8 },
		{ "random:8/3,samples=40", 4, 3, false, 4, 1, 0, 12 },
		{ "random:8/3,samples=40", 64, 1, false, 3, 3, 0, 64 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char root[PLANTED_ROOT], out[PATH_SIZE], path[PATH_SIZE + 64];
		struct gt_train_options o = a_run();
		struct gt_snapshot_progress place;
		struct gt_err err = GT_ERR_INIT;
		struct record r = { 0 };
		struct gt_saved saved;

		make_root(root, out);
		o.out = out;
		o.data = cases[i].data;
		o.batch = cases[i].batch;
		o.accumulate = cases[i].accumulate;
		o.drop_last = cases[i].drop_last;
		o.steps = cases[i].step;
		run(o, &r);
		snprintf(path, sizeof(path), "%s/checkpoints/step-%08lld.pth", out,
		    (long long)cases[i].step);
		if (gt_saved_open(&saved, (struct gt_file_name){ .path = path }, &err))
			fail_msg("case %zu: %s", i, err.text);
		assert_false(saved.other_program);
		if (gt_snapshot_read_progress(&place, &saved, &err))
			fail_msg("case %zu: %s", i, err.text);
		if (place.step != cases[i].step || place.epoch != cases[i].epoch ||
		    place.samples != cases[i].samples ||
		    place.step_samples != cases[i].step_samples)
			fail_msg("case %zu: step %lld, epoch %lld, %lld samples, %lld a step", i,
			    (long long)place.step, (long long)place.epoch, (long long)place.samples,
			    (long long)place.step_samples);
		gt_snapshot_progress_release(&place);
		gt_saved_close(&saved);
		planted_remove(root);
	}
}

static void expect_same_file(const char *a, const char *b, const char *name)
{
	char path[PATH_SIZE + 64];
	struct gt_mapping x, y;

	snprintf(path, sizeof(path), "%s/%s", a, name);
	assert_int_equal(gt_map(&x, path, GT_ERR_IGNORED), 0);
	snprintf(path, sizeof(path), "%s/%s", b, name);
	assert_int_equal(gt_map(&y, path, GT_ERR_IGNORED), 0);
	if (x.size != y.size || memcmp(x.data, y.data, x.size) != 0)
		fail_msg("'%s' of '%s' and '%s' differ", name, a, b);
	gt_unmap(&x);
	gt_unmap(&y);
}

/* A run that stops and goes on, with patience and a mean of the weights, ends as one that never
 * stopped: at the same step, with the same best, in the same bits. */
static void a_run_that_stops_goes_on_as_if_it_had_not(void **state)
{
	static const int64_t stops[] = { 1, 7, 19 };
	char root[PLANTED_ROOT], whole[PATH_SIZE];
	struct gt_train_options o = a_run();
	struct gt_train_result expected;
	struct record r = { 0 };

	(void)state;
	make_root(root, whole);
	o.steps = 40;
	o.val_split = 0.3;
	o.eval_every = 5;
	o.patience = 4;
	o.average.ema = 0.5;
	o.save_every = 0;
	o.out = whole;
	expected = run(o, &r);
	assert_true(expected.ended && expected.step > 19);
	for (size_t i = 0; i < COUNT(stops); i++) {
		struct record before = { .stop_at = stops[i] }, after = { 0 };
		char out[PATH_SIZE + 32];
		struct gt_train_result result;

		snprintf(out, sizeof(out), "%s-%d", whole, (int)i);
		o.out = out;
		o.resume = "auto"; /* which begins where there is nothing */
		assert_int_equal(run(o, &before).step, stops[i]);
		result = run(o, &after);
		assert_int_equal(after.steps[0], stops[i] + 1);
		assert_int_equal(result.step, expected.step);
		assert_int_equal(result.best_step, expected.best_step);
		assert_true(result.ended);
		expect_same_file(whole, out, "model.pth");
		expect_same_file(whole, out, "model_ema.pth");
		expect_same_file(whole, out, "best.pth");
	}
	planted_remove(root);
}

/* Patience counts the evaluations that were made, also those at another interval before the run was
 * resumed. An evaluation that a run resumed at its end makes again counts once. */
static void patience_counts_evaluations_over_all_intervals(void **state)
{
	static const struct {
		int64_t steps, eval_every, patience, end;
	} parts[] = {
		{ 15, 10, 6, 15 }, /* the first of the evaluations at 10 and 15 is the best */
		{ 15, 10, 6, 15 },
		{ 15, 10, 2, 15 },
		{ 24, 2, 9, 24 }, /* 16, 18, ..., 24: 6 since the best one */
		{ 60, 1, 8, 26 },
		{ 60, 1, 8, 26 },
		{ 60, 20, 10, 60 }, /* 40, 60 */
		{ 90, 20, 11, 80 },
	};
	char root[PLANTED_ROOT], out[PATH_SIZE];
	struct gt_train_options o = a_run();

	(void)state;
	make_root(root, out);
	o.out = out;
	o.resume = "auto";
	o.val_split = 0.3;
	o.lr_schedule.lr = 1e-30;
	for (size_t i = 0; i < COUNT(parts); i++) {
		struct record r = { 0 };
		struct gt_train_result result;

		o.steps = parts[i].steps;
		o.eval_every = parts[i].eval_every;
		o.patience = parts[i].patience;
		result = run(o, &r);
		if (result.step != parts[i].end)
			fail_msg("part %zu ends at step %lld", i, (long long)result.step);
		assert_int_equal(result.best_step, 10);
		assert_int_equal(result.ended, result.step < parts[i].steps);
	}
	planted_remove(root);
}

/* ---- refusals ---- */

/* A run that begins must not find another one in its directory. */
static void the_directory_of_a_run_is_refused_to_others(void **state)
{
	static const struct {
		const char *resume;
		struct planted_file files[3];
		int code;
		const char *says;
	} cases[] = {
		{ NULL, { { 0 } }, 0, NULL },
		{ NULL, { { "/run/notes", "" } }, 0, NULL },
		{ NULL, { { "/run/config.json", OURS } }, 0, NULL },
		{ NULL, { { "/run/config.json", OURS }, { STEP "0.pth", "" } }, 0, NULL },
		{ NULL, { { "/run/config.json", OURS }, { STEP "9.pth", "" } }, GT_EINVAL,
		    "holds a run that is at step 9 already" },
		{ "auto", { { "/run/config.json", OURS }, { STEP "9.pth", "" } }, 0, NULL },
		{ "auto", { { "/run/config.json", "{\"model\": " } }, GT_EIO,
		    "config.json' is there already and belongs to no run" },
		{ NULL, { { "/run/config.json", "{\"model_type\": \"x\"}" } }, GT_EIO,
		    "config.json' is there already and belongs to no run" },
		{ NULL, { { "/run", "a file" } }, GT_EIO, "cannot open the directory '" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char root[PLANTED_ROOT], out[PATH_SIZE];
		struct gt_train_options o = a_run();
		struct gt_err err = GT_ERR_INIT;
		int rc;

		planted_make(root, cases[i].files);
		snprintf(out, sizeof(out), "%s/run", root);
		o.out = out;
		o.resume = cases[i].resume;
		rc = gt_train_check_out(&o, &err);
		if (rc != cases[i].code || (rc && !strstr(err.text, cases[i].says)))
			fail_msg("case %zu: code %d, \"%s\"", i, rc, rc ? err.text : "");
		planted_remove(root);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_evaluation_is_the_best_if_it_is_better_than_all_before),
		cmocka_unit_test(a_run_ends_when_patience_is_over),
		cmocka_unit_test(checkpoints_come_when_they_are_due_and_the_newest_stay),
		cmocka_unit_test(
		    files_of_the_best_and_of_the_mean_are_there_where_they_are_asked_for),
		cmocka_unit_test(a_run_without_a_directory_writes_nothing),
		cmocka_unit_test(checkpoints_tell_their_place),
		cmocka_unit_test(a_run_that_stops_goes_on_as_if_it_had_not),
		cmocka_unit_test(patience_counts_evaluations_over_all_intervals),
		cmocka_unit_test(the_directory_of_a_run_is_refused_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
