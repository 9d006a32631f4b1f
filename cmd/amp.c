/* amp.c - the words of --amp. */
#include "cmd/amp.h"

#include <stddef.h>

const char *const gt_cmd_amps[] = {
	[GT_CMD_AMP_OFF] = "off", [GT_CMD_AMP_BF16] = "bf16", [GT_CMD_AMPS] = NULL
};

enum gt_dtype gt_cmd_amp_type(enum gt_cmd_amp amp)
{
	static const enum gt_dtype types[] = {
		[GT_CMD_AMP_OFF] = GT_F32, [GT_CMD_AMP_BF16] = GT_BF16
	};

	return types[amp];
}
