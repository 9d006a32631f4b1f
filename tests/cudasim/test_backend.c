/* test_backend.c - the CUDA backend over simulated GPUs: memory, streams, events, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#include <math.h>
#include <stdatomic.h>
#include <time.h>

#include "kernels/cuda/cuda.h"
#include "lib/base/clock.h"
#include "lib/device/marks.h"
#include "tests/cudasim/cudasim.h"
#include "tests/cudasim/planted.h"

enum { N = 1000, BYTES = N * sizeof(float), ORDERS = 8 };

static const struct gt_backend *const b = &gt_cuda_backend;

static void ok(int rc, const struct gt_err *err)
{
	if (rc)
		fail_msg("%s", err->text);
}

static struct gt_device *open_device(int index)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;

	ok(gt_device_open(&d, b, index, &err), &err);
	return d;
}

static void test_devices(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d;
	uint64_t available, total;
	char text[100];

	(void)state;
	assert_int_equal(b->count(), 2);
	ok(b->describe(1, text, sizeof(text), &err), &err);
	assert_string_equal(
	    text, "simulated GPU, 1.0 GiB, compute capability 9.0, 2 multiprocessors");
	ok(b->enter(0, &err), &err);
	ok(b->memory(0, &available, &total, &err), &err);
	assert_true(total == (uint64_t)1 << 30 && available <= total);
	assert_int_equal(gt_device_open(&d, b, 2, &err), GT_EINVAL);
	setenv("CUDA_VISIBLE_DEVICES", "1,7,0", 1); /* CUDA stops at a number that is none */
	assert_int_equal(b->count(), 1);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	assert_int_equal(b->count(), 0);
	unsetenv("CUDA_VISIBLE_DEVICES");
	setenv("CUDASIM_DEVICES", "0", 1);
	assert_int_equal(b->count(), 0);
	assert_int_equal(b->enter(0, &err), GT_EDEVICE);
	assert_string_equal(err.text, "cuda:0: cudaSetDevice: no CUDA-capable device is detected");
	unsetenv("CUDASIM_DEVICES");
}

/* A GPU with many processes has no queues for another one, and CUDA calls this memory. */
static void test_hint_of_a_full_gpu(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(
	    gt_cuda_check(cudaErrorMemoryAllocation, 0, "cudaSetDevice", &err), GT_EDEVICE);
	assert_string_equal(err.text, "cuda:0: cudaSetDevice: out of memory");
	assert_non_null(strstr(err.hint, "other processes may use the GPU's memory or queues"));
}

/* 2 multiprocessors of compute capability 9.0 at 1 GHz. */
static void test_peak(void **state)
{
	(void)state;
	assert_true(b->peak_flops(0, GT_F32, false) == 2 * 256e9);
	assert_true(b->peak_flops(1, GT_F16, false) == 2 * 4096e9);
	assert_true(b->peak_flops(1, GT_BF16, false) == 2 * 4096e9);
	assert_true(b->peak_flops(0, GT_F32, true) == 2 * 2048e9);
	assert_true(b->peak_flops(0, GT_F64, false) == 0);
	assert_true(b->peak_flops(7, GT_F32, false) == 0);
	/* A GPU of the table has its published peak, whatever its clock is. */
	setenv("CUDASIM_GPU", "NVIDIA H200,150100000000", 1);
	assert_true(b->peak_flops(0, GT_BF16, false) == 989.4e12);
	assert_true(b->peak_flops(0, GT_F32, true) == 494.7e12);
	assert_true(b->peak_flops(0, GT_F32, false) == 67e12);
	unsetenv("CUDASIM_GPU");
}

