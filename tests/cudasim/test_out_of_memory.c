/* test_out_of_memory.c - runs whose n-th allocation fails give the reason and free all memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "lib/train/train.h"
#include "tests/cudasim/cudasim.h"

#define NAME "\x1f" /* GT_OPTION_MARK */

enum { MOST = 100 };

static const struct gt_backend *const b = &gt_cuda_backend;

static int open_run(struct gt_train **t, struct gt_err *err)
{
	static struct gt_log silent = { .level = GT_LOG_QUIET }; /* the run keeps it */
	struct gt_train_options options = { .where.devices = "cuda:0",
		.model = "mlp:64,128,10",
		.data = "random:64/10,samples=64",
		.steps = 2,
		.batch = 16,
		.accumulate = 1,
		.optim = { .kind = GT_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
		.workers = 1,
		.prefetch = 2 };

	silent.stream = stderr;
	return gt_train_open(t, &options, false, &silent, err);
}

static uint64_t available(void)
{
	struct gt_err err = GT_ERR_INIT;
	uint64_t bytes, total;

	assert_int_equal(b->enter(0, &err), 0);
	assert_int_equal(b->memory(0, &bytes, &total, &err), 0);
	return bytes;
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in: %s", part, text);
}

/* Errors of device memory give the run's need; after all errors, all memory is given back. */
static void test_failing_allocations(void **state)
{
	uint64_t before = available();
	struct gt_train *t = NULL;
	int told = 0;

	(void)state;
	for (int n = 1; !t; n++) {
		struct gt_err err = GT_ERR_INIT;

		assert_true(n < MOST);
		cudasim_fail_allocation(n);
		if (!open_run(&t, &err))
			break;
		cudasim_fail_allocation(0);
		assert_int_equal(err.code, GT_ENOMEM);
		assert_true(available() == before);
		expect(err.text, "cuda:0: no ");
		if (!strstr(err.text, "the run needs"))
			continue;
		told++;
		expect(err.text, "cuda:0: no memory: ");
		expect(err.text, "bytes asked for, ");
		expect(err.text,
		    "37.6 KiB parameters, 37.6 KiB gradients, 75.1 KiB optimizer state, ");
		expect(err.text, "activations, ");
		expect(err.text, "batches");
		expect(err.hint, "it fits with ");
		expect(err.hint, NAME "device cuda " NAME "nproc 2 " NAME "parallel zero3 (");
	}
	cudasim_fail_allocation(0);
	assert_true(told >= 5); /* parameters, gradients, arena, batches, optimizer state */
	gt_train_close(t);
	assert_true(available() == before);
}

/*
 * Batches lie in pinned memory, four of them ahead: the error says so, and its hint names options
 * that need less.
 */
static void test_failing_pinned_memory(void **state)
{
	uint64_t before = available();
	const atomic_bool stop = false;
	int rc = GT_ENOMEM, told = 0;

	(void)state;
	for (int n = 1; rc; n++) {
		struct gt_train_result result = { 0 };
		struct gt_err err = GT_ERR_INIT;
		struct gt_train *t;

		assert_true(n < MOST);
		if (open_run(&t, &err))
			fail_msg("%s", err.text);
		cudasim_fail_allocation(n);
		rc = gt_train_run(t, NULL, NULL, 0, &stop, &result, &err);
		cudasim_fail_allocation(0);
		gt_train_close(t);
		assert_true(available() == before);
		if (!rc)
			break;
		assert_int_equal(rc, GT_ENOMEM);
		if (!strstr(err.text, "pinned"))
			continue;
		told++;
		expect(err.text, "4 batches of 16 samples on their way to the device: cuda:0: no "
		                 "pinned host memory: ");
		expect(err.text, " bytes asked for");
		assert_string_equal(err.hint,
		    "use a smaller " NAME "batch or " NAME "prefetch, or " NAME "pin-memory no");
	}
	assert_int_equal(told, 8); /* inputs and targets of each batch */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failing_allocations),
		cmocka_unit_test(test_failing_pinned_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
