/* cpu.c - the CPU as a device, read from /proc and /sys. */
#include "lib/device/cpu.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/base/mem.h"
#include "lib/device/cgroup.h"
#include "lib/device/sysfs.h"

/* Kernel names of vector instructions and ours, oldest first; x86 and arm64 share no name. The
 * kernel lists only instructions whose registers it saves on a context switch, so all of them can
 * be used. */
static const struct {
	const char *flag, *name;
} features[] = {
	{ "sse2", "SSE2" },
	{ "ssse3", "SSSE3" },
	{ "sse4_1", "SSE4.1" },
	{ "sse4_2", "SSE4.2" },
	{ "avx", "AVX" },
	{ "f16c", "F16C" },
	{ "fma", "FMA" },
	{ "avx2", "AVX2" },
	{ "avx_vnni", "AVX-VNNI" },
	{ "avx512f", "AVX512F" },
	{ "avx512cd", "AVX512CD" },
	{ "avx512bw", "AVX512BW" },
	{ "avx512dq", "AVX512DQ" },
	{ "avx512vl", "AVX512VL" },
	{ "avx512_vnni", "AVX512-VNNI" },
	{ "avx512_bf16", "AVX512-BF16" },
	{ "avx512_fp16", "AVX512-FP16" },
	{ "amx_tile", "AMX-TILE" },
	{ "amx_int8", "AMX-INT8" },
	{ "amx_bf16", "AMX-BF16" },
	{ "amx_fp16", "AMX-FP16" },
	{ "asimd", "NEON" },
	{ "asimdhp", "NEON-FP16" },
	{ "asimddp", "NEON-DOTPROD" },
	{ "bf16", "NEON-BF16" },
	{ "i8mm", "NEON-I8MM" },
	{ "sve", "SVE" },
	{ "sve2", "SVE2" },
	{ "svebf16", "SVE-BF16" },
	{ "sme", "SME" },
};
_Static_assert(sizeof(features) / sizeof(*features) <= GT_CPU_FEATURES_MAX, "all fit");

static void read_features(struct gt_cpu *cpu, const char *flags)
{
	for (size_t i = 0; i < sizeof(features) / sizeof(*features); i++) {
		size_t n = strlen(features[i].flag);

		for (const char *p = flags; (p = strstr(p, features[i].flag)); p += n) {
			bool starts = p == flags || p[-1] == ' ';

			if (starts && (p[n] == ' ' || p[n] == '\0')) {
				cpu->feature[cpu->feature_count++] = features[i].name;
				break;
			}
		}
	}
}

static void read_cpuinfo(struct gt_cpu *cpu, const char *root)
{
	static const char *const model_keys[] = { "model name", "Model", "cpu model" };
	char line[GT_SYSFS_LINE], *value;
	FILE *f = gt_sysfs_open(root, "/proc/cpuinfo");

	while (f && fgets(line, sizeof(line), f)) {
		for (size_t i = 0; i < sizeof(model_keys) / sizeof(*model_keys); i++)
			if (!cpu->model[0] && (value = gt_sysfs_value(line, model_keys[i])))
				snprintf(cpu->model, sizeof(cpu->model), "%.127s", value);
		if (cpu->feature_count)
			continue; /* the first CPU's model and flags stand for all */
		if ((value = gt_sysfs_value(line, "flags")) ||
		    (value = gt_sysfs_value(line, "Features")))
			read_features(cpu, value);
	}
	if (f)
		fclose(f);
}

struct topology {
	const char *root;
	struct gt_cpu *cpu;
	unsigned char package_seen[1024 / 8];
	int first; /* the CPU whose caches are shown */
};

static void note_first(int id, void *context)
{
	int *first = context;

	if (*first < 0)
		*first = id;
}

/* Count a core at the first of its threads that is online. */
static void visit_cpu(int id, void *context)
{
	struct topology *t = context;
	char line[GT_SYSFS_LINE];
	int first = -1, package;

	note_first(id, &t->first);
	if (gt_sysfs_line(line, sizeof(line), t->root,
	        "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", id)) {
		gt_sysfs_list(line, note_first, &first);
		t->cpu->cores += first == id;
	}
	if (gt_sysfs_line(line, sizeof(line), t->root,
	        "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", id)) {
		package = atoi(line);
		if (package < 0 || package >= (int)sizeof(t->package_seen) * 8)
			return;
		if (!(t->package_seen[package / 8] & (1u << package % 8)))
			t->cpu->sockets++;
		t->package_seen[package / 8] |= (unsigned char)(1u << package % 8);
	}
}

