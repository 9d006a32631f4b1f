/* nvml.c - a stand-in for libnvidia-ml.so.1 with as many GPUs as the environment asks for. */
/*
 *   FAKE_NVML_COUNT=N        GPUs (1)
 *   FAKE_NVML_INIT=S         nvmlInit_v2 answers with status S
 *   FAKE_NVML_ENUMERATE=S    nvmlDeviceGetCount_v2 answers with status S
 *   FAKE_NVML_CUDA=S         nvmlSystemGetCudaDriverVersion_v2 answers with status S
 *   FAKE_NVML_FIGURES=S      every figure of a GPU answers with status S
 *   FAKE_NVML_LOST=I         GPU I is lost
 *   FAKE_NVML_CUDA_VERSION=V the newest CUDA that the driver runs (13000)
 *   FAKE_NVML_FULL=I         a process has nearly all memory of GPU I
 *   FAKE_NVML_PID=P          that process's number (4194999, which no process has)
 *   FAKE_NVML_CROWD=N        N processes on each GPU
 *   FAKE_NVML_TICK=T         GPUs are T degrees hotter; nvmlInit_v2 adds 1
 *   FAKE_NVML_PROCESSES=S    the lists of processes answer with status S
 *   FAKE_NVML_ECC_ERRORS=N   errors that could not be corrected, on GPU 0
 *   FAKE_NVML_MIXED=1        odd GPUs are of another model
 *   FAKE_NVML_SWITCH=N       each GPU has N NVLinks to switches (0)
 *   FAKE_NVML_BRIDGE=N       GPUs 2i and 2i + 1 have N NVLinks with each other (0)
 *   FAKE_NVML_LINKS=S        all about links and CPUs near GPUs answers with status S
 *   FAKE_NVML_MIG=I          GPU I is split into two instances
 *
 * Compiled with FAKE_NVML_OLD it has only the functions without which there is no NVML.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function of the library: its prototype, then its definition. */
#define EXPORT(name, ...)                                                                          \
	int name(__VA_ARGS__);                                                                     \
	int name(__VA_ARGS__)

enum {
	SUCCESS = 0,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	GPU_IS_LOST = 15
};

#define GPUS        64
#define MIG_PER_GPU 2

/* Handles are addresses in here: of the GPU itself, or of an instance of it. */
struct gpu {
	char self, instance[MIG_PER_GPU];
};
static struct gpu gpus[GPUS];

static int knob(const char *name, int otherwise)
{
	const char *value = getenv(name);

	return value ? atoi(value) : otherwise;
}

EXPORT(nvmlInit_v2, void)
{
	char tick[32];

	if (getenv("FAKE_NVML_TICK")) { /* this library may be closed and opened in between */
		snprintf(tick, sizeof(tick), "%d", knob("FAKE_NVML_TICK", 0) + 1);
		setenv("FAKE_NVML_TICK", tick, 1);
	}
	return knob("FAKE_NVML_INIT", SUCCESS);
}

EXPORT(nvmlShutdown, void)
{
	return SUCCESS;
}

EXPORT(nvmlDeviceGetCount_v2, unsigned *count)
{
	*count = (unsigned)knob("FAKE_NVML_COUNT", 1);
	return knob("FAKE_NVML_ENUMERATE", SUCCESS);
}

EXPORT(nvmlDeviceGetHandleByIndex_v2, unsigned index, void **device)
{
	if (index >= (unsigned)knob("FAKE_NVML_COUNT", 1) || index >= GPUS)
		return INVALID_ARGUMENT;
	if ((int)index == knob("FAKE_NVML_LOST", -1))
		return GPU_IS_LOST;
	*device = &gpus[index].self;
	return SUCCESS;
}

#ifndef FAKE_NVML_OLD

static int index_of(const void *device)
{
	return (int)(((const char *)device - (const char *)gpus) / (long)sizeof(*gpus));
}

static int instance_of(const void *device)
{
	return (int)(((const char *)device - (const char *)gpus) % (long)sizeof(*gpus)) - 1;
}

static int answer(char *text, unsigned size, const char *value)
{
	if (strlen(value) >= size)
		return INSUFFICIENT_SIZE;
	strcpy(text, value);
	return SUCCESS;
}

EXPORT(nvmlSystemGetDriverVersion, char *text, unsigned size)
{
	return answer(text, size, "580.65.06");
}

EXPORT(nvmlSystemGetCudaDriverVersion_v2, int *version)
{
	*version = knob("FAKE_NVML_CUDA_VERSION", 13000);
	return knob("FAKE_NVML_CUDA", SUCCESS);
}

EXPORT(nvmlDeviceGetName, void *device, char *text, unsigned size)
{
	int other = knob("FAKE_NVML_MIXED", 0) && index_of(device) % 2;

	return answer(text, size, other ? "NVIDIA Fake 50" : "NVIDIA Fake 100");
}

