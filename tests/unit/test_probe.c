/* test_probe.c - the CPU from made-up /proc and /sys, GPUs from a made-up NVML, their numbering. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/base/file.h"
#include "lib/device/cgroup.h"
#include "lib/device/probe.h"
#include "lib/device/sysfs.h"
#include "lib/device/visible.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define GIB          (UINT64_C(1) << 30)

/* A made-up machine: its files, ended by a NULL path. */
struct file {
	const char *path, *text;
};

static void write_file(const char *root, const char *path, const char *text)
{
	char full[512], *slash;
	FILE *f;

	assert_true(snprintf(full, sizeof(full), "%s%s", root, path) < (int)sizeof(full));
	slash = strrchr(full, '/');
	*slash = '\0';
	assert_int_equal(gt_make_dirs(full, NULL), 0);
	*slash = '/';
	f = fopen(full, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void plant(char *root, const struct file *files)
{
	strcpy(root, "/tmp/gtrain-probe-XXXXXX");
	assert_non_null(mkdtemp(root));
	for (; files->path; files++)
		write_file(root, files->path, files->text);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void uproot(const char *root)
{
	assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

#define CPU "/sys/devices/system/cpu"

/* Two packages of two cores, the first core with two threads; CPU 5 is offline. */
static const struct file server[] = {
	{ "/proc/cpuinfo", "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Fake(R) Xeon\n"
	                   "flags\t\t: fpu sse sse2 avx avx2 fma avx512f avx512_bf16 amx_tile "
	                   "amx_bf16 avx512ifma\n\nprocessor\t: 1\nmodel name\t: Other\n"
	                   "flags\t\t: sse2 avx512_fp16\n" },
	{ "/proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 1 kB\n"
	                   "MemAvailable:   33554432 kB\n" },
	{ "/proc/self/status", "Name:\tx\nCpus_allowed:\t1e\nCpus_allowed_list:\t1-4\n" },
	{ "/proc/self/cgroup", "0::/slice/job\n" },
	{ "/sys/fs/cgroup/slice/job/cpu.max", "max 100000\n" },
	{ "/sys/fs/cgroup/slice/job/memory.max", "17179869184\n" },
	{ "/sys/fs/cgroup/slice/cpu.max", "250000 100000\n" },
	{ "/sys/fs/cgroup/slice/memory.max", "max\n" },
	{ CPU "/online", "0-4\n" },
	{ CPU "/cpu0/topology/thread_siblings_list", "0,4\n" },
	{ CPU "/cpu1/topology/thread_siblings_list", "1\n" },
	{ CPU "/cpu2/topology/thread_siblings_list", "2\n" },
	{ CPU "/cpu3/topology/thread_siblings_list", "3\n" },
	{ CPU "/cpu4/topology/thread_siblings_list", "0,4\n" },
	{ CPU "/cpu0/topology/physical_package_id", "0\n" },
	{ CPU "/cpu1/topology/physical_package_id", "0\n" },
	{ CPU "/cpu2/topology/physical_package_id", "1\n" },
	{ CPU "/cpu3/topology/physical_package_id", "1\n" },
	{ CPU "/cpu4/topology/physical_package_id", "0\n" },
	{ CPU "/cpu0/cache/index0/level", "1\n" },
	{ CPU "/cpu0/cache/index0/type", "Data\n" },
	{ CPU "/cpu0/cache/index0/size", "48K\n" },
	{ CPU "/cpu0/cache/index0/shared_cpu_list", "0,4\n" },
	{ CPU "/cpu0/cache/index1/level", "3\n" },
	{ CPU "/cpu0/cache/index1/type", "Unified\n" },
	{ CPU "/cpu0/cache/index1/size", "32M\n" },
	{ CPU "/cpu0/cache/index1/shared_cpu_list", "0-1,4\n" },
	{ "/sys/devices/system/node/online", "0,2\n" },
	{ "/sys/devices/system/node/node0/cpulist", "0-1,4\n" },
	{ "/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:       1024 kB\n" },
	{ "/sys/devices/system/node/node2/cpulist", "2-3\n" },
	{ NULL, NULL },
};

static void test_cpu_server(void **state)
{
	static const char *const features[] = { "SSE2", "AVX", "FMA", "AVX2", "AVX512F",
		"AVX512-BF16", "AMX-TILE", "AMX-BF16" };
	char root[64];
	struct gt_cpu cpu;

	(void)state;
	plant(root, server);
	assert_int_equal(gt_cpu_read(&cpu, root, NULL), 0);
	assert_string_equal(cpu.model, "Fake(R) Xeon");
	assert_int_equal(cpu.sockets, 2);
	assert_int_equal(cpu.cores, 4);
	assert_int_equal(cpu.threads, 5);
	assert_int_equal(cpu.allowed, 4);
	assert_true(cpu.quota == 2.5);
	assert_int_equal(cpu.usable, 3);
	assert_int_equal(cpu.feature_count, COUNT(features));
	for (size_t i = 0; i < COUNT(features); i++)
		assert_string_equal(cpu.feature[i], features[i]);
	assert_int_equal(cpu.cache_count, 2);
	assert_string_equal(cpu.cache[0].name, "L1d");
	assert_int_equal(cpu.cache[0].size_bytes, 48 << 10);
	assert_int_equal(cpu.cache[0].shared_by, 2);
	assert_string_equal(cpu.cache[1].name, "L3");
	assert_int_equal(cpu.cache[1].size_bytes, 32 << 20);
	assert_int_equal(cpu.cache[1].shared_by, 3);
	assert_int_equal(cpu.node_count, 2);
	assert_int_equal(cpu.node[0].cpus, 3);
	assert_true(cpu.node[0].memory_bytes.known);
	assert_int_equal(cpu.node[0].memory_bytes.value, 1 << 20);
	assert_int_equal(cpu.node[1].node, 2);
	assert_int_equal(cpu.node[1].cpus, 2);
	assert_false(cpu.node[1].memory_bytes.known);
	assert_int_equal(cpu.memory_total_bytes.value, 64 * GIB);
	assert_int_equal(cpu.memory_limit_bytes.value, 16 * GIB);
	assert_int_equal(cpu.memory_available_bytes.value, 16 * GIB);
	gt_cpu_release(&cpu);
	uproot(root);
}

static void test_cpu_arm(void **state)
{
	static const struct file board[] = {
		{ "/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimddp sve bf16 i8mm\n"
		                   "CPU implementer\t: 0x41\n\nModel\t\t: Fake Board\n" },
		{ CPU "/online", "0\n" },
		{ NULL, NULL },
	};
	static const char *const features[] = { "NEON", "NEON-DOTPROD", "NEON-BF16", "NEON-I8MM",
		"SVE" };
	char root[64];
	struct gt_cpu cpu;

	(void)state;
	plant(root, board);
	assert_int_equal(gt_cpu_read(&cpu, root, NULL), 0);
	assert_string_equal(cpu.model, "Fake Board");
	assert_int_equal(cpu.threads, 1);
	assert_int_equal(cpu.allowed, 1);
	assert_int_equal(cpu.usable, 1);
	assert_int_equal(cpu.cores, 0); /* not told */
	assert_int_equal(cpu.feature_count, COUNT(features));
	for (size_t i = 0; i < COUNT(features); i++)
		assert_string_equal(cpu.feature[i], features[i]);
	assert_false(cpu.memory_total_bytes.known);
	gt_cpu_release(&cpu);
	uproot(root);
}

static void test_cpu_nothing(void **state)
{
	struct gt_cpu cpu;

	(void)state;
	assert_int_equal(gt_cpu_read(&cpu, "/nonexistent", NULL), 0);
	assert_string_equal(cpu.model, "");
	assert_int_equal(cpu.threads + cpu.cores + cpu.usable + cpu.node_count, 0);
	assert_int_equal(cpu.feature_count + cpu.cache_count, 0);
	assert_false(cpu.memory_total_bytes.known);
	assert_false(cpu.memory_limit_bytes.known);
	gt_cpu_release(&cpu);
}

static void test_cpu_here(void **state)
{
	struct gt_cpu cpu;
	struct gt_cpu_math math;

	(void)state;
	assert_int_equal(gt_cpu_read(&cpu, "", NULL), 0);
	assert_int_equal(cpu.threads, sysconf(_SC_NPROCESSORS_ONLN));
	assert_in_range(cpu.usable, 1, cpu.allowed);
	assert_true(cpu.memory_total_bytes.value > cpu.memory_available_bytes.value);
	gt_cpu_release(&cpu);
	gt_cpu_math_read(&math);
	assert_true(math.onednn[0] >= '1' && math.openmp_threads >= 1);
	assert_string_not_equal(math.isa, "unknown");
}

static void test_cgroup(void **state)
{
	static const struct {
		struct file file[5];
		double cpus;
		uint64_t memory; /* 0: no limit */
	} rows[] = {
		{ { { "/proc/self/cgroup", "0::/\n" } }, 0, 0 },
		{ { { "/proc/self/cgroup", "0::/\n" },
		      { "/sys/fs/cgroup/cpu.max", "50000 100000\n" } },
		    0.5, 0 },
		{ { { "/proc/self/cgroup", "0::/host/only\n" },
		      { "/sys/fs/cgroup/cpu.max", "200000 100000\n" },
		      { "/sys/fs/cgroup/memory.max", "4096\n" } },
		    2, 4096 },
		{ { { "/proc/self/cgroup", "0::/a/b\n" },
		      { "/sys/fs/cgroup/a/memory.max", "8192\n" },
		      { "/sys/fs/cgroup/a/b/memory.max", "9000\n" },
		      { "/sys/fs/cgroup/memory.max", "10000\n" } },
		    0, 8192 },
		{ { { "/proc/self/cgroup", "5:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n" },
		      { "/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "150000\n" },
		      { "/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n" },
		      { "/sys/fs/cgroup/memory/memory.limit_in_bytes", "1048576\n" } },
		    1.5, 1048576 },
		{ { { "/proc/self/cgroup", "5:memory:/\n3:cpu:/\n0::/\n" },
		      { "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n" },
		      { "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n" },
		      { "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n" } },
		    0, 0 },
		{ { { "/proc/self/cgroup", "3:cpu:/\n0::/\n" },
		      { "/sys/fs/cgroup/unified/memory.max", "12345\n" } },
		    0, 12345 },
		{ { { "/proc/self/cgroup", "0::/../../x\nrubbish\n:\n\n" },
		      { "/sys/fs/cgroup/cpu.max", "0 0\n" },
		      { "/sys/fs/cgroup/memory.max", "rubbish\n" } },
		    0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gt_cgroup limits;
		char root[64];

		plant(root, rows[i].file);
		gt_cgroup_read(&limits, root);
		assert_true(limits.cpus == rows[i].cpus);
		assert_int_equal(limits.memory_bytes.known, rows[i].memory != 0);
		assert_int_equal(limits.memory_bytes.value, rows[i].memory);
		uproot(root);
	}
}

static void add_id(int id, void *context)
{
	char *text = context;

	sprintf(text + strlen(text), "%d ", id);
}

static void test_sysfs_list(void **state)
{
	static const struct {
		const char *list, *ids;
		size_t count;
	} rows[] = {
		{ "", "", 0 },
		{ "0", "0 ", 1 },
		{ "0-3,8,10-11", "0 1 2 3 8 10 11 ", 7 },
		{ "5\n", "5 ", 1 },
		{ "3-1", "", 0 },
		{ "1,x", "1 ", 1 },
		{ "-1", "", 0 },
		{ "1,0-4294967295", "1 ", 1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		char ids[256] = "";

		assert_int_equal(gt_sysfs_list(rows[i].list, add_id, ids), rows[i].count);
		assert_string_equal(ids, rows[i].ids);
	}
}

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
	static const char *const knobs[] = { "COUNT", "INIT", "ENUMERATE", "CUDA", "FIGURES",
		"LOST", "MIXED", "MIG" };
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
		gpu->memory_free_bytes, gpu->utilization_percent, gpu->temperature_c, gpu->power_mw,
		gpu->mig };

	for (size_t i = 0; i < COUNT(figures); i++)
		assert_false(figures[i].known);
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
	static const struct file text[] = { { "/text.so", "not a library\n" }, { NULL, NULL } };
	struct gt_gpus gpus;
	char root[64], path[128];

	(void)state;
	assert_int_equal(gt_gpus_read(&gpus, "libnvidia-ml-nonexistent.so.1", NULL), 0);
	assert_int_equal(gpus.state, GT_NVML_NO_LIBRARY);
	assert_string_equal(
	    gpus.reason, "no NVIDIA driver (libnvidia-ml-nonexistent.so.1 not found)");
	gt_gpus_release(&gpus);

	plant(root, text);
	snprintf(path, sizeof(path), "%s/text.so", root);
	assert_int_equal(gt_gpus_read(&gpus, path, NULL), 0);
	assert_int_equal(gpus.state, GT_NVML_BAD_LIBRARY);
	gt_gpus_release(&gpus);
	uproot(root);

	assert_int_equal(gt_gpus_read(&gpus, "libm.so.6", NULL), 0);
	assert_int_equal(gpus.state, GT_NVML_BAD_LIBRARY);
	assert_non_null(strstr(gpus.reason, "not NVIDIA's"));
	gt_gpus_release(&gpus);
}

/* Four GPUs, whose UUIDs begin GPU-1000000[0-3]; GPU 2 is split into two instances. */
static void test_visible(void **state)
{
	static const struct {
		const char *value;
		int logical[4];
		size_t visible;
		const char *note;
	} rows[] = {
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
		{ "GPU-10000003-0000-4000-8000-000000000000,GPU-10000001", { -1, 1, -1, 0 }, 2,
		    "" },
		{ "GPU-10000001,0", { 1, 0, -1, -1 }, 2, "" },
		{ "GPU-1", { -1, -1, -1, -1 }, 0, "'GPU-1' is more than one device" },
		{ "0,GPU-", { 0, -1, -1, -1 }, 1, "'GPU-' is more than one device" },
		{ "GPU-10000009", { -1, -1, -1, -1 }, 0, "is no device here" },
		{ "GPU-10000003-0000-4000-8000-0000000000000", { -1, -1, -1, -1 }, 0,
		    "is no device here" },
		{ "gpu-10000003", { -1, -1, -1, -1 }, 0, "is no device here" },
		{ "1,GPU-10000001", { -1, -1, -1, -1 }, 0, "GPU 1 is listed twice" },
		{ "MIG-20000002-0000-4000-8000-000000000001", { -1, -1, 0, -1 }, 1, "" },
		{ "MIG-20000002-0000-4000-8000-000000000001,0", { -1, -1, 0, -1 }, 1, "" },
		{ "MIG-2", { -1, -1, -1, -1 }, 0, "more than one device" },
		{ "MIG-9", { -1, -1, -1, -1 }, 0, "is no device here" },
	};
	struct gt_gpus gpus;
	char note[240];

	(void)state;
	turn("COUNT", "4");
	turn("MIG", "2");
	read_fake(&gpus);
	assert_int_equal(gpus.gpu[2].mig_count, 2);
	assert_int_equal(gpus.gpu[1].mig_count, 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		size_t n =
		    gt_visible_apply(gpus.gpu, gpus.count, rows[i].value, note, sizeof(note));

		assert_int_equal(n, rows[i].visible);
		for (size_t j = 0; j < 4; j++)
			if (gpus.gpu[j].logical != rows[i].logical[j])
				fail_msg(
				    "'%s': GPU %zu is %d", rows[i].value, j, gpus.gpu[j].logical);
		if (rows[i].note[0] ? !strstr(note, rows[i].note) : note[0])
			fail_msg("'%s' gives \"%s\"", rows[i].value, note);
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
		assert_int_equal(probe.backend_count, 2);
		assert_true(probe.backend[0].available);
		gt_probe_release(&probe);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_server),
		cmocka_unit_test(test_cpu_arm),
		cmocka_unit_test(test_cpu_nothing),
		cmocka_unit_test(test_cpu_here),
		cmocka_unit_test(test_cgroup),
		cmocka_unit_test(test_sysfs_list),
		cmocka_unit_test_setup(test_gpus_eight, forget),
		cmocka_unit_test_setup(test_gpus_not_supported, forget),
		cmocka_unit_test_setup(test_gpus_old_library, forget),
		cmocka_unit_test_setup(test_gpus_lost, forget),
		cmocka_unit_test_setup(test_gpus_none, forget),
		cmocka_unit_test_setup(test_gpus_no_library, forget),
		cmocka_unit_test_setup(test_visible, forget),
		cmocka_unit_test_setup(test_order, forget),
		cmocka_unit_test_setup(test_probe_cuda, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
