/* probe.h - the devices of this machine: the CPU, the GPUs, the backends. */
#ifndef GT_DEVICE_PROBE_H
#define GT_DEVICE_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/device/cpu.h"
#include "lib/device/nvml.h"

/* Bytes for the text of a gt_err, and its hint in brackets. */
enum { GT_REASON_SIZE = 968 };

/* The libraries the CPU backend computes with. */
struct gt_cpu_math {
	char onednn[32];             /* version: "2.6.3"; "" if it cannot be opened */
	char reason[GT_REASON_SIZE]; /* why it cannot be opened, and the remedy; "" if it can */
	const char *isa;             /* the widest instructions oneDNN will use, "" if none */
	int openmp_threads;          /* threads that a parallel region starts */
};

/* Opens oneDNN. Part of the CPU backend, as gt_cpu_backend is: kernels/cpu/math.c. */
void gt_cpu_math_read(struct gt_cpu_math *out);

enum { GT_PROBE_BACKENDS = 2 };

/* A backend of this build. `reason` says why it is not available, "" if it is. */
struct gt_backend_status {
	const char *name;
	bool available;
	char reason[GT_REASON_SIZE];
};

struct gt_probe {
	struct gt_cpu cpu;
	struct gt_cpu_math math;
	struct gt_gpus gpus;
	char *visible_devices; /* CUDA_VISIBLE_DEVICES; NULL if unset */
	size_t visible;        /* GPUs that have a logical number */
	bool cuda_available;   /* a driver that runs CUDA, and at least one visible GPU */
	char reason[240];      /* why cuda_available is false, "" if it is true */
	char note[240];        /* an oddity of CUDA_VISIBLE_DEVICES, "" if there is none */
	bool driver_old;       /* the reason: it cannot run the code of this build */
	bool order_unsure;     /* cuda:N may be another GPU: see gt_visible_order_unsure() */
	struct gt_backend_status backend[GT_PROBE_BACKENDS];
};

/* The sources of the probe; all may be NULL. */
struct gt_probe_options {
	const char *root;            /* prefix of /proc and /sys; NULL: the real ones */
	const char *nvml_library;    /* NULL: libnvidia-ml.so.1 */
	const char *visible_devices; /* value of CUDA_VISIBLE_DEVICES, NULL: unset */
	const char *device_order;    /* value of CUDA_DEVICE_ORDER, NULL: unset */
	int toolkit; /* CUDA's toolkit of this build, 12040 is 12.4; 0: the one it was built with */
};

/* The toolkit that kernels/cuda/ was compiled with. Its address is NULL in builds without. */
extern const int gt_cuda_toolkit __attribute__((weak));

/*
 * Probe all devices. A machine without GPUs or driver is not an error; `reason` describes it.
 *
 * Errors: GT_ENOMEM; *out is then empty. Release with gt_probe_release().
 */
int gt_probe_read(struct gt_probe *out, const struct gt_probe_options *options, struct gt_err *err);
void gt_probe_release(struct gt_probe *probe);

#endif