/* From the middle of one GPU's memory to another's, on a stream of either; the driver's word. */
static void test_peers(void **state)
{
	struct gt_device *d = open_device(0), *other = open_device(1);
	struct gt_err err = GT_ERR_INIT;
	float host[N], back[N];
	bool direct;
	void *p, *q;

	(void)state;
	for (int i = 0; i < N; i++)
		host[i] = (float)i;
	ok(gt_device_alloc(other, BYTES, &q, &err), &err);
	ok(b->enter(0, &err), &err);
	ok(gt_device_alloc(d, BYTES, &p, &err), &err);
	ok(gt_device_write(d, p, host, BYTES, &err), &err);
	for (int i = 0; i < 2; i++) {
		setenv("CUDASIM_PEERS", i ? "full" : "no", 1);
		ok(b->peer_open(0, 1, &direct, &err), &err);
		assert_false(direct);
	}
	unsetenv("CUDASIM_PEERS");
	for (int again = 0; again < 2; again++) {
		ok(b->peer_open(0, 1, &direct, &err), &err);
		assert_true(direct);
	}
	assert_int_equal(b->peer_open(0, 5, &direct, &err), GT_EDEVICE);
	assert_false(direct);
	ok(b->copy_peer(d->compute, q, 1, (float *)p + N / 2, 0, BYTES / 2, &err), &err);
	ok(b->stream_sync(d->compute, &err), &err);
	ok(b->enter(1, &err), &err);
	ok(b->copy_peer(other->copies, (float *)q + N / 2, 1, p, 0, BYTES / 2, &err), &err);
	ok(b->stream_sync(other->copies, &err), &err);
	ok(gt_device_read(other, back, q, BYTES, &err), &err);
	assert_memory_equal(back, host + N / 2, BYTES / 2);
	assert_memory_equal(back + N / 2, host, BYTES / 2);
	assert_int_equal(b->copy_peer(other->copies, q, 0, p, 1, BYTES, &err), GT_EDEVICE);
	gt_device_free(other, q, BYTES);
	gt_device_close(other);
	ok(b->enter(0, &err), &err);
	gt_device_free(d, p, BYTES);
	gt_device_close(d);
}

static void test_memory(void **state)
{
	struct gt_device *d = open_device(0);
	struct gt_err err = GT_ERR_INIT;
	float host[N], back[N];
	void *p, *q;

	(void)state;
	ok(gt_device_alloc(d, BYTES, &p, &err), &err);
	ok(gt_device_alloc(d, 0, &q, &err), &err);
	assert_int_equal((uintptr_t)p % GT_DEVICE_ALIGN, 0);
	ok(gt_device_read(d, back, p, BYTES, &err), &err);
	for (int i = 0; i < N; i++) {
		assert_true(back[i] == 0);
		host[i] = (float)i;
	}
	ok(gt_device_write(d, p, host, BYTES, &err), &err);
	ok(gt_device_read(d, back, p, BYTES, &err), &err);
	assert_memory_equal(back, host, BYTES);
	ok(b->copy(d->compute, p, (char *)p + BYTES / 2, BYTES / 2, &err), &err);
	ok(b->zero(d->compute, (char *)p + BYTES / 2, BYTES / 2, &err), &err);
	ok(gt_device_read(d, back, p, BYTES, &err), &err);
	assert_memory_equal(back, host + N / 2, BYTES / 2);
	assert_true(back[N / 2] == 0 && back[N - 1] == 0);
	gt_device_free(d, p, BYTES);
	gt_device_free(d, q, 0);
	gt_device_close(d);
}

/* The n-th allocation fails, for every n until all is done. */
static void test_failing_allocations(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_device *d = NULL;
	uint64_t before, after, total;
	int n = 0;
	void *p;

	(void)state;
	ok(b->enter(0, &err), &err);
	ok(b->memory(0, &before, &total, &err), &err);
	do {
		cudasim_fail_allocation(++n);
		err = GT_ERR_INIT;
		if (gt_device_open(&d, b, 0, &err))
			assert_null(d);
	} while (!d);
	assert_int_equal(n, 5); /* the slot of faults, the scratch memory of three streams */
	cudasim_fail_allocation(1);
	assert_int_equal(b->alloc(0, 12345, &p, &err), GT_ENOMEM);
	assert_null(p);
	assert_non_null(strstr(err.text, "cuda:0: no memory: 12345 bytes asked for, "));
	assert_int_equal(b->host_alloc(0, 12345, &p, &err), GT_ENOMEM);
	assert_string_equal(err.text, "cuda:0: no pinned host memory: 12345 bytes asked for");
	cudasim_fail_allocation(0);
	gt_device_close(d);
	ok(b->memory(0, &after, &total, &err), &err);
	assert_int_equal(before, after);
}

