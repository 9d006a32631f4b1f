/* arrays.h - private: samples from two numpy arrays, inputs and targets. */
#ifndef GT_DATA_TABLE_ARRAYS_H
#define GT_DATA_TABLE_ARRAYS_H

#include "lib/ckpt/ckpt.h"
#include "lib/data/core/source.h"

enum { GT_ARRAYS_MAX_DIMS = 4 };

/*
 * Two arrays, one with inputs and one with targets. Sample i is row i of both arrays.
 *
 *   inputs [n] or [n, features]                      features of any integer or real type
 *   inputs [n, height, width]                        gray images, uint8
 *   inputs [n, height, width, channels]              images, uint8, channels last
 *   inputs [n, channels, height, width]              images, uint8, channels first
 *   targets [n] or [n, 1]                            classes, or numbers for regression
 *   targets [n, labels]                              labels: 1 for those that hold, 0 for others
 *
 * Inputs are not copied: each sample is converted when it is read, so a file may be larger than
 * memory. Targets are copied, because gt_arrays_take() has to read all of them: the number of
 * classes is the largest target plus 1.
 */
struct gt_arrays {
	struct gt_source source;
	/* The open files. If both arrays are in one npz file, both pointers are equal. */
	struct gt_ckpt *inputs_file, *targets_file;
	struct gt_tree_tensor inputs; /* [n, ...]; its shape and stride are the next two arrays */
	int64_t shape[GT_ARRAYS_MAX_DIMS], stride[GT_ARRAYS_MAX_DIMS];
	/* For messages: the names of the two arrays, and of the npz file that has them (`archive`).
	 * For npy files, the names are those of the files, and `archive` is NULL. */
	const char *inputs_name, *targets_name, *archive;
	/* The arrays of a network with several inputs, by the fields of the request, and then of
	 * the data; NULL: there is none. If the first field is an image, `inputs` is its array. */
	const struct gt_tree_tensor *fields[GT_MAX_FIELDS];
	const char *field_names[GT_MAX_FIELDS];
	/* [n, info.targets] classes; of numbers and labels, the bits of float32 numbers */
	int32_t *targets;
};

extern const struct gt_source_ops gt_arrays_ops;

/* Set the inputs, targets and info of `a` from two arrays of its open files. The caller has set the
 * files and the names of the arrays. The spec gives the settings task, layout, mean and std.
 * request->like describes the training data; NULL: unknown. Errors: GT_EINVAL, GT_EFORMAT,
 * GT_ENOMEM. */
int gt_arrays_take(struct gt_arrays *a, const struct gt_tree_tensor *inputs,
    const struct gt_tree_tensor *targets, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

/* Set the inputs of `a` from an array. */
int gt_arrays_take_inputs(struct gt_arrays *a, const struct gt_tree_tensor *t, int layout,
    const struct gt_data_request *request, struct gt_err *err);

/* Return whether elements are integers or bools, which gt_ckpt_tensor_read() gives as integers. */
bool gt_arrays_is_whole(enum gt_dtype type);

/* Set an error: array `name` "of float32 [8, 3] ...". Return its code. */
int gt_arrays_fail_shape(
    const char *name, const struct gt_tree_tensor *t, const char *why, struct gt_err *err);

/* ---- array_fields.c: networks with several inputs ---- */

/* Set the inputs of `a` from a->fields. */
int gt_arrays_take_fields(
    struct gt_arrays *a, int layout, const struct gt_data_request *request, struct gt_err *err);

/* Read the fields of a sample from `first` on. */
int gt_arrays_read_fields(
    const struct gt_arrays *a, int first, int64_t index, char *input, struct gt_err *err);

#endif
