/* nvml.h - facts about GPUs from the NVIDIA driver, whose library is opened at run time. */
#ifndef GT_DEVICE_NVML_H
#define GT_DEVICE_NVML_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/device/maybe.h"

#define GT_GPU_TEXT_SIZE    96 /* NVML's own limit on names and UUIDs */
#define GT_GPU_PROCESS_NAME 32

/* A process with memory on a GPU. */
struct gt_gpu_process {
	unsigned pid;                   /* the pid on the host, also inside a container */
	struct gt_maybe memory_bytes;   /* unknown to users without permission, and with MIG */
	char name[GT_GPU_PROCESS_NAME]; /* "" unless filled in: gt_probe_read() does */
};

/* Text fields are "" where unknown. */
struct gt_gpu {
	int index;   /* physical: NVML's and nvidia-smi's, in order of the PCI bus id */
	int logical; /* N of "cuda:N"; -1 if CUDA_VISIBLE_DEVICES hides it (lib/device/visible.h) */
	int logical_mig; /* index into mig_uuid of the one instance that cuda:0 is; -1 for all */
	char name[GT_GPU_TEXT_SIZE];
	char uuid[GT_GPU_TEXT_SIZE];
	char pci_bus_id[32];
	struct gt_maybe capability; /* 10 * major + minor: 90 is 9.0 */
	struct gt_maybe memory_total_bytes, memory_used_bytes, memory_free_bytes;
	/* part of the time since the last sample in which a kernel ran */
	struct gt_maybe utilization_percent;
	struct gt_maybe temperature_c;
	struct gt_maybe power_mw, power_limit_mw;
	struct gt_maybe clock_sm_mhz, clock_sm_max_mhz, clock_memory_mhz, clock_memory_max_mhz;
	struct gt_maybe ecc; /* 1: memory has error correction, 0: it is off */
	/* memory errors since the driver was loaded that could not be corrected */
	struct gt_maybe ecc_errors;
	struct gt_gpu_process *process; /* [process_count], by pid */
	size_t process_count;
	bool processes_known;               /* false: the driver does not say */
	struct gt_maybe mig;                /* 1: split into instances, 0: whole */
	char (*mig_uuid)[GT_GPU_TEXT_SIZE]; /* [mig_count] */
	size_t mig_count;
	char problem[80]; /* why no figures are known: "the GPU is lost", ... */
};

/* Why there are GPUs, or none. */
enum gt_nvml_state {
	GT_NVML_OK,            /* at least one GPU */
	GT_NVML_NO_LIBRARY,    /* no driver is installed */
	GT_NVML_BAD_LIBRARY,   /* the library exists, but cannot be used */
	GT_NVML_NO_DRIVER,     /* a driver is installed, but the kernel module is not loaded */
	GT_NVML_MISMATCH,      /* library and kernel module are of different versions */
	GT_NVML_NO_PERMISSION, /* this user may not open the devices */
	GT_NVML_NO_GPU,        /* all is well but there is no GPU */
	GT_NVML_FAILED         /* anything else; the reason holds NVML's number */
};

struct gt_gpus {
	enum gt_nvml_state state;
	char reason[240];             /* plain words for `state`; "" when GT_NVML_OK */
	char driver[80];              /* "580.65.06" */
	struct gt_maybe cuda_version; /* newest CUDA the driver runs: 13000 is 13.0 */
	bool cuda_missing;  /* NVML is there, libcuda.so.1 is not: a container without "compute" */
	struct gt_gpu *gpu; /* [count] */
	size_t count;
};

/*
 * Ask NVML about every GPU. `library` is the path or soname to open, NULL or "" for the usual
 * "libnvidia-ml.so.1". A missing driver, GPU, function or figure is not an error: it is reported in
 * `state` and `reason`, or as an unknown gt_maybe. `logical` is set as if CUDA_VISIBLE_DEVICES were
 * unset.
 *
 * Errors: only GT_ENOMEM; *out is then empty.
 * Source: NVML API reference, docs.nvidia.com/deploy/nvml-api.
 */
int gt_gpus_read(struct gt_gpus *out, const char *library, struct gt_err *err);

/* Free the memory of gt_gpus_read(); the struct is empty afterwards. */
void gt_gpus_release(struct gt_gpus *gpus);

#endif
