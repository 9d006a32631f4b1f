/* test_probe.c - GPUs of a made-up NVML, their numbering, the output of gtrain probe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/device/probe.h"
#include "lib/device/visible.h"
#include "tests/common/planted.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define GIB          (UINT64_C(1) << 30)

/* The made-up libraries lie beside this program. */
static const char *fake(char path[512], const char *name)
{
	ssize_t n = readlink("/proc/self/exe", path, 400);

	assert_true(n > 0 && n < 400);
	path[n] = '\0';
	strcpy(strrchr(path, '/'), "/fake/");
	return strcat(path, name);
}

static int forget(void **state)
{
	static const char *const knobs[] = { "COUNT", "INIT", "ENUMERATE", "CUDA", "CUDA_VERSION",
		"FIGURES", "LOST", "MIXED", "MIG", "FULL", "PID", "CROWD", "PROCESSES",
		"ECC_ERRORS" };
	char name[64];

	(void)state;
	for (size_t i = 0; i < COUNT(knobs); i++) {
		snprintf(name, sizeof(name), "FAKE_NVML_%s", knobs[i]);
		unsetenv(name);
	}
	return 0;
}

static void turn(const char *knob, const char *value)
{
	char name[64];

	snprintf(name, sizeof(name), "FAKE_NVML_%s", knob);
	assert_int_equal(setenv(name, value, 1), 0);
}

static void read_fake(struct gt_gpus *gpus)
{
	char path[512];

	assert_int_equal(gt_gpus_read(gpus, fake(path, "libnvidia-ml.so.1"), NULL), 0);
}

static void test_gpus_eight(void **state)
{
	struct gt_gpus gpus;

	(void)state;
	turn("COUNT", "8");
	read_fake(&gpus);
	assert_int_equal(gpus.state, GT_NVML_OK);
	assert_string_equal(gpus.reason, "");
	assert_string_equal(gpus.driver, "580.65.06");
	assert_int_equal(gpus.cuda_version.value, 13000);
	assert_int_equal(gpus.count, 8);
	for (size_t i = 0; i < gpus.count; i++) {
		const struct gt_gpu *gpu = &gpus.gpu[i];
		char text[64];

		assert_int_equal(gpu->index, i);
		assert_int_equal(gpu->logical, i);
		assert_string_equal(gpu->name, "NVIDIA Fake 100");
		snprintf(text, sizeof(text), "GPU-1000000%zx-0000-4000-8000-000000000000", i);
		assert_string_equal(gpu->uuid, text);
		snprintf(text, sizeof(text), "00000000:%02zX:00.0", 16 * i + 1);
		assert_string_equal(gpu->pci_bus_id, text);
		assert_int_equal(gpu->capability.value, 90);
		assert_int_equal(gpu->memory_total_bytes.value, 80 * GIB);
		assert_int_equal(gpu->memory_free_bytes.value, (80 - i) * GIB);
		assert_true(gpu->utilization_percent.known); /* 0 % of GPU 0 is known to be 0 */
		assert_int_equal(gpu->utilization_percent.value, 10 * i);
		assert_int_equal(gpu->temperature_c.value, 40 + i);
		assert_int_equal(gpu->power_mw.value, 70500 + 1000 * i);
		assert_int_equal(gpu->memory_used_bytes.value, i * GIB);
		assert_int_equal(gpu->power_limit_mw.value, 700000);
		assert_int_equal(gpu->clock_sm_mhz.value, 345 + i);
		assert_int_equal(gpu->clock_sm_max_mhz.value, 1980);
		assert_int_equal(gpu->clock_memory_mhz.value, 2619);
		assert_int_equal(gpu->clock_memory_max_mhz.value, 2619);
		assert_int_equal(gpu->ecc.value, 1);
		assert_true(gpu->ecc_errors.known);
		assert_int_equal(gpu->ecc_errors.value, 0);
		assert_true(gpu->processes_known);
		assert_int_equal(gpu->process_count, 0);
		assert_true(gpu->mig.known);
		assert_int_equal(gpu->mig.value, 0);
		assert_string_equal(gpu->problem, "");
	}
	gt_gpus_release(&gpus);
	assert_int_equal(gpus.count, 0);
}

