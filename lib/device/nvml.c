/* nvml.c - what the NVIDIA driver says about the GPUs. */
#include "lib/device/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"

/*
 * The part of NVML's binary interface used here, declared from its reference so that building
 * needs no toolkit. Every function returns a status; handles are opaque pointers.
 */
enum nvml_status {
	NVML_SUCCESS = 0,
	NVML_NO_PERMISSION = 4,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_GPU_IS_LOST = 15,
	NVML_LIB_RM_VERSION_MISMATCH = 18
};

enum { NVML_TEMPERATURE_GPU = 0, NVML_MIG_ENABLED = 1, GPUS_MAX = 1024, MIG_MAX = 64 };

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_utilization {
	unsigned gpu, memory;
};

struct nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci) == 68, "nvmlPciInfo_t has 68 bytes");

typedef void *nvml_device;

/* The functions, each NULL where this driver's library lacks it. */
struct nvml {
	void *handle;
	int (*init)(void);
	int (*shutdown)(void);
	int (*driver_version)(char *, unsigned);
	int (*cuda_version)(int *);
	int (*count)(unsigned *);
	int (*by_index)(unsigned, nvml_device *);
	int (*name)(nvml_device, char *, unsigned);
	int (*uuid)(nvml_device, char *, unsigned);
	int (*pci)(nvml_device, struct nvml_pci *);
	int (*capability)(nvml_device, int *, int *);
	int (*memory)(nvml_device, struct nvml_memory *);
	int (*utilization)(nvml_device, struct nvml_utilization *);
	int (*temperature)(nvml_device, int, unsigned *);
	int (*power)(nvml_device, unsigned *);
	int (*mig_mode)(nvml_device, unsigned *, unsigned *);
	int (*mig_max)(nvml_device, unsigned *);
	int (*mig_by_index)(nvml_device, unsigned, nvml_device *);
};

static const struct {
	const char *name;
	size_t slot;
} symbols[] = {
	{ "nvmlInit_v2", offsetof(struct nvml, init) },
	{ "nvmlShutdown", offsetof(struct nvml, shutdown) },
	{ "nvmlSystemGetDriverVersion", offsetof(struct nvml, driver_version) },
	{ "nvmlSystemGetCudaDriverVersion_v2", offsetof(struct nvml, cuda_version) },
	{ "nvmlDeviceGetCount_v2", offsetof(struct nvml, count) },
	{ "nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml, by_index) },
	{ "nvmlDeviceGetName", offsetof(struct nvml, name) },
	{ "nvmlDeviceGetUUID", offsetof(struct nvml, uuid) },
	{ "nvmlDeviceGetPciInfo_v3", offsetof(struct nvml, pci) },
	{ "nvmlDeviceGetCudaComputeCapability", offsetof(struct nvml, capability) },
	{ "nvmlDeviceGetMemoryInfo", offsetof(struct nvml, memory) },
	{ "nvmlDeviceGetUtilizationRates", offsetof(struct nvml, utilization) },
	{ "nvmlDeviceGetTemperature", offsetof(struct nvml, temperature) },
	{ "nvmlDeviceGetPowerUsage", offsetof(struct nvml, power) },
	{ "nvmlDeviceGetMigMode", offsetof(struct nvml, mig_mode) },
	{ "nvmlDeviceGetMaxMigDeviceCount", offsetof(struct nvml, mig_max) },
	{ "nvmlDeviceGetMigDeviceHandleByIndex", offsetof(struct nvml, mig_by_index) },
};

/* Call a function that may be missing; true when it answered. */
#define ASK(function, ...) ((function) && (function)(__VA_ARGS__) == NVML_SUCCESS)

/* Put an NVML status in words that say what to do. */
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
    struct nvml *nvml, const char *library, char *reason, size_t size)
{
	const char *why;

	*nvml = (struct nvml){ .handle = dlopen(library, RTLD_NOW | RTLD_LOCAL) };
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
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
		*(void **)((char *)nvml + symbols[i].slot) = dlsym(nvml->handle, symbols[i].name);
	if (!nvml->init || !nvml->shutdown || !nvml->count || !nvml->by_index) {
		snprintf(reason, size, "%s is too old or not NVIDIA's (no nvmlInit_v2 and company)",
		    library);
		return GT_NVML_BAD_LIBRARY;
	}
	return GT_NVML_OK;
}

static struct gt_maybe known(uint64_t value)
{
	return (struct gt_maybe){ .known = true, .value = value };
}

/* Keep a text that NVML wrote only if it answered; end it whatever it wrote. */
static void keep_text(bool answered, char *text, size_t size)
{
	text[answered ? size - 1 : 0] = '\0';
}

static void read_figures(const struct nvml *nvml, nvml_device device, struct gt_gpu *gpu)
{
	struct nvml_utilization utilization;
	struct nvml_memory memory;
	unsigned value;
	int major, minor;

	if (ASK(nvml->capability, device, &major, &minor) && major >= 0 && minor >= 0)
		gpu->capability = known(10u * (unsigned)major + (unsigned)minor);
	if (ASK(nvml->memory, device, &memory)) {
		gpu->memory_total_bytes = known(memory.total);
		gpu->memory_free_bytes = known(memory.free);
	}
	if (ASK(nvml->utilization, device, &utilization))
		gpu->utilization_percent = known(utilization.gpu);
	if (ASK(nvml->temperature, device, NVML_TEMPERATURE_GPU, &value))
		gpu->temperature_c = known(value);
	if (ASK(nvml->power, device, &value))
		gpu->power_mw = known(value);
}

