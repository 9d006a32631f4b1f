/* nvml.h - read facts about GPUs from NVML, the management library of the NVIDIA driver. */
#ifndef GT_DEVICE_NVML_H
#define GT_DEVICE_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/device/maybe.h"

#define GT_GPU_TEXT_SIZE    96 /* bytes: NVML's limit for names and UUIDs */
#define GT_GPU_PROCESS_NAME 32 /* bytes for the name of a process */

/* A process with memory on a GPU. */
struct gt_gpu_process {
	unsigned pid;                   /* process id on the host, also in a container */
	struct gt_maybe memory_bytes;   /* unknown without permission, and with MIG */
	char name[GT_GPU_PROCESS_NAME]; /* name from /proc, set by gt_probe_read(); or "" */
};

/* One GPU. An unknown text is "". MIG (multi-instance GPU) divides GPUs into instances. */
struct gt_gpu {
	int index;       /* physical number, in order of PCI bus ids */
	int logical;     /* N of "cuda:N"; -1: hidden (lib/device/visible.h) */
	int logical_mig; /* index in mig_uuid if "cuda:N" is one instance; else -1 */
	char name[GT_GPU_TEXT_SIZE];
	char uuid[GT_GPU_TEXT_SIZE];
	char pci_bus_id[32];
	struct gt_maybe capability; /* 10 * major + minor */
	struct gt_maybe memory_total_bytes, memory_used_bytes, memory_free_bytes;
	struct gt_maybe utilization_percent; /* time with a kernel in the last sample period */
	struct gt_maybe temperature_c;
	struct gt_maybe power_mw, power_limit_mw; /* milliwatts */
	struct gt_maybe clock_sm_mhz, clock_sm_max_mhz, clock_memory_mhz, clock_memory_max_mhz;
	struct gt_maybe ecc;            /* error correction of memory: 1 is on */
	struct gt_maybe ecc_errors;     /* uncorrected since the driver was loaded */
	struct gt_gpu_process *process; /* [process_count], in order of pids */
	size_t process_count;
	bool processes_known;
	struct gt_maybe mig;                /* 1: on */
	char (*mig_uuid)[GT_GPU_TEXT_SIZE]; /* [mig_count] */
	size_t mig_count;
	char problem[80]; /* why facts are missing: "the GPU is lost"; or "" */
};

/* Whether there are GPUs, or why not. */
enum gt_nvml_state {
	GT_NVML_OK, /* at least one GPU */
	GT_NVML_NO_LIBRARY,
	GT_NVML_BAD_LIBRARY,   /* the library cannot be used */
	GT_NVML_NO_DRIVER,     /* the kernel module is not loaded */
	GT_NVML_MISMATCH,      /* versions of library and kernel module differ */
	GT_NVML_NO_PERMISSION, /* this user may not open the devices */
	GT_NVML_NO_GPU,
	GT_NVML_FAILED /* see gt_gpus.reason */
};

/* All GPUs of this machine. */
struct gt_gpus {
	enum gt_nvml_state state;
	char reason[240];             /* one line that explains `state` */
	char driver[80];              /* "580.65.06" */
	struct gt_maybe cuda_version; /* newest that the driver runs: 13000 is 13.0 */
	bool cuda_missing;            /* libcuda.so.1 is missing, as in some containers */
	struct gt_gpu *gpu;           /* [count] */
	size_t count;
};

/* Read the facts about every GPU from NVML (`library`: NULL or "" is "libnvidia-ml.so.1").
 * `logical` is set as if CUDA_VISIBLE_DEVICES were unset. A missing driver or GPU is no error: see
 * `state`. Errors: only GT_ENOMEM; *out is then empty. */
int gt_gpus_read(struct gt_gpus *out, const char *library, struct gt_err *err);

void gt_gpus_release(struct gt_gpus *gpus);

#endif
