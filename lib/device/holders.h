/* holders.h - list the other processes that hold memory on a GPU. */
#ifndef GT_DEVICE_HOLDERS_H
#define GT_DEVICE_HOLDERS_H

#include <stddef.h>

/*
 * Write to text[size] a list of the other processes that hold memory on the GPU cuda:`index`. The
 * process with most memory is first, and at most three processes are listed:
 *
 *   "process 4711 (python3) 60 GiB, process 12 2 GiB, process 99 and 3 more"
 *
 * Process ids and memory come from NVML, and names from /proc. The name or the memory is left out
 * if it is not known. The text is "" if there is no other process, or if the driver does not list
 * processes.
 *
 * Environment variables: GTRAIN_NVML is the path of the NVML library. CUDA_VISIBLE_DEVICES and
 * CUDA_DEVICE_ORDER number the GPUs (struct gt_probe_options).
 */
void gt_holders_read(char *text, size_t size, int index);

#endif
