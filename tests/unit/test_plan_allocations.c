/* test_plan_allocations.c - runs of a plan allocate no memory. */
#include "tests/unit/plan_fixture.h"

#include <dlfcn.h>
#include <omp.h>

/*
 * A program of its own, because it has malloc() and its like in place of the C library's: programs
 * on simulated GPUs have the address sanitizer's.
 */

/* ---- allocations: the C library's functions, counted by the image that calls ---- */

/* Sanitizers bring their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INTERPOSED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INTERPOSED 0
#endif
#endif
#ifndef INTERPOSED
#define INTERPOSED 1
#endif

static volatile bool counting;
static int ours, theirs;
static void *own_image;

#if INTERPOSED
static void count(const void *caller)
{
	static __thread bool inside; /* dladdr may allocate, too */
	Dl_info info;

	if (!counting || inside)
		return;
	inside = true;
	if (dladdr(caller, &info) && info.dli_fbase == own_image)
		__atomic_add_fetch(&ours, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&theirs, 1, __ATOMIC_RELAXED);
	inside = false;
}

#include "tests/common/interpose.inc"
#endif

/* ---- the test ---- */

static void test_run_allocates_nothing(void **state)
{
	Dl_info info;

	(void)state;
	if (!test_device_is_cpu()) {
		print_message("devices: their queues take memory\n");
		skip();
	}
	if (!INTERPOSED) {
		print_message("sanitizer: has its own malloc\n");
		skip();
	}
	assert_true(dladdr((void *)test_run_allocates_nothing, &info));
	own_image = info.dli_fbase;
	ours = theirs = 0;
	counting = true;
	free(gt_calloc(4, 4, GT_ERR_IGNORED)); /* the counter counts */
	counting = false;
	if (!ours && strstr(getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "", "valgrind")) {
		print_message("valgrind: has its own malloc\n");
		skip();
	}
	assert_int_equal(ours, 1);
	for (int i = 0; i < SUBJECTS; i++) {
		struct subject_run r;
		int rc = 0, warm = 0;

		open_subject(&r, &subjects[i], GT_MODEL_TRAIN, true);
		ours = theirs = 0;
		for (int k = 0; k < 3 && !rc; k++) {
			write_inputs(&r);
			counting = true;
			rc = gt_plan_run(r.program.plan, NULL);
			counting = false;
			warm = k ? warm : theirs; /* code that oneDNN makes when first asked */
		}
		assert_int_equal(rc, 0);
		print_message(
		    "# %s: no allocation of ours; %d of libraries in the first run, %d in two more\n",
		    subjects[i].spec, warm, theirs - warm);
		assert_int_equal(ours, 0);
		close_subject(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_allocates_nothing),
	};

	omp_set_num_threads(1); /* small models: threads would mostly wait for each other */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
