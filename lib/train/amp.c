/* amp.c - automatic mixed precision, by name. */
#include "lib/train/amp.h"

#include <stddef.h>

const char *const gt_amp_names[] = {
	[GT_AMP_OFF] = "off",
	[GT_AMP_BF16] = "bf16",
	[GT_AMP_BF16_AUTOCAST] = "bf16-autocast",
	[GT_AMP_FP16] = "fp16",
	[GT_AMPS] = NULL,
};

enum gt_dtype gt_amp_type(enum gt_amp amp)
{
	static const enum gt_dtype types[] = {
		[GT_AMP_OFF] = GT_F32,
		[GT_AMP_BF16] = GT_BF16,
		[GT_AMP_BF16_AUTOCAST] = GT_BF16,
		[GT_AMP_FP16] = GT_F16,
	};

	return types[amp];
}

bool gt_amp_low_sums(enum gt_amp amp)
{
	return amp == GT_AMP_BF16;
}
