/* test_cpu.c - the CPU as a device, from made-up /proc and /sys, and the one that is here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/device/cgroup.h"
#include "lib/device/probe.h"
#include "lib/device/sysfs.h"
#include "tests/common/planted.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define GIB          (UINT64_C(1) << 30)

#define CPU "/sys/devices/system/cpu"

/* Two packages of two cores, the first core with two threads; CPU 5 is offline. */
static const struct planted_file server[] = {
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
	char root[PLANTED_ROOT];
	struct gt_cpu cpu;

	(void)state;
	planted_make(root, server);
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
	planted_remove(root);
}

static void test_cpu_arm(void **state)
{
	static const struct planted_file board[] = {
		{ "/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimddp sve bf16 i8mm\n"
		                   "CPU implementer\t: 0x41\n\nModel\t\t: Fake Board\n" },
		{ CPU "/online", "0\n" },
		{ NULL, NULL },
	};
	static const char *const features[] = { "NEON", "NEON-DOTPROD", "NEON-BF16", "NEON-I8MM",
		"SVE" };
	char root[PLANTED_ROOT];
	struct gt_cpu cpu;

	(void)state;
	planted_make(root, board);
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
	planted_remove(root);
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

/* The limits that these files set. */
static struct gt_cgroup limits_in(const struct planted_file *files)
{
	struct gt_cgroup limits;
	char root[PLANTED_ROOT];

	planted_make(root, files);
	gt_cgroup_read(&limits, root);
	planted_remove(root);
	return limits;
}

static void test_cgroup(void **state)
{
	static const struct {
		struct planted_file file[5];
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
		struct gt_cgroup limits = limits_in(rows[i].file);

		assert_true(limits.cpus == rows[i].cpus);
		assert_int_equal(limits.memory_bytes.known, rows[i].memory != 0);
		assert_int_equal(limits.memory_bytes.value, rows[i].memory);
	}
}

/* The least that any of the groups leaves; files that the kernel holds copies of do not count. */
static void test_cgroup_unused(void **state)
{
	static const struct {
		struct planted_file file[7];
		uint64_t unused;
	} rows[] = {
		{ { { "/proc/self/cgroup", "0::/\n" }, { "/sys/fs/cgroup/memory.max", "10000\n" } },
		    10000 },
		{ { { "/proc/self/cgroup", "0::/a\n" }, { "/sys/fs/cgroup/memory.max", "10000\n" },
		      { "/sys/fs/cgroup/memory.current", "9000\n" },
		      { "/sys/fs/cgroup/memory.stat",
		          "anon 5000\nfile 4000\ninactive_file 2500\nactive_file 500\n" },
		      { "/sys/fs/cgroup/a/memory.max", "5000\n" },
		      { "/sys/fs/cgroup/a/memory.current", "400\n" } },
		    4000 },
		{ { { "/proc/self/cgroup", "5:memory:/\n" },
		      { "/sys/fs/cgroup/memory/memory.limit_in_bytes", "8000\n" },
		      { "/sys/fs/cgroup/memory/memory.usage_in_bytes", "9000\n" } },
		    0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct gt_cgroup limits = limits_in(rows[i].file);

		assert_true(limits.memory_free_bytes.known);
		assert_int_equal(limits.memory_free_bytes.value, rows[i].unused);
	}
}

static uint64_t mapped_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void test_free_memory(void **state)
{
	struct rlimit before, limit;
	struct gt_cpu_available there;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = before;
	limit.rlim_cur = mapped_bytes() + GIB;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	gt_cpu_memory_available(&there);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_in_range(there.process_bytes, GIB / 2, GIB);
	assert_true(there.host_bytes > 0 && there.host_bytes < UINT64_MAX);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_server),
		cmocka_unit_test(test_cpu_arm),
		cmocka_unit_test(test_cpu_nothing),
		cmocka_unit_test(test_cpu_here),
		cmocka_unit_test(test_cgroup),
		cmocka_unit_test(test_cgroup_unused),
		cmocka_unit_test(test_free_memory),
		cmocka_unit_test(test_sysfs_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