/* A batch comes in on one stream and is used on the other, behind an event. */
static void test_streams(void **state)
{
	struct gt_device *d = open_device(1);
	struct gt_err err = GT_ERR_INIT;
	struct gt_event *event, *never;
	float *host;
	void *x, *y, *pinned;

	(void)state;
	ok(gt_device_alloc(d, BYTES, &x, &err), &err);
	ok(gt_device_alloc(d, BYTES, &y, &err), &err);
	ok(b->host_alloc(1, BYTES, &pinned, &err), &err);
	ok(b->event_new(&event, 1, &err), &err);
	ok(b->event_new(&never, 1, &err), &err);
	host = pinned;
	assert_true(host[0] == 0 && host[N - 1] == 0);
	for (int step = 1; step <= ORDERS; step++) {
		cudasim_seed((uint64_t)step);
		for (int i = 0; i < N; i++)
			host[i] = (float)step;
		ok(b->copy_in(d->copies, x, host, BYTES, &err), &err);
		ok(b->event_record(event, d->copies, &err), &err);
		ok(b->event_wait(d->compute, event, &err), &err);
		ok(b->event_wait(d->compute, never, &err), &err);
		ok(b->ranges()->add(d->compute, y, x, N, &err), &err);
		ok(b->copy_out(d->compute, host, y, BYTES, &err), &err);
		ok(b->event_record(event, d->compute, &err), &err);
		if (step % 2)
			ok(b->event_sync(event, &err), &err);
		while (!b->event_done(event))
			;
		assert_true(host[0] == (float)(step * (step + 1)) / 2 && host[N - 1] == host[0]);
	}
	b->event_free(event);
	b->event_free(never);
	b->event_free(NULL);
	b->stream_free(NULL);
	b->host_free(1, pinned, BYTES);
	gt_device_free(d, x, BYTES);
	gt_device_free(d, y, BYTES);
	gt_device_close(d);
}

/* Which thread's fault it is depends on the order; all of it is of one thread. */
static void check_fault(int rc, const struct gt_err *err, int index)
{
	int device, target, row, classes, end = 0;

	assert_int_equal(rc, GT_EFORMAT);
	sscanf(err->text, "cuda:%d: cross_entropy: target %d of row %d is not one of %d classes%n",
	    &device, &target, &row, &classes, &end);
	if (!end || err->text[end] || device != index || target != 100 + row || classes != 10 ||
	    row < 0 || row >= PLANTED_COUNT)
		fail_msg("%s", err->text);
	assert_string_equal(err->hint, "the data has more classes or tokens than the model");
}

/* A fault in data is the error of the next wait, on whichever stream of the device, and of no other
 * call; then there is room for the next one. */
static void test_faults_in_data(void **state)
{
	struct gt_device *d = open_device(0), *other = open_device(1);
	struct gt_err err = GT_ERR_INIT;
	struct gt_event *event;

	(void)state;
	ok(b->enter(0, &err), &err);
	ok(b->event_new(&event, 0, &err), &err);
	for (uint64_t seed = 1; seed <= ORDERS; seed++) {
		cudasim_seed(seed);
		planted_fault(d->compute);
		planted_fault(d->compute);
		ok(b->event_record(event, d->compute, &err), &err);
		ok(gt_device_sync(other, &err), &err);
		check_fault(b->event_sync(event, &err), &err, 0);
		ok(b->event_sync(event, &err), &err);
		ok(gt_device_sync(d, &err), &err);

		planted_fault(d->copies);
		ok(b->event_record(event, d->copies, &err), &err);
		ok(b->event_wait(d->compute, event, &err), &err);
		check_fault(b->stream_sync(d->compute, &err), &err, 0);
		ok(b->stream_sync(d->copies, &err), &err);
	}
	b->event_free(event);
	ok(b->enter(1, &err), &err);
	planted_fault(other->compute);
	check_fault(gt_device_sync(other, &err), &err, 1);
	gt_device_close(other);
	gt_device_close(d);
}

/* Streams end, and the slot with them: a fault of theirs is none of the next ones'. */
static void test_faults_end_with_streams(void **state)
{
	struct gt_device *d = open_device(0);
	struct gt_err err = GT_ERR_INIT;
	struct gt_stream *stream;

	(void)state;
	ok(b->stream_new(&stream, 0, &err), &err);
	assert_ptr_equal(stream->faults, d->compute->faults);
	gt_device_close(d);
	planted_fault(stream);
	check_fault(b->stream_sync(stream, &err), &err, 0);
	planted_fault(stream);
	b->stream_free(stream);
	d = open_device(0);
	ok(gt_device_sync(d, &err), &err);
	gt_device_close(d);
}

