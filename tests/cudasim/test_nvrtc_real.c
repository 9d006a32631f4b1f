/* test_nvrtc_real.c - NVRTC itself, where it is installed: it compiles sources for several GPUs. */
#include "tests/cudasim/map_calls.h"

#include "kernels/cuda/elementwise/map_source.h"
#include "kernels/cuda/nvrtc/api.h"
#include "tests/common/map_programs.h"

/* NVRTC keeps memory to the end. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

enum { PROGRAMS = 30, NEWEST = 13000 };

static const enum gt_dtype reals[] = { GT_F32, GT_BF16, GT_F16, GT_F64 };
static struct gt_nvrtc_api api;
static bool there;

static int set_up(void **state)
{
	struct gt_err err = GT_ERR_INIT;

	(void)state;
	there = !gt_nvrtc_find(&api, NEWEST, &err);
	if (!there)
		print_message("skipped: nvrtc: %s\n", err.text);
	return 0;
}

/* Compile the source of a call. GTRAIN_TEST_KEEP names a folder for sources and machine code. */
static void check(const struct gt_call *call, int arch, int which)
{
	const char *keep = getenv("GTRAIN_TEST_KEEP");
	struct gt_err err = GT_ERR_INIT;
	char *source, *cubin, path[300];
	size_t bytes;

	if (gt_map_source(&source, call, &err))
		fail_msg("%s", err.text);
	if (gt_nvrtc_compile(&cubin, &bytes, &api, source, GT_MAP_SOURCE_NAME, arch, &err))
		fail_msg("program %d, %s: %s\n%s", which, gt_dtype_name(call->out[0].dtype),
		    err.text, source);
	assert_true(bytes > 4 && !memcmp(cubin, "\177ELF", 4));
	for (int k = 0; keep && k < 2; k++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%03d.%s", keep, which, k ? "cubin" : "cu");
		f = fopen(path, "w");
		assert_non_null(f);
		fwrite(k ? cubin : source, 1, k ? bytes : strlen(source), f);
		fclose(f);
	}
	free(source);
	free(cubin);
}

static void test_functions(void **state)
{
	enum { PART = 30 };

	(void)state;
	for (int from = 0; there && from < GT_FUNCTION_COUNT; from += PART)
		for (int r = 0; r < 4; r++) {
			int end = from + PART < GT_FUNCTION_COUNT ? from + PART : GT_FUNCTION_COUNT;
			struct gt_map_program p;
			struct gt_call call;

			every_function(&p, from, end);
			draw_call(&call, &p, reals[r]);
			check(&call, r ? 90 : 80, 100 + from + r);
			test_release(&call);
		}
}

static void test_random_programs(void **state)
{
	(void)state;
	map_seed = 45;
	print_message("seed %u\n", map_seed);
	for (int i = 0; there && i < PROGRAMS; i++) {
		struct gt_map_program p;
		struct gt_call call;

		draw_program(&p);
		draw_call(&call, &p, reals[i % 4]);
		check(&call, 90, i);
		test_release(&call);
	}
}

/* Programs of tests/bench/map.c, and a chain whose second input is broadcast. */
static void test_chains(void **state)
{
	static const struct gt_map_program *const programs[] = { &test_chain_of_ten, &test_swish,
		&test_gelu_by_hand };

	(void)state;
	for (int i = 0; there && i < 8; i++) {
		enum gt_dtype real = i % 2 ? GT_BF16 : GT_F32;
		struct gt_call call = { .inputs = 1, .outputs = 1 };

		call.attrs.map.program = programs[i / 2 % 3];
		call.inputs = call.attrs.map.program->inputs;
		call.out[0] = call.in[0] = test_tensor2(real, 4, 768);
		if (call.inputs > 1)
			call.in[1] = i < 6 ? test_tensor2(real, 4, 768) : test_tensor1(real, 768);
		check(&call, 90, 200 + i);
		test_release(&call);
	}
}

/* The first error of the log is the text. */
static void test_refused(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	char *cubin;
	size_t bytes;

	(void)state;
	if (!there)
		return;
	assert_int_equal(
	    gt_nvrtc_compile(&cubin, &bytes, &api, "no C++", "kernel", 90, &err), GT_EDEVICE);
	assert_null(cubin);
	assert_non_null(strstr(err.text, "kernel(1): error"));
	assert_int_equal(
	    gt_nvrtc_compile(&cubin, &bytes, &api, "int x;", "kernel", 999, &err), GT_EDEVICE);
	assert_non_null(strstr(err.text, "gpu-architecture"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_random_programs),
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