static bool cache_line(
    char *line, size_t size, const char *root, int cpu, int index, const char *file)
{
	return gt_sysfs_line(
	    line, size, root, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, file);
}

static bool read_cache(const char *root, int id, int index, struct gt_cpu_cache *cache)
{
	char level[16], type[32], size[32], shared[GT_SYSFS_LINE], *end;
	const char *suffix;
	unsigned long long n;

	if (!cache_line(level, sizeof(level), root, id, index, "level") ||
	    !cache_line(type, sizeof(type), root, id, index, "type") ||
	    !cache_line(size, sizeof(size), root, id, index, "size"))
		return false;
	n = strtoull(size, &end, 10);
	cache->size_bytes = *end == 'M' ? n << 20 : *end == 'K' ? n << 10 : n;
	suffix = type[0] == 'D' ? "d" : "";
	if (type[0] == 'I')
		suffix = "i";
	snprintf(cache->name, sizeof(cache->name), "L%.2s%s", level, suffix);
	if (cache_line(shared, sizeof(shared), root, id, index, "shared_cpu_list"))
		cache->shared_by = gt_sysfs_list(shared, NULL, NULL);
	return true;
}

static void read_topology(struct gt_cpu *cpu, const char *root)
{
	struct topology t = { .root = root, .cpu = cpu, .first = -1 };
	char line[GT_SYSFS_LINE];

	if (gt_sysfs_line(line, sizeof(line), root, "/sys/devices/system/cpu/online"))
		cpu->threads = gt_sysfs_list(line, visit_cpu, &t);
	for (int i = 0; i < GT_CPU_CACHES_MAX; i++)
		if (read_cache(root, t.first, i, &cpu->cache[cpu->cache_count]))
			cpu->cache_count++;
}

struct nodes {
	const char *root;
	struct gt_cpu *cpu;
	size_t capacity;
	struct gt_err *err;
	int rc;
};

static void visit_node(int id, void *context)
{
	struct nodes *nodes = context;
	struct gt_cpu *cpu = nodes->cpu;
	struct gt_numa_node *node;
	char line[GT_SYSFS_LINE];
	uint64_t kib;

	if (!nodes->rc)
		nodes->rc = gt_grow(
		    &cpu->node, cpu->node_count, &nodes->capacity, sizeof(*cpu->node), nodes->err);
	if (nodes->rc)
		return;
	node = &cpu->node[cpu->node_count++];
	*node = (struct gt_numa_node){ .node = id };
	if (gt_sysfs_line(
	        line, sizeof(line), nodes->root, "/sys/devices/system/node/node%d/cpulist", id))
		node->cpus = gt_sysfs_list(line, NULL, NULL);
	if (gt_sysfs_line(
	        line, sizeof(line), nodes->root, "/sys/devices/system/node/node%d/meminfo", id) &&
	    sscanf(line, "Node %*d MemTotal: %" SCNu64 " kB", &kib) == 1)
		node->memory_bytes = (struct gt_maybe){ true, kib << 10 };
}

static int read_nodes(struct gt_cpu *cpu, const char *root, struct gt_err *err)
{
	struct nodes nodes = { .root = root, .cpu = cpu, .err = err };
	char line[GT_SYSFS_LINE];

	if (gt_sysfs_line(line, sizeof(line), root, "/sys/devices/system/node/online"))
		gt_sysfs_list(line, visit_node, &nodes);
	return nodes.rc;
}

static void read_memory(struct gt_cpu *cpu, const char *root)
{
	char line[256];
	uint64_t kib;
	FILE *f = gt_sysfs_open(root, "/proc/meminfo");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemTotal: %" SCNu64 " kB", &kib) == 1)
			cpu->memory_total_bytes = (struct gt_maybe){ true, kib << 10 };
		else if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1)
			cpu->memory_available_bytes = (struct gt_maybe){ true, kib << 10 };
	}
	if (f)
		fclose(f);
}

