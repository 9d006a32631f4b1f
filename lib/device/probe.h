/* probe.h - find the devices of this machine and the backends that can use them. */
#ifndef GT_DEVICE_PROBE_H
#define GT_DEVICE_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/device/cpu.h"
#include "lib/device/nvml.h"

/* The size, in bytes, of a buffer for the text of a struct gt_err, followed by its hint in
 * parentheses. */
enum { GT_REASON_SIZE = 968 };

/* The libraries with which the CPU backend computes. */
struct gt_cpu_math {
	char onednn[32];  /* version of oneDNN: "2.6.3"; "" if oneDNN cannot be opened */
	char reason[480]; /* why oneDNN cannot be opened; "" if it can be opened */
	char hint[480];   /* how to solve that problem */
	/* the widest vector instructions that oneDNN uses: "AVX512"; "" if it cannot be opened */
	const char *isa;
	int openmp_threads; /* number of threads in a parallel region of OpenMP */
};

/* Open oneDNN and read these facts. This function belongs to the CPU backend: it is in
 * kernels/cpu/math.c. */
void gt_cpu_math_read(struct gt_cpu_math *out);

/* NVRTC, which compiles expressions for GPUs at run time. */
struct gt_nvrtc_status {
	int version;      /* 13000 is 13.0; 0: it cannot be opened, or no GPU is available */
	char reason[480]; /* why it cannot be opened; "" if it can, or if no GPU is available */
	char hint[480];   /* how to solve that problem */
};

/* Number of backends: the CPU backend and the CUDA backend. */
enum { GT_PROBE_BACKENDS = 2 };

/* One of the two backends. */
struct gt_backend_status {
	const char *name; /* "cpu" or "cuda" */
	bool available;   /* this build has the backend, and it can compute on this machine */
	char reason[GT_REASON_SIZE]; /* why the backend is not available; "" if it is */
};

/* The result of a probe. */
struct gt_probe {
	struct gt_cpu cpu;
	struct gt_cpu_math math;
	struct gt_gpus gpus;
	char *visible_devices; /* value of CUDA_VISIBLE_DEVICES; NULL: unset */
	size_t visible;        /* number of GPUs that CUDA can see: cuda:0 to cuda:visible-1 */
	bool cuda_available;   /* the driver runs CUDA, and at least one GPU is visible */
	char reason[240];      /* why cuda_available is false; "" if it is true */
	char note[240]; /* a problem in CUDA_VISIBLE_DEVICES, one line; "" if there is none */
	struct gt_nvrtc_status nvrtc;
	bool driver_old; /* the driver is too old to run the CUDA code of this build */
	/* gt_gpu.logical, the number N of cuda:N, may be wrong: CUDA_DEVICE_ORDER may make CUDA
	 * number the GPUs in another order than NVML (gt_visible_order_unsure() in visible.h) */
	bool order_unsure;
	struct gt_backend_status backend[GT_PROBE_BACKENDS]; /* the CPU, then CUDA */
};

/* The sources of the probe. Every pointer may be NULL. */
struct gt_probe_options {
	const char *root;            /* prefix for the paths /proc and /sys; NULL: no prefix */
	const char *nvml_library;    /* path or soname; NULL: libnvidia-ml.so.1 */
	const char *visible_devices; /* value of CUDA_VISIBLE_DEVICES; NULL: unset */
	const char *device_order;    /* value of CUDA_DEVICE_ORDER; NULL: unset */
	/* version of the CUDA toolkit that the driver must support: 12040 is 12.4; 0: the version
	 * that this program was built with */
	int toolkit;
};

/* Return the version of the oldest driver that runs programs compiled by this CUDA toolkit: for
 * example, "525.60.13" for `toolkit` 12040 (CUDA 12.4). NULL: not known. */
const char *gt_cuda_oldest_driver(int toolkit);

/* The version of the CUDA toolkit that compiled kernels/cuda/: 12040 is 12.4. In a build without
 * CUDA the address of this variable is NULL. */
extern const int gt_cuda_toolkit __attribute__((weak));

/* The lowest compute capability, 10 * major + minor, for which this build has kernels. In a build
 * without CUDA the address of this variable is NULL. */
extern const int gt_cuda_oldest_gpu __attribute__((weak));

/*
 * Probe all devices. If there is no GPU or no driver, that is not an error: `reason` describes it.
 * Release *out with gt_probe_release().
 *
 * Errors: GT_ENOMEM; *out is then empty.
 */
int gt_probe_read(struct gt_probe *out, const struct gt_probe_options *options, struct gt_err *err);
void gt_probe_release(struct gt_probe *probe);

#endif
