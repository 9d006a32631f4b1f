/* plan.h - the command `gtrain plan`: memory and step time of a run on a described cluster. */
#ifndef GT_CMD_PLAN_PLAN_H
#define GT_CMD_PLAN_PLAN_H

#include "cmd/train/options.h"
#include "lib/plan/simulate.h"
#include "lib/train/report/work.h"

/* The options of `gtrain plan`. Strings are as the user wrote them. */
struct gt_plan_cli {
	struct gt_cmd_common common;
	const char *model, *data, *batch, *cluster, *calibration; /* NULL if not given */
	bool search;
};

/* A run with its memory and its times on a cluster. */
struct gt_plan_layout {
	struct gt_train_options options;
	struct gt_train_outline outline;
	struct gt_train_stage *stages; /* [outline.stages]; their lists of work are released */
	struct gt_step_times *times;   /* [outline.stages] */
	/* of the stage that needs most, with a batch on its way */
	uint64_t memory_bytes;
	bool fits;
	int slowest;          /* index of the stage that waits least for others */
	double flops;         /* of a step, on all ranks */
	double sent[GT_AXES]; /* bytes that a rank of the slowest stage sends in a step */
	double samples_per_s; /* of all ranks */
	double peak_share;    /* of the peak of all devices; 0: not known */
};

/* ---- layout.c ---- */

/* Plan with these options, of which gt_train_open() has completed those of *t, and simulate a step.
 * With `quick`, the second stage may stand for all between the first and the last. The caller calls
 * gt_plan_layout_release(), also after an error. Errors: those of gt_train_stage_work() and
 * gt_plan_simulate(). */
int gt_plan_layout(struct gt_plan_layout *out, const struct gt_train *t,
    const struct gt_train_options *options, const struct gt_cluster *cluster, bool quick,
    struct gt_err *err);
void gt_plan_layout_release(struct gt_plan_layout *layout);

/* The largest part of a step, and advice. */
struct gt_plan_limit {
	const char *what;   /* "products" */
	const char *advice; /* an option to change; may be "" */
	double part;        /* of the step */
};

void gt_plan_find_limit(
    struct gt_plan_limit *out, const struct gt_plan_layout *l, const struct gt_cluster *cluster);

/* ---- command.c ---- */

/* `gtrain train` with options of `gtrain plan` and those after "--". */
struct gt_plan_command {
	char **words; /* [count], "train" first, and NULL */
	int count;
	struct gt_cmd_env env;   /* that of the command line */
	struct gt_train_cli cli; /* the options */
	char batch[24];          /* the number that replaces "auto" */
};

/* Build and parse the command line. Errors: GT_EINVAL, as `gtrain train` finds them. The caller
 * calls gt_plan_command_close(), also after an error. */
int gt_plan_command_open(struct gt_plan_command *c, const struct gt_cmd_env *env,
    const struct gt_plan_cli *cli, struct gt_err *err);
void gt_plan_command_close(struct gt_plan_command *c);

/* Replace `--batch auto` by the batch that was chosen. */
void gt_plan_command_set_batch(struct gt_plan_command *c, int batch);

/* Return the command line that runs the plan, or, if `searched` is not NULL, this layout instead;
 * the caller frees it. */
char *gt_plan_command_text(const struct gt_plan_command *c, const struct gt_cluster *cluster,
    const struct gt_plan_layout *searched, struct gt_err *err);

/* ---- print.c ---- */

/* The output: a plan, and the command that runs it. */
struct gt_plan_report {
	const char *cluster_name; /* value of --cluster */
	const struct gt_cluster *cluster;
	const struct gt_plan_layout *layout;
	char *command;
	const char *note; /* or NULL */
};

void gt_plan_print(const struct gt_plan_report *r);

/* Print a table of layouts, the fastest first. */
void gt_plan_print_table(const struct gt_plan_layout *layouts, int count, int tried);

/* Return the plan as JSON, which the caller frees, or NULL without memory. */
json_t *gt_plan_describe(const struct gt_plan_report *r);

extern const struct gt_cmd_work gt_cmd_plan;
extern const struct gt_opt gt_plan_options[];

#endif
