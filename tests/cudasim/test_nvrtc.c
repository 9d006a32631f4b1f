/* test_nvrtc.c - expressions compiled at run time on simulated GPUs: bits, the choice, failures. */
#include "tests/cudasim/map_calls.h"

#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/nvrtc/kernel.h"
#include "tests/common/device.h"
#include "tests/cudasim/cudasim.h"

/* The user's cache, where choices are remembered. */
static char folder[] = "/tmp/gtrain-nvrtc.XXXXXX";

static const enum gt_dtype reals[] = { GT_F32, GT_BF16, GT_F16, GT_F64 };

static const struct gt_cpu_set *gpu(void)
{
	struct test_set set[3];

	test_sets(set);
	return set[0].set;
}

/* Run a call. Return whether it was compiled; the choice is known afterwards. */
static bool run(struct gt_call *call)
{
	struct gt_err err = GT_ERR_INIT;
	long launched;

	for (int twice = 0; twice < 2; twice++) {
		launched = cudasim_nvrtc.launched;
		if (test_run(gpu(), "map", call->out[0].dtype, call, &err))
			fail_msg("%s", err.text);
	}
	return cudasim_nvrtc.launched > launched;
}

/* Run a call, interpreted, with outputs of their own. */
static struct gt_call interpret(const struct gt_call *call)
{
	struct gt_call own = *call;

	for (int j = 0; j < own.outputs; j++) {
		own.out[j] = test_tensor(call->out[j].dtype, call->out[j].ndim, call->out[j].shape);
		own.out[j].layout = call->out[j].layout;
	}
	own.untimed = true;
	if (run(&own))
		fail_msg("a program was compiled, though it is not to be timed");
	return own;
}

/* Compare bits. Return how many elements are numbers. */
static int64_t compare(const struct gt_call *x, const struct gt_call *y, int which)
{
	int64_t numbers = 0;

	for (int j = 0; j < x->outputs; j++)
		EACH(i, x->out[j])
		{
			double a = test_get(&x->out[j], i), b = test_get(&y->out[j], i);

			numbers += isfinite(a);
			if (!(isnan(a) && isnan(b)) && memcmp(&a, &b, sizeof(a)))
				fail_msg(
				    "program %d, %s, output %d, element %d: %a, interpreted %a",
				    which, gt_dtype_name(x->out[j].dtype), j, (int)i, a, b);
		}
	return numbers;
}

static void free_outputs(struct gt_call *call)
{
	for (int j = 0; j < call->outputs; j++)
		free(call->out[j].data);
}

/* Prepare a call alone. */
static void prepare(struct gt_call *call)
{
	struct gt_err err = GT_ERR_INIT;

	call->kernel = test_row(gpu(), "map", call->out[0].dtype, call);
	if (call->kernel->prepare(call, &err))
		fail_msg("%s", err.text);
}

/* Check one call, which must be compiled. Return the share of finite results. */
static double check(struct gt_call *call, int which)
{
	struct gt_call own = interpret(call);
	double numbers;

	if (!run(call)) {
		prepare(call);
		fail_msg("program %d, %s, was interpreted: %s", which,
		    gt_dtype_name(call->out[0].dtype), call->note);
	}
	numbers = (double)compare(call, &own, which);
	free_outputs(&own);
	return numbers / (double)(call->outputs * gt_tensor_elements(&call->out[0]));
}

/* Functions are many for one source of a simulated compiler, and few for a sum that shows each. */
static void test_functions(void **state)
{
	enum { PART = 10 };
	struct gt_map_program p;
	struct gt_call call;

	(void)state;
	for (int from = 0; from < GT_FUNCTION_COUNT; from += PART) {
		int end = from + PART < GT_FUNCTION_COUNT ? from + PART : GT_FUNCTION_COUNT;
		int64_t shape[] = { 101 };

		every_function(&p, from, end);
		call = (struct gt_call){ .inputs = 3, .outputs = 1, .attrs.map.program = &p };
		for (int i = 0; i < 3; i++)
			call.in[i] = draw_tensor(from % 4 ? GT_F64 : GT_F32, 1, shape);
		call.out[0] = test_tensor(from % 4 ? GT_F64 : GT_F32, 1, shape);
		if (check(&call, from) < 1)
			fail_msg("functions %d to %d: results are not finite", from, end);
		test_release(&call);
	}
}

static void test_random_programs(void **state)
{
	enum { PROGRAMS = 30 };
	double finite = 0;
	int tried = 0;

	(void)state;
	map_seed = 45;
	print_message("seed %u\n", map_seed);
	for (int i = 0; i < PROGRAMS; i++) {
		struct gt_map_program p;
		struct gt_call call;

		draw_program(&p);
		draw_call(&call, &p, reals[i % 4]);
		if (!test_takes_row(3, (size_t)i)) {
			test_release(&call);
			continue;
		}
		tried++;
		finite += check(&call, i);
		test_release(&call);
	}
	print_message("%.0f%% of the results are finite\n", 100 * finite / tried);
	assert_true(finite > tried / 2.0);
}

