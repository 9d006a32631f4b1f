/* processors.c - which processors, and how many threads, each rank of this host gets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/comm/launch/job.h"
#include "lib/device/cpu.h"

/* A logical CPU; `core` is the first of those that share its core. */
struct place {
	int package, core, cpu;
};

/* The first number in a small file of the kernel's, or `otherwise`. */
static int read_number(int cpu, const char *what, int otherwise)
{
	char path[96];
	FILE *file;
	int number;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
	file = fopen(path, "re");
	if (!file)
		return otherwise;
	if (fscanf(file, "%d", &number) != 1)
		number = otherwise;
	fclose(file);
	return number;
}

static int compare_processors(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->package != y->package ? x->package - y->package
	       : x->core != y->core     ? x->core - y->core
	                                : x->cpu - y->cpu;
}

/* Neighbours share a core, then a package: two halves of the numbers may be the two threads of the
 * same cores. */
static size_t list_processors(struct place *place)
{
	cpu_set_t allowed;
	size_t count = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return 0;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			place[count++] = (struct place){ read_number(cpu, "physical_package_id", 0),
				read_number(cpu, "thread_siblings_list", cpu), cpu };
	qsort(place, count, sizeof(*place), compare_processors);
	return count;
}

int gt_launch_share(struct gt_share *share, int nproc, struct gt_err *err)
{
	struct gt_cpu cpu;
	struct place *place;
	size_t count, n = (size_t)nproc;

	memset(share, 0, n * sizeof(*share));
	if (nproc == 1 || getenv("OMP_NUM_THREADS"))
		return 0;
	if (gt_cpu_read(&cpu, "", err))
		return err->code;
	for (size_t i = 0; i < n; i++)
		share[i].threads = cpu.usable > n ? (int)(cpu.usable / n) : 1;
	gt_cpu_release(&cpu);
	place = gt_calloc(CPU_SETSIZE, sizeof(*place), err);
	if (!place)
		return err->code;
	count = list_processors(place);
	for (size_t i = 0; i < n && count >= n; i++) {
		share[i].bound = true;
		for (size_t k = i * count / n; k < (i + 1) * count / n; k++)
			CPU_SET(place[k].cpu, &share[i].set);
	}
	free(place);
	return 0;
}
