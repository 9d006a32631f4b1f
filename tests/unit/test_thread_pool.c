/* test_thread_pool.c - tasks done by threads: each once, the lowest error, signals. */
#include "lib/base/thread_pool.h"

#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REFUSES_THREADS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define REFUSES_THREADS 0
#endif
#endif
#ifndef REFUSES_THREADS
#define REFUSES_THREADS 1
#endif

#if REFUSES_THREADS
static bool refused;

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
    void *(*body)(void *), void *restrict context)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return refused ? EAGAIN : real(thread, attributes, body, context);
}
#endif

enum { TASKS = 1000, ROUNDS = 20 };

struct work {
	atomic_int done[TASKS];
	size_t first_bad, step; /* tasks first_bad, first_bad + step, ... fail */
};

static int work(void *self, size_t task, struct gt_err *err)
{
	struct work *w = self;

	atomic_fetch_add(&w->done[task], 1);
	if (task < w->first_bad || (task - w->first_bad) % w->step)
		return 0;
	/* The lowest one is the last to be told. */
	if (task == w->first_bad)
		usleep(200);
	return gt_err_set(err, GT_EINVAL, "task %zu", task);
}

static void each_task_is_done_once(void **state)
{
	static const size_t threads[] = { 0, 1, 2, 3, 8, 64, 1000 };
	static const size_t tasks[] = { 0, 1, 2, 7, TASKS };

	(void)state;
	for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); i++)
		for (size_t k = 0; k < sizeof(tasks) / sizeof(*tasks); k++) {
			struct gt_err err = GT_ERR_INIT;
			struct work w = { .first_bad = TASKS };

			assert_int_equal(
			    gt_thread_pool_run(threads[i], tasks[k], work, &w, &err), 0);
			for (size_t t = 0; t < TASKS; t++)
				assert_int_equal(w.done[t], t < tasks[k]);
		}
}

static void the_lowest_error_is_returned(void **state)
{
	static const struct {
		size_t first_bad, step;
	} row[] = { { 0, 1 }, { 5, 8 }, { 31, 1 }, { TASKS - 1, 1 }, { 100, 3 } };
	char expected[32];

	(void)state;
	for (size_t threads = 1; threads < 9; threads++)
		for (size_t i = 0; i < sizeof(row) / sizeof(*row) * ROUNDS; i++) {
			struct gt_err err = GT_ERR_INIT;
			struct work w = { .first_bad = row[i / ROUNDS].first_bad,
				.step = row[i / ROUNDS].step };

			assert_int_equal(
			    gt_thread_pool_run(threads, TASKS, work, &w, &err), GT_EINVAL);
			snprintf(expected, sizeof(expected), "task %zu", w.first_bad);
			assert_string_equal(err.text, expected);
			for (size_t t = 0; t < TASKS; t++)
				assert_true(w.done[t] == 1 || (t > w.first_bad && !w.done[t]));
		}
}

static void sizes(void **state)
{
	static const struct {
		size_t wanted, size;
	} row[] = { { 1, 1 }, { 3, 3 }, { 64, 64 }, { 65, 64 }, { (size_t)-1, 64 } };

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++)
		assert_int_equal(gt_thread_pool_size(row[i].wanted), row[i].size);
	assert_in_range(gt_thread_pool_size(0), 1, 16);
}

/* Signals to the process go to the program's own threads, those of a thread's own making to it. */
static void *look_at_mask(void *context)
{
	pthread_sigmask(SIG_SETMASK, NULL, context);
	return NULL;
}

static void signals_are_blocked_but_for_the_threads_own(void **state)
{
	static const struct {
		int signal;
		bool blocked;
	} row[] = { { SIGINT, true }, { SIGTERM, true }, { SIGCHLD, true }, { SIGUSR1, true },
		{ SIGBUS, false }, { SIGSEGV, false }, { SIGFPE, false }, { SIGILL, false } };
	sigset_t mask, before, after;
	pthread_t thread;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(gt_thread_start(&thread, look_at_mask, &mask, GT_ERR_IGNORED), 0);
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (size_t i = 0; i < sizeof(row) / sizeof(*row); i++) {
		assert_int_equal(sigismember(&mask, row[i].signal), row[i].blocked);
		assert_int_equal(
		    sigismember(&after, row[i].signal), sigismember(&before, row[i].signal));
	}
}

/* Where no thread can be started, the caller does all tasks. */
static void without_threads_the_caller_works(void **state)
{
#if REFUSES_THREADS
	struct gt_err err = GT_ERR_INIT;
	struct work w = { .first_bad = TASKS };
	pthread_t thread;

	(void)state;
	refused = true;
	assert_int_equal(gt_thread_start(&thread, look_at_mask, NULL, &err), GT_EIO);
	assert_int_equal(gt_thread_pool_run(8, TASKS, work, &w, GT_ERR_IGNORED), 0);
	refused = false;
	assert_non_null(strstr(err.text, "cannot start a thread"));
	assert_non_null(strstr(err.hint, "`ulimit -u`"));
	for (size_t t = 0; t < TASKS; t++)
		assert_int_equal(w.done[t], 1);
#else
	(void)state;
	print_message("threads: sanitizers have a pthread_create() of their own\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_threads_the_caller_works),
		cmocka_unit_test(each_task_is_done_once),
		cmocka_unit_test(the_lowest_error_is_returned),
		cmocka_unit_test(sizes),
		cmocka_unit_test(signals_are_blocked_but_for_the_threads_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
