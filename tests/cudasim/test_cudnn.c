/* test_cudnn.c - convolutions by cuDNN on simulated GPUs: numbers, the choice, failures. */
#include "tests/cudasim/conv_calls.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/cudnn/conv.h"
#include "lib/train/state.h"
#include "tests/common/device.h"
#include "tests/cudasim/cudasim.h"

/* The user's cache. */
static char folder[] = "/tmp/gtrain-cudnn.XXXXXX";

/* ---- numbers ---- */

static double tolerance_of(enum gt_dtype dtype)
{
	return dtype == GT_F32 ? 3e-6 : dtype == GT_BF16 ? 0x1p-8 : 0x1p-11;
}

static void check(int op, enum gt_dtype dtype, const struct conv_case *c)
{
	struct gt_call want = call_of(op, GT_F64, c), call = call_of(op, dtype, c),
	               own = call_of(op, dtype, c);
	char what[80];
	int engine;

	snprintf(
	    what, sizeof(what), "%s %s case %d", ops[op], gt_dtype_name(dtype), (int)(c - cases));
	engine = run(op, &call);
	if (engine != (dtype == GT_F32 ? F32_ENGINE : HALF_ENGINE))
		fail_msg("%s: engine %d", what, engine);
	own.untimed = true;
	if (run(op, &own) != OWN)
		fail_msg("%s: cuDNN, though it is not to be timed", what);
	test_launch(&gt_cpu_set_base, ops[op], GT_F64, &want);
	assert_near(&call.out[0], &want.out[0], tolerance_of(dtype), "%s by cuDNN\n", what);
	assert_near(&own.out[0], &want.out[0], tolerance_of(dtype), "%s by gtrain\n", what);
	test_release(&call);
	test_release(&own);
	test_release(&want);
}

static void test_numbers(void **state)
{
	static const enum gt_dtype types[] = { GT_F32, GT_BF16, GT_F16 };

	(void)state;
	for (int c = 0; c < CASES; c++)
		for (int op = 0; op < 3; op++)
			for (int t = 0; t < 3; t++)
				if (t == (c + op) % 3 && test_takes_row(2, (size_t)(c + op)))
					check(op, types[t], &cases[c]);
}

/* ---- the choice ---- */

/* A bias, a residual, relu and float64 are left to gtrain's kernels. */
static void test_others(void **state)
{
	(void)state;
	for (int which = 0; which < 4; which++) {
		enum gt_dtype dtype = which == 3 ? GT_F64 : GT_F32;
		struct gt_call call = call_of(0, dtype, &cases[0]);

		call.inputs = 4;
		call.in[2] = test_tensor1(dtype, cases[0].o);
		call.in[3] = tensor_of(dtype, &cases[0], 'y');
		test_random(&call.in[2], 1, -1, 1);
		test_random(&call.in[3], 2, -1, 1);
		call.in[2].present = which == 0;
		call.in[3].present = which == 1;
		call.attrs.conv.relu = which == 2;
		if (run(0, &call) != OWN)
			fail_msg("call %d was taken by cuDNN", which);
		test_release(&call);
	}
}

static void test_untimed(void **state)
{
	long queued = cudasim_cudnn.queued;

	(void)state;
	assert_int_equal(engine_of(4, true, false), OWN);
	assert_int_equal(cudasim_cudnn.queued, queued);
	assert_int_equal(engine_of(4, false, false), F32_ENGINE);
	assert_int_equal(engine_of(4, true, false), OWN);
}

/* Of one shape: float32 on tensor cores is rounded to TF32. It has to be asked for, and each has a
 * choice of its own. cuDNN and gtrain's kernels then round alike. */
