/* test_cudasim.c - the simulator: right kernels run, planted faults are found, streams overtake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants these three first */
#include <cmocka.h>

#include <cuda.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cudasim/cudasim.h"
#include "tests/cudasim/planted.h"

enum { BYTES = PLANTED_COUNT * sizeof(float), ORDERS = 8 };

static void ok(cudaError_t e)
{
	if (e != cudaSuccess)
		fail_msg("%s", cudaGetErrorString(e));
}

static float *device_alloc(void)
{
	void *p;

	ok(cudaMalloc(&p, BYTES));
	return p;
}

static float *pinned_alloc(void)
{
	void *p;

	ok(cudaMallocHost(&p, BYTES));
	return p;
}

/* Run one with an order; y gets its output, the result is that of the wait. */
static cudaError_t run(enum planted which, uint64_t seed, float *y)
{
	float *d = device_alloc();
	cudaError_t e;

	cudasim_seed(seed);
	ok(cudaMemsetAsync(d, 0, BYTES, NULL));
	planted_launch(which, d, NULL);
	e = cudaStreamSynchronize(NULL);
	if (e == cudaSuccess)
		ok(cudaMemcpyAsync(y, d, BYTES, cudaMemcpyDeviceToHost, NULL));
	else
		cudaGetLastError();
	cudaFree(d);
	return e;
}

