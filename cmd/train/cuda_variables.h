/* cuda_variables.h - environment variables that CUDA reads when it starts. */
#ifndef GT_CMD_TRAIN_CUDA_VARIABLES_H
#define GT_CMD_TRAIN_CUDA_VARIABLES_H

#include "cmd/train/options.h"

/* If the model is a pipeline and CUDA_DEVICE_MAX_CONNECTIONS is not in the environment, set it to
 * 32. Call this before the first call of CUDA and before other threads start. */
void gt_cmd_ask_for_queues(const struct gt_train_cli *cli);

/* If ranks of this process share a GPU, add CUDA_DEVICE_MAX_CONNECTIONS=32 and
 * CUDA_MODULE_LOADING=EAGER to the environment, except variables that are already there. If one was
 * added, start this program again. argv[0] is the name of the command. Call this after --nproc is
 * known and before anything is written. */
void gt_cmd_restart_for_shared_gpus(
    const struct gt_train_cli *cli, int argc, char **argv, struct gt_log *log);

#endif