static void test_tf32(void **state)
{
	const struct conv_case *c = &cases[0];

	(void)state;
	for (int op = 0; op < 3; op++) {
		struct gt_call whole = call_of(op, GT_F32, c), tf32 = call_of(op, GT_F32, c),
		               own = call_of(op, GT_F32, c);

		for (int i = 0; i < 2; i++) {
			test_random(&whole.in[i], (uint32_t)i, -1, 1);
			test_random(&tf32.in[i], (uint32_t)i, -1, 1);
			test_random(&own.in[i], (uint32_t)i, -1, 1);
		}
		tf32.attrs.conv.tf32 = own.attrs.conv.tf32 = own.untimed = true;
		assert_int_equal(run(op, &whole), F32_ENGINE);
		assert_int_equal(run(op, &tf32), TF32_ENGINE);
		assert_int_equal(run(op, &own), OWN);
		assert_int_equal(run(op, &whole), F32_ENGINE);
		assert_near(&own.out[0], &tf32.out[0], 3e-6, "%s by gtrain\n", ops[op]);
		assert_near(&tf32.out[0], &whole.out[0], 0x1p-8, "%s by cuDNN\n", ops[op]);
		assert_true(test_distance(&tf32.out[0], &whole.out[0]) > 3e-5);
		test_release(&whole);
		test_release(&tf32);
		test_release(&own);
	}
}

/* Winograd's algorithm rounds more often. */
static void test_relaxed(void **state)
{
	(void)state;
	assert_int_equal(engine_of(5, false, true), RELAXED_ENGINE);
	assert_int_equal(engine_of(5, false, false), F32_ENGINE);
}

/* Without memory to time them, gtrain's kernels; the choice is made as soon as it can be. */
static void test_no_memory_to_time(void **state)
{
	(void)state;
	cudasim_fail_allocation(1);
	assert_int_equal(engine_of(6, false, false), OWN);
	cudasim_fail_allocation(0);
	assert_int_equal(engine_of(6, false, false), F32_ENGINE);
}

/* An engine whose every run fails is not chosen. */
static void test_no_run_to_time(void **state)
{
	(void)state;
	cudasim_cudnn.execute_fails = GT_CUDNN_EXECUTION_FAILED;
	assert_int_equal(engine_of(7, false, false), OWN);
	cudasim_cudnn.execute_fails = 0;
}

/* The trial's stream is destroyed, and cuDNN's handle is not. */
static void test_no_stream_after_timing(void **state)
{
	(void)state;
	cudasim_cudnn.execute_fails = GT_CUDNN_EXECUTION_FAILED;
	assert_int_equal(engine_of(9, false, false), OWN);
	cudasim_cudnn.execute_fails = 0;
	assert_null(cudasim_cudnn.stream);
}

static int fail_on_host(void *self, struct gt_err *err)
{
	(void)self;
	return gt_err_set(err, GT_EIO, "a call of device 0");
}

/* Device 0 has an error, so all its kernels fail from now on; those of device 1 are timed. */
static int time_beside_a_failure(void)
{
	struct conv_case c = { 1, 10, 3, 3, 2, 3, 1, 1, 1, 1 };
	struct gt_call call = call_of(0, GT_F32, &c);
	struct gt_err err = GT_ERR_INIT, ignored = GT_ERR_INIT;
	struct gt_device *d;

	if (gt_device_open(&d, &gt_cuda_backend, 0, &err) ||
	    gt_cuda_backend.host_call(d->compute, fail_on_host, NULL, NULL, 0, &err) ||
	    !gt_device_sync(d, &ignored) || gt_cuda_backend.enter(1, &err))
		return 1;
	cudasim_cudnn.slow = true;
	call.kernel = test_row(gpu(), "conv2d", GT_F32, &call);
	if (gt_cuda_backend.enter(1, &err) || call.kernel->prepare(&call, &err))
		return 2;
	return call.state ? 3 : 0; /* no state: gtrain's kernel is the fastest */
}

