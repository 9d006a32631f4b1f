/* options.h - the options of `gtrain train`. */
#ifndef GT_CMD_TRAIN_OPTIONS_H
#define GT_CMD_TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/cmd.h"
#include "lib/comm/comm.h"
#include "lib/train/train.h"

/* The options of `gtrain train`: those of the library (train), and those that only the command
 * has. */
struct gt_train_cli {
	struct gt_cmd_common common;
	struct gt_train_options train;
#include "lib/train/program_fields.inc"
};

/* The option table. */
extern const struct gt_opt gt_train_rows[];

#endif
