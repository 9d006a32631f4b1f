/* nvml_api.h - inside device: the functions of NVIDIA's management library that are in use. */
#ifndef GT_DEVICE_NVML_API_H
#define GT_DEVICE_NVML_API_H

#include "lib/device/nvml.h"

/*
 * The part of NVML's binary interface used here, declared from its reference so that building
 * needs no toolkit. Every function returns a status; handles are opaque pointers.
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

enum { GT_NVML_GPUS_MAX = 1024 };

/* Stands for a number of bytes that NVML does not know. */
#define NVML_NOT_AVAILABLE (~0ull)

struct gt_nvml_memory {
	unsigned long long total, free, used;
};

struct gt_nvml_utilization {
	unsigned gpu, memory;
};

struct gt_nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct gt_nvml_pci) == 68, "nvmlPciInfo_t has 68 bytes");

struct gt_nvml_process {
	unsigned pid;
	unsigned long long memory_bytes;
	unsigned gpu_instance, compute_instance;
};
_Static_assert(sizeof(struct gt_nvml_process) == 24, "nvmlProcessInfo_v2_t has 24 bytes");

typedef void *gt_nvml_device;
typedef int gt_nvml_processes_fn(gt_nvml_device, unsigned *count, struct gt_nvml_process *);

/* The functions, each NULL where this driver's library lacks it. */
struct gt_nvml {
	void *handle;
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

/* Call a function that may be missing; true when it answered. */
#define GT_NVML_ASK(function, ...) ((function) && (function)(__VA_ARGS__) == NVML_SUCCESS)

/* Keep a text from NVML only if the call succeeded, and make sure that it ends in a zero. */
static inline void gt_nvml_keep_text(bool answered, char *text, size_t size)
{
	text[answered ? size - 1 : 0] = '\0';
}

static inline struct gt_maybe gt_nvml_known(uint64_t value)
{
	return (struct gt_maybe){ .known = true, .value = value };
}

/* nvml.c: open and initialize the library (NULL or "": the usual one). Returns false, and sets
 * state and reason of *why, if it cannot be used. Close it only if this returned true. */
bool gt_nvml_open(struct gt_nvml *nvml, const char *library, struct gt_gpus *why);
void gt_nvml_close(struct gt_nvml *nvml);

/* nvml_gpu.c: all about one GPU, into *gpu, which is empty. Errors: only GT_ENOMEM. */
int gt_nvml_gpu_read(
    const struct gt_nvml *nvml, unsigned index, struct gt_gpu *gpu, struct gt_err *err);

#endif
