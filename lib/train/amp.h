/* amp.h - automatic mixed precision, by name. */
#ifndef GT_TRAIN_AMP_H
#define GT_TRAIN_AMP_H

#include <stdbool.h>

#include "lib/device/dtype.h"

enum gt_amp { GT_AMP_OFF, GT_AMP_BF16, GT_AMP_BF16_AUTOCAST, GT_AMP_FP16, GT_AMPS };

/* "off", "bf16", "bf16-autocast", "fp16", NULL: the number of a name is its enum gt_amp. */
extern const char *const gt_amp_names[GT_AMPS + 1];

/* The type of products and convolutions; GT_F32 for off. */
enum gt_dtype gt_amp_type(enum gt_amp amp);

/* Whether residual sums have this type, too: low_sums of struct gt_pass_options. Those of float16
 * stay float32, as they may pass 65504, where float16 ends. */
bool gt_amp_sums(enum gt_amp amp);

#endif
