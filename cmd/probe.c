/* probe.c - gtrain probe: list the devices and what they can do. */
#include <stdio.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/probe_print.h"

struct probe_cli {
	struct gt_cmd_common common;
};

static const struct gt_opt options[] = { GT_CMD_COMMON(struct probe_cli), { 0 } };

const struct gt_opt *gt_cmd_probe_options(void)
{
	return options;
}

const char gt_probe_order_note[] =
    "GPUs of different models: order assumed PCI_BUS_ID; set CUDA_DEVICE_ORDER=PCI_BUS_ID "
    "to be sure";

const char *gt_probe_device(char buffer[GT_DEVICE_NAME_SIZE], const struct gt_gpu *gpu)
{
	if (gpu->logical < 0)
		return NULL;
	snprintf(buffer, GT_DEVICE_NAME_SIZE, "cuda:%d", gpu->logical);
	return buffer;
}

const char *gt_probe_capability(char buffer[16], const struct gt_gpu *gpu)
{
	if (!gpu->capability.known)
		return NULL;
	snprintf(buffer, 16, "%u.%u", (unsigned)(gpu->capability.value / 10),
	    (unsigned)(gpu->capability.value % 10));
	return buffer;
}

const char *gt_probe_runtime(char buffer[32], const struct gt_gpus *gpus)
{
	unsigned version = (unsigned)gpus->cuda_version.value;

	if (!gpus->cuda_version.known)
		return NULL;
	snprintf(buffer, 32, "%u.%u", version / 1000, version % 1000 / 10);
	return buffer;
}

int gt_cmd_probe(int argc, char **argv)
{
	const struct gt_probe_options where = {
		.nvml_library = getenv("GTRAIN_NVML"),
		.visible_devices = getenv("CUDA_VISIBLE_DEVICES"),
		.device_order = getenv("CUDA_DEVICE_ORDER"),
	};
	struct probe_cli cli;
	struct gt_cmd_env env;
	struct gt_probe probe;
	struct gt_err err = GT_ERR_INIT;
	int rc, status = gt_cmd_begin(&env, &cli, &cli.common, argc, argv);

	if (status != GT_CMD_GO)
		return status;
	rc = gt_probe_read(&probe, &where, &err);
	if (!rc) {
		rc = cli.common.json ? gt_probe_print_json(stdout, &probe, &err)
		                     : gt_probe_print_text(stdout, env.color, &probe, &err);
		gt_probe_release(&probe);
	}
	return gt_cmd_end(&env, rc, &err);
}
