/* nvml_api.h - private: open NVML, NVIDIA's management library, and declare its functions. */
#ifndef GT_DEVICE_NVML_API_H
#define GT_DEVICE_NVML_API_H

#include "lib/device/nvml.h"

/*
 * The part of NVML's binary interface that gtrain uses. The declarations follow NVML's reference
 * manual, so the build does not need NVIDIA's header. Every function of NVML returns a status. A
 * GPU is an opaque pointer.
 */
enum gt_nvml_status {
	NVML_SUCCESS = 0,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_GPU_IS_LOST = 15,
	NVML_LIB_RM_VERSION_MISMATCH = 18
};

/* Constants of NVML: arguments of its functions, and values that its functions return. */
enum { NVML_TEMPERATURE_GPU = 0, NVML_MIG_ENABLED = 1 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_ERROR_UNCORRECTED = 1, NVML_ECC_VOLATILE = 0 };

enum {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50
};
enum { NVML_NVLINK_SWITCH = 2, NVML_SCOPE_NODE = 0 };

/* If NVML reports more GPUs than this, gtrain treats the number as an error of the driver. */
enum { GT_NVML_GPUS_MAX = 1024 };

/* NVML writes this value instead of a number of bytes that is not known. */
#define NVML_NOT_AVAILABLE (~0ull)

/* nvmlMemory_t */
struct gt_nvml_memory {
	unsigned long long total, free, used; /* bytes */
};

/* nvmlUtilization_t */
struct gt_nvml_utilization {
	unsigned gpu, memory; /* percent */
};

/* nvmlPciInfo_t */
struct gt_nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct gt_nvml_pci) == 68, "nvmlPciInfo_t has 68 bytes");

/* nvmlProcessInfo_v2_t */
struct gt_nvml_process {
	unsigned pid;
	unsigned long long memory_bytes;
	unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct gt_nvml_process) == 24, "nvmlProcessInfo_v2_t has 24 bytes");

typedef void *gt_nvml_device;
/* Write the processes on a GPU to an array. *count is the capacity of the array before the call,
 * and the number of processes after the call. */
typedef int gt_nvml_processes_fn(gt_nvml_device, unsigned *count, struct gt_nvml_process *);

/* The functions of the opened NVML library. If the library does not have a function, the pointer is
 * NULL. A table in nvml.c has NVML's name of each function. */
struct gt_nvml {
	void *handle; /* from gt_library_open() */
	int (*init)(void);
	int (*shutdown)(void);
	int (*driver_version)(char *, unsigned);
	int (*cuda_version)(int *);
	int (*count)(unsigned *);
	int (*by_index)(unsigned, gt_nvml_device *);
	int (*name)(gt_nvml_device, char *, unsigned);
	int (*uuid)(gt_nvml_device, char *, unsigned);
	int (*pci)(gt_nvml_device, struct gt_nvml_pci *);
	int (*capability)(gt_nvml_device, int *, int *);
	int (*memory)(gt_nvml_device, struct gt_nvml_memory *);
	int (*utilization)(gt_nvml_device, struct gt_nvml_utilization *);
	int (*temperature)(gt_nvml_device, int, unsigned *);
	int (*power)(gt_nvml_device, unsigned *);
	int (*power_limit)(gt_nvml_device, unsigned *);
	int (*clock)(gt_nvml_device, int, unsigned *);
	int (*clock_max)(gt_nvml_device, int, unsigned *);
	int (*ecc_mode)(gt_nvml_device, unsigned *, unsigned *);
	int (*ecc_errors)(gt_nvml_device, int, int, unsigned long long *);
	gt_nvml_processes_fn *compute, *graphics;
	int (*mig_mode)(gt_nvml_device, unsigned *, unsigned *);
	int (*mig_max)(gt_nvml_device, unsigned *);
	int (*mig_by_index)(gt_nvml_device, unsigned, gt_nvml_device *);
	int (*ancestor)(gt_nvml_device, gt_nvml_device, int *);
	int (*nvlink_state)(gt_nvml_device, unsigned, unsigned *);
	int (*nvlink_kind)(gt_nvml_device, unsigned, unsigned *);
	int (*nvlink_pci)(gt_nvml_device, unsigned, struct gt_nvml_pci *);
	int (*cpu_affinity)(gt_nvml_device, unsigned words, unsigned long *);
	int (*memory_affinity)(gt_nvml_device, unsigned words, unsigned long *, int scope);
};

/* Call a function of NVML. The value is true if the pointer is not NULL and the call succeeded. */
#define GT_NVML_ASK(function, ...) ((function) && (function)(__VA_ARGS__) == NVML_SUCCESS)

/* Call this after a function of NVML that writes a text to text[size]. If `answered` is true, the
 * function has succeeded: make sure that the text ends with a zero byte. Otherwise set the text to
 * "". */
static inline void gt_nvml_end_text(bool answered, char *text, size_t size)
{
	text[answered ? size - 1 : 0] = '\0';
}

/* Return `value` as a known number (struct gt_maybe). */
static inline struct gt_maybe gt_nvml_known(uint64_t value)
{
	return (struct gt_maybe){ .known = true, .value = value };
}

/*
 * Open and initialize the NVML library. `library` is its path or soname; NULL or "" is
 * "libnvidia-ml.so.1". Set why->state. If the library can be used, return true; the caller then
 * calls gt_nvml_close() at the end. Otherwise set also why->reason, and return false. Defined in
 * nvml.c.
 */
bool gt_nvml_open(struct gt_nvml *nvml, const char *library, struct gt_gpus *why);
void gt_nvml_close(struct gt_nvml *nvml);

/* Read all facts about GPU number `index`. *gpu must be zeroed before the call. Errors: only
 * GT_ENOMEM. Defined in nvml_gpu.c. */
int gt_nvml_gpu_read(
    const struct gt_nvml *nvml, unsigned index, struct gt_gpu *gpu, struct gt_err *err);

#endif