/* MIG splits a GPU into instances with names of their own, by which alone CUDA takes them. */
static int read_mig(
    const struct nvml *nvml, nvml_device device, struct gt_gpu *gpu, struct gt_err *err)
{
	unsigned current, pending, max = 0;
	nvml_device instance;

	if (!ASK(nvml->mig_mode, device, &current, &pending))
		return 0;
	gpu->mig = known(current == NVML_MIG_ENABLED);
	if (!gpu->mig.value || !nvml->uuid || !ASK(nvml->mig_max, device, &max) || max > MIG_MAX)
		return 0;
	gpu->mig_uuid = gt_calloc(max, sizeof(*gpu->mig_uuid), err);
	if (!gpu->mig_uuid)
		return GT_ENOMEM;
	for (unsigned i = 0; i < max; i++) {
		char *uuid = gpu->mig_uuid[gpu->mig_count];

		if (!ASK(nvml->mig_by_index, device, i, &instance))
			continue; /* not every slot is taken */
		if (nvml->uuid(instance, uuid, GT_GPU_TEXT_SIZE) == NVML_SUCCESS)
			gpu->mig_count++;
	}
	return 0;
}

static int read_gpu(const struct nvml *nvml, unsigned index, struct gt_gpu *gpu, struct gt_err *err)
{
	struct nvml_pci pci = { 0 };
	nvml_device device;
	int status;

	gpu->index = gpu->logical = (int)index;
	gpu->logical_mig = -1;
	status = nvml->by_index(index, &device);
	if (status != NVML_SUCCESS) {
		if (status == NVML_GPU_IS_LOST)
			snprintf(gpu->problem, sizeof(gpu->problem), "the GPU is lost");
		else if (status == NVML_NO_PERMISSION)
			snprintf(gpu->problem, sizeof(gpu->problem), "no permission");
		else
			snprintf(gpu->problem, sizeof(gpu->problem), "NVML error %d", status);
		return 0;
	}
	keep_text(
	    ASK(nvml->name, device, gpu->name, GT_GPU_TEXT_SIZE), gpu->name, GT_GPU_TEXT_SIZE);
	keep_text(
	    ASK(nvml->uuid, device, gpu->uuid, GT_GPU_TEXT_SIZE), gpu->uuid, GT_GPU_TEXT_SIZE);
	if (ASK(nvml->pci, device, &pci))
		snprintf(gpu->pci_bus_id, sizeof(gpu->pci_bus_id), "%.31s", pci.bus_id);
	read_figures(nvml, device, gpu);
	return read_mig(nvml, device, gpu, err);
}

/* NVML takes the CUDA version from libcuda.so.1, and says so when that is not there. */
static void read_versions(const struct nvml *nvml, struct gt_gpus *out)
{
	int version = 0;
	int status;

	keep_text(ASK(nvml->driver_version, out->driver, sizeof(out->driver)), out->driver,
	    sizeof(out->driver));
	if (!nvml->cuda_version)
		return;
	status = nvml->cuda_version(&version);
	out->cuda_missing = status == NVML_LIBRARY_NOT_FOUND;
	if (status == NVML_SUCCESS && version > 0)
		out->cuda_version = known((unsigned)version);
}

static int read_all(const struct nvml *nvml, struct gt_gpus *out, struct gt_err *err)
{
	unsigned count = 0;
	int status = nvml->count(&count);
	int rc = 0;

	read_versions(nvml, out);
	if (status == NVML_SUCCESS && count > GPUS_MAX) {
		snprintf(out->reason, sizeof(out->reason),
		    "the NVIDIA driver reports %u GPUs, more than can be (%d)", count, GPUS_MAX);
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
		rc = read_gpu(nvml, i, &out->gpu[i], err);
	return rc;
}

int gt_gpus_read(struct gt_gpus *out, const char *library, struct gt_err *err)
{
	struct nvml nvml;
	int status, rc = 0;

	*out = (struct gt_gpus){ 0 };
	out->state = library_open(&nvml, library && *library ? library : "libnvidia-ml.so.1",
	    out->reason, sizeof(out->reason));
	if (out->state != GT_NVML_OK)
		goto out;
	status = nvml.init();
	if (status != NVML_SUCCESS) {
		out->state = explain(status, out->reason, sizeof(out->reason));
		goto out;
	}
	rc = read_all(&nvml, out, err);
	nvml.shutdown();
out:
	if (nvml.handle)
		dlclose(nvml.handle);
	if (rc)
		gt_gpus_release(out);
	return rc;
}

void gt_gpus_release(struct gt_gpus *gpus)
{
	for (size_t i = 0; i < gpus->count; i++)
		free(gpus->gpu[i].mig_uuid);
	free(gpus->gpu);
	*gpus = (struct gt_gpus){ 0 };
}
