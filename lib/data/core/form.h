/* form.h - private: the form of samples that no file describes. */
#ifndef GT_DATA_CORE_FORM_H
#define GT_DATA_CORE_FORM_H

#include "lib/data/core/spec.h"

/* Set the form of samples, info->targets and info->input_bytes: from INPUTS/CLASSES in the spec, or
 * from the model that the request describes. Errors: GT_EINVAL. */
int gt_form_choose(struct gt_data_info *info, const struct gt_spec *spec,
    const struct gt_data_request *request, struct gt_err *err);

#endif
