/* probe.c - gtrain probe: list the devices and their abilities. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/probe/print.h"
#include "cmd/probe/watch.h"
#include "lib/base/progress.h"

struct probe_cli {
	struct gt_cmd_common common;
	double watch_s; /* 0: once */
	bool topology, bandwidth, check, csv;
};

#define AT(member) GT_OPT_FIELD(struct probe_cli, member)

/* clang-format off */
static const struct gt_opt options[] = {
	{ "watch", 0, GT_OPT_DURATION, AT(watch_s), "SECONDS", .flags = GT_OPT_ONCE, .implied = "1",
	    .min = 0.1, .max = 86400, 
	    .help = "repeat every SECONDS (1 if not given), and mark changes" },
	{ "topology", 0, GT_OPT_FLAG, AT(topology), .flags = GT_OPT_ONCE,
	    .excludes = "csv",
	    .help = "print how GPUs are linked, and the CPUs near them" },
	{ "bandwidth", 0, GT_OPT_FLAG, AT(bandwidth), .flags = GT_OPT_ONCE,
	    .excludes = "csv",
	    .help = "measure the speed of copies, and check data copied between GPUs" },
	{ "check", 0, GT_OPT_FLAG, AT(check), .flags = GT_OPT_ONCE,
	    .excludes = "csv",
	    .help = "report problems; exit with 1 if a run would fail" },
	{ "csv", 0, GT_OPT_FLAG, AT(csv), .flags = GT_OPT_ONCE, .excludes = "json",
	    .help = "print a line of CSV for each GPU, as nvidia-smi dmon does" },
	GT_CMD_COMMON(struct probe_cli),
	{ 0 }
};
/* clang-format on */

const char gt_probe_order_note[] =
    "GPUs of different models: CUDA may number them in another order; set "
    "CUDA_DEVICE_ORDER=PCI_BUS_ID";

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

/* Facts for a report. */
struct report {
	const struct probe_cli *cli;
	bool color;
	int width;   /* columns of the terminal; 0: lines are not broken */
	bool errors; /* the last report has findings that are errors */
	bool headed; /* the header of --csv is printed */
};

static int find_problems(struct gt_findings *out, const struct gt_probe *probe,
    const struct gt_bandwidth *bandwidth, const struct gt_topology *topology, struct gt_err *err)
{
	struct gt_check_facts facts;

	gt_check_facts_read(&facts, probe, NULL);
	facts.copies = bandwidth;
	facts.topology = topology;
	return gt_check(out, probe, &facts, err);
}

/* More than the machine alone, as far as it was asked for. */
static int print_more(struct report *report, FILE *out, const struct gt_probe *probe,
    const char *nvml, struct gt_err *err)
{
	const struct probe_cli *cli = report->cli;
	struct gt_topology topology = { 0 };
	struct gt_bandwidth bandwidth = { 0 };
	struct gt_findings findings = { 0 };
	struct gt_probe_more more = { .topology = cli->topology ? &topology : NULL,
		.bandwidth = cli->bandwidth ? &bandwidth : NULL,
		.findings = cli->check ? &findings : NULL,
		.width = report->width };
	int rc = cli->topology || cli->check ? gt_topology_read(&topology, nvml, err) : 0;

	if (!rc && (cli->bandwidth || cli->check))
		rc = gt_bandwidth_read(&bandwidth, cli->bandwidth, err);
	if (!rc && cli->check)
		rc = find_problems(&findings, probe, &bandwidth, &topology, err);
	report->errors = findings.errors;
	if (!rc)
		rc = cli->common.json ? gt_probe_print_json(out, probe, &more, err)
		                      : gt_probe_print_text(out, report->color, probe, &more, err);
	gt_findings_release(&findings);
	gt_bandwidth_release(&bandwidth);
	gt_topology_release(&topology);
	return rc;
}

/* Look at the machine, and print it. */
static int print_report(void *self, FILE *out, struct gt_err *err)
{
	const struct gt_probe_options where = {
		.nvml_library = getenv("GTRAIN_NVML"),
		.visible_devices = getenv("CUDA_VISIBLE_DEVICES"),
		.device_order = getenv("CUDA_DEVICE_ORDER"),
	};
	struct report *report = self;
	struct gt_probe probe;
	int rc = gt_probe_read(&probe, &where, err);

	if (rc)
		return rc;
	if (report->cli->csv) {
		rc = gt_probe_print_csv(out, &probe.gpus, !report->headed, err);
		report->headed = true;
	} else {
		rc = print_more(report, out, &probe, where.nvml_library, err);
	}
	gt_probe_release(&probe);
	return rc;
}

/* Labels are not in bold, so that marks stand out. */
static int watch(struct report *report, bool color, struct gt_err *err)
{
	const struct gt_probe_watch watch = {
		.seconds = report->cli->watch_s,
		.no_marks = report->cli->common.json || report->cli->csv,
		.draw = !report->cli->common.json && !report->cli->csv &&
		        gt_cmd_can_draw(STDOUT_FILENO),
		.color = color,
		.report = print_report,
		.self = report,
	};

	return gt_probe_watch(&watch, err);
}

static int probe(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct report report = { .cli = values };
	int rc;

	if (report.cli->watch_s > 0) {
		rc = watch(&report, env->color, err);
	} else {
		report.color = env->color;
		if (gt_cmd_can_draw(STDOUT_FILENO))
			report.width = gt_progress_columns(
			    &(struct gt_progress){ .stream = stdout, .terminal = true });
		rc = print_report(&report, stdout, err);
	}
	env->status = report.errors ? GT_EXIT_FAILED : GT_EXIT_DONE;
	return rc;
}

const struct gt_cmd_work gt_cmd_probe = { options, sizeof(struct probe_cli), probe };
