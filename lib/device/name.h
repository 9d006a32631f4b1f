/* name.h - device names as PyTorch writes them: "cpu", "cuda", "cuda:1", and lists of them. */
#ifndef GT_DEVICE_NAME_H
#define GT_DEVICE_NAME_H

#include <stddef.h>

#include "lib/base/err.h"

enum gt_device_type { GT_DEVICE_CPU, GT_DEVICE_CUDA };

/* One device. The index is logical: it counts the GPUs that CUDA_VISIBLE_DEVICES leaves. */
struct gt_device_name {
	enum gt_device_type type;
	int index; /* 0 for the CPU, of which there is one */
};

#define GT_DEVICE_INDEX_MAX 1023 /* larger numbers are taken for typing mistakes */

/* Room for any name that gt_device_name_format() writes. */
#define GT_DEVICE_NAME_SIZE 16

/*
 * Parse one name: "cpu", "cuda" (the first GPU, cuda:0) or "cuda:N".
 * Says nothing about whether the device exists.
 *
 * Errors: GT_EINVAL, with the accepted spellings as the hint.
 */
int gt_device_name_parse(struct gt_device_name *out, const char *text, struct gt_err *err);

/*
 * Parse a list: "cuda:0,cuda:2", or shorter "cuda:0,2": a bare number takes the type of the name
 * before it. The order is kept, it decides which rank runs where.
 *
 *   *out  [*count]  yours to free(); NULL on failure
 *
 * Errors: GT_EINVAL for an empty list or element, a name that is none, the same device twice, or
 * the CPU together with GPUs; GT_ENOMEM.
 */
int gt_device_name_parse_list(
    struct gt_device_name **out, size_t *count, const char *text, struct gt_err *err);

/* Write the one spelling of a device: "cpu" or "cuda:N". Returns `buffer`. */
const char *gt_device_name_format(
    char buffer[GT_DEVICE_NAME_SIZE], const struct gt_device_name *name);

#endif
