/* test_profile_verdict.c - the bound of a step that a profile names, from given times. */
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

#include "lib/graph/op.h"
#include "lib/train/report/profile_state.h"

#define COUNT(a) (sizeof(a) / sizeof(*(a)))
#define MODEL    "gpt:layers=1,heads=2,width=32,block=8,vocab=50"

/* The rate of a limit that no event reaches, and of one that an event of its kind is near to. */
static const double far = 1e18, near = 1e9;

struct verdict_case {
	const char *what;
	const char *kernel; /* op of the one kernel, or NULL */
	const char *phase;  /* name of the one phase or note, if there is no kernel; or NULL */
	double seconds;     /* the kernel or phase takes so long in a step of `step_s` */
	double step_s;
	double product_per_s, vector_per_s, memory_per_s;
	int workers;
	const char *bound, *advice;
};

static const struct verdict_case cases[] = {
	{ "a product", "matmul", NULL, 0.9, 1, near, far, far, 2, "products",
	    "makes the products larger" },
	{ "a product that reads much", "matmul", NULL, 0.9, 1, far, far, near, 2, "memory",
	    "a larger {batch}" },
	{ "arithmetic", "gelu", NULL, 0.9, 1, far, near, far, 2, "arithmetic", "more ranks" },
	{ "memory", "gelu", NULL, 0.9, 1, far, far, near, 2, "memory", "a larger {batch}" },
	{ "a short kernel", "gelu", NULL, 19e-6, 20e-6, far, far, far, 2, "launch",
	    "gives each kernel more work" },
	{ "a kernel that is not short", "gelu", NULL, 21e-6, 22e-6, far, near, far, 2, "arithmetic",
	    "more ranks" },
	{ "the update", NULL, GT_PROFILE_UPDATE, 0.9, 1, far, far, near, 2, "update",
	    "updates less" },
	{ "gradients that are set to zero", NULL, GT_PROFILE_ZEROING, 0.9, 1, far, far, near, 2,
	    "memory", "a larger {batch}" },
	{ "other ranks", NULL, "agree", 0.9, 1, far, far, far, 2, "ranks", "sums gradients less" },
	{ "data", NULL, GT_PROFILE_WAITING, 0.9, 1, far, far, far, 2, "data", "more {workers}" },
	{ "data without workers", NULL, GT_PROFILE_WAITING, 0.9, 1, far, far, far, 0, "data",
	    "{workers} 2 reads" },
	{ "nothing", NULL, NULL, 0, 1, far, far, far, 2, "host", "for each kernel" },
	{ "a rest that is longer", "matmul", NULL, 0.4, 1, near, far, far, 2, "host",
	    "for each kernel" },
};

static struct gt_train *open_run(int workers, struct gt_log *log)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_train_options o;
	struct gt_train *t;

	gt_train_options_init(&o);
	o.model = MODEL;
	o.data = "random,samples=64";
	o.batch = 4;
	o.workers = workers;
	if (gt_train_open(&t, &o, true, log, &err))
		fail_msg("%s", err.text);
	return t;
}

static const struct gt_step *find_step(const struct gt_train *t, const char *op)
{
	size_t count;
	const struct gt_step *steps = gt_plan_steps(t->steps.full.plan, &count);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(steps[i].node->op->name, op))
			return &steps[i];
	fail_msg("the plan has no %s", op);
	return NULL;
}

/* Sum up one step with at most one event in it. Returns the log. */
static char *sum_up(struct gt_profile_summary *s, const struct verdict_case *c)
{
	struct gt_profile_event events[2] = { { .kind = GT_EVENT_STEP, .name = GT_PROFILE_STEP } };
	struct gt_span spans[2] = { { 1, 1 + c->step_s }, { 1, 1 + c->seconds } };
	struct gt_profile p = { .events = events, .spans = spans, .count = 1, .capacity = 2 };
	struct gt_err err = GT_ERR_INIT;
	char *text = NULL;
	size_t size;
	struct gt_log log = { .stream = open_memstream(&text, &size), .level = GT_LOG_NORMAL };

	assert_non_null(log.stream);
	p.t = open_run(c->workers, &log);
	if (c->kernel)
		events[p.count++] = (struct gt_profile_event){ .kind = GT_EVENT_KERNEL,
			.name = c->kernel,
			.step = find_step(p.t, c->kernel) };
	else if (c->phase)
		events[p.count++] =
		    (struct gt_profile_event){ .kind = GT_EVENT_STEP, .name = c->phase };
	p.limits.product_per_s = c->product_per_s;
	p.limits.vector_per_s = c->vector_per_s;
	gt_curve_add(&p.limits.memory, 1, c->memory_per_s);
	*s = (struct gt_profile_summary){ .first = 3, .last = 3 };
	assert_int_equal(gt_profile_sum_up(&p, s, &err), 0);
	gt_train_close(p.t);
	fclose(log.stream);
	return text;
}

static void the_bound_is_the_cause_that_takes_most(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct verdict_case *c = &cases[i];
		struct gt_profile_summary s;
		char *text = sum_up(&s, c);
		const char *verdict = strstr(text, "the step is bound by ");
		bool host = !strcmp(c->bound, "host");
		double share = (host ? c->step_s - c->seconds : c->seconds) / c->step_s;

		if (strcmp(s.bound, c->bound) || fabs(s.bound_share - share) > 1e-6)
			fail_msg("%s: %s, %g", c->what, s.bound, s.bound_share);
		if (!verdict || !strstr(verdict, c->advice))
			fail_msg("%s: %s", c->what, text);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bound_is_the_cause_that_takes_most),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
