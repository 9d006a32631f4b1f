/* test_evaluate.c - evaluations on ranks have the bits of one rank's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these four first */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/comm/launch/threads.h"
#include "lib/train/evaluate.h"

enum { MOST = 4 };

struct subject {
	const char *model, *data;
	int batch;
	enum gt_parallel_kind
	    kind; /* of ranks that train; where they don't, it makes no difference */
	int stages;
	bool trains;
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
		gt_model_input_of(&s->input, gt_dataset_info(r->data));
	return rc;
}

static int plan(struct gt_session *s, void *self, struct gt_err *err)
{
	struct rank *r = self;
	const struct gt_evaluate_options how = { .batch = r->subject->batch };

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
		.group = group,
		.host_rank = group->rank,
		.parallel = { .kind = of->kind,
		    .forward = !of->trains,
		    .stages = of->stages,
		    .bucket_bytes = 1000 } };
	const struct gt_evaluate_options how = { .batch = of->batch, .workers = group->rank % 3 };
	struct rank rank = { .subject = of };
	struct gt_session s;
	int rc = gt_session_open(&s, &options, &purpose, &rank, err);

	if (!rc)
		rc = gt_evaluate(
		    &s, &rank.programs, rank.data, &how, &job->metrics[group->rank], NULL, err);
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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(ranks_measure_as_one) };

	return cmocka_run_group_tests_name("evaluate", tests, NULL, NULL);
}