static void test_timing_on_another_device(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(time_beside_a_failure());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- the file: each child is a process that knows nothing yet ---- */

enum { TIMED = 64 };

static int child(bool slow, size_t version, int create_fails)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		int engine;

		cudasim_cudnn.slow = slow;
		cudasim_cudnn.version = version;
		cudasim_cudnn.create_fails = create_fails;
		engine = engine_of(40, false, false);
		_exit((engine + 1) | (cudasim_cudnn.queued > 2 ? TIMED : 0));
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_file(void **state)
{
	(void)state;
	assert_int_equal(child(false, 91900, 0), (F32_ENGINE + 1) | TIMED);
	assert_int_equal(child(false, 91900, 0), F32_ENGINE + 1);
	/* the file's, whatever a measurement would say now */
	assert_int_equal(child(true, 91900, 0), F32_ENGINE + 1);
	/* another version is timed anew; gtrain's kernels are remembered as well */
	assert_int_equal(child(true, 92000, 0), (OWN + 1) | TIMED);
	assert_int_equal(child(false, 92000, 0), OWN + 1);
}

/* A version that is not taken, and a library that cannot be used: gtrain's kernels. */
static void test_unusable_library(void **state)
{
	(void)state;
	assert_int_equal(child(false, 80900, 0), OWN + 1);
	assert_int_equal(child(false, 100000, 0), OWN + 1);
	assert_int_equal(child(false, 91900, 1001), OWN + 1);
}

/* ---- failures ---- */

static void test_execution_fails(void **state)
{
	struct gt_call call = call_of(0, GT_F32, &cases[0]);
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	assert_int_equal(run(0, &call), F32_ENGINE);
	cudasim_cudnn.execute_fails = GT_CUDNN_EXECUTION_FAILED;
	assert_int_equal(test_run(gpu(), "conv2d", GT_F32, &call, &err), GT_EDEVICE);
	cudasim_cudnn.execute_fails = 0;
	assert_string_equal(err.text, "cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED");
	assert_int_equal(run(0, &call), F32_ENGINE);
	test_release(&call);
}

static const struct gt_cudnn_shape shape = { .kind = GT_CUDNN_FORWARD,
	.x = { 1, 2, 4, 4 },
	.w = { 3, 2, 3, 3 },
	.y = { 1, 3, 4, 4 },
	.window = { { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 } } };

/* This thread alone uses the handle; a test that fails is not to leave it locked. */
static struct gt_cudnn_target target_of_gpu(void)
{
	struct gt_cudnn_target target = { 0 };
	struct gt_err err = GT_ERR_INIT;
	int device;

	ok(test_device(0)->backend->enter(0, &err), &err);
	ok(gt_cudnn_open(&err), &err);
	ok(gt_cudnn_enter(&device, &target.handle, &err), &err);
	gt_cudnn_leave(device);
	return target;
}

/* The library finds a workspace that is too small, and memory that is not aligned. */
static void test_memory(void **state)
{
	static const struct {
		size_t workspace_at, x_at;
		const char *text; /* NULL: this is right */
	} places[] = {
		{ 0, 0, NULL },
		{ 1024, 0,
		    "cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM: a workspace that is missing or too "
		    "small" },
		{ 0, 4, "cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM: memory of a tensor" },
	};
	const struct gt_device *d = test_device(0);
	struct gt_err err = GT_ERR_INIT;
	struct gt_cudnn_conv *conv;
	size_t bytes = 0;
	char *x, *work;
	int i = 1; /* the offer that needs a workspace */

	(void)state;
	ok(gt_cudnn_conv_new(&conv, &shape, target_of_gpu(), &err), &err);
	ok(gt_cudnn_conv_plan(conv, i, &bytes, &err), &err);
	assert_int_equal(bytes, 1 << 16);
	ok(gt_device_alloc(d, 4096, (void **)&x, &err), &err);
	ok(gt_device_alloc(d, bytes, (void **)&work, &err), &err);
	for (size_t n = 0; n < sizeof(places) / sizeof(places[0]); n++) {
		err = (struct gt_err)GT_ERR_INIT;
		ok(gt_cudnn_conv_bind(conv, x + places[n].x_at, x + 1024, x + 2048,
		       work + places[n].workspace_at, &err),
		    &err);
		gt_cudnn_conv_run(conv, i, NULL, &err);
		assert_string_equal(err.text, places[n].text ? places[n].text : "");
	}
	cudasim_forget(0);
	err = (struct gt_err)GT_ERR_INIT;
	ok(gt_device_sync(d, &err), &err);
	gt_device_free(d, x, 4096);
	gt_device_free(d, work, bytes);
	gt_cudnn_conv_free(conv);
}

static void test_refused(void **state)
{
	struct gt_cudnn_shape wrong = shape;
	struct gt_err err = GT_ERR_INIT;
	struct gt_cudnn_conv *conv;

	(void)state;
	wrong.w[1]++;
	assert_int_equal(gt_cudnn_conv_new(&conv, &wrong, target_of_gpu(), &err), GT_EDEVICE);
	assert_null(conv);
	assert_string_equal(err.text,
	    "cuDNN: an operation: CUDNN_STATUS_BAD_PARAM: tensors that do not fit together");
}

static void test_missing_library(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	struct gt_cudnn_api api = { 0 };

	(void)state;
	assert_int_equal(gt_cudnn_find(&api, "libcudnn.so.none", &err), GT_EDEVICE);
	assert_non_null(strstr(err.text, "cannot open cuDNN: libcudnn.so.none: cannot"));
	assert_non_null(strstr(err.hint, "libcudnn9-cuda-13"));
	err = (struct gt_err)GT_ERR_INIT;
	assert_int_equal(gt_cudnn_find(&api, "libm.so.6", &err), GT_EDEVICE);
	assert_string_equal(err.text, "libm.so.6 has no function 'cudnnGetVersion'");
	err = (struct gt_err)GT_ERR_INIT;
	unsetenv("CUDASIM_CUDNN");
	assert_int_equal(gt_cudnn_find(&api, "libcudnn.so.9", &err), GT_EDEVICE);
	setenv("CUDASIM_CUDNN", "yes", 1);
	assert_string_equal(
	    err.text, "libcudnn.so.9 has version 0, and gtrain needs cuDNN 9 (9XXYY)");
	assert_null(api.BackendExecute);
}

/* ---- several streams and GPUs ---- */

static pthread_barrier_t together;

/* A handle has one user at a time: the numbers of each thread are its own. */
static void *run_on(void *number)
{
	const int i = (int)(intptr_t)number;
	struct gt_device *d = NULL;
	struct gt_err err = GT_ERR_INIT;
	struct gt_cudnn_target target = { 0 };
	struct gt_cudnn_conv *conv = NULL;
	float x[32], w[54], y[48];
	size_t bytes;
	char *memory = NULL;
	int device = 0, rc = gt_device_open(&d, &gt_cuda_backend, i % 2, &err);

	for (int k = 0; k < 54; k++)
		w[k] = x[k % 32] = 1;
	x[31] = (float)(i + 1);
	if (!rc)
		rc = gt_device_alloc(d, 4096, (void **)&memory, &err);
	if (!rc)
		rc = gt_device_write(d, memory, x, sizeof(x), &err);
	if (!rc)
		rc = gt_device_write(d, memory + 1024, w, sizeof(w), &err);
	if (!rc)
		rc = gt_cudnn_enter(&device, &target.handle, &err);
	if (!rc) {
		rc = gt_cudnn_conv_new(&conv, &shape, target, &err) ||
		     gt_cudnn_conv_plan(conv, 0, &bytes, &err) ||
		     gt_cudnn_conv_bind(conv, memory, memory + 1024, memory + 2048, NULL, &err);
		gt_cudnn_leave(device);
	}
	pthread_barrier_wait(&together);
	if (!rc)
		rc = gt_cudnn_enter(&device, &target.handle, &err);
	if (!rc) {
		rc = gt_cudnn_conv_run(conv, 0, d->compute->queue, &err);
		gt_cudnn_leave(device);
	}
	if (!rc)
		rc = gt_device_read(d, y, memory + 2048, sizeof(y), &err);
	/* the last pixel: 2 channels of 2 x 2 pixels, one of which is the thread's */
	if (!rc && y[47] != (float)(8 + i))
		rc = -1;
	gt_cudnn_conv_free(conv);
	if (d)
		gt_device_free(d, memory, 4096);
	gt_device_close(d);
	return (void *)(intptr_t)rc;
}

static void test_threads(void **state)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	void *rc;

	(void)state;
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_on, (void *)(intptr_t)i), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &rc), 0);
		assert_null(rc);
	}
	pthread_barrier_destroy(&together);
}