/* A kernel's fault is the error of every later call, on this device alone. */
static void test_errors(void **state)
{
	struct gt_device *d = open_device(0), *other = open_device(1);
	struct gt_err err = GT_ERR_INIT;
	void *p, *q;

	(void)state;
	ok(gt_device_alloc(other, PLANTED_COUNT * sizeof(float), &q, &err), &err);
	ok(b->enter(0, &err), &err);
	ok(gt_device_alloc(d, PLANTED_COUNT * sizeof(float), &p, &err), &err);
	planted_launch(PLANTED_OWN_MASK, p, d->compute->queue);
	assert_int_equal(b->stream_sync(d->compute, &err), GT_EDEVICE);
	assert_string_equal(err.text, "cuda:0: cudaStreamSynchronize: unspecified launch failure");
	assert_int_equal(b->ranges()->add(d->compute, p, p, 5, &err), GT_EDEVICE);
	assert_string_equal(err.text, "cuda:0: add: unspecified launch failure");
	assert_int_equal(b->zero(d->copies, p, 4, &err), GT_EDEVICE);
	ok(b->enter(1, &err), &err);
	ok(b->ranges()->add(other->compute, q, q, 5, &err), &err);
	ok(gt_device_sync(other, &err), &err);
	cudasim_forget(0);
	ok(b->enter(0, &err), &err);
	gt_device_free(d, p, PLANTED_COUNT * sizeof(float));
	gt_device_close(d);
	gt_device_free(other, q, PLANTED_COUNT * sizeof(float));
	gt_device_close(other);
}

/* Pinned memory that was used before is zeros again. */
static void test_pinned_memory(void **state)
{
	struct gt_device *d = open_device(1);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	for (int i = 0; i < 5; i++) {
		void *p, *other;
		unsigned char *bytes;

		ok(b->host_alloc(1, 100, &p, &err), &err);
		ok(b->host_alloc(1, 100, &other, &err), &err);
		assert_ptr_not_equal(p, other);
		bytes = p;
		for (int k = 0; k < 100; k++)
			assert_int_equal(bytes[k], 0);
		memset(p, 7, 100);
		b->host_free(1, p, 100);
		if (i == 3) { /* freed with the device, or behind it */
			gt_device_close(d);
			d = open_device(1);
		}
		b->host_free(1, other, 100);
	}
	gt_device_close(d);
}

/* The simulated GPU's clock goes on by 100 us in each kernel, however long the host takes. Four
 * places for eight marks, so that some are read in between. */
static void test_marks(void **state)
{
	struct gt_device *d = open_device(0);
	struct gt_err err = GT_ERR_INIT;
	double times[8], before = gt_clock_s();
	struct gt_marks *m;
	float *p;
	void *memory;

	(void)state;
	ok(gt_device_alloc(d, 2 * PLANTED_COUNT * sizeof(float), &memory, &err), &err);
	p = memory;
	ok(gt_marks_new(&m, d, 4, &err), &err);
	assert_true(gt_marks_are_late(m));
	for (int i = 0; i < 8; i++) {
		ok(gt_marks_add(m, d->compute, &times[i], &err), &err);
		for (int k = 0; k <= i && i < 7; k++)
			planted_add(p, p + PLANTED_COUNT, PLANTED_COUNT, d->compute->queue);
	}
	ok(gt_marks_read(m, &err), &err);
	assert_true(times[0] >= before);
	for (int i = 1; i < 8; i++)
		assert_true(fabs(times[i] - times[i - 1] - 1e-4 * i) < 1e-7);
	gt_marks_free(m);
	gt_device_free(d, memory, 2 * PLANTED_COUNT * sizeof(float));
	gt_device_close(d);
}

static void test_event_seconds(void **state)
{
	struct gt_event *untimed, *timed[2];
	struct gt_device *d = open_device(0);
	struct gt_err err = GT_ERR_INIT;
	double seconds;
	void *p;

	(void)state;
	ok(gt_device_alloc(d, 2 * PLANTED_COUNT * sizeof(float), &p, &err), &err);
	ok(b->event_new(&untimed, 0, &err), &err);
	for (int i = 0; i < 2; i++) {
		ok(b->timed_event_new(&timed[i], 0, &err), &err);
		ok(b->event_record(timed[i], d->compute, &err), &err);
		planted_add(p, (float *)p + PLANTED_COUNT, PLANTED_COUNT, d->compute->queue);
	}
	ok(b->event_record(untimed, d->compute, &err), &err);
	ok(b->event_sync(untimed, &err), &err);
	ok(b->event_seconds(&seconds, timed[1], timed[0], &err), &err);
	assert_true(fabs(seconds + 1e-4) < 1e-7);
	assert_int_equal(b->event_seconds(&seconds, timed[0], untimed, &err), GT_EDEVICE);
	b->event_free(untimed);
	b->event_free(timed[0]);
	b->event_free(timed[1]);
	gt_device_free(d, p, 2 * PLANTED_COUNT * sizeof(float));
	gt_device_close(d);
}

