/* holders.h - list the other processes that hold memory on a GPU. */
#ifndef GT_DEVICE_HOLDERS_H
#define GT_DEVICE_HOLDERS_H

#include <stddef.h>

/*
 * Write to text[size] a list of the other processes that hold memory on the GPU cuda:`index`. The
 * process that holds most memory is first. At most three processes are listed; others are counted:
 *
 *   "process 4711 (python3) 60 GiB, process 12 2 GiB, process 99 and 3 more"
 *
 * Process ids and amounts of memory come from NVML, and names of processes from /proc. A name or an
 * amount that is not known is left out. The text is "" if there is no other process, or if the
 * driver does not list processes.
 *
 * Environment variables: GTRAIN_NVML is the path of the NVML library. CUDA_VISIBLE_DEVICES and
 * CUDA_DEVICE_ORDER determine which GPU has which index (visible.h).
 */
void gt_holders_read(char *text, size_t size, int index);

#endif
