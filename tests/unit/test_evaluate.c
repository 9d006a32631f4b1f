/* test_evaluate.c - evaluations: on ranks as on one, in any batches, as their answers say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/comm/launch/threads.h"
#include "lib/train/evaluate.h"
#include "tests/common/planted.h"

enum { MOST = 4 };

struct subject {
	const char *model, *data;
	int batch;
	enum gt_parallel_kind
	    kind; /* of ranks that train; where they don't, it makes no difference */
	int stages;
	bool trains;
	int top;           /* answers of each sample to keep */
	const char *other; /* evaluate these data with the programs for `data`; NULL: `data` */
};

#define GPT "gpt:layers=1,heads=2,width=16,block=8,vocab=30"

static const struct subject subjects[] = {
	{ "mlp:8,16,3", "random:8/3,samples=23", .batch = 4 },
	{ "mlp:8,16,3", "random:8/3,samples=23", .batch = 1 },
	/* fewer batches than ranks; a short one alone */
	{ "mlp:8,16,3", "random:8/3,samples=3", .batch = 2 },
	{ "mlp:8,16,3", "random:8/3,samples=3", .batch = 64 },
	{ "lenet", "random:,samples=31", .batch = 8 },
	{ "resnet20", "random:,samples=5", .batch = 2 },
	{ GPT, "random:,samples=13", .batch = 3 },
	/* a forward pass is a collective call */
	{ "mlp:8,16,3", "random:8/3,samples=23", .batch = 4, .kind = GT_PARALLEL_ZERO3,
	    .trains = true },
	{ "mlp:8,16,3", "random:8/3,samples=3", .batch = 2, .kind = GT_PARALLEL_ZERO3,
	    .trains = true },
	{ "lenet", "random:,samples=31", .batch = 8, .kind = GT_PARALLEL_DP, .trains = true },
	{ "lenet", "random:,samples=31", .batch = 8, .stages = 2, .trains = true },
};

/* One evaluation, by one rank or by all. */
struct job {
	const struct subject *subject;
	struct gt_metrics metrics[MOST];
	struct gt_predictions each[MOST]; /* where the subject has a `top` */
};

struct rank {
	const struct subject *subject;
	struct gt_dataset *data;
	struct gt_program_pair programs;
};

static int open_data(struct gt_session *s, void *self, struct gt_err *err)
{
	struct rank *r = self;
	struct gt_data_request request;
	int rc;

	gt_data_request_of(&request, s->model, 1, s->group->size);
	rc = gt_dataset_open(&r->data, r->subject->data, &request, err);
	if (!rc)
		rc = gt_dataset_fit(r->data, err); /* numbers are scaled, as in training */
	if (!rc)
		s->input.form = gt_dataset_info(r->data)->form;
	return rc;
}

static int plan(struct gt_session *s, void *self, struct gt_err *err)
{
	struct rank *r = self;
	const struct gt_evaluate_options how = { .batch = r->subject->batch,
		.top = r->subject->top };

	gt_session_add_pair(s, &r->programs);
	return gt_evaluate_plan(&r->programs, s, r->data, &how, err);
}

static int draw_weights(struct gt_session *s, void *self, struct gt_err *err)
{
	(void)self;
	return gt_parallel_init(s->parallel, 3, err);
}

static int evaluate(void *self, struct gt_group *group, struct gt_err *err)
{
	struct job *job = self;
	const struct subject *of = job->subject;
	const struct gt_session_purpose purpose = {
		.trains = of->trains, .input = open_data, .plan = plan, .weights = draw_weights
	};
	const struct gt_session_options options = { .model = of->model,
		.where = { .group = group, .host_rank = group->rank },
		.parallel = { .kind = of->kind,
		    .forward = !of->trains,
		    .stages = of->stages,
		    .bucket_bytes = 1000 } };
	const struct gt_evaluate_options how = {
		.batch = of->batch, .workers = group->rank % 3, .top = of->top
	};
	struct rank rank = { .subject = of };
	struct gt_session s;
	int rc = gt_session_open(&s, &options, &purpose, &rank, err);

	if (!rc && of->other) {
		gt_dataset_close(rank.data);
		rc = gt_dataset_open(&rank.data, of->other, NULL, err);
	}
	if (!rc)
		rc = gt_evaluate(&s, &rank.programs, rank.data, &how, &job->metrics[group->rank],
		    &job->each[group->rank], err);
	gt_session_close(&s);
	gt_dataset_close(rank.data);
	return rc;
}

