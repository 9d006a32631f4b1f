/* cuda_variables.h - environment variables that CUDA reads when it starts. */
#ifndef GT_CMD_TRAIN_CUDA_VARIABLES_H
#define GT_CMD_TRAIN_CUDA_VARIABLES_H

#include "cmd/train/options.h"

/* If the model is a pipeline, set CUDA_DEVICE_MAX_CONNECTIONS to 32, unless it is set. Call this
 * before CUDA is asked for its GPUs, and before there are threads. */
void gt_cmd_ask_for_queues(const struct gt_train_cli *cli);

/* If ranks of this process share a GPU, set CUDA_DEVICE_MAX_CONNECTIONS to 32 and
 * CUDA_MODULE_LOADING to EAGER, each unless it is set, and start this program again if one was
 * set. argv[0] is the name of the command. Call this after --nproc is known and before anything was
 * written. */
void gt_cmd_restart_for_shared_gpus(
    const struct gt_train_cli *cli, int argc, char **argv, struct gt_log *log);

#endif