/* The first digits differ, the rest agree: "GPU-1000000i-...". */
EXPORT(nvmlDeviceGetUUID, void *device, char *text, unsigned size)
{
	char value[64];
	int instance = instance_of(device);

	if (instance < 0)
		snprintf(value, sizeof(value), "GPU-1000000%x-0000-4000-8000-000000000000",
		    (unsigned)index_of(device));
	else
		snprintf(value, sizeof(value), "MIG-2000000%x-0000-4000-8000-00000000000%d",
		    (unsigned)index_of(device), instance);
	return answer(text, size, value);
}

struct pci_info {
	char legacy[16];
	unsigned int domain, bus, device, ids, subsystem;
	char bus_id[32];
};

EXPORT(nvmlDeviceGetPciInfo_v3, void *device, struct pci_info *pci)
{
	unsigned bus = 16u * (unsigned)index_of(device) + 1;

	memset(pci, 0, sizeof(*pci));
	pci->bus = bus;
	snprintf(pci->legacy, sizeof(pci->legacy), "0000:%02X:00.0", bus & 255);
	snprintf(pci->bus_id, sizeof(pci->bus_id), "00000000:%02X:00.0", bus & 255);
	return SUCCESS;
}

EXPORT(nvmlDeviceGetCudaComputeCapability, void *device, int *major, int *minor)
{
	(void)device;
	*major = 9;
	*minor = 0;
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

struct memory_info {
	unsigned long long total, free, used;
};

EXPORT(nvmlDeviceGetMemoryInfo, void *device, struct memory_info *memory)
{
	memory->total = 80ull << 30;
	memory->used = (unsigned long long)index_of(device) << 30;
	if (index_of(device) == knob("FAKE_NVML_FULL", -1))
		memory->used = (79ull << 30) + (512ull << 20);
	memory->free = memory->total - memory->used;
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

struct utilization {
	unsigned int gpu, memory;
};

EXPORT(nvmlDeviceGetUtilizationRates, void *device, struct utilization *rates)
{
	rates->gpu = 10u * (unsigned)index_of(device);
	rates->memory = 99;
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

EXPORT(nvmlDeviceGetTemperature, void *device, int sensor, unsigned *celsius)
{
	if (sensor != 0)
		return INVALID_ARGUMENT;
	*celsius = 40u + (unsigned)(index_of(device) + knob("FAKE_NVML_TICK", 0));
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

EXPORT(nvmlDeviceGetPowerUsage, void *device, unsigned *milliwatts)
{
	*milliwatts = 70500u + 1000u * (unsigned)index_of(device);
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

EXPORT(nvmlDeviceGetEnforcedPowerLimit, void *device, unsigned *milliwatts)
{
	(void)device;
	*milliwatts = 700000;
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

EXPORT(nvmlDeviceGetClockInfo, void *device, int which, unsigned *mhz)
{
	if (which != 1 && which != 2)
		return INVALID_ARGUMENT;
	*mhz = which == 1 ? 345u + (unsigned)index_of(device) : 2619u;
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

EXPORT(nvmlDeviceGetMaxClockInfo, void *device, int which, unsigned *mhz)
{
	(void)device;
	if (which != 1 && which != 2)
		return INVALID_ARGUMENT;
	*mhz = which == 1 ? 1980 : 2619;
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

/* The other model has none. */
EXPORT(nvmlDeviceGetEccMode, void *device, unsigned *current, unsigned *pending)
{
	if (knob("FAKE_NVML_MIXED", 0) && index_of(device) % 2)
		return NOT_SUPPORTED;
	*current = *pending = 1;
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

EXPORT(nvmlDeviceGetTotalEccErrors, void *device, int error, int counter, unsigned long long *n)
{
	if (error != 1 || counter != 0)
		return INVALID_ARGUMENT;
	*n = index_of(device) ? 0 : (unsigned long long)knob("FAKE_NVML_ECC_ERRORS", 0);
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

struct process_info {
	unsigned pid;
	unsigned long long memory;
	unsigned gpu_instance, compute_instance;
};

/* The elements of _v3, as those of drivers 535.43 to 535.86. */
struct long_process_info {
	struct process_info info;
	unsigned long long protected_memory;
};

/* Descending numbers, and the last one's memory is not available. `bytes` is the size of an element
 * of the list. */
static int list_processes(unsigned *count, void *list, size_t bytes, unsigned first, unsigned n,
    unsigned long long memory)
{
	unsigned size = *count;

	*count = n;
	if (n > size)
		return INSUFFICIENT_SIZE;
	memset(list, 0x77, n * bytes);
	for (unsigned i = 0; i < n; i++)
		*(struct process_info *)((char *)list + i * bytes) =
		    (struct process_info){ first - i, i && i + 1 == n ? ~0ull : memory, ~0u, ~0u };
	return SUCCESS;
}

static int list_compute(const void *device, unsigned *count, void *list, size_t bytes)
{
	int status = knob("FAKE_NVML_PROCESSES", knob("FAKE_NVML_FIGURES", SUCCESS));
	unsigned pid = (unsigned)knob("FAKE_NVML_PID", 4194999);

	if (status != SUCCESS)
		return status;
	if (index_of(device) == knob("FAKE_NVML_FULL", -1))
		return list_processes(count, list, bytes, pid, 1, 79ull << 30);
	return list_processes(
	    count, list, bytes, 5000000, (unsigned)knob("FAKE_NVML_CROWD", 0), 1ull << 20);
}

/* The first process draws, too. */
static int list_graphics(unsigned *count, void *list, size_t bytes)
{
	int status = knob("FAKE_NVML_PROCESSES", knob("FAKE_NVML_FIGURES", SUCCESS));

	if (status != SUCCESS)
		return status;
	return list_processes(
	    count, list, bytes, 5000000, knob("FAKE_NVML_CROWD", 0) ? 1 : 0, 1ull << 20);
}

EXPORT(nvmlDeviceGetComputeRunningProcesses_v2, void *device, unsigned *count,
    struct process_info *list)
{
	return list_compute(device, count, list, sizeof(*list));
}

EXPORT(nvmlDeviceGetComputeRunningProcesses_v3, void *device, unsigned *count,
    struct long_process_info *list)
{
	return list_compute(device, count, list, sizeof(*list));
}

EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v2, void *device, unsigned *count,
    struct process_info *list)
{
	(void)device;
	return list_graphics(count, list, sizeof(*list));
}

EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v3, void *device, unsigned *count,
    struct long_process_info *list)
{
	(void)device;
	return list_graphics(count, list, sizeof(*list));
}

EXPORT(nvmlDeviceGetMigMode, void *device, unsigned *current, unsigned *pending)
{
	*current = *pending = index_of(device) == knob("FAKE_NVML_MIG", -1);
	return knob("FAKE_NVML_FIGURES", SUCCESS);
}

EXPORT(nvmlDeviceGetMaxMigDeviceCount, void *device, unsigned *count)
{
	(void)device;
	*count = 7;
	return SUCCESS;
}

/* Instances sit in slots 0 and 3: the slots of a real card may have holes too. */
EXPORT(nvmlDeviceGetMigDeviceHandleByIndex, void *device, unsigned slot, void **instance)
{
	if (slot != 0 && slot != 3)
		return NOT_FOUND;
	*instance = &gpus[index_of(device)].instance[slot / 3];
	return SUCCESS;
}

/* In pairs at one bridge, in fours at one host bridge, in eights at one node. */
EXPORT(nvmlDeviceGetTopologyCommonAncestor, void *a, void *b, int *level)
{
	int differ = index_of(a) ^ index_of(b);

	*level = differ >= 8 ? 50 : differ >= 4 ? 40 : differ >= 2 ? 30 : 10;
	return knob("FAKE_NVML_LINKS", SUCCESS);
}

/* First the links to the partner, then those to switches; an eighteenth is there and not active. */
EXPORT(nvmlDeviceGetNvLinkState, void *device, unsigned link, unsigned *active)
{
	(void)device;
	*active = (int)link < knob("FAKE_NVML_BRIDGE", 0) + knob("FAKE_NVML_SWITCH", 0);
	return link > 17 ? INVALID_ARGUMENT : knob("FAKE_NVML_LINKS", SUCCESS);
}

EXPORT(nvmlDeviceGetNvLinkRemoteDeviceType, void *device, unsigned link, unsigned *kind)
{
	(void)device;
	*kind = (int)link < knob("FAKE_NVML_BRIDGE", 0) ? 0 : 2;
	return knob("FAKE_NVML_LINKS", SUCCESS);
}

EXPORT(nvmlDeviceGetNvLinkRemotePciInfo_v2, void *device, unsigned link, struct pci_info *pci)
{
	if ((int)link >= knob("FAKE_NVML_BRIDGE", 0))
		return NOT_FOUND;
	return nvmlDeviceGetPciInfo_v3(&gpus[index_of(device) ^ 1].self, pci);
}

/* Two groups of 8 CPUs with 8 between them, on a node for every four GPUs. */
EXPORT(nvmlDeviceGetCpuAffinity, void *device, unsigned words, unsigned long *mask)
{
	memset(mask, 0, words * sizeof(*mask));
	mask[0] = 0x0000000000ff00fful << (index_of(device) / 4 ? 32 : 0);
	return knob("FAKE_NVML_LINKS", SUCCESS);
}

EXPORT(nvmlDeviceGetMemoryAffinity, void *device, unsigned words, unsigned long *mask, int scope)
{
	if (scope != 0)
		return INVALID_ARGUMENT;
	memset(mask, 0, words * sizeof(*mask));
	mask[0] = 1ul << (index_of(device) / 4);
	return knob("FAKE_NVML_LINKS", SUCCESS);
}

#endif