/* ---- training ---- */

enum { STEPS = 3 };

static int note_step(void *self, const struct gt_step_report *r, struct gt_err *err)
{
	(void)err;
	((double *)self)[r->step - 1] = r->loss;
	return 0;
}

static void train(double loss[STEPS], const char *model, const char *device)
{
	static const atomic_bool never;
	struct gt_train_options options = { .where.devices = device,
		.model = model,
		.data = "random:,samples=12",
		.steps = STEPS,
		.batch = 2,
		.accumulate = 1,
		.seed = 3,
		.optim = { .kind = GT_SGD },
		.lr_schedule = { .lr = 1e-2 },
		.prefetch = 2,
		.workers = 1 };
	const struct gt_observer observer = { .self = loss, .step = note_step };
	struct gt_log log = { .stream = stderr, .level = GT_LOG_QUIET };
	struct gt_train_result result;
	struct gt_err err = GT_ERR_INIT;
	struct gt_train *t;

	ok(gt_train_open(&t, &options, false, &log, &err), &err);
	ok(gt_train_run(t, NULL, &observer, 1, &never, &result, &err), &err);
	gt_train_close(t);
}

/* By cuDNN, by gtrain's kernels and on the CPU; captured from the second step on. */
static void test_training(void **state)
{
	static const char *const models[] = { "lenet" };

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		double cudnn[STEPS], own[STEPS], cpu[STEPS];
		long queued = cudasim_cudnn.queued;

		train(cudnn, models[i], "cuda");
		assert_true(cudasim_cudnn.queued > queued);
		assert_true(cudasim_cudnn.engine == F32_ENGINE);
		cudasim_cudnn.slow = true;
		cudasim_cudnn.version++; /* so that it is timed anew */
		train(own, models[i], "cuda");
		cudasim_cudnn.slow = false;
		cudasim_cudnn.version--;
		train(cpu, models[i], "cpu");
		assert_true(cpu[0] != cpu[STEPS - 1]);
		for (int k = 0; k < STEPS; k++)
			if (!(fabs(cudnn[k] - own[k]) <= 1e-5 * cpu[k] &&
			        fabs(cudnn[k] - cpu[k]) <= 1e-5 * cpu[k]))
				fail_msg("%s, step %d: %.9g by cuDNN, %.9g by gtrain, %.9g on the "
				         "CPU",
				    models[i], k, cudnn[k], own[k], cpu[k]);
	}
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	setenv("GTRAIN_TEST_BACKEND", "cuda", 1);
	setenv("CUDASIM_CUDNN", "yes", 1);
	return setenv("XDG_CACHE_HOME", folder, 1);
}

static int tear_down(void **state)
{
	char command[100];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_library),
		cmocka_unit_test(test_unusable_library),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_timing_on_another_device),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_untimed),
		cmocka_unit_test(test_tf32),
		cmocka_unit_test(test_relaxed),
		cmocka_unit_test(test_no_memory_to_time),
		cmocka_unit_test(test_no_run_to_time),
		cmocka_unit_test(test_no_stream_after_timing),
		cmocka_unit_test(test_execution_fails),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_training),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
