/* cuda_driver.h - ask CUDA's own library, the driver's libcuda, whether it can be used. */
#ifndef GT_DEVICE_CUDA_DRIVER_H
#define GT_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>

enum { GT_CUDA_REASON = 160 }; /* bytes */

/* CUDA's answer: NVML may list GPUs that CUDA cannot use. */
struct gt_cuda_driver {
	bool asked;
	bool missing;                /* no library, or a function is missing */
	int error;                   /* CUDA's number, or 0 */
	char reason[GT_CUDA_REASON]; /* text of CUDA or the system, or "" */
	int devices;                 /* number of devices that this process can use */
};

/* Start CUDA by libcuda.so.1, which stays open, and count its devices. Any build can ask. */
void gt_cuda_driver_ask(struct gt_cuda_driver *out);

#endif
