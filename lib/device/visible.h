/* visible.h - private: find the GPU behind each cuda:N, from CUDA_VISIBLE_DEVICES. */
#ifndef GT_DEVICE_VISIBLE_H
#define GT_DEVICE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/device/nvml.h"

/*
 * Number the GPUs as CUDA does if CUDA_VISIBLE_DEVICES has the value `value`. In each GPU of
 * gpus[count], set `logical` and `logical_mig` (nvml.h). `logical` is the number N of the GPU's
 * name cuda:N. If cuda:N is only one MIG instance of the GPU, `logical_mig` is the index of this
 * instance, otherwise -1. Both are -1 for a hidden GPU.
 *
 *   value               visible GPUs
 *   NULL (unset)        all GPUs, in order
 *   ""                  none
 *   "2,1"               GPU 2 is cuda:0, GPU 1 is cuda:1
 *   "1gpu"              GPU 1: numbers are parsed as by strtoul()
 *   "GPU-8932f937,0"    the only GPU with a UUID that begins with this text, then GPU 0
 *   "MIG-..."           the MIG instance with this UUID, and no other device
 *   "0,-1,1"            only GPU 0: the list ends at the first entry that is not a GPU here
 *   "0,1,0"             none: a list with the same GPU twice is invalid
 *
 * note[note_size] receives one line about a problem in the list, or "" if there is none. Return the
 * number of visible devices.
 *
 * Source: CUDA Programming Guide, "CUDA Environment Variables". The guide does not say how numbers
 * are parsed, nor that a list with the same GPU twice is invalid. In both cases this function
 * behaves like the driver and like PyTorch's torch.cuda.device_count().
 */
size_t gt_visible_apply(
    struct gt_gpu *gpus, size_t count, const char *value, char *note, size_t note_size);

/*
 * Return true if the numbers of gt_visible_apply() may differ from CUDA's. NVML orders GPUs by PCI
 * bus id. CUDA does so only if CUDA_DEVICE_ORDER is PCI_BUS_ID. By default (unset or FASTEST_FIRST)
 * CUDA puts the fastest GPU first, and its rule for this order is not published. The numbers are
 * the same if all GPUs are of one model, or if CUDA_VISIBLE_DEVICES names all its GPUs by UUID.
 *
 * `value` is the value of CUDA_VISIBLE_DEVICES, and `order` the value of CUDA_DEVICE_ORDER. NULL
 * means unset.
 */
bool gt_visible_order_unsure(
    const struct gt_gpu *gpus, size_t count, const char *value, const char *order);

#endif
