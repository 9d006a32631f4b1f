/* visible.h - private: find the GPU behind each cuda:N, from CUDA_VISIBLE_DEVICES. */
#ifndef GT_DEVICE_VISIBLE_H
#define GT_DEVICE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/device/nvml.h"

/* Set `logical` and `logical_mig` (nvml.h) of each GPU as CUDA does for this value of
 * CUDA_VISIBLE_DEVICES (NULL: unset). `note` gets a line about a problem in the list, or "".
 * Returns the number of visible devices. */
size_t gt_visible_apply(
    struct gt_gpu *gpus, size_t count, const char *value, char *note, size_t note_size);

/* Return whether these numbers may differ from CUDA's, whose default order (CUDA_DEVICE_ORDER other
 * than PCI_BUS_ID) is not known: if GPUs are of several models and not all named by UUID. */
bool gt_visible_order_unsure(
    const struct gt_gpu *gpus, size_t count, const char *value, const char *order);

#endif
