/* holders.c - list the processes that hold memory on a GPU. */
#include "lib/device/holders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/text.h"
#include "lib/device/probe.h"

enum { SHOWN = 3 };

static int by_memory(const void *a, const void *b)
{
	const struct gt_gpu_process *p = a, *q = b;
	/* unknown memory counts as 0 */
	uint64_t x = p->memory_bytes.value, y = q->memory_bytes.value;

	if (x != y)
		return x < y ? 1 : -1;
	return (p->pid > q->pid) - (p->pid < q->pid);
}

static void append_text(char *text, size_t size, const char *more)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, "%s", more);
}

static void append_process(char *text, size_t size, const struct gt_gpu_process *p)
{
	char one[120], name[GT_GPU_PROCESS_NAME + 4] = "", bytes[GT_TEXT_SIZE] = "";

	if (p->name[0])
		snprintf(name, sizeof(name), " (%s)", p->name);
	if (p->memory_bytes.known)
		gt_text_bytes(bytes, p->memory_bytes.value);
	snprintf(one, sizeof(one), "%sprocess %u%s%s%s", *text ? ", " : "", p->pid, name,
	    *bytes ? " " : "", bytes);
	append_text(text, size, one);
}

/* NVML uses the host's process ids, so in a container the list may include this process. */
static void write_processes(char *text, size_t size, struct gt_gpu *gpu)
{
	size_t others = 0;
	char more[40];

	if (gpu->process_count)
		qsort(gpu->process, gpu->process_count, sizeof(*gpu->process), by_memory);
	for (size_t i = 0; i < gpu->process_count; i++) {
		if (gpu->process[i].pid == (unsigned)getpid())
			continue;
		if (others++ < SHOWN)
			append_process(text, size, &gpu->process[i]);
	}
	if (others <= SHOWN)
		return;
	snprintf(more, sizeof(more), " and %zu more", others - SHOWN);
	append_text(text, size, more);
}

void gt_holders_read(char *text, size_t size, int index)
{
	const struct gt_probe_options where = {
		.nvml_library = getenv("GTRAIN_NVML"),
		.visible_devices = getenv("CUDA_VISIBLE_DEVICES"),
		.device_order = getenv("CUDA_DEVICE_ORDER"),
	};
	struct gt_probe probe;

	*text = '\0';
	if (gt_probe_read(&probe, &where, GT_ERR_IGNORED))
		return;
	for (size_t i = 0; i < probe.gpus.count; i++)
		if (probe.gpus.gpu[i].logical == index)
			write_processes(text, size, &probe.gpus.gpu[i]);
	gt_probe_release(&probe);
}
