/* devices.h - private: the table of known devices. */
#ifndef GT_PLAN_DEVICES_H
#define GT_PLAN_DEVICES_H

#include "lib/plan/cluster.h"

enum gt_link_kind { GT_NVLINK, GT_PCIE, GT_NETWORK, GT_SHARED_MEMORY, GT_LINK_KINDS };

/* A GPU: peaks in FLOP/s, memory and L2 in bytes, rates in bytes/s. */
struct gt_known_device {
	const char *name;
	double f32, tf32, half, f64;
	double memory_bytes, memory_per_s, cache_bytes;
	enum gt_link_kind link;
	double link_per_s, network_per_s;
};

/* Ended by the name NULL. */
extern const struct gt_known_device gt_known_devices[];
extern const struct gt_cluster_link gt_known_links[GT_LINK_KINDS];

/* Return a device by its name, in upper or lower case, or NULL. */
const struct gt_known_device *gt_known_device(const char *name);

/* Return the device that a driver describes, and which has about so much memory, or NULL. */
const struct gt_known_device *gt_known_device_described(
    const char *description, double memory_bytes);

#endif
