/* visible.h - inside device: number GPUs as CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER do. */
#ifndef GT_DEVICE_VISIBLE_H
#define GT_DEVICE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/device/nvml.h"

/*
 * Number the GPUs as CUDA would under CUDA_VISIBLE_DEVICES=`value`: sets `logical` (and
 * `logical_mig`) of each of the `count` GPUs, -1 for the hidden ones.
 *
 *   unset (NULL)        all, in order
 *   ""                  none
 *   "2,1"               GPU 2 is cuda:0, GPU 1 is cuda:1; digits as strtoul takes them
 *   "GPU-8932f937,0"    the GPU whose UUID alone begins so, then GPU 0
 *   "MIG-..."           one instance of a GPU, by its UUID; nothing else is then visible
 *   "0,-1,1"            the list ends at the first entry that is no GPU here: only GPU 0
 *   "0,1,0"             a GPU twice makes the whole list void: none
 *
 * `note` receives one line on an oddity of the list, "" if there is none.
 *
 * Returns the number of visible devices.
 * Source: CUDA Programming Guide, "CUDA Environment Variables". That digits are read as strtoul
 * does and that a repeated entry voids the list is not written there; PyTorch's
 * torch.cuda.device_count() follows the driver in both.
 */
size_t gt_visible_apply(
    struct gt_gpu *gpus, size_t count, const char *value, char *note, size_t note_size);

/*
 * Whether the numbers above may differ from CUDA's: by default (CUDA_DEVICE_ORDER unset or
 * FASTEST_FIRST) CUDA puts the fastest GPU first, by an unpublished rule, while NVML orders GPUs by
 * PCI bus id. They agree for GPUs of one model, and for those that the list names by UUID.
 *
 * `value` is that of CUDA_VISIBLE_DEVICES, `order` that of CUDA_DEVICE_ORDER; NULL is unset.
 */
bool gt_visible_order_unsure(
    const struct gt_gpu *gpus, size_t count, const char *value, const char *order);

#endif
