/* nvml_gpu.c - facts about one GPU from the NVIDIA driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/device/nvml_api.h"

enum { MIG_MAX = 64, PROCESSES_FIRST = 32, PROCESSES_MAX = 1 << 16 };

static struct gt_maybe read_clock(
    int (*function)(gt_nvml_device, int, unsigned *), gt_nvml_device device, int which)
{
	unsigned mhz;

	if (!GT_NVML_ASK(function, device, which, &mhz))
		return (struct gt_maybe){ 0 };
	return gt_nvml_known(mhz);
}

static void read_ecc(const struct gt_nvml *nvml, gt_nvml_device device, struct gt_gpu *gpu)
{
	unsigned long long errors;
	unsigned current, pending;

	if (GT_NVML_ASK(nvml->ecc_mode, device, &current, &pending))
		gpu->ecc = gt_nvml_known(current != 0);
	if (gpu->ecc.value && GT_NVML_ASK(nvml->ecc_errors, device, NVML_ERROR_UNCORRECTED,
	                          NVML_ECC_VOLATILE, &errors))
		gpu->ecc_errors = gt_nvml_known(errors);
}

static void read_power(const struct gt_nvml *nvml, gt_nvml_device device, struct gt_gpu *gpu)
{
	unsigned value;

	if (GT_NVML_ASK(nvml->temperature, device, NVML_TEMPERATURE_GPU, &value))
		gpu->temperature_c = gt_nvml_known(value);
	if (GT_NVML_ASK(nvml->power, device, &value))
		gpu->power_mw = gt_nvml_known(value);
	if (GT_NVML_ASK(nvml->power_limit, device, &value))
		gpu->power_limit_mw = gt_nvml_known(value);
	gpu->clock_sm_mhz = read_clock(nvml->clock, device, NVML_CLOCK_SM);
	gpu->clock_sm_max_mhz = read_clock(nvml->clock_max, device, NVML_CLOCK_SM);
	gpu->clock_memory_mhz = read_clock(nvml->clock, device, NVML_CLOCK_MEMORY);
	gpu->clock_memory_max_mhz = read_clock(nvml->clock_max, device, NVML_CLOCK_MEMORY);
}

static void put_problem(struct gt_gpu *gpu, int status)
{
	if (status == NVML_GPU_IS_LOST)
		snprintf(gpu->problem, sizeof(gpu->problem), "the GPU is lost");
	else if (status == NVML_NO_PERMISSION)
		snprintf(gpu->problem, sizeof(gpu->problem), "no permission");
	else
		snprintf(gpu->problem, sizeof(gpu->problem), "NVML error %d", status);
}

/* Read the memory. Every GPU has memory, so the status of this call shows whether the GPU works. */
static void read_memory(const struct gt_nvml *nvml, gt_nvml_device device, struct gt_gpu *gpu)
{
	struct gt_nvml_memory memory;
	int status = nvml->memory ? nvml->memory(device, &memory) : NVML_NOT_SUPPORTED;

	if (status == NVML_SUCCESS) {
		gpu->memory_total_bytes = gt_nvml_known(memory.total);
		gpu->memory_used_bytes = gt_nvml_known(memory.used);
		gpu->memory_free_bytes = gt_nvml_known(memory.free);
	} else if (status == NVML_GPU_IS_LOST || status == NVML_NO_PERMISSION) {
		put_problem(gpu, status);
	}
}

static void read_figures(const struct gt_nvml *nvml, gt_nvml_device device, struct gt_gpu *gpu)
{
	struct gt_nvml_utilization utilization;
	int major, minor;

	if (GT_NVML_ASK(nvml->capability, device, &major, &minor) && major >= 0 && minor >= 0)
		gpu->capability = gt_nvml_known(10u * (unsigned)major + (unsigned)minor);
	if (GT_NVML_ASK(nvml->utilization, device, &utilization))
		gpu->utilization_percent = gt_nvml_known(utilization.gpu);
	read_memory(nvml, device, gpu);
	read_power(nvml, device, gpu);
	read_ecc(nvml, device, gpu);
}

/* Add a process, unless it is listed already: one that both computes and draws is in both lists. */
static void add_process(struct gt_gpu *gpu, const struct gt_nvml_process *from)
{
	struct gt_gpu_process *process;

	for (size_t i = 0; i < gpu->process_count; i++)
		if (gpu->process[i].pid == from->pid)
			return;
	process = &gpu->process[gpu->process_count++];
	process->pid = from->pid;
	if (from->memory_bytes != NVML_NOT_AVAILABLE)
		process->memory_bytes = gt_nvml_known(from->memory_bytes);
}

/* Read one of the two lists. Processes come and go meanwhile, so the array has spare elements.
 * *known is set if the driver answered. */