static void assert_no_figures(const struct gt_gpu *gpu)
{
	const struct gt_maybe figures[] = { gpu->capability, gpu->memory_total_bytes,
		gpu->memory_used_bytes, gpu->memory_free_bytes, gpu->utilization_percent,
		gpu->temperature_c, gpu->power_mw, gpu->power_limit_mw, gpu->clock_sm_mhz,
		gpu->clock_sm_max_mhz, gpu->clock_memory_mhz, gpu->clock_memory_max_mhz, gpu->ecc,
		gpu->ecc_errors, gpu->mig };

	for (size_t i = 0; i < COUNT(figures); i++)
		assert_false(figures[i].known);
	assert_false(gpu->processes_known);
	assert_int_equal(gpu->process_count, 0);
}

static void test_gpus_not_supported(void **state)
{
	struct gt_gpus gpus;

	(void)state;
	turn("FIGURES", "3");
	read_fake(&gpus);
	assert_int_equal(gpus.state, GT_NVML_OK);
	assert_int_equal(gpus.count, 1);
	assert_string_equal(gpus.gpu[0].name, "NVIDIA Fake 100");
	assert_no_figures(&gpus.gpu[0]);
	gt_gpus_release(&gpus);
}

static void test_gpus_old_library(void **state)
{
	struct gt_gpus gpus;
	char path[512];

	(void)state;
	turn("COUNT", "2");
	assert_int_equal(gt_gpus_read(&gpus, fake(path, "libnvidia-ml-old.so.1"), NULL), 0);
	assert_int_equal(gpus.state, GT_NVML_OK);
	assert_int_equal(gpus.count, 2);
	assert_string_equal(gpus.driver, "");
	assert_false(gpus.cuda_version.known);
	assert_string_equal(gpus.gpu[1].name, "");
	assert_string_equal(gpus.gpu[1].uuid, "");
	assert_no_figures(&gpus.gpu[1]);
	gt_gpus_release(&gpus);
}

/* A GPU may have a handle, and be lost all the same. */
static void test_gpus_lost_later(void **state)
{
	struct gt_gpus gpus;

	(void)state;
	turn("FIGURES", "15");
	read_fake(&gpus);
	assert_string_equal(gpus.gpu[0].problem, "the GPU is lost");
	assert_string_equal(gpus.gpu[0].name, "NVIDIA Fake 100");
	assert_no_figures(&gpus.gpu[0]);
	gt_gpus_release(&gpus);
	turn("FIGURES", "4");
	read_fake(&gpus);
	assert_string_equal(gpus.gpu[0].problem, "no permission");
	gt_gpus_release(&gpus);
}

static void test_gpus_full(void **state)
{
	struct gt_gpus gpus;

	(void)state;
	turn("COUNT", "2");
	turn("FULL", "1");
	turn("PID", "77");
	read_fake(&gpus);
	assert_int_equal(gpus.gpu[0].process_count, 0);
	assert_int_equal(gpus.gpu[1].process_count, 1);
	assert_int_equal(gpus.gpu[1].process[0].pid, 77);
	assert_int_equal(gpus.gpu[1].process[0].memory_bytes.value, 79 * GIB);
	assert_int_equal(gpus.gpu[1].memory_free_bytes.value, GIB / 2);
	gt_gpus_release(&gpus);
}

/* More than are asked for at first; each once, in order; unknown memory is not zero. */
static void test_gpus_crowd(void **state)
{
	struct gt_gpus gpus;

	(void)state;
	turn("CROWD", "1000");
	read_fake(&gpus);
	assert_int_equal(gpus.gpu[0].process_count, 1000);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(gpus.gpu[0].process[i].pid, 5000000 - 999 + i);
	assert_false(gpus.gpu[0].process[0].memory_bytes.known);
	assert_int_equal(gpus.gpu[0].process[999].memory_bytes.value, 1 << 20);
	gt_gpus_release(&gpus);
	turn("CROWD", "1000000");
	read_fake(&gpus);
	assert_false(gpus.gpu[0].processes_known); /* more than can be */
	assert_int_equal(gpus.gpu[0].process_count, 0);
	gt_gpus_release(&gpus);
	turn("PROCESSES", "4");
	read_fake(&gpus);
	assert_false(gpus.gpu[0].processes_known);
	assert_string_equal(gpus.gpu[0].problem, "");
	assert_true(gpus.gpu[0].power_mw.known);
	gt_gpus_release(&gpus);
}

