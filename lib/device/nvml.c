/* nvml.c - facts about GPUs from the NVIDIA driver. */
#include "lib/device/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/device/nvml_api.h"

/* Where a function has several rows, the first that the library has counts. */
static const struct {
	const char *name;
	size_t slot;
} symbols[] = {
	{ "nvmlInit_v2", offsetof(struct gt_nvml, init) },
	{ "nvmlShutdown", offsetof(struct gt_nvml, shutdown) },
	{ "nvmlSystemGetDriverVersion", offsetof(struct gt_nvml, driver_version) },
	{ "nvmlSystemGetCudaDriverVersion_v2", offsetof(struct gt_nvml, cuda_version) },
	{ "nvmlDeviceGetCount_v2", offsetof(struct gt_nvml, count) },
	{ "nvmlDeviceGetHandleByIndex_v2", offsetof(struct gt_nvml, by_index) },
	{ "nvmlDeviceGetName", offsetof(struct gt_nvml, name) },
	{ "nvmlDeviceGetUUID", offsetof(struct gt_nvml, uuid) },
	{ "nvmlDeviceGetPciInfo_v3", offsetof(struct gt_nvml, pci) },
	{ "nvmlDeviceGetCudaComputeCapability", offsetof(struct gt_nvml, capability) },
	{ "nvmlDeviceGetMemoryInfo", offsetof(struct gt_nvml, memory) },
	{ "nvmlDeviceGetUtilizationRates", offsetof(struct gt_nvml, utilization) },
	{ "nvmlDeviceGetTemperature", offsetof(struct gt_nvml, temperature) },
	{ "nvmlDeviceGetPowerUsage", offsetof(struct gt_nvml, power) },
	{ "nvmlDeviceGetEnforcedPowerLimit", offsetof(struct gt_nvml, power_limit) },
	{ "nvmlDeviceGetClockInfo", offsetof(struct gt_nvml, clock) },
	{ "nvmlDeviceGetMaxClockInfo", offsetof(struct gt_nvml, clock_max) },
	{ "nvmlDeviceGetEccMode", offsetof(struct gt_nvml, ecc_mode) },
	{ "nvmlDeviceGetTotalEccErrors", offsetof(struct gt_nvml, ecc_errors) },
	/* Drivers 535.43 to 535.86 write elements of 32 bytes in _v3; struct gt_nvml_process has
	 * 24. */
	{ "nvmlDeviceGetComputeRunningProcesses_v2", offsetof(struct gt_nvml, compute) },
	{ "nvmlDeviceGetComputeRunningProcesses_v3", offsetof(struct gt_nvml, compute) },
	{ "nvmlDeviceGetGraphicsRunningProcesses_v2", offsetof(struct gt_nvml, graphics) },
	{ "nvmlDeviceGetGraphicsRunningProcesses_v3", offsetof(struct gt_nvml, graphics) },
	{ "nvmlDeviceGetMigMode", offsetof(struct gt_nvml, mig_mode) },
	{ "nvmlDeviceGetMaxMigDeviceCount", offsetof(struct gt_nvml, mig_max) },
	{ "nvmlDeviceGetMigDeviceHandleByIndex", offsetof(struct gt_nvml, mig_by_index) },
	{ "nvmlDeviceGetTopologyCommonAncestor", offsetof(struct gt_nvml, ancestor) },
	{ "nvmlDeviceGetNvLinkState", offsetof(struct gt_nvml, nvlink_state) },
	{ "nvmlDeviceGetNvLinkRemoteDeviceType", offsetof(struct gt_nvml, nvlink_kind) },
	{ "nvmlDeviceGetNvLinkRemotePciInfo_v2", offsetof(struct gt_nvml, nvlink_pci) },
	{ "nvmlDeviceGetCpuAffinity", offsetof(struct gt_nvml, cpu_affinity) },
	{ "nvmlDeviceGetMemoryAffinity", offsetof(struct gt_nvml, memory_affinity) },
};

/* Put an NVML status into words, with a remedy. */
static enum gt_nvml_state explain(int status, char *reason, size_t size)
{
	switch (status) {
	case NVML_DRIVER_NOT_LOADED:
		snprintf(reason, size,
		    "the NVIDIA driver is installed but not loaded "
		    "(try 'modprobe nvidia', or reboot after an update)");
		return GT_NVML_NO_DRIVER;
	case NVML_LIB_RM_VERSION_MISMATCH:
		snprintf(reason, size,
		    "the NVIDIA library and kernel module differ in version "
		    "(reboot, or reload the module, after an update)");
		return GT_NVML_MISMATCH;
	case NVML_NO_PERMISSION:
		snprintf(reason, size,
		    "no permission to use the NVIDIA driver "
		    "(look at the owner and mode of /dev/nvidia*)");
		return GT_NVML_NO_PERMISSION;
	default:
		snprintf(reason, size, "the NVIDIA driver failed (NVML error %d)", status);
		return GT_NVML_FAILED;
	}
}

