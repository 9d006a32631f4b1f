/* arrays.h - inside data: samples in two of numpy's arrays. */
#ifndef GT_DATA_ARRAYS_H
#define GT_DATA_ARRAYS_H

#include "lib/ckpt/ckpt.h"
#include "lib/data/source.h"

enum { GT_ARRAYS_MAX_DIMS = 4 };

/*
 * The first dimension of both arrays counts samples. Inputs of one or two dimensions are features;
 * inputs of three dimensions are grey images [n, height, width]; inputs of four dimensions are
 * images with channels last or first. Inputs are not copied: each sample is converted when it is
 * read, so a file may be larger than memory. Targets are copied, because the largest one has to be
 * known.
 */
struct gt_arrays {
	struct gt_source source;
	struct gt_ckpt *inputs_file, *targets_file; /* the same file for npz */
	struct gt_tree_tensor inputs;               /* [n, ...]: shape and stride are these: */
	int64_t shape[GT_ARRAYS_MAX_DIMS], stride[GT_ARRAYS_MAX_DIMS];
	const char *inputs_name, *targets_name; /* for messages */
	int32_t *targets;                       /* [n]; for regression the bits of a float32 */
};

extern const struct gt_source_ops gt_arrays_ops;

/* Take the samples of two arrays of the open files, whose names are set, by the settings of the
 * spec: task, layout, mean, std. Errors: GT_EINVAL, GT_EFORMAT, GT_ENOMEM. */
int gt_arrays_take(struct gt_arrays *a, const struct gt_tree_tensor *inputs,
    const struct gt_tree_tensor *targets, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

#endif
