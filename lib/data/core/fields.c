/* fields.c - samples with several inputs: their keys, shapes and errors. */
#include "lib/data/core/fields.h"

#include <stdio.h>
#include <string.h>

bool gt_fields_wanted(const struct gt_data_request *request)
{
	return gt_sample_has_fields(&request->form);
}

bool gt_field_may_lack(const struct gt_sample_field *field)
{
	enum gt_field_meaning meaning = gt_field_meaning(field);

	return meaning == GT_FIELD_POSITIONS || meaning == GT_FIELD_TYPES;
}

const char *gt_field_value(const struct gt_spec *spec, const struct gt_sample_field *field)
{
	char key[sizeof(GT_FIELD_KEY) + GT_FIELD_NAME];

	snprintf(key, sizeof(key), GT_FIELD_KEY "%s", field->name);
	return gt_spec_value(spec, key);
}

int gt_fields_hint(const struct gt_data_request *request, const char *how, struct gt_err *err)
{
	char text[GT_FIELDS_TEXT];

	return gt_err_hint(err, "the network takes %s%s%s",
	    gt_sample_fields_text(text, &request->form), how ? "; " : "", how ? how : "");
}

int gt_fields_check_keys(
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err)
{
	size_t prefix = strlen(GT_FIELD_KEY);

	for (int i = 0; i < spec->count; i++) {
		const char *key = spec->keys[i];

		if (strncmp(key, GT_FIELD_KEY, prefix) ||
		    (gt_fields_wanted(request) &&
		        gt_sample_field_find(&request->form, key + prefix) >= 0))
			continue;
		gt_err_set(err, GT_EINVAL, "data option '%s': the network has no input '%s'", key,
		    key + prefix);
		return gt_fields_wanted(request)
		           ? gt_fields_hint(request, NULL, err)
		           : gt_err_hint(err,
		                 "it is for exported networks that take several inputs, or whole "
		                 "numbers");
	}
	return 0;
}

/* Write the sizes as "[3, 4]". */
static const char *sizes_text(char text[GT_FIELD_SHAPE], int ndim, const int64_t *shape)
{
	size_t used = (size_t)snprintf(text, GT_FIELD_SHAPE, "[");

	for (int i = 0; i < ndim && used + 32 < GT_FIELD_SHAPE; i++)
		used += (size_t)snprintf(text + used, GT_FIELD_SHAPE - used, "%s%lld",
		    i ? ", " : "", (long long)shape[i]);
	snprintf(text + used, GT_FIELD_SHAPE - used, "]");
	return text;
}

int gt_field_take_shape(struct gt_sample_field *out, const struct gt_sample_field *wanted, int ndim,
    const int64_t *shape, const char *name, struct gt_err *err)
{
	char takes[GT_FIELD_SHAPE], has[GT_FIELD_SHAPE];
	bool fits = ndim == wanted->ndim;

	for (int i = 0; fits && i < ndim; i++)
		fits = shape[i] >= 1 && shape[i] <= GT_FIELD_VALUES &&
		       (wanted->open >> i & 1 || shape[i] == wanted->shape[i]);
	if (!fits)
		return gt_err_set(err, GT_EFORMAT,
		    "'%s' has samples of the shape %s, but the network takes '%s' of the shape %s",
		    name, sizes_text(has, ndim, shape), wanted->name,
		    gt_field_shape_text(takes, wanted));
	*out = *wanted;
	out->open = 0;
	for (int i = 0; i < ndim; i++)
		out->shape[i] = (int)shape[i];
	return 0;
}

int gt_fields_finish(struct gt_data_info *info, struct gt_err *err)
{
	struct gt_sample_form *form = &info->form;
	int64_t values = 0;

	for (int i = 0; i < form->field_count; i++)
		values += gt_field_values(&form->fields[i]);
	if (values > GT_FIELD_VALUES)
		return gt_err_set(
		    err, GT_EFORMAT, "a sample has more than %d values", (int)GT_FIELD_VALUES);
	form->features = form->kind == GT_SAMPLE_VECTOR ? (int)values : 0;
	info->input_bytes = gt_sample_field_at(form, form->field_count);
	return 0;
}
