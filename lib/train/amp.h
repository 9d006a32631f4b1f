/* amp.h - automatic mixed precision: its modes, their names and their data types. */
#ifndef GT_TRAIN_AMP_H
#define GT_TRAIN_AMP_H

#include <stdbool.h>

#include "lib/device/precision.h"

/* The modes of mixed precision. GT_AMP_BF16_AUTOCAST and GT_AMP_FP16 choose data types as
 * torch.autocast does. GT_AMP_BF16 also computes embeddings and residual sums in bfloat16. */
enum gt_amp { GT_AMP_OFF, GT_AMP_BF16, GT_AMP_BF16_AUTOCAST, GT_AMP_FP16, GT_AMPS };

/* The names "off", "bf16", "bf16-autocast", "fp16", indexed by enum gt_amp; NULL at the end. */
extern const char *const gt_amp_names[GT_AMPS + 1];

/* Return the precision of a mode. `tf32`: float32 factors of products may be rounded to TF32. */
struct gt_precision gt_amp_precision(enum gt_amp amp, bool tf32);

#endif