static void run(struct job *job, int ranks)
{
	const struct gt_threads_options options = { .shm = { .timeout_s = 60 } };
	struct gt_err err = GT_ERR_INIT;

	if (gt_threads_run(ranks, &options, evaluate, job, &err))
		fail_msg("%s on %d ranks: %s", job->subject->model, ranks, err.text);
	for (int r = 0; r < ranks; r++)
		job->metrics[r].seconds = 0;
}

static void ranks_measure_as_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
		struct subject alone = subjects[i];
		struct job one = { .subject = &alone }, all = { .subject = &subjects[i] };

		alone.trains = false;
		alone.stages = 0;
		run(&one, 1);
		assert_true(one.metrics->n > 0 && one.metrics->loss > 0);
		for (int n = 1; n <= MOST; n++) {
			if (n % (subjects[i].stages ? subjects[i].stages : 1))
				continue;
			run(&all, n);
			for (int r = 0; r < n; r++)
				if (memcmp(&all.metrics[r], one.metrics, sizeof(*one.metrics)) != 0)
					fail_msg(
					    "subject %zu, rank %d of %d: loss %.17g, not %.17g", i,
					    r, n, all.metrics[r].loss, one.metrics->loss);
		}
	}
}

/* ---- metrics and answers ---- */

/* The metrics as they follow from the answers, computed anew. A batch of 7 leaves 2 of 23 samples,
 * one of 22 a single one, and one of 64 is larger than the data. */
static const int batches[] = { 1, 7, 22, 23, 64 };

enum { SAMPLES = 23, CLASSES = 7 };

/* By probabilities of all classes, each the float nearest to a softmax. */
static void expect_classes(const struct gt_metrics *m, const struct gt_predictions *p)
{
	double loss = 0;
	int right = 0, top5 = 0;

	assert_int_equal(p->count, SAMPLES);
	assert_int_equal(p->top, CLASSES);
	for (int64_t i = 0; i < p->count; i++) {
		const int32_t *predicted = p->predicted + i * p->top;
		double sum = 0;
		int at = 0;

		while (at < p->top && predicted[at] != p->target[i])
			at++;
		assert_true(at < p->top);
		for (int k = 0; k < p->top; k++)
			sum += (double)p->probability[i * p->top + k];
		assert_true(fabs(sum - 1) < 1e-6);
		loss -= log((double)p->probability[i * p->top + at]);
		right += at == 0;
		top5 += at < 5;
	}
	assert_int_equal(m->n, SAMPLES);
	assert_int_equal(m->right, right);
	assert_true(m->top1 == right / (double)SAMPLES && m->top5 == top5 / (double)SAMPLES);
	assert_true(right > 0 && right < top5 && top5 < SAMPLES);
	assert_true(fabs(m->loss - loss / SAMPLES) < 1e-6 * m->loss);
	assert_true(fabs(m->perplexity - exp(loss / SAMPLES)) < 1e-5 * m->perplexity);
}