static void read_allowed(struct gt_cpu *cpu, const char *root)
{
	char line[GT_SYSFS_LINE], *value;
	FILE *f = gt_sysfs_open(root, "/proc/self/status");
	cpu_set_t own;

	while (f && fgets(line, sizeof(line), f))
		if ((value = gt_sysfs_value(line, "Cpus_allowed_list")))
			cpu->allowed = gt_sysfs_list(value, NULL, NULL);
	if (f)
		fclose(f);
	/* A system may have no /proc. */
	else if (!*root && !sched_getaffinity(0, sizeof(own), &own))
		cpu->allowed = (size_t)CPU_COUNT(&own);
}

/* Apply the limits of control groups, which may be lower than the machine's. */
static void apply_limits(struct gt_cpu *cpu, const char *root)
{
	struct gt_cgroup limits;
	uint64_t limit;

	gt_cgroup_read(&limits, root);
	if (!cpu->allowed)
		cpu->allowed = cpu->threads;
	cpu->quota = limits.cpus;
	cpu->usable = cpu->allowed;
	if (cpu->quota > 0 && ceil(cpu->quota) < (double)cpu->usable)
		cpu->usable = (size_t)ceil(cpu->quota);
	limit = limits.memory_bytes.value;
	if (!limits.memory_bytes.known ||
	    (cpu->memory_total_bytes.known && limit >= cpu->memory_total_bytes.value))
		return;
	cpu->memory_limit_bytes = limits.memory_bytes;
	if (cpu->memory_available_bytes.known && limit < cpu->memory_available_bytes.value)
		cpu->memory_available_bytes.value = limit;
}

int gt_cpu_read(struct gt_cpu *out, const char *root, struct gt_err *err)
{
	struct utsname system;
	int rc;

	*out = (struct gt_cpu){ 0 };
	if (!uname(&system))
		snprintf(out->arch, sizeof(out->arch), "%.31s", system.machine);
	read_cpuinfo(out, root);
	read_topology(out, root);
	read_memory(out, root);
	read_allowed(out, root);
	apply_limits(out, root);
	rc = read_nodes(out, root, err);
	if (rc)
		gt_cpu_release(out);
	return rc;
}

void gt_cpu_release(struct gt_cpu *cpu)
{
	free(cpu->node);
	*cpu = (struct gt_cpu){ 0 };
}

/* Read the pages of this process: its address space, and those in memory. Both are 0 if they are
 * not known. */
static void read_pages(uint64_t *mapped, uint64_t *resident)
{
	char line[GT_SYSFS_LINE];

	if (!gt_sysfs_line(line, sizeof(line), "", "/proc/self/statm") ||
	    sscanf(line, "%" SCNu64 " %" SCNu64, mapped, resident) != 2)
		*mapped = *resident = 0;
}

uint64_t gt_cpu_resident_bytes(void)
{
	uint64_t mapped, resident;

	read_pages(&mapped, &resident);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Return the addresses that RLIMIT_AS leaves this process, or UINT64_MAX if it has no limit. */
static uint64_t count_free_addresses(void)
{
	struct rlimit own;
	uint64_t mapped, resident;

	if (getrlimit(RLIMIT_AS, &own) || own.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	read_pages(&mapped, &resident);
	mapped *= (uint64_t)sysconf(_SC_PAGESIZE);
	return own.rlim_cur > mapped ? own.rlim_cur - mapped : 0;
}

uint64_t gt_cpu_memory_bytes(void)
{
	struct gt_cgroup limits;
	struct gt_cpu cpu = { 0 };
	uint64_t least = count_free_addresses();

	read_memory(&cpu, "");
	gt_cgroup_read(&limits, "");
	if (cpu.memory_total_bytes.known && cpu.memory_total_bytes.value < least)
		least = cpu.memory_total_bytes.value;
	if (limits.memory_bytes.known && limits.memory_bytes.value < least)
		least = limits.memory_bytes.value;
	return least;
}

void gt_cpu_memory_available(struct gt_cpu_available *out)
{
	struct gt_cgroup limits;
	struct gt_cpu cpu = { 0 };

	*out = (struct gt_cpu_available){ UINT64_MAX, count_free_addresses() };
	read_memory(&cpu, "");
	gt_cgroup_read(&limits, "");
	if (cpu.memory_available_bytes.known)
		out->host_bytes = cpu.memory_available_bytes.value;
	if (limits.memory_free_bytes.known && limits.memory_free_bytes.value < out->host_bytes)
		out->host_bytes = limits.memory_free_bytes.value;
}