/* Atomic, because the thread sanitizer cannot see the wait that orders the call and the test: the
 * simulator is compiled without it. */
static int count_call(void *self, struct gt_err *err)
{
	(void)err;
	atomic_fetch_add((atomic_int *)self, 1);
	return 0;
}

/* A function is not called behind work that was never done; its stream ends all the same. */
static void test_call_behind_fault(void **state)
{
	struct gt_device *d = open_device(1);
	struct gt_err err = GT_ERR_INIT;
	atomic_int calls = 0;
	void *p;

	(void)state;
	ok(gt_device_alloc(d, PLANTED_COUNT * sizeof(float), &p, &err), &err);
	ok(b->host_call(d->compute, count_call, &calls, NULL, 0, &err), &err);
	planted_launch(PLANTED_OWN_MASK, p, d->compute->queue);
	b->host_call(d->compute, count_call, &calls, NULL, 0, &err);
	assert_int_equal(b->stream_sync(d->compute, &err), GT_EDEVICE);
	gt_device_free(d, p, PLANTED_COUNT * sizeof(float));
	gt_device_close(d);
	assert_int_equal(calls, 1);
	cudasim_forget(1);
	d = open_device(1); /* as good as new */
	ok(b->host_call(d->compute, count_call, &calls, NULL, 0, &err), &err);
	ok(gt_device_sync(d, &err), &err);
	assert_int_equal(calls, 2);
	gt_device_close(d);
}

static int wait_for_flag(void *self, struct gt_err *err)
{
	(void)err;
	while (!atomic_load((atomic_bool *)self))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return 0;
}

/*
 * With 4 hardware queues and the default stream in one of them, there is one for each of 3 streams:
 * a stream that waits for the host does not hold up the others, in whatever order they were made.
 */
static void test_streams_have_queues_of_their_own(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_stream *waits, *others[2];
	atomic_bool flag = false;
	int calls = 0;

	(void)state;
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "4", 1);
	ok(b->stream_new(&waits, 1, &err), &err);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 2; k++)
			ok(b->stream_new(&others[k], 1, &err), &err);
		for (int k = 0; k < 2; k++)
			b->stream_free(others[k]);
	}
	for (int k = 0; k < 2; k++)
		ok(b->stream_new(&others[k], 1, &err), &err);
	ok(b->host_call(waits, wait_for_flag, &flag, NULL, 0, &err), &err);
	for (int k = 0; k < 2; k++) {
		ok(b->host_call(others[k], count_call, &calls, NULL, 0, &err), &err);
		ok(b->stream_sync(others[k], &err), &err);
		b->stream_free(others[k]);
	}
	assert_int_equal(calls, 2);
	atomic_store(&flag, true);
	ok(b->stream_sync(waits, &err), &err);
	b->stream_free(waits);
	unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

/* Threads of a rank may all wait for another rank, which waits for this one's GPU. */
static void test_work_goes_on_without_calls(void **state)
{
	static const unsigned char ones = 0x11;
	struct gt_device *d = open_device(0);
	struct gt_err err = GT_ERR_INIT;
	void *host, *device;
	double until;

	(void)state;
	ok(b->host_alloc(0, 1, &host, &err), &err);
	ok(b->alloc(0, 1, &device, &err), &err);
	ok(b->copy_in(d->compute, device, &ones, 1, &err), &err);
	ok(b->copy_out(d->compute, host, device, 1, &err), &err);
	until = gt_clock_s() + 60;
	while (*(volatile unsigned char *)host != ones && gt_clock_s() < until)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	assert_int_equal(*(volatile unsigned char *)host, ones);
	b->free(0, device, 1);
	b->host_free(0, host, 1);
	gt_device_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_hint_of_a_full_gpu),
		cmocka_unit_test(test_peak),
		cmocka_unit_test(test_peers),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_failing_allocations),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_marks),
		cmocka_unit_test(test_event_seconds),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_pinned_memory),
		cmocka_unit_test(test_call_behind_fault),
		cmocka_unit_test(test_faults_in_data),
		cmocka_unit_test(test_faults_end_with_streams),
		cmocka_unit_test(test_streams_have_queues_of_their_own),
		cmocka_unit_test(test_work_goes_on_without_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
