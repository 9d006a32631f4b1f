/* cuda_variables.c - environment variables that CUDA reads when it starts. */
#include "cmd/train/cuda_variables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/train/threads.h"
#include "lib/base/mem.h"
#include "lib/device/name.h"

static const char queues[] = "CUDA_DEVICE_MAX_CONNECTIONS", most_queues[] = "32";
static const char loading[] = "CUDA_MODULE_LOADING", eager[] = "EAGER";

/*
 * Streams share the queues of a GPU, and a stream that waits for another rank delays the streams
 * behind it. By default a process has 8 queues on each GPU. A device has three streams, and each
 * group of ranks has one, or three if it is staged (lib/comm/staged.h). So each stream of a rank
 * has a queue of its own, unless the rank has several staged groups. Even then no rank waits for
 * ever, because all ranks queue their collectives in the same order. There are two exceptions:
 *
 * - Ranks that are threads and share a GPU share its queues, and queue work at different times.
 * - The stages of a pipeline queue their messages in different orders. Except over NCCL, where one
 *   group has all messages (lib/parallel/pipeline/ops.c), each link needs a queue of its own.
 *
 * In these two cases gtrain asks for 32 queues, the most that CUDA has. Other runs keep the
 * default, because more queues take time: on an H200 a process starts in 1.0 s with 32 queues and
 * in 0.5 s with 8; eight processes that share the GPU take 10.8 s with 32 and 2.3 s with 8.
 */
void gt_cmd_ask_for_queues(const struct gt_train_cli *cli)
{
	if (cli->train.parallel.stages > 1)
		setenv(queues, most_queues, 0);
}

/* With NCCL_LAUNCH_ORDER_IMPLICIT, NCCL fails where ranks that are threads on one GPU, which
 * NCCL_MULTI_RANK_GPU_ENABLE allows, call it at the same time. */
void gt_cmd_ask_for_order(void)
{
	if (!getenv("NCCL_MULTI_RANK_GPU_ENABLE"))
		setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

/* Whether the ranks are threads, and there are more of them than GPUs. */
static bool ranks_share_gpus(const struct gt_train_cli *cli)
{
	int ranks = gt_cmd_train_thread_ranks(cli);
	struct gt_device_name *names;
	size_t count;
	bool share;

	if (ranks < 2 || cli->dry_run || !cli->train.where.devices ||
	    gt_device_names_read(
	        &names, &count, cli->train.where.devices, gt_backends, GT_ERR_IGNORED))
		return false;
	share = !strcmp(names[0].backend->name, "cuda") && count < (size_t)ranks;
	free(names);
	return share;
}

/* Return whether the variable was not set, and is now. */
static bool set_missing(const char *variable, const char *value, struct gt_log *log)
{
	if (getenv(variable) || setenv(variable, value, 1))
		return false;
	gt_log_verbose(log, "ranks share a GPU: starting again with %s=%s", variable, value);
	return true;
}

/*
 * By default CUDA loads a kernel at its first launch, which may wait for all work of its context.
 * If that includes a stream which waits for a rank of the same process, and this rank waits for
 * the launch, both wait for ever. So all kernels are loaded at the start. CUDA reads the variables
 * once, before it can tell how many GPUs there are: hence the second start.
 *
 * Source: CUDA C++ Programming Guide, "Lazy Loading", "Possible Issues when Adopting Lazy Loading".
 */
void gt_cmd_restart_for_shared_gpus(
    const struct gt_train_cli *cli, int argc, char **argv, struct gt_log *log)
{
	bool more_queues, loads_first;
	char **words;

	if ((getenv(queues) && getenv(loading)) || !ranks_share_gpus(cli))
		return;
	words = gt_calloc((size_t)argc + 2, sizeof(*words), GT_ERR_IGNORED);
	if (!words)
		return;
	words[0] = "gtrain";
	memcpy(words + 1, argv, (size_t)argc * sizeof(*argv));
	more_queues = set_missing(queues, most_queues, log);
	loads_first = set_missing(loading, eager, log);
	if (more_queues || loads_first)
		execv("/proc/self/exe", words);
	/* Without /proc it goes on as it is. */
	free(words);
}
