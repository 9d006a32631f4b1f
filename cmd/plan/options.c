/* options.c - the options of `gtrain plan`. */
#include "cmd/plan/plan.h"

#define AT(member) GT_OPT_FIELD(struct gt_plan_cli, member)

/* clang-format off */
const struct gt_opt gt_plan_options[] = {
	{ .type = GT_OPT_HEADING, .help = "What to plan" },
	{ "cluster", 0, GT_OPT_STRING, AT(cluster), "SPEC|FILE",
	    "hosts x devices x name, as in 4x8xH100 or 1x2xcpu, or a JSON file",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },
	{ "calibration", 0, GT_OPT_STRING, AT(calibration), "FILE",
	    "measured rates of the device, from gtrain bench calibrate",
	    .complete = GT_COMPLETE_FILE, .otherwise = "nominal ones" },
	{ "model", 0, GT_OPT_STRING, AT(model), "MODEL",
	    "model to train, as for gtrain train", .complete = GT_COMPLETE_MODEL,
	    .otherwise = "an option after -- gives it" },
	{ "data", 0, GT_OPT_STRING, AT(data), "DATA",
	    "training data, as for gtrain train; random needs no files",
	    .complete = GT_COMPLETE_DATA, .otherwise = "an option after -- gives it" },
	{ "batch", 0, GT_OPT_STRING, AT(batch), "N|auto",
	    "samples that a device computes at once; auto: as many as fit into its memory",
	    .otherwise = "that of gtrain train", .words = (const char *const[]){ "auto", NULL },
	    .complete = GT_COMPLETE_WORDS },
	{ "search", 0, GT_OPT_FLAG, AT(search),
	    .help = "find the fastest layout that fits, with as many samples in a step" },
	GT_CMD_COMMON(struct gt_plan_cli),
	{ 0 }
};
/* clang-format on */