/* A program that networks have: mish, of float32 numbers. */
static void test_mish(void **state)
{
	static const struct gt_map_program mish = { 1, 1, 1, 2, 6, 30, { 20 },
		{ { GT_F_EXP, 3, { 0 } }, { GT_F_LOG1P, 3, { 3 } }, { GT_F_LT, 4, { 2, 0 } },
		    { GT_F_WHERE, 3, { 4, 0, 3 } }, { GT_F_TANH, 3, { 3 } },
		    { GT_F_MUL, 1, { 0, 3 } } } };
	int64_t shape[] = { 1003 };
	struct gt_call call = { .inputs = 1, .outputs = 1, .attrs.map.program = &mish };

	(void)state;
	map_seed = 3;
	call.in[0] = draw_tensor(GT_F32, 1, shape);
	call.out[0] = test_tensor(GT_F32, 1, shape);
	assert_true(check(&call, 0) == 1);
	test_release(&call);
}

/* ---- the choice ---- */

/* y = relu(a * b + c), of n elements */
static struct gt_call chain(int64_t n, bool in_place)
{
	static const struct gt_map_program program = { 3, 1, 0, 1, 3, 3, { 0 },
		{ { GT_F_MUL, 4, { 0, 1 } }, { GT_F_ADD, 4, { 4, 2 } }, { GT_F_RELU, 3, { 4 } } } };
	struct gt_call c = { .inputs = 3, .outputs = 1, .attrs.map.program = &program };

	for (int i = 0; i < 3; i++) {
		c.in[i] = test_tensor1(GT_F32, n);
		test_random(&c.in[i], (uint32_t)(i + 1), -1, 1);
	}
	if (in_place)
		c.out[0] = c.in[0];
	else
		c.out[0] = test_tensor1(GT_F32, n);
	return c;
}

static void test_in_place(void **state)
{
	struct gt_call call = chain(1003, false), own;

	(void)state;
	assert_true(run(&call));
	own = chain(1003, true);
	own.writes = 1;
	assert_true(run(&own));
	/* the second run of run() has read the first one's results */
	for (int i = 0; i < 2; i++) {
		memcpy(
		    call.in[0].data, i ? call.out[0].data : call.in[0].data, 1003 * sizeof(float));
		run(&call);
	}
	compare(&call, &own, 0);
	test_release(&call);
	test_release(&own);
}

static void test_slower(void **state)
{
	struct gt_call call = chain(77, false);

	(void)state;
	cudasim_nvrtc.slow = true;
	assert_false(run(&call));
	cudasim_nvrtc.slow = false;
	assert_false(run(&call)); /* it is remembered */
	test_release(&call);
}

static void test_wrong_results(void **state)
{
	struct gt_call call = chain(78, false);

	(void)state;
	/* a source of its own, that is not compiled yet */
	call.in[1].dtype = GT_I32;
	cudasim_nvrtc.wrong = true;
	prepare(&call);
	cudasim_nvrtc.wrong = false;
	assert_null(call.state);
	assert_string_equal(
	    call.note, "expressions compiled by NVRTC differ in bits, and are interpreted");
	test_release(&call);
}

static void test_failure(void **state)
{
	struct gt_call call = chain(79, false);
	long compiled = cudasim_nvrtc.compiled;

	(void)state;
	call.in[2].dtype = GT_I32;
	cudasim_nvrtc.fails = true;
	for (int twice = 0; twice < 2; twice++) {
		call.out[0].shape[0] = call.in[0].shape[0] = call.in[1].shape[0] =
		    call.in[2].shape[0] = 79 - twice;
		prepare(&call);
		assert_null(call.state);
		assert_string_equal(
		    call.note, "NVRTC 13.0: gt_map_compiled: kernel(2): error: planted");
	}
	cudasim_nvrtc.fails = false;
	assert_int_equal(cudasim_nvrtc.compiled, compiled + 1);
	test_release(&call);
}

/* Programs that differ in the first size, and GPUs of one architecture, share the code. */
static void test_shared(void **state)
{
	struct gt_call call = chain(80, false), other = chain(81, false);
	long compiled;

	(void)state;
	call.outputs = GT_MAX_OUTPUTS; /* as a node's call, in which the others are not present */
	prepare(&call);
	compiled = cudasim_nvrtc.compiled;
	prepare(&other);
	assert_true(call.state && call.state == other.state);
	test_device(1);
	prepare(&call);
	assert_true(call.state == other.state);
	test_device(0);
	assert_int_equal(cudasim_nvrtc.compiled, compiled);
	test_release(&call);
	test_release(&other);
}

/* Without the library programs are interpreted, and nothing is timed. */
static void test_missing(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (!child) {
		struct gt_call call = chain(82, false);
		long kernels = cudasim_kernels();

		unsetenv("CUDASIM_NVRTC");
		prepare(&call);
		if (call.state || kernels != cudasim_kernels())
			_exit(1);
		_exit(strcmp(call.note, "libnvrtc.so.13 does not return its version") ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	setenv("GTRAIN_TEST_BACKEND", "cuda", 1);
	setenv("CUDASIM_NVRTC", "yes", 1);
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
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_random_programs),
		cmocka_unit_test(test_mish),
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_slower),
		cmocka_unit_test(test_wrong_results),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_shared),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