static void test_process_names(void **state)
{
	static const struct planted_file files[] = { { "/proc/77/comm", "python3\n" },
		{ NULL, NULL } };
	char path[512], root[PLANTED_ROOT];
	struct gt_probe_options options = { .root = root };
	struct gt_probe probe;

	(void)state;
	planted_make(root, files);
	options.nvml_library = fake(path, "libnvidia-ml.so.1");
	turn("FULL", "0");
	turn("PID", "77");
	assert_int_equal(gt_probe_read(&probe, &options, NULL), 0);
	assert_string_equal(probe.gpus.gpu[0].process[0].name, "python3");
	gt_probe_release(&probe);
	turn("PID", "78");
	assert_int_equal(gt_probe_read(&probe, &options, NULL), 0);
	assert_string_equal(probe.gpus.gpu[0].process[0].name, "");
	gt_probe_release(&probe);
	planted_remove(root);
}

static void test_gpus_lost(void **state)
{
	struct gt_gpus gpus;

	(void)state;
	turn("COUNT", "2");
	turn("LOST", "0");
	read_fake(&gpus);
	assert_int_equal(gpus.count, 2);
	assert_string_equal(gpus.gpu[0].problem, "the GPU is lost");
	assert_no_figures(&gpus.gpu[0]);
	assert_string_equal(gpus.gpu[1].problem, "");
	assert_true(gpus.gpu[1].power_mw.known);
	gt_gpus_release(&gpus);
}

/* Each way of having no GPU says which way it is. */
static void test_gpus_none(void **state)
{
	static const struct {
		const char *knob, *value;
		enum gt_nvml_state state;
		const char *reason;
	} rows[] = {
		{ "COUNT", "0", GT_NVML_NO_GPU, "finds no GPU" },
		{ "COUNT", "100000", GT_NVML_FAILED, "100000 GPUs" },
		{ "INIT", "9", GT_NVML_NO_DRIVER, "not loaded" },
		{ "INIT", "18", GT_NVML_MISMATCH, "differ in version" },
		{ "INIT", "4", GT_NVML_NO_PERMISSION, "no permission" },
		{ "INIT", "999", GT_NVML_FAILED, "NVML error 999" },
		{ "ENUMERATE", "4", GT_NVML_NO_PERMISSION, "no permission" },
		{ "ENUMERATE", "15", GT_NVML_FAILED, "NVML error 15" },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gt_gpus gpus;

		forget(state);
		turn(rows[i].knob, rows[i].value);
		read_fake(&gpus);
		assert_int_equal(gpus.state, rows[i].state);
		assert_int_equal(gpus.count, 0);
		if (!strstr(gpus.reason, rows[i].reason))
			fail_msg("%s=%s gives \"%s\"", rows[i].knob, rows[i].value, gpus.reason);
		gt_gpus_release(&gpus);
	}
}

static void test_gpus_no_library(void **state)
{
	static const struct planted_file text[] = { { "/text.so", "not a library\n" },
		{ NULL, NULL } };
	struct gt_gpus gpus;
	char root[PLANTED_ROOT], path[128];

	(void)state;
	assert_int_equal(gt_gpus_read(&gpus, "libnvidia-ml-nonexistent.so.1", NULL), 0);
	assert_int_equal(gpus.state, GT_NVML_NO_LIBRARY);
	assert_string_equal(
	    gpus.reason, "no NVIDIA driver (libnvidia-ml-nonexistent.so.1 not found)");
	gt_gpus_release(&gpus);

	planted_make(root, text);
	snprintf(path, sizeof(path), "%s/text.so", root);
	assert_int_equal(gt_gpus_read(&gpus, path, NULL), 0);
	assert_int_equal(gpus.state, GT_NVML_BAD_LIBRARY);
	gt_gpus_release(&gpus);
	planted_remove(root);

	assert_int_equal(gt_gpus_read(&gpus, "libm.so.6", NULL), 0);
	assert_int_equal(gpus.state, GT_NVML_BAD_LIBRARY);
	assert_non_null(strstr(gpus.reason, "not NVIDIA's"));
	gt_gpus_release(&gpus);
}

