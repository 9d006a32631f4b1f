/* amp.h - automatic mixed precision: its modes, their names and their data types. */
#ifndef GT_TRAIN_AMP_H
#define GT_TRAIN_AMP_H

#include <stdbool.h>

#include "lib/device/precision.h"

/* Modes of mixed precision, with the data types of torch.autocast; GT_AMP_BF16 also has bfloat16
 * embeddings and residual sums. */
enum gt_amp { GT_AMP_OFF, GT_AMP_BF16, GT_AMP_BF16_AUTOCAST, GT_AMP_FP16, GT_AMPS };

/* Names by enum gt_amp, ended by NULL. */
extern const char *const gt_amp_names[GT_AMPS + 1];

/* Return the precision of a mode; `tf32` allows TF32 factors. */
struct gt_precision gt_amp_precision(enum gt_amp amp, bool tf32);

#endif
