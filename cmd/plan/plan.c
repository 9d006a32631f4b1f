/* plan.c - gtrain plan: the memory and the speed of a run on a described cluster. */
#include "cmd/plan/plan.h"
#include "cmd/plan/search.h"

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
	/* The mapping of an empty file has no address. */
	*out = json_loadb(
	    map.size ? (const char *)map.data : "", map.size, JSON_REJECT_DUPLICATES, &where);
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

/* ---- the run ---- */

static const char cpu_plan[] =
    "the plan is that of this program's CPU kernels: a GPU fuses other ops, and NCCL's own memory "
    "is not counted";
static const char nominal[] = "the rates of this CPU are nominal, not measured";

/* Tensor cores compute 16-bit products faster, so a search takes them unless --amp is given. */
static void choose_amp(
    const struct gt_plan_command *c, const struct gt_cluster *cluster, struct gt_train_options *o)
{
	const struct gt_cluster_device *d = &cluster->device;

	if (gt_opts_source(&c->env.opts, "amp") == GT_OPT_DEFAULT && !d->host &&
	    d->peak[GT_PRODUCT_BF16] > d->peak[GT_PRODUCT_F32])
		o->amp = GT_AMP_BF16;
}

/* The samples of a step on all ranks, as the options say. */
static int64_t step_samples(const struct gt_train_options *o)
{
	int64_t data = gt_parallel_data_ranks(&o->parallel, o->nproc);

	return o->global_batch ? o->global_batch : data * o->batch * o->accumulate;
}

/* A search sets the sizes of its layouts later. */
static void use_smallest_sizes(struct gt_train_options *o)
{
	o->batch = o->parallel.chunks > 0 ? o->parallel.chunks : 1;
	o->accumulate = 1;
	o->global_batch = 0;
}

static int open_train(struct gt_train **t, struct gt_plan_command *c,
    const struct gt_cluster *cluster, struct gt_err *err)
{
	struct gt_train_options *o = &c->cli.train;
	bool chosen;
	int rc;

	o->where.described_bytes = (uint64_t)cluster->device.memory_bytes;
	o->where.described_gpu = !cluster->device.host;
	if (gt_optim_rule(o->optim.kind)->operand == GT_OPERAND_TENSORS)
		gt_log_warn(&c->env.log,
		    "the products in the updates of --optimizer %s are not in the time",
		    gt_optim_names[o->optim.kind]);
	chosen = !o->batch;
	rc = gt_train_open(t, o, true, &c->env.log, err);
	if (!rc && chosen)
		gt_plan_command_set_batch(c, o->batch);
	return rc;
}

/* ---- reports ---- */

/* A plan with its command, which the caller frees as r->command. */
static int describe(struct gt_plan_report *r, const struct gt_plan_layout *l,
    const struct gt_plan_command *c, const struct gt_plan_cli *cli,
    const struct gt_cluster *cluster, struct gt_err *err)
{
	*r = (struct gt_plan_report){ .cluster_name = cli->cluster,
		.cluster = cluster,
		.layout = l,
		.note = !cluster->device.host        ? cpu_plan
		        : cluster->device.calibrated ? NULL
		                                     : nominal };
	r->command = gt_plan_command_text(c, cluster, cli->search ? l : NULL, err);
	return r->command ? 0 : err->code;
}

static int report_one(const struct gt_plan_layout *l, const struct gt_plan_command *c,
    const struct gt_plan_cli *cli, const struct gt_cluster *cluster, struct gt_err *err)
{
	struct gt_plan_report r;
	int rc = describe(&r, l, c, cli, cluster, err);

	if (!rc && cli->common.json)
		rc = gt_cmd_print_json(gt_plan_describe(&r), JSON_INDENT(2), err);
	else if (!rc)
		gt_plan_print(&r);
	free(r.command);
	return rc;
}

static int report_found(const struct gt_plan_found *found, const struct gt_plan_command *c,
    const struct gt_plan_cli *cli, const struct gt_cluster *cluster, struct gt_err *err)
{
	json_t *list = json_array();
	int rc = 0;

	if (!cli->common.json) {
		json_decref(list);
		gt_plan_print_table(found->best, found->count, found->tried);
		return report_one(&found->best[0], c, cli, cluster, err);
	}
	for (int i = 0; !rc && i < found->count; i++) {
		struct gt_plan_report r;

		rc = describe(&r, &found->best[i], c, cli, cluster, err);
		if (!rc)
			json_array_append_new(list, gt_plan_describe(&r));
		free(r.command);
	}
	if (!rc)
		return gt_cmd_print_json(
		    json_pack("{s:i,s:o}", "tried", found->tried, "layouts", list), JSON_INDENT(2),
		    err);
	json_decref(list);
	return rc;
}

/* ---- the command ---- */

static int plan_one(struct gt_plan_command *c, struct gt_cmd_env *env,
    const struct gt_plan_cli *cli, const struct gt_cluster *cluster, struct gt_err *err)
{
	struct gt_plan_layout layout = { 0 };
	struct gt_train *t = NULL;
	int rc = open_train(&t, c, cluster, err);

	if (!rc)
		rc = gt_plan_layout(&layout, t, &c->cli.train, cluster, false, err);
	if (!rc)
		rc = report_one(&layout, c, cli, cluster, err);
	if (!rc && !layout.fits)
		env->status = GT_EXIT_FAILED;
	gt_plan_layout_release(&layout);
	gt_train_close(t);
	return rc;
}

static int search(struct gt_plan_command *c, const struct gt_plan_cli *cli,
    const struct gt_cluster *cluster, struct gt_err *err)
{
	struct gt_plan_found found = { .count = 0 };
	struct gt_train_options *o = &c->cli.train;
	int64_t samples = step_samples(o);
	struct gt_train *t = NULL;
	int rc;

	if (!samples) {
		gt_err_set(err, GT_EINVAL, "--batch auto cannot be combined with --search");
		return gt_err_hint(err,
		    "a search chooses the batch: --global-batch N gives the samples in a step");
	}
	choose_amp(c, cluster, o);
	use_smallest_sizes(o);
	rc = open_train(&t, c, cluster, err);
	if (!rc)
		rc = gt_plan_search(&found, t, c, cluster, samples, err);
	if (!rc)
		rc = report_found(&found, c, cli, cluster, err);
	gt_plan_found_release(&found);
	gt_train_close(t);
	return rc;
}

static int run_plan(void *values, struct gt_cmd_env *env, struct gt_err *err)
{
	const struct gt_plan_cli *cli = values;
	struct gt_plan_command command = { 0 };
	struct gt_cluster cluster;
	int rc = read_cluster(&cluster, cli->cluster, err);

	if (!rc && cli->calibration)
		rc = calibrate(&cluster, cli->calibration, &env->log, err);
	if (!rc)
		rc = gt_plan_command_open(&command, env, cli, err);
	if (!rc) {
		command.cli.train.nproc = cluster.hosts * cluster.devices;
		gt_cluster_use_threads(&cluster, command.cli.threads);
		rc = cli->search ? search(&command, cli, &cluster, err)
		                 : plan_one(&command, env, cli, &cluster, err);
	}
	gt_plan_command_close(&command);
	return rc;
}

const struct gt_cmd_work gt_cmd_plan = { gt_plan_options, sizeof(struct gt_plan_cli), run_plan };
