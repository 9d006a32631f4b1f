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
	unsigned pid; /* process id on the host, also if gtrain runs in a container */
	/* unknown to users without permission, and on a GPU with MIG (see struct gt_gpu) */
	struct gt_maybe memory_bytes;
	/* The process's name from /proc. gt_gpus_read() leaves it empty; gt_probe_read() sets it if
	 * /proc has the process. */
	char name[GT_GPU_PROCESS_NAME];
};

/* One GPU. A text that is not known is "". MIG (multi-instance GPU) can divide a GPU into instances
 * that work as separate devices. */
struct gt_gpu {
	int index;   /* physical number, as in NVML and nvidia-smi: in order of the PCI bus id */
	int logical; /* N of "cuda:N"; -1: CUDA_VISIBLE_DEVICES hides it (lib/device/visible.h) */
	/* if "cuda:N" is only one MIG instance of this GPU: the index of the instance in mig_uuid;
	 * otherwise -1 */
	int logical_mig;
	char name[GT_GPU_TEXT_SIZE];
	char uuid[GT_GPU_TEXT_SIZE];
	char pci_bus_id[32];
	struct gt_maybe capability; /* compute capability, 10 * major + minor: 90 is 9.0 */
	struct gt_maybe memory_total_bytes, memory_used_bytes, memory_free_bytes;
	/* a CUDA kernel was running during this percentage of the driver's last sample period */
	struct gt_maybe utilization_percent;
	struct gt_maybe temperature_c;
	struct gt_maybe power_mw, power_limit_mw; /* milliwatts */
	struct gt_maybe clock_sm_mhz, clock_sm_max_mhz, clock_memory_mhz, clock_memory_max_mhz;
	struct gt_maybe ecc; /* error correction of memory: 1 is on, 0 is off */
	/* number of memory errors since the driver was loaded that could not be corrected */
	struct gt_maybe ecc_errors;
	struct gt_gpu_process *process; /* [process_count], in order of their pids */
	size_t process_count;
	bool processes_known;               /* false: the driver does not list processes */
	struct gt_maybe mig;                /* 1: MIG is on, 0: MIG is off */
	char (*mig_uuid)[GT_GPU_TEXT_SIZE]; /* [mig_count]: UUIDs of the MIG instances */
	size_t mig_count;
	/* why facts about this GPU are missing: "the GPU is lost"; "" if there is no such reason */
	char problem[80];
};

/* The result of the search for GPUs: GT_NVML_OK, or the reason why no GPUs were found. */
enum gt_nvml_state {
	GT_NVML_OK,            /* at least one GPU */
	GT_NVML_NO_LIBRARY,    /* no driver is installed */
	GT_NVML_BAD_LIBRARY,   /* the library of NVML exists, but cannot be used */
	GT_NVML_NO_DRIVER,     /* a driver is installed, but its kernel module is not loaded */
	GT_NVML_MISMATCH,      /* the versions of the library and the kernel module differ */
	GT_NVML_NO_PERMISSION, /* this user may not open the devices */
	GT_NVML_NO_GPU,        /* the driver works, but there is no GPU */
	GT_NVML_FAILED         /* another error of NVML: see gt_gpus.reason */
};

/* All GPUs of this machine. */
struct gt_gpus {
	enum gt_nvml_state state;
	char reason[240];             /* one line that explains `state`; "" for GT_NVML_OK */
	char driver[80];              /* version of the driver: "580.65.06" */
	struct gt_maybe cuda_version; /* newest CUDA version that the driver runs: 13000 is 13.0 */
	/* NVML was opened, but CUDA's driver library, libcuda.so.1, is missing: for example, in a
	 * container that was started without NVIDIA's driver capability "compute" */
	bool cuda_missing;
	struct gt_gpu *gpu; /* [count] */
	size_t count;
};

/*
 * Open NVML and read the facts about every GPU. `library` is the path or soname of NVML's library;
 * NULL or "" is "libnvidia-ml.so.1". If there is no driver or no GPU, that is not an error: `state`
 * and `reason` describe it. If the driver does not report a number, the number is unknown (struct
 * gt_maybe). `logical` of each GPU is set as if CUDA_VISIBLE_DEVICES were unset. Release *out with
 * gt_gpus_release().
 *
 * Errors: only GT_ENOMEM; *out is then empty.
 * Source: NVML API reference, docs.nvidia.com/deploy/nvml-api.
 */
int gt_gpus_read(struct gt_gpus *out, const char *library, struct gt_err *err);

/* Free the memory of gt_gpus_read(). The struct is empty afterwards. */
void gt_gpus_release(struct gt_gpus *gpus);

#endif
