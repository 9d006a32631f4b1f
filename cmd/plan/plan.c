/* plan.c - gtrain plan: the memory and the speed of a run on a described cluster. */
#include "cmd/plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/file.h"
#include "lib/base/text.h"
#include "lib/optim/optim.h"
#include "lib/plan/calibration.h"

/* ---- the cluster ---- */

static int read_json(json_t **out, const char *path, struct gt_err *err)
{
	struct gt_mapping map;
	json_error_t where;

	*out = NULL;
	if (gt_map(&map, path, err))
		return err->code;
	*out = json_loadb((const char *)map.data, map.size, JSON_REJECT_DUPLICATES, &where);
	gt_unmap(&map);
	return *out ? 0 : gt_err_set(err, GT_EFORMAT, "%s:%d: %s", path, where.line, where.text);
}

static int read_cluster(struct gt_cluster *out, const char *text, struct gt_err *err)
{
	json_t *json;
	int rc;

	if (!gt_text_ends_with(text, ".json"))
		return gt_cluster_parse(out, text, err);
	rc = read_json(&json, text, err);
	if (!rc)
		rc = gt_cluster_read(out, json, text, err);
	json_decref(json);
	return rc;
}

/* Rates of another machine may be what the user wants, for a cluster of such machines. */
static int calibrate(struct gt_cluster *c, const char *path, struct gt_log *log, struct gt_err *err)
{
	char here[GT_MACHINE_SIZE];
	const char *machine;
	json_t *json;
	int rc = read_json(&json, path, err);

	if (!rc)
		rc = gt_calibration_apply(c, &machine, json, path, err);
	if (!rc && c->device.host)
		rc = gt_calibration_machine(here, err);
	if (!rc && (c->device.host ? strcmp(machine, here) != 0 : !strstr(machine, c->device.name)))
		gt_log_warn(log, "%s was measured on another machine: %s", path, machine);
	json_decref(json);
	return rc;
}

/* ---- the command ---- */

static const char cpu_plan[] =
    "the plan is that of this program's CPU kernels: a GPU fuses other ops, and NCCL's own memory "
    "is not counted";
static const char nominal[] = "the rates of this CPU are nominal, not measured";

static int open_train(struct gt_train **t, struct gt_plan_command *c,
    const struct gt_cluster *cluster, struct gt_err *err)
{
	struct gt_train_options *o = &c->cli.train;

	o->nproc = cluster->hosts * cluster->devices;
	o->where.described_bytes = (uint64_t)cluster->device.memory_bytes;
	if (gt_optim_rule(o->optim.kind)->operand == GT_OPERAND_TENSORS)
		gt_log_warn(&c->env.log,
		    "the products in the updates of --optimizer %s are not in the time",
		    gt_optim_names[o->optim.kind]);
	return gt_train_open(t, o, true, &c->env.log, err);
}

static int report(const struct gt_plan_layout *l, const struct gt_plan_command *c,
    const struct gt_plan_cli *cli, const struct gt_cluster *cluster, struct gt_err *err)
{
	struct gt_plan_report r = { .cluster_name = cli->cluster,
		.cluster = cluster,
		.layout = l,
		.note = !cluster->device.host        ? cpu_plan
		        : cluster->device.calibrated ? NULL
		                                     : nominal };
	char *command = gt_plan_command_text(c, cluster, err);
	int rc = command ? 0 : GT_ENOMEM;

	r.command = command;
	if (!rc && cli->common.json)
		rc = gt_cmd_print_json(gt_plan_describe(&r), JSON_INDENT(2), err);
	else if (!rc)
		gt_plan_print(&r);
	free(command);
	return rc;
}

static int plan(struct gt_plan_layout *l, struct gt_plan_command *c, struct gt_cmd_env *env,
    const struct gt_plan_cli *cli, struct gt_err *err)
{
	struct gt_cluster cluster;
	struct gt_train *t = NULL;
	int rc = read_cluster(&cluster, cli->cluster, err);

	if (!rc && cli->calibration)
		rc = calibrate(&cluster, cli->calibration, &env->log, err);
	if (!rc)
		rc = gt_plan_command_open(c, env, cli, err);
	if (!rc)
		gt_cluster_use_threads(&cluster, c->cli.threads);
	if (!rc)
		rc = open_train(&t, c, &cluster, err);
	if (!rc)
		rc = gt_plan_layout(l, t, &c->cli.train, &cluster, err);
	if (!rc)
		rc = report(l, c, cli, &cluster, err);
	if (!rc && !l->fits)
		env->status = GT_EXIT_FAILED;
	gt_train_close(t);
	return rc;
}

static int run_plan(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	struct gt_plan_command command = { 0 };
	struct gt_plan_layout layout = { 0 };
	int rc = gt_opts_require(&env->opts, err);

	if (!rc)
		rc = plan(&layout, &command, env, values, err);
	gt_plan_layout_release(&layout);
	gt_plan_command_close(&command);
	return rc;
}

const struct gt_cmd_work gt_cmd_plan = { gt_plan_options, sizeof(struct gt_plan_cli), run_plan };
