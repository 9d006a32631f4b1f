/* cuda_variables.h - environment variables that CUDA reads when it starts. */
#ifndef GT_CMD_TRAIN_CUDA_VARIABLES_H
#define GT_CMD_TRAIN_CUDA_VARIABLES_H

#include "cmd/train/options.h"

/* If the model is a pipeline and CUDA_DEVICE_MAX_CONNECTIONS is not in the environment, set it to
 * 32. CUDA then uses 32 hardware queues on each GPU, instead of 8, so fewer streams have to share a
 * queue. Call this before the first call of CUDA and before other threads start. */
void gt_cmd_ask_for_queues(const struct gt_train_cli *cli);

/* If neither NCCL_LAUNCH_ORDER_IMPLICIT nor NCCL_MULTI_RANK_GPU_ENABLE is in the environment, set
 * the first to 1, so that NCCL 2.26 or newer starts the kernels of different groups in the order of
 * the calls. Without it they run one after the other. Call this before other threads start. */
void gt_cmd_ask_for_order(void);

/* If ranks of this process share a GPU, add CUDA_DEVICE_MAX_CONNECTIONS=32 and
 * CUDA_MODULE_LOADING=EAGER (load all kernels at the start) to the environment, except variables
 * that are already there. If a variable was added, start this program again in this process
 * (execv()), so that CUDA reads the new environment. argv[0] is the name of the command. Call this
 * after --nproc is known and before the command writes any output. */
void gt_cmd_restart_for_shared_gpus(
    const struct gt_train_cli *cli, int argc, char **argv, struct gt_log *log);

#endif
