/* amp.h - automatic mixed precision: its modes, their names and their data types. */
#ifndef GT_TRAIN_AMP_H
#define GT_TRAIN_AMP_H

#include <stdbool.h>

#include "lib/device/dtype.h"

/* The modes of mixed precision. GT_AMP_BF16_AUTOCAST and GT_AMP_FP16 choose data types as
 * torch.autocast does. GT_AMP_BF16 also computes embeddings and residual sums in bfloat16. */
enum gt_amp { GT_AMP_OFF, GT_AMP_BF16, GT_AMP_BF16_AUTOCAST, GT_AMP_FP16, GT_AMPS };

/* The names "off", "bf16", "bf16-autocast", "fp16", indexed by enum gt_amp; NULL at the end. */
extern const char *const gt_amp_names[GT_AMPS + 1];

/* Return the data type in which matrix products and convolutions are computed; GT_F32 for "off". */
enum gt_dtype gt_amp_type(enum gt_amp amp);

/* Return the value for gt_pass_options.low_sums: whether embeddings and residual sums also have the
 * type of gt_amp_type(). The result is true only for "bf16". In "fp16" residual sums stay float32,
 * because they may exceed 65504, the largest number of float16. */
bool gt_amp_low_sums(enum gt_amp amp);

#endif
