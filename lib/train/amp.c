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

/* Sums stay float32 in fp16, because they may exceed 65504, the largest number of float16. */
struct gt_precision gt_amp_precision(enum gt_amp amp, bool tf32)
{
	static const struct gt_precision modes[] = {
		[GT_AMP_OFF] = { .low = GT_F32 },
		[GT_AMP_BF16] = { .low = GT_BF16, .low_sums = true },
		[GT_AMP_BF16_AUTOCAST] = { .low = GT_BF16 },
		[GT_AMP_FP16] = { .low = GT_F16, .scaled = true },
	};
	struct gt_precision precision = modes[amp];

	precision.tf32 = tf32;
	return precision;
}
