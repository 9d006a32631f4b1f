/* holders.h - list the processes that hold memory on a GPU. */
#ifndef GT_DEVICE_HOLDERS_H
#define GT_DEVICE_HOLDERS_H

#include <stddef.h>

/*
 * Write to `text` the processes that hold memory on cuda:index, the largest first, with the names
 * of NVML and /proc: "process 4711 (python3) 60 GiB, process 12 2 GiB and 3 more". "" if there is
 * no other process, or the driver does not tell. Environment: GTRAIN_NVML,
 * CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER, as for gt_probe_read().
 */
void gt_holders_read(char *text, size_t size, int index);

#endif