static void metrics_are_those_of_the_answers_in_any_batches(void **state)
{
	struct job first = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
		const struct subject subject = { "mlp:8,16,7", "random:8/7,samples=23",
			.batch = batches[i], .top = CLASSES };
		struct job job = { .subject = &subject };

		run(&job, 1);
		expect_classes(&job.metrics[0], &job.each[0]);
		if (!i) {
			first = job;
			continue;
		}
		/* The samples come in the same order, however they are cut. */
		for (int k = 0; k < SAMPLES; k++) {
			assert_int_equal(job.each[0].target[k], first.each[0].target[k]);
			assert_int_equal(job.each[0].predicted[k * CLASSES],
			    first.each[0].predicted[k * CLASSES]);
		}
		assert_true(fabs(job.metrics[0].loss - first.metrics[0].loss) < 1e-6);
		gt_predictions_release(&job.each[0]);
	}
	gt_predictions_release(&first.each[0]);
}

/* A table of numbers far from 0, with the target of each row. */
static void make_table(char root[PLANTED_ROOT], double target[SAMPLES])
{
	char text[40 * SAMPLES] = "a,b,y\n";

	for (int i = 0; i < SAMPLES; i++) {
		size_t used = strlen(text);

		target[i] = 1000 + 3 * (i * 37 % SAMPLES) + 0.25 * i;
		snprintf(text + used, sizeof(text) - used, "%d,%d,%g\n", i, i * 5 % 11, target[i]);
	}
	planted_make(root, (const struct planted_file[]){ { "/table.csv", text }, { 0 } });
}

/* Errors of numbers are on the targets' own scale. */
static void errors_are_those_of_the_answers_in_any_batches(void **state)
{
	char root[PLANTED_ROOT], data[PLANTED_ROOT + 40];
	double target[SAMPLES], mean = 0, varies = 0;

	(void)state;
	make_table(root, target);
	snprintf(data, sizeof(data), "csv:%s/table.csv,task=regression", root);
	for (int i = 0; i < SAMPLES; i++)
		mean += target[i] / SAMPLES;
	for (int i = 0; i < SAMPLES; i++)
		varies += (target[i] - mean) * (target[i] - mean);
	for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++) {
		const struct subject subject = { "mlp:2,9,1", data, .batch = batches[i], .top = 1 };
		struct job job = { .subject = &subject };
		const struct gt_metrics *m = &job.metrics[0];
		double squares = 0, sizes = 0;

		run(&job, 1);
		for (int k = 0; k < SAMPLES; k++) {
			double error = (double)job.each[0].value[k] - target[k];

			squares += error * error;
			sizes += fabs(error);
		}
		assert_int_equal(m->target, GT_SAMPLE_NUMBER);
		assert_int_equal(m->n, SAMPLES);
		/* Targets are floats of 7 digits, whose errors are some tens. */
		assert_true(fabs(m->mse - squares / SAMPLES) < 1e-4 * m->mse);
		assert_true(fabs(m->mae - sizes / SAMPLES) < 1e-4 * m->mae);
		assert_true(fabs(m->r2 - (1 - squares / varies)) < 1e-4);
		assert_true(m->top1 == 0 && m->top5 == 0 && m->perplexity == 0);
		gt_predictions_release(&job.each[0]);
	}
	planted_remove(root);
}

/* Samples of another size than that of the programs would be read beyond their end. */
static void data_of_another_shape_are_refused(void **state)
{
	static const char *const others[] = { "random:4/3,samples=9", "random:64/3,samples=9" };

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		const struct gt_threads_options options = { .shm = { .timeout_s = 60 } };
		const struct subject subject = { "mlp:8,16,3", "random:8/3,samples=9", .batch = 4,
			.other = others[i] };
		struct job job = { .subject = &subject };
		struct gt_err err = GT_ERR_INIT;

		assert_int_equal(gt_threads_run(1, &options, evaluate, &job, &err), GT_EINVAL);
		assert_non_null(strstr(err.text, "the model was planned for 128"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_measure_as_one),
		cmocka_unit_test(metrics_are_those_of_the_answers_in_any_batches),
		cmocka_unit_test(errors_are_those_of_the_answers_in_any_batches),
		cmocka_unit_test(data_of_another_shape_are_refused),
	};

	return cmocka_run_group_tests_name("evaluate", tests, NULL, NULL);
}
