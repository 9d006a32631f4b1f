/* known.h - the table of known GPUs: published peaks, memory and links. */
#ifndef GT_DEVICE_KNOWN_H
#define GT_DEVICE_KNOWN_H

#include <stdbool.h>

#include "lib/device/dtype.h"

/* How ranks reach each other. */
enum gt_link_kind { GT_NVLINK, GT_PCIE, GT_NETWORK, GT_SHARED_MEMORY, GT_LINK_KINDS };

/* A GPU: peaks in FLOP/s, memory in bytes, rates in bytes/s. */
struct gt_known_device {
	const char *name;
	double f32, tf32, half, f64;
	double memory_bytes, memory_per_s;
	enum gt_link_kind link;
	double link_per_s, network_per_s;
};

/* The GPUs, ended by the name NULL. */
extern const struct gt_known_device gt_known_devices[];

/* Return a device by its name, in upper or lower case, or NULL. */
const struct gt_known_device *gt_known_device(const char *name);

/* Return the device that a driver describes, and which has about so much memory, or NULL. */
const struct gt_known_device *gt_known_device_described(
    const char *description, double memory_bytes);

/* Return the peak of matrix products of a type in FLOP/s, or 0 if it is not known. With `tf32`,
 * factors of float32 products are rounded to TF32. */
double gt_known_device_peak(const struct gt_known_device *device, enum gt_dtype dtype, bool tf32);

/* For GPUs that the table lacks: return the FLOP of a multiprocessor of a compute capability in a
 * cycle, or 0 if they are not known. At the highest clock this gives up to 9 % more than published
 * peaks, which are those of a lower clock. */
double gt_multiprocessor_peak(int major, int minor, enum gt_dtype dtype, bool tf32);

#endif
