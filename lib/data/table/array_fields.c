/* array_fields.c - numpy's arrays as the inputs of a network that takes several. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/mem.h"
#include "lib/data/core/fields.h"
#include "lib/data/table/arrays.h"

/* ---- reading samples ---- */

/* Read whole numbers as float32; of truth values, as 0 and 1. */
static int read_whole(
    const struct gt_tree_tensor *sample, int64_t count, bool truth, char *out, struct gt_err *err)
{
	int64_t *whole = gt_calloc((size_t)count, sizeof(*whole), err);
	int rc = whole ? gt_ckpt_tensor_read(sample, GT_I64, whole, err) : GT_ENOMEM;

	for (int64_t i = 0; !rc && i < count; i++) {
		float real = truth ? whole[i] != 0 : (float)whole[i];

		memcpy(out + (size_t)i * sizeof(real), &real, sizeof(real));
	}
	free(whole);
	return rc;
}

static int check_finite(const char *values, int64_t count, struct gt_err *err)
{
	for (int64_t i = 0; i < count; i++) {
		float real;

		memcpy(&real, values + (size_t)i * sizeof(real), sizeof(real));
		if (!isfinite(real))
			return gt_err_set(
			    err, GT_EFORMAT, "value %lld is %g", (long long)i, (double)real);
	}
	return 0;
}

static int read_field(const struct gt_arrays *a, const struct gt_sample_field *f, int i,
    int64_t index, char *out, struct gt_err *err)
{
	struct gt_tree_tensor sample = *a->fields[i];
	bool real = gt_dtype_is_real(sample.dtype);
	int rc;

	sample.offset += index * sample.stride[0];
	sample.ndim--;
	sample.shape++;
	sample.stride++;
	if (!real && f->type != GT_FIELD_INT)
		rc = read_whole(&sample, gt_field_values(f), f->type == GT_FIELD_BOOL, out, err);
	else
		rc = gt_ckpt_tensor_read(&sample, real ? GT_F32 : GT_I32, out, err);
	if (rc == GT_EINVAL) /* a number beyond int32 is the file's fault, not an option's */
		rc = err->code = GT_EFORMAT;
	if (!rc && real)
		rc = check_finite(out, gt_field_values(f), err);
	return rc ? gt_err_prefix(err, "'%s': sample %lld", a->field_names[i], (long long)index)
	          : 0;
}

int gt_arrays_read_fields(
    const struct gt_arrays *a, int first, int64_t index, char *input, struct gt_err *err)
{
	const struct gt_sample_form *form = &a->source.info.form;
	int rc = 0;

	for (int i = first; i < form->field_count && !rc; i++)
		rc = read_field(
		    a, &form->fields[i], i, index, input + gt_sample_field_at(form, i), err);
	return rc;
}

/* ---- opening ---- */

/* Arrays of bytes are images for an input of [channels, height, width]. */
static bool is_image(const struct gt_sample_field *wanted, const struct gt_tree_tensor *t)
{
	return t->dtype == GT_U8 && t->ndim > 2 && wanted->type == GT_FIELD_FLOAT &&
	       wanted->ndim == 3;
}

static int take_image(struct gt_arrays *a, const struct gt_sample_field *wanted, int layout,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_sample_form *form = &a->source.info.form;
	int rc = gt_arrays_take_inputs(a, a->fields[0], layout, request, err);

	form->fields[0] = *wanted;
	form->fields[0].type = GT_FIELD_PIXELS;
	form->fields[0].open = 0;
	form->fields[0].shape[0] = form->height;
	form->fields[0].shape[1] = form->width;
	form->fields[0].shape[2] = form->channels;
	return rc;
}

static int check_type(const char *name, const struct gt_sample_field *wanted,
    const struct gt_tree_tensor *t, struct gt_err *err)
{
	bool whole = gt_arrays_is_whole(t->dtype);

	if (whole || (wanted->type == GT_FIELD_FLOAT && gt_dtype_is_real(t->dtype)))
		return 0;
	return gt_arrays_fail_shape(name, t,
	    wanted->type == GT_FIELD_FLOAT ? "has no numbers"
	                                   : "has no whole numbers, which the network takes there",
	    err);
}

static int take_field(struct gt_arrays *a, const struct gt_sample_field *wanted, int i,
    const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &a->source.info;
	const struct gt_tree_tensor *t = a->fields[i];
	const char *name = a->field_names[i];
	int rc;

	if (t->ndim < 1 || t->shape[0] < 1)
		return gt_arrays_fail_shape(name, t, "has no samples", err);
	if (i && t->shape[0] != info->samples)
		return gt_err_set(err, GT_EFORMAT, "%lld samples in '%s', but %lld in '%s'",
		    (long long)info->samples, a->field_names[0], (long long)t->shape[0], name);
	rc = check_type(name, wanted, t, err);
	if (!rc && !t->storage->map)
		rc =
		    gt_data_check_memory(request, t->storage->size_bytes, "an inflated array", err);
	if (!rc)
		rc = gt_field_take_shape(
		    &info->form.fields[i], wanted, t->ndim - 1, t->shape + 1, name, err);
	info->samples = a->source.length = t->shape[0];
	return rc;
}

/* Leave out the fields that the file lacks. */
static int close_gaps(struct gt_arrays *a, const struct gt_data_request *request,
    struct gt_sample_field *wanted, struct gt_err *err)
{
	int count = 0;

	for (int i = 0; i < request->form.field_count; i++) {
		if (!a->fields[i] && gt_field_may_lack(&request->form.fields[i]))
			continue;
		if (!a->fields[i]) {
			gt_err_set(err, GT_EFORMAT, "there is no array for the input '%s'",
			    request->form.fields[i].name);
			return gt_fields_hint(
			    request, "npz data give them by arrays of these names", err);
		}
		a->fields[count] = a->fields[i];
		a->field_names[count] = a->field_names[i];
		wanted[count++] = request->form.fields[i];
	}
	a->source.info.form.field_count = count;
	return 0;
}

/* A scale of columns has no meaning for arrays that are divided in another way. */
static int check_scale(const struct gt_data_description *like, struct gt_err *err)
{
	if (!like || !like->column_count)
		return 0;
	return gt_err_set(err, GT_EINVAL,
	    "the model was trained on the columns of a table, and arrays have no columns");
}

int gt_arrays_take_fields(
    struct gt_arrays *a, int layout, const struct gt_data_request *request, struct gt_err *err)
{
	struct gt_data_info *info = &a->source.info;
	struct gt_sample_field wanted[GT_MAX_FIELDS];
	int rc = check_scale(request->like, err);

	if (!rc)
		rc = close_gaps(a, request, wanted, err);
	if (rc)
		return rc;
	info->form.kind = GT_SAMPLE_VECTOR;
	info->targets = 1;
	for (int i = 0; i < info->form.field_count && !rc; i++)
		rc = !i && is_image(wanted, a->fields[0])
		         ? take_image(a, wanted, layout, request, err)
		         : take_field(a, &wanted[i], i, request, err);
	return rc ? rc : gt_fields_finish(info, err);
}