/* Four GPUs, whose UUIDs begin GPU-1000000[0-3]; GPU 2 is split into two instances. */
static const struct {
	const char *value;
	int logical[4];
	size_t visible;
	const char *note;
} visible_rows[] = {
	{ NULL, { 0, 1, 2, 3 }, 4, "" },
	{ "", { -1, -1, -1, -1 }, 0, "" },
	{ "0", { 0, -1, -1, -1 }, 1, "" },
	{ "0,1,2,3", { 0, 1, 2, 3 }, 4, "" },
	{ "2,1", { -1, 1, 0, -1 }, 2, "" },
	{ "3,0", { 1, -1, -1, 0 }, 2, "" },
	{ " 1 , 0 ", { 1, 0, -1, -1 }, 2, "" },
	{ "0,2,-1,1", { 0, -1, 1, -1 }, 2, "'-1' is no device here" },
	{ "-1", { -1, -1, -1, -1 }, 0, "'-1' is no device here" },
	{ "4", { -1, -1, -1, -1 }, 0, "'4' is no device here" },
	{ "1,4,0", { -1, 0, -1, -1 }, 1, "'4' is no device here" },
	{ "1,,0", { -1, 0, -1, -1 }, 1, "'' is no device here" },
	{ "1,", { -1, 0, -1, -1 }, 1, "'' is no device here" },
	{ "none", { -1, -1, -1, -1 }, 0, "'none' is no device here" },
	{ "1gpu,2ampere", { -1, 0, 1, -1 }, 2, "" },
	{ "18446744073709551616", { -1, -1, -1, -1 }, 0, "is no device here" },
	{ "0,0", { -1, -1, -1, -1 }, 0, "GPU 0 is listed twice" },
	{ "1,2,1", { -1, -1, -1, -1 }, 0, "GPU 1 is listed twice" },
	{ "0,-1,0", { 0, -1, -1, -1 }, 1, "'-1' is no device here" },
	{ "GPU-10000003", { -1, -1, -1, 0 }, 1, "" },
	{ "GPU-10000003-0000-4000-8000-000000000000,GPU-10000001", { -1, 1, -1, 0 }, 2, "" },
	{ "GPU-10000001,0", { 1, 0, -1, -1 }, 2, "" },
	{ "GPU-1", { -1, -1, -1, -1 }, 0, "'GPU-1' is more than one device" },
	{ "0,GPU-", { 0, -1, -1, -1 }, 1, "'GPU-' is more than one device" },
	{ "GPU-10000009", { -1, -1, -1, -1 }, 0, "is no device here" },
	{ "GPU-10000003-0000-4000-8000-0000000000000", { -1, -1, -1, -1 }, 0, "is no device here" },
	{ "gpu-10000003", { -1, -1, -1, -1 }, 0, "is no device here" },
	{ "1,GPU-10000001", { -1, -1, -1, -1 }, 0, "GPU 1 is listed twice" },
	{ "MIG-20000002-0000-4000-8000-000000000001", { -1, -1, 0, -1 }, 1, "" },
	{ "MIG-20000002-0000-4000-8000-000000000001,0", { -1, -1, 0, -1 }, 1, "" },
	{ "MIG-2", { -1, -1, -1, -1 }, 0, "more than one device" },
	{ "MIG-9", { -1, -1, -1, -1 }, 0, "is no device here" },
};

static void test_visible(void **state)
{
	struct gt_gpus gpus;
	char note[240];

	(void)state;
	turn("COUNT", "4");
	turn("MIG", "2");
	read_fake(&gpus);
	assert_int_equal(gpus.gpu[2].mig_count, 2);
	assert_int_equal(gpus.gpu[1].mig_count, 0);
	for (size_t i = 0; i < COUNT(visible_rows); i++) {
		size_t n = gt_visible_apply(
		    gpus.gpu, gpus.count, visible_rows[i].value, note, sizeof(note));

		assert_int_equal(n, visible_rows[i].visible);
		for (size_t j = 0; j < 4; j++)
			if (gpus.gpu[j].logical != visible_rows[i].logical[j])
				fail_msg("'%s': GPU %zu is %d", visible_rows[i].value, j,
				    gpus.gpu[j].logical);
		if (visible_rows[i].note[0] ? !strstr(note, visible_rows[i].note) : note[0])
			fail_msg("'%s' gives \"%s\"", visible_rows[i].value, note);
	}
	gt_visible_apply(
	    gpus.gpu, gpus.count, "MIG-20000002-0000-4000-8000-000000000001", note, sizeof(note));
	assert_int_equal(gpus.gpu[2].logical_mig, 1);
	gt_gpus_release(&gpus);
}