/* Run it in a child process; `text` gets the last words it prints. Returns its status. */
static int in_child(void (*act)(int arg), int arg, char *text, size_t size)
{
	int to[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(to), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(to[1], STDERR_FILENO);
		close(to[0]);
		close(to[1]);
		signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test */
		act(arg);
		exit(0);
	}
	close(to[1]);
	while (used + 1 < size && (n = read(to[0], text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	close(to[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void run_planted(int which)
{
	float y[PLANTED_COUNT];

	run((enum planted)which, 1, y);
}

/* The thread sanitizer tells of the race, and the program fails. */
static void expect_report(enum planted which, const char *kernel)
{
	static char text[1 << 16];
	char want[100];

	snprintf(want, sizeof(want), "in %s\n", kernel);
	assert_int_not_equal(in_child(run_planted, which, text, sizeof(text)), 0);
	if (!strstr(text, "ThreadSanitizer: data race") || !strstr(text, want))
		fail_msg("no '%s' in: %s", want, text);
}

static void test_nothing_wrong(void **state)
{
	float y[PLANTED_COUNT];

	(void)state;
	for (uint64_t seed = 1; seed <= ORDERS; seed++) {
		ok(run(PLANTED_NOTHING, seed, y));
		for (int i = 0; i < PLANTED_COUNT; i++) {
			int lane = i % 32, right = lane == 31 ? 31 : lane + 1;

			assert_true(y[i] == 496 + 2000 + 15 + (float)right);
		}
	}
}

static void test_missing_barrier(void **state)
{
	float y[PLANTED_COUNT];

	(void)state;
	if (planted_has_tsan()) {
		expect_report(PLANTED_MISSING_BARRIER, "missing_barrier");
		return;
	}
	for (uint64_t seed = 1; seed <= ORDERS; seed++) {
		int nans = 0;

		ok(run(PLANTED_MISSING_BARRIER, seed, y));
		for (int i = 0; i < PLANTED_COUNT; i++)
			nans += isnan(y[i]) != 0;
		assert_true(nans > 0);
	}
}

/* Another order, other bits. */
static void test_races(void **state)
{
	static const enum planted races[] = { PLANTED_RACE, PLANTED_BLOCK_RACE };
	static const char *const kernels[] = { "race", "block_race" };
	float first[PLANTED_COUNT], y[PLANTED_COUNT];

	(void)state;
	for (size_t r = 0; r < sizeof(races) / sizeof(races[0]); r++) {
		bool differs = false;

		if (planted_has_tsan()) {
			expect_report(races[r], kernels[r]);
			continue;
		}
		ok(run(races[r], 1, first));
		for (uint64_t seed = 2; seed <= ORDERS; seed++) {
			ok(run(races[r], seed, y));
			differs = differs || memcmp(first, y, BYTES);
		}
		assert_true(differs);
	}
}

static void test_faults(void **state)
{
	static const struct {
		enum planted which;
		const char *text;
	} cases[] = {
		{ PLANTED_DIVERGENT_BARRIER, "threads of a block wait at different barriers" },
		{ PLANTED_ABSENT_LANE, "deadlock: threads wait for others that do not come" },
		{ PLANTED_OWN_MASK, "a lane that is not in its own mask" },
		{ PLANTED_OTHER_MASK, "a shuffle from a lane outside of the mask" },
	};
	float y[PLANTED_COUNT];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (uint64_t seed = 1; seed <= ORDERS; seed++) {
			assert_int_equal(run(cases[i].which, seed, y), cudaErrorLaunchFailure);
			assert_non_null(cudasim_fault(0));
			if (strncmp(cudasim_fault(0), cases[i].text, strlen(cases[i].text)) ||
			    !strstr(cudasim_fault(0), "planted.cu:"))
				fail_msg("%s", cudasim_fault(0));
			assert_int_equal(
			    cudaStreamSynchronize(NULL), cudaErrorLaunchFailure); /* sticky */
			cudasim_forget(0);
			ok(run(PLANTED_NOTHING, seed, y));
		}
	cudaGetLastError();
}

/* ---- faults that end a program ---- */

/* The line of planted.cu with this comment on it. */
static int line_of(const char *comment)
{
	FILE *f = fopen("tests/cudasim/planted.cu", "r");
	char line[200];
	int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) && ++n)
		if (strstr(line, comment))
			break;
	fclose(f);
	return n;
}

static void test_out_of_bounds(void **state)
{
	static const struct {
		enum planted which;
		const char *comment;
	} cases[] = { { PLANTED_SHARED, "/* beyond_shared" },
		{ PLANTED_DYNAMIC, "/* beyond_dynamic" }, { PLANTED_GLOBAL, "/* beyond_global" },
		{ PLANTED_READ, "/* read_beyond" } };
	static char text[1 << 16];

	(void)state;
	if (!cudasim_has_asan()) {
		print_message("asan: the simulator is built without the address sanitizer\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char want[100];

		snprintf(want, sizeof(want), "planted.cu:%d", line_of(cases[i].comment));
		assert_int_not_equal(in_child(run_planted, cases[i].which, text, sizeof(text)), 0);
		if (!strstr(text, "AddressSanitizer") || !strstr(text, want))
			fail_msg("no '%s' in: %s", want, text);
	}
}

static void touch_device(int write)
{
	volatile float *y = device_alloc();

	if (write)
		*y = 1;
	else
		(void)*y;
}

static void test_host_access(void **state)
{
	static char text[1 << 16];

	(void)state;
	for (int write = 0; write < 2; write++)
		assert_int_not_equal(in_child(touch_device, write, text, sizeof(text)), 0);
}

static void test_unforgotten_fault(void **state)
{
	static char text[1 << 12];
	int status;

	(void)state;
	status = in_child(run_planted, PLANTED_OWN_MASK, text, sizeof(text));
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 99);
	assert_non_null(strstr(text, "CUDASIM_SEED=1"));
}

/* ---- streams ---- */

struct site {
	float *x, *y, *host; /* device, device, pinned */
	cudaStream_t stream[2];
	cudaEvent_t event;
};

static void open_site(struct site *s)
{
	s->x = device_alloc();
	s->y = device_alloc();
	s->host = pinned_alloc();
	for (int i = 0; i < 2; i++)
		ok(cudaStreamCreateWithFlags(&s->stream[i], cudaStreamNonBlocking));
	ok(cudaEventCreateWithFlags(&s->event, cudaEventDisableTiming));
	ok(cudaMemsetAsync(s->x, 0, BYTES, s->stream[0]));
	ok(cudaMemsetAsync(s->y, 0, BYTES, s->stream[0]));
	ok(cudaStreamSynchronize(s->stream[0]));
}

static void close_site(struct site *s)
{
	for (int i = 0; i < 2; i++)
		ok(cudaStreamDestroy(s->stream[i]));
	ok(cudaEventDestroy(s->event));
	ok(cudaFree(s->x));
	ok(cudaFree(s->y));
	ok(cudaFreeHost(s->host));
}

/* x is brought on one stream and added to y on the other, which waits or does not. */
static float add_behind(bool wait, uint64_t seed)
{
	struct site s;
	float first;

	cudasim_seed(seed);
	open_site(&s);
	for (int i = 0; i < PLANTED_COUNT; i++)
		s.host[i] = 1;
	ok(cudaMemcpyAsync(s.x, s.host, BYTES, cudaMemcpyHostToDevice, s.stream[1]));
	ok(cudaEventRecord(s.event, s.stream[1]));
	if (wait)
		ok(cudaStreamWaitEvent(s.stream[0], s.event, 0));
	planted_add(s.y, s.x, PLANTED_COUNT, s.stream[0]);
	ok(cudaStreamSynchronize(s.stream[0]));
	ok(cudaMemcpyAsync(s.host, s.y, BYTES, cudaMemcpyDeviceToHost, s.stream[0]));
	ok(cudaStreamSynchronize(s.stream[0]));
	first = s.host[0];
	close_site(&s);
	return first;
}

static void test_missing_wait(void **state)
{
	int early = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= ORDERS; seed++) {
		assert_true(add_behind(true, seed) == 1);
		early += add_behind(false, seed) == 0;
	}
	assert_true(early > 0);
}

static void test_early_host_read(void **state)
{
	struct site s;

	(void)state;
	open_site(&s);
	ok(cudaMemcpyAsync(s.host, s.y, BYTES, cudaMemcpyDeviceToHost, s.stream[0]));
	assert_true(isnan(s.host[7]));
	ok(cudaEventRecord(s.event, s.stream[0]));
	while (cudaEventQuery(s.event) == cudaErrorNotReady)
		;
	assert_true(s.host[7] == 0);
	close_site(&s);
}

/* ---- values that the host writes ---- */

struct writer {
	struct site *s;
	unsigned *value;
};

/* The thread sanitizer does not see that the simulator, which is built without it, reads the value
 * before the rest. */
__attribute__((no_sanitize("thread"))) static void *write_late(void *arg)
{
	struct writer *w = arg;

	usleep(2000);
	for (int i = 0; i < PLANTED_COUNT; i++)
		w->s->host[i] = 5;
	__atomic_store_n(w->value, 7, __ATOMIC_RELEASE);
	return NULL;
}

/* x is copied from host memory when the value is there; y does not wait. */
static void test_wait_for_value(void **state)
{
	for (uint64_t seed = 1; seed <= ORDERS; seed++) {
		struct site s;
		struct writer w = { &s, NULL };
		pthread_t thread;
		void *p;

		(void)state;
		cudasim_seed(seed);
		open_site(&s);
		ok(cudaMallocHost(&p, sizeof(*w.value)));
		w.value = p;
		*w.value = 6;
		ok((cudaError_t)cuStreamWaitValue32(
		    s.stream[0], (CUdeviceptr)(uintptr_t)p, 7, CU_STREAM_WAIT_VALUE_GEQ));
		ok(cudaMemcpyAsync(s.x, s.host, BYTES, cudaMemcpyHostToDevice, s.stream[0]));
		ok(cudaEventRecord(s.event, s.stream[0]));
		ok(cudaMemsetAsync(s.y, 0, BYTES, s.stream[1]));
		ok(cudaStreamSynchronize(s.stream[1]));
		assert_int_equal(cudaEventQuery(s.event), cudaErrorNotReady);
		assert_int_equal(pthread_create(&thread, NULL, write_late, &w), 0);
		ok(cudaStreamSynchronize(s.stream[0]));
		pthread_join(thread, NULL);
		ok(cudaMemcpyAsync(s.host, s.x, BYTES, cudaMemcpyDeviceToHost, s.stream[0]));
		ok(cudaStreamSynchronize(s.stream[0]));
		assert_true(s.host[0] == 5);
		assert_int_equal(cuStreamWaitValue32(s.stream[0], (CUdeviceptr)(uintptr_t)s.x, 7,
		                     CU_STREAM_WAIT_VALUE_GEQ),
		    CUDA_ERROR_INVALID_VALUE); /* the simulator's: pinned memory alone */
		ok(cudaFreeHost(p));
		close_site(&s);
	}
}

/* ---- graphs ---- */

/* Two branches, of which the second waits for the first or does not: its replays are as late as
 * other streams' work. */
static float replay_branches(bool wait, uint64_t seed)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaEvent_t back;
	struct site s;
	float first;

	cudasim_seed(seed);
	open_site(&s);
	ok(cudaMemsetAsync(s.y, 0, BYTES, s.stream[0]));
	ok(cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
	for (int i = 0; i < PLANTED_COUNT; i++)
		s.host[i] = 1;
	ok(cudaMemcpyAsync(s.x, s.host, BYTES, cudaMemcpyHostToDevice, s.stream[0]));
	ok(cudaStreamBeginCapture(s.stream[0], cudaStreamCaptureModeThreadLocal));
	ok(cudaEventRecord(s.event, s.stream[0]));
	ok(cudaStreamWaitEvent(s.stream[1], s.event, 0));
	planted_add(s.x, s.x, PLANTED_COUNT, s.stream[1]);
	ok(cudaEventRecord(back, s.stream[1]));
	if (wait)
		ok(cudaStreamWaitEvent(s.stream[0], back, 0));
	planted_add(s.y, s.x, PLANTED_COUNT, s.stream[0]);
	ok(cudaStreamWaitEvent(s.stream[0], back, 0));
	ok(cudaStreamEndCapture(s.stream[0], &graph));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	ok(cudaGraphDestroy(graph));
	for (int i = 0; i < 3; i++)
		ok(cudaGraphLaunch(exec, s.stream[0]));
	ok(cudaGraphExecDestroy(exec));
	ok(cudaMemcpyAsync(s.host, s.y, BYTES, cudaMemcpyDeviceToHost, s.stream[0]));
	ok(cudaStreamSynchronize(s.stream[0]));
	first = s.host[0];
	ok(cudaEventDestroy(back));
	close_site(&s);
	return first;
}

static void test_graphs(void **state)
{
	int early = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= ORDERS; seed++) {
		assert_true(replay_branches(true, seed) == 2 + 4 + 8);
		early += replay_branches(false, seed) != 2 + 4 + 8;
	}
	assert_true(early > 0);
}

/* ---- errors ---- */

static void test_errors(void **state)
{
	float *y = device_alloc(), host[PLANTED_COUNT] = { 0 };
	void *p;
	int n;

	(void)state;
	ok(cudaGetDeviceCount(&n));
	assert_int_equal(n, 2);
	assert_int_equal(cudaSetDevice(n), cudaErrorInvalidDevice);
	assert_int_equal(cudaMemcpyAsync(y, host, BYTES + 4, cudaMemcpyHostToDevice, NULL),
	    cudaErrorInvalidValue);
	assert_int_equal(
	    cudaMemcpyAsync(host, y, BYTES, cudaMemcpyHostToDevice, NULL), cudaErrorInvalidValue);
	assert_int_equal(cudaFree(y + 1), cudaErrorInvalidValue);
	cudaGetLastError();
	planted_configure(1025, 0, y);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
	planted_configure(32, (48 << 10) + 1, y);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
	assert_int_equal(planted_allow(1 << 20), cudaErrorInvalidValue);
	cudaGetLastError();
	ok(planted_allow(64 << 10));
	planted_configure(32, 64 << 10, y);
	ok(cudaGetLastError());
	planted_configure(32, (64 << 10) + 1, y);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
	ok(cudaGetLastError());
	assert_int_equal(cudaMalloc(&p, (size_t)2 << 30), cudaErrorMemoryAllocation);
	cudasim_fail_allocation(2);
	ok(cudaMalloc(&p, 4));
	ok(cudaFree(p));
	assert_int_equal(cudaMalloc(&p, 4), cudaErrorMemoryAllocation);
	assert_int_equal(cudaMallocHost(&p, 4), cudaErrorMemoryAllocation);
	cudasim_fail_allocation(0);
	ok(cudaFree(y));
	cudaGetLastError();
}

static void test_memory_is_counted(void **state)
{
	size_t before, during, after, total;
	void *p;

	(void)state;
	ok(cudaMemGetInfo(&before, &total));
	ok(cudaMalloc(&p, 1 << 20));
	ok(cudaMemGetInfo(&during, &total));
	ok(cudaFree(p));
	ok(cudaMemGetInfo(&after, &total));
	assert_int_equal(before - during, 1 << 20);
	assert_int_equal(before, after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_wrong),
		cmocka_unit_test(test_missing_barrier),
		cmocka_unit_test(test_races),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_out_of_bounds),
		cmocka_unit_test(test_host_access),
		cmocka_unit_test(test_unforgotten_fault),
		cmocka_unit_test(test_missing_wait),
		cmocka_unit_test(test_early_host_read),
		cmocka_unit_test(test_wait_for_value),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_memory_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
