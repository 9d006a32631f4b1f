/* cgroup.c - how much CPU time and memory the process's control groups grant it. */
#include "lib/device/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/device/sysfs.h"

/* Version 1 writes "no limit" as the largest multiple of a page, far above real limits. */
static const uint64_t no_limit = UINT64_C(1) << 60;

static void tighten_cpus(struct gt_cgroup *out, int64_t quota_us, int64_t period_us)
{
	double cpus;

	if (quota_us <= 0 || period_us <= 0)
		return;
	cpus = (double)quota_us / (double)period_us;
	if (out->cpus == 0 || cpus < out->cpus)
		out->cpus = cpus;
}

static void tighten(struct gt_maybe *least, uint64_t bytes)
{
	if (!least->known || bytes < least->value)
		*least = (struct gt_maybe){ true, bytes };
}

/* Return the bytes of cached file data that the kernel can drop. */
static uint64_t cache_bytes(const char *root, const char *folder)
{
	FILE *f = gt_sysfs_open(root, "%s/memory.stat", folder);
	uint64_t cache = 0, bytes;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "inactive_file %" SCNu64, &bytes) == 1 ||
		    sscanf(line, "active_file %" SCNu64, &bytes) == 1)
			cache += bytes;
	if (f)
		fclose(f);
	return cache;
}

static void tighten_memory(
    struct gt_cgroup *out, uint64_t limit, const char *root, const char *folder)
{
	uint64_t used = 0, cache = cache_bytes(root, folder);
	char line[128];

	if (limit >= no_limit)
		return;
	if (gt_sysfs_line(line, sizeof(line), root, "%s/memory.current", folder) ||
	    gt_sysfs_line(line, sizeof(line), root, "%s/memory.usage_in_bytes", folder))
		sscanf(line, "%" SCNu64, &used);
	used -= used < cache ? used : cache;
	tighten(&out->memory_bytes, limit);
	tighten(&out->memory_free_bytes, limit > used ? limit - used : 0);
}

/* Read the limits in the folder of one group, of either version. */
static void read_folder(struct gt_cgroup *out, const char *root, const char *folder)
{
	int64_t quota, period;
	uint64_t bytes;
	char line[128];

	if (gt_sysfs_line(line, sizeof(line), root, "%s/cpu.max", folder) &&
	    sscanf(line, "%" SCNd64 " %" SCNd64, &quota, &period) == 2)
		tighten_cpus(out, quota, period);
	if (gt_sysfs_line(line, sizeof(line), root, "%s/cpu.cfs_quota_us", folder) &&
	    sscanf(line, "%" SCNd64, &quota) == 1 &&
	    gt_sysfs_line(line, sizeof(line), root, "%s/cpu.cfs_period_us", folder) &&
	    sscanf(line, "%" SCNd64, &period) == 1)
		tighten_cpus(out, quota, period);
	if ((gt_sysfs_line(line, sizeof(line), root, "%s/memory.max", folder) ||
	        gt_sysfs_line(line, sizeof(line), root, "%s/memory.limit_in_bytes", folder)) &&
	    sscanf(line, "%" SCNu64, &bytes) == 1)
		tighten_memory(out, bytes, root, folder);
}

/* Read the group's folder and all above it, up to where the hierarchy is mounted. */
static void climb(struct gt_cgroup *out, const char *root, const char *mount, const char *path)
{
	char folder[GT_SYSFS_LINE];
	int n = snprintf(
	    folder, sizeof(folder), "/sys/fs/cgroup%s%s", mount, strstr(path, "/..") ? "" : path);
	size_t top = strlen("/sys/fs/cgroup") + strlen(mount);
	char *slash;

	if (n < 0 || (size_t)n >= sizeof(folder))
		return;
	for (;;) {
		read_folder(out, root, folder);
		slash = strrchr(folder + top, '/');
		if (!slash)
			return;
		*slash = '\0';
	}
}

/* Parse a line ID:CONTROLLERS:PATH, which has no controllers in version 2. */
static void read_line(struct gt_cgroup *out, const char *root, char *line)
{
	char *controllers = strchr(line, ':'), *path, *name, *rest;
	char mount[256], all[256];
	bool joint, limits = false; /* this line has several controllers, one of which has limits */

	path = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!path)
		return;
	*path++ = '\0';
	controllers++;
	path[strcspn(path, "\n")] = '\0';
	if (!*controllers) {
		climb(out, root, "", path);
		climb(out, root, "/unified", path);
		return;
	}
	/* The hierarchy is mounted under the joint name ("cpu,cpuacct"), mostly with a link from
	 * each single name. */
	joint = strchr(controllers, ',') != NULL;
	snprintf(all, sizeof(all), "/%.250s", controllers);
	for (name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		if (strcmp(name, "cpu") != 0 && strcmp(name, "memory") != 0)
			continue;
		limits = true;
		snprintf(mount, sizeof(mount), "/%s", name);
		climb(out, root, mount, path);
	}
	if (joint && limits)
		climb(out, root, all, path);
}

void gt_cgroup_read(struct gt_cgroup *out, const char *root)
{
	char line[GT_SYSFS_LINE];
	FILE *f = gt_sysfs_open(root, "/proc/self/cgroup");

	*out = (struct gt_cgroup){ 0 };
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		read_line(out, root, line);
	fclose(f);
}
