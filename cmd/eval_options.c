/* eval_options.c - what `gtrain eval` is told. */
#include "cmd/eval_options.h"

#define AT(member) GT_OPT_FIELD(struct gt_eval_cli, member)

static const char *const devices[] = { "cpu", NULL };

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "model", 0, GT_OPT_STRING, AT(model), "MODEL",
	    "the architecture: NAME[:key=value,...]",
	    .otherwise = "what the run directory of --ckpt says" },
	{ "ckpt", 0, GT_OPT_STRING, AT(ckpt), "CKPT", "checkpoint file or run directory",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },
	{ "data", 0, GT_OPT_STRING, AT(data), "DATA",
	    "data set to measure on: KIND:PATH[,key=value...]", .flags = GT_OPT_REQUIRED },
	{ "vocab", 0, GT_OPT_STRING, AT(vocab), "FILE", "vocabulary that training wrote",
	    .otherwise = "the one in the run directory of --ckpt",
	    .complete = GT_COMPLETE_FILE },

	{ .type = GT_OPT_HEADING, .help = "Loading the checkpoint" },
	{ "map", 0, GT_OPT_LIST, AT(map), "REGEX=REPLACEMENT",
	    .help = "rename keys of the checkpoint; may be given several times" },
	{ "strict", 0, GT_OPT_YESNO, AT(strict),
	    .help = "no: list missing and unexpected keys and go on", .initial = "yes" },

	{ .type = GT_OPT_HEADING, .help = "Machine and loading" },
	{ "batch", 0, GT_OPT_INT, AT(batch), "N", "samples per batch", .initial = "64", .min = 1,
	    .max = 65536 },
	{ "amp", 0, GT_OPT_CHOICE, AT(amp), .words = gt_amp_names, .initial = "off",
	    .help = "mixed precision: data type of products and convolutions" },
	{ "device", 0, GT_OPT_STRING, AT(device), "LIST", "where to compute", .initial = "cpu",
	    .words = devices, .complete = GT_COMPLETE_WORDS },
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "threads that compute",
	    .otherwise = "one per core", .min = 1, .max = 4096 },
	{ "workers", 0, GT_OPT_INT, AT(workers), "N",
	    "threads that read data; 0: the computing thread does", .initial = "2", .max = 256 },

	GT_CMD_COMMON(struct gt_eval_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_eval_options(void)
{
	return table;
}