static enum gt_nvml_state library_open(
    struct gt_nvml *nvml, const char *library, char *reason, size_t size)
{
	const char *why;

	*nvml = (struct gt_nvml){ .handle = dlopen(library, RTLD_NOW | RTLD_LOCAL) };
	if (!nvml->handle) {
		why = dlerror();
		if (why && strstr(why, "No such file")) {
			snprintf(reason, size, "no NVIDIA driver (%s not found)", library);
			return GT_NVML_NO_LIBRARY;
		}
		snprintf(
		    reason, size, "the NVIDIA library cannot be opened (%s)", why ? why : library);
		return GT_NVML_BAD_LIBRARY;
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		void **slot = (void **)((char *)nvml + symbols[i].slot);

		if (!*slot)
			*slot = dlsym(nvml->handle, symbols[i].name);
	}
	if (!nvml->init || !nvml->shutdown || !nvml->count || !nvml->by_index) {
		snprintf(reason, size,
		    "%s is too old or not NVIDIA's (a required function is missing)", library);
		return GT_NVML_BAD_LIBRARY;
	}
	return GT_NVML_OK;
}

/* NVML takes the CUDA version from libcuda.so.1, and says so when that is not there. */
static void read_versions(const struct gt_nvml *nvml, struct gt_gpus *out)
{
	int version = 0;
	int status;

	gt_nvml_end_text(GT_NVML_ASK(nvml->driver_version, out->driver, sizeof(out->driver)),
	    out->driver, sizeof(out->driver));
	if (!nvml->cuda_version)
		return;
	status = nvml->cuda_version(&version);
	out->cuda_missing = status == NVML_LIBRARY_NOT_FOUND;
	if (status == NVML_SUCCESS && version > 0)
		out->cuda_version = gt_nvml_known((unsigned)version);
}

static int read_all(const struct gt_nvml *nvml, struct gt_gpus *out, struct gt_err *err)
{
	unsigned count = 0;
	int status = nvml->count(&count);
	int rc = 0;

	read_versions(nvml, out);
	if (status == NVML_SUCCESS && count > GT_NVML_GPUS_MAX) {
		snprintf(out->reason, sizeof(out->reason),
		    "the NVIDIA driver reports %u GPUs, but gtrain supports %d", count,
		    GT_NVML_GPUS_MAX);
		out->state = GT_NVML_FAILED;
		return 0;
	}
	if (status != NVML_SUCCESS) {
		out->state = explain(status, out->reason, sizeof(out->reason));
		return 0;
	}
	if (count == 0) {
		snprintf(out->reason, sizeof(out->reason),
		    "the NVIDIA driver is loaded but finds no GPU");
		out->state = GT_NVML_NO_GPU;
		return 0;
	}
	out->gpu = gt_calloc(count, sizeof(*out->gpu), err);
	if (!out->gpu)
		return GT_ENOMEM;
	out->count = count;
	for (unsigned i = 0; i < count && !rc; i++)
		rc = gt_nvml_gpu_read(nvml, i, &out->gpu[i], err);
	return rc;
}

bool gt_nvml_open(struct gt_nvml *nvml, const char *library, struct gt_gpus *why)
{
	int status;

	why->state = library_open(nvml, library && *library ? library : "libnvidia-ml.so.1",
	    why->reason, sizeof(why->reason));
	if (why->state == GT_NVML_OK) {
		status = nvml->init();
		if (status != NVML_SUCCESS)
			why->state = explain(status, why->reason, sizeof(why->reason));
	}
	if (why->state != GT_NVML_OK && nvml->handle)
		dlclose(nvml->handle);
	return why->state == GT_NVML_OK;
}

void gt_nvml_close(struct gt_nvml *nvml)
{
	nvml->shutdown();
	dlclose(nvml->handle);
}

int gt_gpus_read(struct gt_gpus *out, const char *library, struct gt_err *err)
{
	struct gt_nvml nvml;
	int rc;

	*out = (struct gt_gpus){ 0 };
	if (!gt_nvml_open(&nvml, library, out))
		return 0;
	rc = read_all(&nvml, out, err);
	gt_nvml_close(&nvml);
	if (rc)
		gt_gpus_release(out);
	return rc;
}

void gt_gpus_release(struct gt_gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++) {
		free(gpus->gpu[i].process);
		free(gpus->gpu[i].mig_uuid);
	}
	free(gpus->gpu);
	*gpus = (struct gt_gpus){ 0 };
}
