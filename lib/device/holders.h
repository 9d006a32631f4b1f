/* holders.h - list the other processes that hold memory on a GPU. */
#ifndef GT_DEVICE_HOLDERS_H
#define GT_DEVICE_HOLDERS_H

#include <stddef.h>

/* List the other processes that hold memory on cuda:`index`, as NVML (GTRAIN_NVML is its path) and
 * /proc know them, three at most, the one with most memory first: "process 4711 (python3) 60 GiB,
 * process 12 2 GiB, process 99 and 3 more". The text is "" if none are known. */
void gt_holders_read(char *text, size_t size, int index);

#endif
