/* probe.c - everything this machine can compute with, in one struct. */
#include "lib/device/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/device/backend.h"
#include "lib/device/nvrtc.h"
#include "lib/device/sysfs.h"
#include "lib/device/visible.h"

/* Set the states of the backends. The state of CUDA is known already. */
static void fill_backends(struct gt_probe *probe)
{
	bool built = gt_backend_find("cuda");

	struct gt_backend_status *cpu = &probe->backend[0], *cuda = &probe->backend[1];

	*cpu = (struct gt_backend_status){ .name = "cpu", .available = !probe->math.reason[0] };
	if (!cpu->available)
		snprintf(cpu->reason, sizeof(cpu->reason), "%s (%s)", probe->math.reason,
		    probe->math.hint);
	*cuda = (struct gt_backend_status){ .name = "cuda",
		.available = built && probe->cuda_available };
	snprintf(cuda->reason, sizeof(cuda->reason), "%s",
	    built ? probe->reason : "this build has no CUDA backend");
}

/* Set the names of processes. NVML gives process ids of the host: in a container with its own ids
 * there are no files for them, so they have no names. */
static void name_processes(struct gt_gpus *gpus, const char *root)
{
	for (size_t i = 0; i < gpus->count; i++)
		for (size_t j = 0; j < gpus->gpu[i].process_count; j++) {
			struct gt_gpu_process *p = &gpus->gpu[i].process[j];

			if (!gt_sysfs_line(p->name, sizeof(p->name), root, "/proc/%u/comm", p->pid))
				p->name[0] = '\0';
		}
}

static void say(struct gt_probe *probe, const char *reason)
{
	snprintf(probe->reason, sizeof(probe->reason), "%s", reason);
}

/*
 * Programs run with drivers of their own major version of CUDA, and with newer ones. Source: CUDA
 * Compatibility, "Minor Version Compatibility".
 */
const char *gt_cuda_oldest_driver(int toolkit)
{
	static const struct {
		int major;
		const char *driver;
	} first[] = { { 11, "450.80.02" }, { 12, "525.60.13" }, { 13, "580.65.06" } };

	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
		if (first[i].major == toolkit / 1000)
			return first[i].driver;
	return NULL;
}

static bool driver_too_old(struct gt_probe *probe, int toolkit)
{
	int version = (int)probe->gpus.cuda_version.value;
	const char *least;

	if (!toolkit && &gt_cuda_toolkit)
		toolkit = gt_cuda_toolkit;
	if (!toolkit || !probe->gpus.cuda_version.known || version / 1000 >= toolkit / 1000)
		return false;
	least = gt_cuda_oldest_driver(toolkit);
	snprintf(probe->reason, sizeof(probe->reason),
	    "the driver runs CUDA up to %d.%d, and this build needs %d.0%s%s", version / 1000,
	    version % 1000 / 10, toolkit / 1000, least ? ": driver " : "", least ? least : "");
	if (least)
		strcat(probe->reason, " or later");
	return true;
}

/* Number the GPUs and decide, with the first obstacle as the reason, whether CUDA can be used. */
static void decide_cuda(struct gt_probe *probe, const struct gt_probe_options *options)
{
	struct gt_gpus *gpus = &probe->gpus;

	if (gpus->state != GT_NVML_OK) {
		say(probe, gpus->reason);
		return;
	}
	probe->visible = gt_visible_apply(
	    gpus->gpu, gpus->count, options->visible_devices, probe->note, sizeof(probe->note));
	probe->order_unsure = gt_visible_order_unsure(
	    gpus->gpu, gpus->count, options->visible_devices, options->device_order);
	if (gpus->cuda_missing)
		say(probe, "the driver's CUDA library is missing (libcuda.so.1; in a container, "
		           "NVIDIA_DRIVER_CAPABILITIES needs 'compute')");
	else if (driver_too_old(probe, options->toolkit))
		probe->driver_old = true;
	else if (probe->visible == 0)
		say(probe, "all GPUs are hidden by CUDA_VISIBLE_DEVICES");
	else
		probe->cuda_available = true;
}

static void find_nvrtc(struct gt_probe *probe)
{
	struct gt_nvrtc_status *found = &probe->nvrtc;
	struct gt_err err = GT_ERR_INIT;
	void *handle;

	if (!probe->cuda_available || !probe->gpus.cuda_version.known ||
	    !gt_nvrtc_open(&handle, &found->version, (int)probe->gpus.cuda_version.value, &err))
		return;
	snprintf(found->reason, sizeof(found->reason), "%s", err.text);
	snprintf(found->hint, sizeof(found->hint), "%s", err.hint);
}

int gt_probe_read(struct gt_probe *out, const struct gt_probe_options *options, struct gt_err *err)
{
	const char *root = options->root ? options->root : "";
	int rc;

	*out = (struct gt_probe){ 0 };
	if (options->visible_devices) {
		out->visible_devices = gt_strdup(options->visible_devices, err);
		if (!out->visible_devices)
			return GT_ENOMEM;
	}
	rc = gt_cpu_read(&out->cpu, root, err);
	if (!rc)
		rc = gt_gpus_read(&out->gpus, options->nvml_library, err);
	if (rc) {
		gt_probe_release(out);
		return rc;
	}
	name_processes(&out->gpus, root);
	gt_cpu_math_read(&out->math);
	decide_cuda(out, options);
	find_nvrtc(out);
	fill_backends(out);
	return 0;
}

void gt_probe_release(struct gt_probe *probe)
{
	gt_cpu_release(&probe->cpu);
	gt_gpus_release(&probe->gpus);
	free(probe->visible_devices);
	*probe = (struct gt_probe){ 0 };
}