static int read_list(bool *known, gt_nvml_processes_fn *list, gt_nvml_device device,
    struct gt_gpu *gpu, struct gt_err *err)
{
	struct gt_nvml_process *found = NULL;
	struct gt_gpu_process *grown;
	unsigned capacity = PROCESSES_FIRST, count = 0;
	int status = NVML_INSUFFICIENT_SIZE, rc = GT_ENOMEM;

	while (status == NVML_INSUFFICIENT_SIZE && capacity <= PROCESSES_MAX) {
		free(found);
		found = gt_calloc(capacity, sizeof(*found), err);
		if (!found)
			return GT_ENOMEM;
		count = capacity;
		status = list(device, &count, found);
		if (status == NVML_SUCCESS && count <= capacity)
			break;
		capacity *= 2;
	}
	if (status != NVML_SUCCESS || count > capacity) {
		free(found);
		return 0;
	}
	grown = gt_reallocarray(
	    gpu->process, gpu->process_count + count + 1, sizeof(*gpu->process), err);
	if (grown) {
		gpu->process = grown;
		memset(grown + gpu->process_count, 0, (count + 1) * sizeof(*grown));
		for (unsigned i = 0; i < count; i++)
			add_process(gpu, &found[i]);
		*known = true;
		rc = 0;
	}
	free(found);
	return rc;
}

static int by_pid(const void *a, const void *b)
{
	const struct gt_gpu_process *p = a, *q = b;

	return (p->pid > q->pid) - (p->pid < q->pid);
}

static int read_processes(
    const struct gt_nvml *nvml, gt_nvml_device device, struct gt_gpu *gpu, struct gt_err *err)
{
	bool known = false;
	int rc = 0;

	if (nvml->compute)
		rc = read_list(&gpu->processes_known, nvml->compute, device, gpu, err);
	if (!rc && gpu->processes_known && nvml->graphics)
		rc = read_list(&known, nvml->graphics, device, gpu, err);
	if (!rc && gpu->process_count)
		qsort(gpu->process, gpu->process_count, sizeof(*gpu->process), by_pid);
	return rc;
}

/* Read the instances of a GPU with MIG, which CUDA knows only by their UUIDs. */
static int read_mig(
    const struct gt_nvml *nvml, gt_nvml_device device, struct gt_gpu *gpu, struct gt_err *err)
{
	unsigned current, pending, max = 0;
	gt_nvml_device instance;

	if (!GT_NVML_ASK(nvml->mig_mode, device, &current, &pending))
		return 0;
	gpu->mig = gt_nvml_known(current == NVML_MIG_ENABLED);
	if (!gpu->mig.value || !nvml->uuid || !GT_NVML_ASK(nvml->mig_max, device, &max) ||
	    max > MIG_MAX)
		return 0;
	gpu->mig_uuid = gt_calloc(max, sizeof(*gpu->mig_uuid), err);
	if (!gpu->mig_uuid)
		return GT_ENOMEM;
	for (unsigned i = 0; i < max; i++) {
		char *uuid = gpu->mig_uuid[gpu->mig_count];

		if (!GT_NVML_ASK(nvml->mig_by_index, device, i, &instance))
			continue; /* the slot is not used */
		if (nvml->uuid(instance, uuid, GT_GPU_TEXT_SIZE) == NVML_SUCCESS)
			gpu->mig_count++;
	}
	return 0;
}

int gt_nvml_gpu_read(
    const struct gt_nvml *nvml, unsigned index, struct gt_gpu *gpu, struct gt_err *err)
{
	struct gt_nvml_pci pci = { 0 };
	gt_nvml_device device;
	int status, rc;

	gpu->index = gpu->logical = (int)index;
	gpu->logical_mig = -1;
	status = nvml->by_index(index, &device);
	if (status != NVML_SUCCESS) {
		put_problem(gpu, status);
		return 0;
	}
	gt_nvml_end_text(GT_NVML_ASK(nvml->name, device, gpu->name, GT_GPU_TEXT_SIZE), gpu->name,
	    GT_GPU_TEXT_SIZE);
	gt_nvml_end_text(GT_NVML_ASK(nvml->uuid, device, gpu->uuid, GT_GPU_TEXT_SIZE), gpu->uuid,
	    GT_GPU_TEXT_SIZE);
	if (GT_NVML_ASK(nvml->pci, device, &pci))
		snprintf(gpu->pci_bus_id, sizeof(gpu->pci_bus_id), "%.31s", pci.bus_id);
	read_figures(nvml, device, gpu);
	rc = read_processes(nvml, device, gpu, err);
	return rc ? rc : read_mig(nvml, device, gpu, err);
}
