/* fields.h - private: samples with several inputs, for a network that takes them. */
#ifndef GT_DATA_CORE_FIELDS_H
#define GT_DATA_CORE_FIELDS_H

#include "lib/data/core/spec.h"

/* The name of a key that stands for a field, as in input.ids=COLUMN, and its setting. */
#define GT_FIELD_KEY "input."

/* Return whether the data set must give fields: the request's model takes several inputs, or whole
 * numbers. */
bool gt_fields_wanted(const struct gt_data_request *request);

/* Return the value of the key of a field, borrowed, or NULL. */
const char *gt_field_value(const struct gt_spec *spec, const struct gt_sample_field *field);

/* Check that the keys of fields are inputs of the model. Errors: GT_EINVAL. */
int gt_fields_check_keys(
    const struct gt_spec *spec, const struct gt_data_request *request, struct gt_err *err);

/* Add to the hint of an error the inputs that the model takes. */
int gt_fields_hint(const struct gt_data_request *request, const char *how, struct gt_err *err);

/* Return whether data may leave a field out, because its values follow from the others. */
bool gt_field_may_lack(const struct gt_sample_field *field);

/* Check a shape against the field of a model, and set *out to the field of the data. `name` is that
 * of the values, for the error. Errors: GT_EFORMAT. */
int gt_field_take_shape(struct gt_sample_field *out, const struct gt_sample_field *wanted, int ndim,
    const int64_t *shape, const char *name, struct gt_err *err);

/* Set the bytes of a sample, and for rows of numbers `features`, from info->form.fields. Errors:
 * GT_EFORMAT if a sample is too large. */
int gt_fields_finish(struct gt_data_info *info, struct gt_err *err);

#endif
