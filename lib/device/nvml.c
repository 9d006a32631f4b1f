/* nvml.c - facts about GPUs from the NVIDIA driver. */
#include "lib/device/nvml.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/library.h"
#include "lib/base/mem.h"
#include "lib/device/nvml_api.h"

#define REQUIRED(name, member)                                                                     \
	{                                                                                          \
		(name), offsetof(struct gt_nvml, member), false                                    \
	}
#define OPTIONAL(name, member)                                                                     \
	{                                                                                          \
		(name), offsetof(struct gt_nvml, member), true                                     \
	}

static const struct gt_library_function functions[] = {
	REQUIRED("nvmlInit_v2", init),
	REQUIRED("nvmlShutdown", shutdown),
	OPTIONAL("nvmlSystemGetDriverVersion", driver_version),
	OPTIONAL("nvmlSystemGetCudaDriverVersion_v2", cuda_version),
	REQUIRED("nvmlDeviceGetCount_v2", count),
	REQUIRED("nvmlDeviceGetHandleByIndex_v2", by_index),
	OPTIONAL("nvmlDeviceGetName", name),
	OPTIONAL("nvmlDeviceGetUUID", uuid),
	OPTIONAL("nvmlDeviceGetPciInfo_v3", pci),
	OPTIONAL("nvmlDeviceGetCudaComputeCapability", capability),
	OPTIONAL("nvmlDeviceGetMemoryInfo", memory),
	OPTIONAL("nvmlDeviceGetUtilizationRates", utilization),
	OPTIONAL("nvmlDeviceGetTemperature", temperature),
	OPTIONAL("nvmlDeviceGetPowerUsage", power),
	OPTIONAL("nvmlDeviceGetEnforcedPowerLimit", power_limit),
	OPTIONAL("nvmlDeviceGetClockInfo", clock),
	OPTIONAL("nvmlDeviceGetMaxClockInfo", clock_max),
	OPTIONAL("nvmlDeviceGetEccMode", ecc_mode),
	OPTIONAL("nvmlDeviceGetTotalEccErrors", ecc_errors),
	/* Drivers 535.43 to 535.86 write elements of 32 bytes in _v3; struct gt_nvml_process has
	 * 24. */
	OPTIONAL("nvmlDeviceGetComputeRunningProcesses_v2", compute),
	OPTIONAL("nvmlDeviceGetComputeRunningProcesses_v3", compute),
	OPTIONAL("nvmlDeviceGetGraphicsRunningProcesses_v2", graphics),
	OPTIONAL("nvmlDeviceGetGraphicsRunningProcesses_v3", graphics),
	OPTIONAL("nvmlDeviceGetMigMode", mig_mode),
	OPTIONAL("nvmlDeviceGetMaxMigDeviceCount", mig_max),
	OPTIONAL("nvmlDeviceGetMigDeviceHandleByIndex", mig_by_index),
	OPTIONAL("nvmlDeviceGetTopologyCommonAncestor", ancestor),
	OPTIONAL("nvmlDeviceGetNvLinkState", nvlink_state),
	OPTIONAL("nvmlDeviceGetNvLinkRemoteDeviceType", nvlink_kind),
	OPTIONAL("nvmlDeviceGetNvLinkRemotePciInfo_v2", nvlink_pci),
	OPTIONAL("nvmlDeviceGetCpuAffinity", cpu_affinity),
	OPTIONAL("nvmlDeviceGetMemoryAffinity", memory_affinity),
	{ 0 },
};

static const struct gt_library nvidia_ml = { .functions = functions, .code = GT_EDEVICE };

/* Set the reason for an NVML status, with a fix. */
static enum gt_nvml_state explain_nvml_status(int status, char *reason, size_t size)
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
	struct gt_err err = GT_ERR_INIT;

	*nvml = (struct gt_nvml){ 0 };
	if (gt_library_open(&nvml->handle, &nvidia_ml, library, &err)) {
		if (gt_library_is_static()) {
			snprintf(reason, size, "%.200s", err.text);
			return GT_NVML_NO_LIBRARY;
		}
		if (strstr(err.text, "No such file")) {
			snprintf(reason, size, "no NVIDIA driver (%s not found)", library);
			return GT_NVML_NO_LIBRARY;
		}
		snprintf(reason, size, "the NVIDIA library cannot be opened (%.200s)", err.text);
		return GT_NVML_BAD_LIBRARY;
	}
	if (gt_library_find(nvml, &nvidia_ml, nvml->handle, library, &err)) {
		snprintf(reason, size,
		    "%s is too old or not NVIDIA's (a required function is missing)", library);
		return GT_NVML_BAD_LIBRARY;
	}
	return GT_NVML_OK;
}

/* Read the CUDA version. NVML asks libcuda.so.1 for it, and reports if that is missing. */
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
		out->state = explain_nvml_status(status, out->reason, sizeof(out->reason));
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
			why->state = explain_nvml_status(status, why->reason, sizeof(why->reason));
	}
	if (why->state != GT_NVML_OK)
		gt_library_close(nvml->handle);
	return why->state == GT_NVML_OK;
}

void gt_nvml_close(struct gt_nvml *nvml)
{
	nvml->shutdown();
	gt_library_close(nvml->handle);
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
