/* amp.h - the words of --amp. */
#ifndef GT_CMD_AMP_H
#define GT_CMD_AMP_H

#include "lib/device/dtype.h"

enum gt_cmd_amp { GT_CMD_AMP_OFF, GT_CMD_AMP_BF16, GT_CMD_AMPS };

/* "off", "bf16", NULL-terminated. */
extern const char *const gt_cmd_amps[];

/* The type of products and convolutions; GT_F32 for off. */
enum gt_dtype gt_cmd_amp_type(enum gt_cmd_amp amp);

#endif
