/* cuda_driver.h - ask CUDA's own library, the driver's libcuda, whether it can be used. */
#ifndef GT_DEVICE_CUDA_DRIVER_H
#define GT_DEVICE_CUDA_DRIVER_H

#include <stdbool.h>

enum { GT_CUDA_REASON = 160 }; /* bytes */

/* The answer of CUDA. NVML may list GPUs that CUDA cannot use. */
struct gt_cuda_driver {
	bool asked;
	bool missing;                /* the library cannot be opened, or lacks a function */
	int error;                   /* CUDA's number of its error; 0: none */
	char reason[GT_CUDA_REASON]; /* the words of CUDA or of the system; "" without an error */
	int devices;                 /* number of devices that this process can use */
};

/* Open libcuda.so.1, start CUDA, and count its devices. The library stays open: CUDA has threads of
 * its own then. A build without the CUDA backend can ask, too. */
void gt_cuda_driver_ask(struct gt_cuda_driver *out);

#endif
