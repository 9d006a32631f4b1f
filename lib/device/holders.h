/* holders.h - who holds the memory of a GPU. */
#ifndef GT_DEVICE_HOLDERS_H
#define GT_DEVICE_HOLDERS_H

#include <stddef.h>

/*
 * The processes with memory on cuda:index, those with most of it first, as NVML and /proc name
 * them: "process 4711 (python3) 60 GiB, process 12 2 GiB and 3 more", written to `text`; ""
 * where there is none but this one, or the driver does not say. Environment: GTRAIN_NVML,
 * CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, as for gt_probe_read().
 */
void gt_holders_read(char *text, size_t size, int index);

#endif
