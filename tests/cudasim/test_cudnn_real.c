/* test_cudnn_real.c - cuDNN itself, where it is installed: plans for a GPU that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#include "kernels/cuda/cudnn/conv.h"

/* cuDNN keeps memory to the end; conv.c has its search for leaks in test_cudnn.c. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

/* From this version on cuDNN plans for the properties of a device. */
enum { WITH_PROPERTIES = 90800 };

/* An H100, as cuDNN 9.19 reads it. */
static const char h100[] =
    "{\"deviceName\": \"NVIDIA H100 80GB HBM3\", \"deviceVer\": 900, \"driverVer\": 13000, "
    "\"cudaDeviceId\": 0, \"pciDeviceId\": 0, \"totalGlobalMem\": 85000000000, "
    "\"multiProcessorCount\": 132, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": 2619000, "
    "\"l2CacheSize\": 52428800, \"warpSize\": 32, \"regsPerBlock\": 65536, "
    "\"maxRegistersPerSM\": 65536, \"maxSharedMemoryPerBlock\": 49152, "
    "\"maxSharedMemoryPerBlockOptin\": 232448, \"reservedSharedMemoryPerBlock\": 1024, "
    "\"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, "
    "\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
    "\"isTccDriver\": 0, \"supportCoopLaunch\": 1}";

static void *properties;

/* b, c, h, w, o, k, stride, pad, dilation, groups */
static const int cases[][10] = {
	{ 32, 64, 56, 56, 64, 3, 1, 1, 1, 1 },
	{ 32, 256, 56, 56, 128, 1, 2, 0, 1, 1 },
	{ 32, 3, 224, 224, 64, 7, 2, 3, 1, 1 },
	{ 2, 1, 28, 28, 6, 5, 1, 2, 1, 1 },
	{ 3, 17, 9, 7, 5, 3, 2, 1, 1, 1 },
	{ 8, 256, 33, 33, 64, 3, 1, 12, 12, 1 },
	{ 8, 128, 28, 28, 128, 3, 1, 1, 1, 32 },
	{ 8, 96, 28, 28, 96, 5, 2, 2, 1, 96 },
};

static struct gt_cudnn_shape shape_of(enum gt_cudnn_kind kind, enum gt_dtype dtype, const int *c)
{
	const int span = c[8] * (c[5] - 1) + 1;

	return (struct gt_cudnn_shape){ .kind = kind,
		.dtype = dtype,
		.x = { c[0], c[1], c[2], c[3] },
		.w = { c[4], c[1] / c[9], c[5], c[5] },
		.y = { c[0], c[4], (c[2] + 2 * c[7] - span) / c[6] + 1,
		    (c[3] + 2 * c[7] - span) / c[6] + 1 },
		.window = { { c[5], c[5] }, { c[6], c[6] }, { c[7], c[7] }, { c[8], c[8] } } };
}

static int set_up(void **state)
{
	struct gt_err err = GT_ERR_INIT;
	void *made = NULL;

	(void)state;
	if (gt_cudnn_open(&err)) {
		print_message("skipped: cudnn: %s\n", err.text);
		return 0;
	}
	if (gt_cudnn->GetVersion() < WITH_PROPERTIES) {
		print_message(
		    "skipped: cudnn: version %zu needs a GPU to plan\n", gt_cudnn->GetVersion());
		return 0;
	}
	if (gt_cudnn->BackendCreateDescriptor(GT_CUDNN_PROPERTIES, &made) ||
	    gt_cudnn->BackendSetAttribute(
	        made, GT_CUDNN_PROPERTIES_JSON, GT_CUDNN_CHAR, sizeof(h100), h100) ||
	    gt_cudnn->BackendFinalize(made)) {
		gt_cudnn_check(1, "the properties of an H100", &err);
		print_message("skipped: cudnn: %s\n", err.text);
		return 0;
	}
	properties = made;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	if (properties)
		gt_cudnn->BackendDestroyDescriptor(properties);
	return 0;
}

/* All descriptors are taken, some engine may be used, and each that is offered has a plan. */
static void check(enum gt_cudnn_kind kind, enum gt_dtype dtype, const int *c)
{
	const struct gt_cudnn_shape shape = shape_of(kind, dtype, c);
	const struct gt_cudnn_target target = { .properties = properties };
	struct gt_err err = GT_ERR_INIT;
	struct gt_cudnn_conv *conv;
	char what[100];

	snprintf(what, sizeof(what), "kind %d, %s, %d channels, %d outputs", kind,
	    gt_dtype_name(dtype), c[1], c[4]);
	if (gt_cudnn_conv_new(&conv, &shape, target, &err))
		fail_msg("%s: %s", what, err.text);
	if (!gt_cudnn_conv_count(conv))
		fail_msg("%s: no engine may be used", what);
	for (int i = 0; i < gt_cudnn_conv_count(conv); i++) {
		size_t bytes;

		if (gt_cudnn_conv_plan(conv, i, &bytes, &err))
			fail_msg("%s: engine %d: %s", what, i, err.text);
	}
	gt_cudnn_conv_free(conv);
}

static void test_plans(void **state)
{
	static const enum gt_dtype types[] = { GT_F32, GT_BF16, GT_F16 };

	(void)state;
	if (!properties)
		skip();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (int t = 0; t < 3; t++)
			for (int kind = GT_CUDNN_FORWARD; kind <= GT_CUDNN_INPUT_GRAD; kind++)
				check(kind, types[t], cases[i]);
}

/* A choice that is remembered is found again: the same proposals have the same words, others have
 * others. */
static void test_choices(void **state)
{
	const struct gt_cudnn_shape shape = shape_of(GT_CUDNN_FORWARD, GT_BF16, cases[0]);
	const struct gt_cudnn_target target = { .properties = properties };
	struct gt_err err = GT_ERR_INIT;
	struct gt_cudnn_conv *conv[2];
	const struct gt_choice *first, *second;
	int count;

	(void)state;
	if (!properties)
		skip();
	for (int i = 0; i < 2; i++)
		if (gt_cudnn_conv_new(&conv[i], &shape, target, &err))
			fail_msg("%s", err.text);
	count = gt_cudnn_conv_count(conv[0]);
	first = gt_cudnn_conv_choices(conv[0]);
	second = gt_cudnn_conv_choices(conv[1]);
	assert_true(count > 1);
	assert_int_equal(gt_cudnn_conv_count(conv[1]), count);
	for (int i = 0; i < count; i++)
		for (int k = 0; k < count; k++)
			assert_int_equal(!memcmp(&first[i], &second[k], sizeof(first[0])), i == k);
	gt_cudnn_conv_free(conv[0]);
	gt_cudnn_conv_free(conv[1]);
}

/* The error quotes the library's own words about a descriptor. */
static void test_refused(void **state)
{
	struct gt_cudnn_shape shape = shape_of(GT_CUDNN_FORWARD, GT_BF16, cases[0]);
	struct gt_err err = GT_ERR_INIT;
	struct gt_cudnn_conv *conv;

	(void)state;
	if (!properties)
		skip();
	shape.w[1]++;
	assert_int_equal(gt_cudnn_conv_new(&conv, &shape,
	                     (struct gt_cudnn_target){ .properties = properties }, &err),
	    GT_EDEVICE);
	assert_null(conv);
	if (strncmp(err.text, "cuDNN: an operation: CUDNN_STATUS_BAD_PARAM", 43) != 0)
		fail_msg("%s", err.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plans),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
