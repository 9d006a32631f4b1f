/* form.c - the form of samples that no file describes. */
#include "lib/data/core/form.h"

#include <stdio.h>

#include "lib/base/err.h"
#include "lib/data/core/fields.h"
#include "lib/data/core/source.h"

/* INPUTS/CLASSES. */
static int parse_inputs_and_classes(
    struct gt_data_info *info, const struct gt_spec *spec, struct gt_err *err)
{
	const char *kind = spec->kind, *path = spec->path;
	char rest;

	if (sscanf(path, "%9d/%9d%c", &info->form.features, &info->form.classes, &rest) == 2 &&
	    info->form.features > 0 && info->form.classes > 0)
		return 0;
	gt_err_set(
	    err, GT_EINVAL, "data '%s:%s' is not of the form %s:INPUTS/CLASSES", kind, path, kind);
	return gt_err_hint(err,
	    "INPUTS is a number, as in %s:784/10; images come from %s alone, which takes the "
	    "shape of {model}",
	    kind, kind);
}

/* The inputs that the model takes. Open sizes are those of the example at its export. */
static int take_fields(struct gt_data_info *info, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	const struct gt_sample_form *wish = &request->form;
	struct gt_sample_form *form = &info->form;

	form->kind = GT_SAMPLE_VECTOR;
	form->classes = wish->classes;
	for (int i = 0; i < wish->field_count; i++) {
		struct gt_sample_field *f = &form->fields[form->field_count];

		if (gt_field_may_lack(&wish->fields[i]))
			continue;
		*f = wish->fields[i];
		f->open = 0;
		form->field_count++;
		for (int k = 0; k < f->ndim; k++)
			if (f->shape[k] < 1)
				return gt_err_set(err, GT_EINVAL,
				    "the shape of the %s data is not known", spec->kind);
	}
	if (form->classes > 0 && form->field_count)
		return gt_fields_finish(info, err);
	return gt_err_set(err, GT_EINVAL, "the shape of the %s data is not known", spec->kind);
}

/* The shape that the model takes. */
static int take_shape_of_model(struct gt_data_info *info, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	if (gt_fields_wanted(request) && !gt_sample_is_text(&request->form))
		return take_fields(info, spec, request, err);
	info->form.classes = request->form.classes;
	info->form.block = request->form.block;
	info->form.masks = request->form.masks;
	if (!info->form.block) {
		info->form.height = request->form.height;
		info->form.width = request->form.width;
		info->form.channels = request->form.channels;
		info->form.features = info->form.height ? 0 : request->form.features;
	}
	if (info->form.classes > 0 &&
	    (info->form.block > 0 || info->form.features > 0 ||
	        (info->form.height > 0 && info->form.width > 0 && info->form.channels > 0 &&
	            info->form.channels <= GT_MAX_CHANNELS)))
		return 0;
	if (info->form.block) {
		gt_err_set(
		    err, GT_EINVAL, "the vocabulary size of the %s data is not known", spec->kind);
		return gt_err_hint(err, "set it in {model}, for example gpt:vocab=256");
	}
	gt_err_set(err, GT_EINVAL, "the shape of the %s data is not known", spec->kind);
	return gt_err_hint(
	    err, "write %s:INPUTS/CLASSES, for example %s:784/10", spec->kind, spec->kind);
}

static void complete_form(struct gt_data_info *info)
{
	info->targets = 1;
	for (int i = 0; i < GT_MAX_CHANNELS; i++)
		info->form.std[i] = 1;
	if (info->form.field_count)
		return;
	if (info->form.block) {
		info->form.kind = GT_SAMPLE_TOKENS;
		info->targets = (size_t)info->form.block;
		info->input_bytes = info->targets * sizeof(int32_t);
	} else if (info->form.features) {
		info->form.kind = GT_SAMPLE_VECTOR;
		info->input_bytes = (size_t)info->form.features * sizeof(float);
	} else {
		info->form.kind = GT_SAMPLE_IMAGE;
		info->input_bytes =
		    (size_t)info->form.height * info->form.width * info->form.channels;
	}
}

int gt_form_choose(struct gt_data_info *info, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err)
{
	int rc = *spec->path ? parse_inputs_and_classes(info, spec, err)
	                     : take_shape_of_model(info, spec, request, err);

	if (!rc)
		complete_form(info);
	return rc;
}