static void test_order(void **state)
{
	static const struct {
		const char *mixed, *lost, *value, *order;
		bool unsure;
	} rows[] = {
		{ "0", "-1", NULL, NULL, false },
		{ "1", "-1", NULL, NULL, true },
		{ "1", "-1", NULL, "FASTEST_FIRST", true },
		{ "1", "-1", NULL, "PCI_BUS_ID", false },
		{ "1", "1", NULL, NULL, false }, /* the model of a lost GPU is not known */
		{ "1", "-1", "1", NULL, true },
		{ "1", "-1", "", NULL, false },
		{ "1", "-1", "GPU-10000001,GPU-10000000", NULL, false },
		{ "1", "-1", "GPU-10000001,0", NULL, true },
	};

	(void)state;
	turn("COUNT", "2");
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gt_gpus gpus;

		turn("MIXED", rows[i].mixed);
		turn("LOST", rows[i].lost);
		read_fake(&gpus);
		assert_int_equal(
		    gt_visible_order_unsure(gpus.gpu, gpus.count, rows[i].value, rows[i].order),
		    rows[i].unsure);
		gt_gpus_release(&gpus);
	}
}

static void test_probe_cuda(void **state)
{
	static const struct {
		const char *cuda, *visible;
		bool available;
		const char *reason;
	} rows[] = {
		{ "0", NULL, true, "" },
		{ "0", "0", true, "" },
		{ "0", "", false, "hidden by CUDA_VISIBLE_DEVICES" },
		{ "0", "-1", false, "hidden by CUDA_VISIBLE_DEVICES" },
		{ "12", NULL, false, "libcuda.so.1" },
		{ "13", NULL, true, "" },
	};
	char path[512];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct gt_probe_options options = { .root = "/nonexistent",
			.nvml_library = fake(path, "libnvidia-ml.so.1"),
			.visible_devices = rows[i].visible };
		struct gt_probe probe;

		turn("CUDA", rows[i].cuda);
		assert_int_equal(gt_probe_read(&probe, &options, NULL), 0);
		assert_int_equal(probe.cuda_available, rows[i].available);
		assert_int_equal(probe.reason[0] == '\0', rows[i].available);
		assert_non_null(strstr(probe.reason, rows[i].reason));
		assert_true(probe.backend[0].available);
		gt_probe_release(&probe);
	}
}

/* A driver has to be of the toolkit's major version, or newer. */
static void test_probe_toolkit(void **state)
{
	static const struct {
		const char *cuda;
		int toolkit;
		const char *reason; /* NULL: CUDA is available */
	} rows[] = {
		{ "13000", 13000, NULL },
		{ "13000", 13020, NULL },
		{ "13000", 12080, NULL },
		{ "12020", 13000,
		    "the driver runs CUDA up to 12.2, and this build needs 13.0: driver 580.65.06 "
		    "or later" },
		{ "11040", 12040, "driver 525.60.13 or later" },
		{ "13000", 14010, "the driver runs CUDA up to 13.0, and this build needs 14.0" },
	};
	char path[512];

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct gt_probe_options options = { .root = "/nonexistent",
			.nvml_library = fake(path, "libnvidia-ml.so.1"),
			.toolkit = rows[i].toolkit };
		struct gt_probe probe;

		turn("CUDA_VERSION", rows[i].cuda);
		assert_int_equal(gt_probe_read(&probe, &options, NULL), 0);
		assert_int_equal(probe.cuda_available, !rows[i].reason);
		assert_int_equal(probe.driver_old, rows[i].reason != NULL);
		assert_non_null(strstr(probe.reason, rows[i].reason ? rows[i].reason : ""));
		gt_probe_release(&probe);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_gpus_eight, forget),
		cmocka_unit_test_setup(test_gpus_not_supported, forget),
		cmocka_unit_test_setup(test_gpus_old_library, forget),
		cmocka_unit_test_setup(test_gpus_lost, forget),
		cmocka_unit_test_setup(test_gpus_lost_later, forget),
		cmocka_unit_test_setup(test_gpus_full, forget),
		cmocka_unit_test_setup(test_gpus_crowd, forget),
		cmocka_unit_test_setup(test_process_names, forget),
		cmocka_unit_test_setup(test_gpus_none, forget),
		cmocka_unit_test_setup(test_gpus_no_library, forget),
		cmocka_unit_test_setup(test_visible, forget),
		cmocka_unit_test_setup(test_order, forget),
		cmocka_unit_test_setup(test_probe_cuda, forget),
		cmocka_unit_test_setup(test_probe_toolkit, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
