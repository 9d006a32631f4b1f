/* eval_options.c - the options of `gtrain eval`. */
#include "cmd/eval_options.h"

#include "cmd/ranks.h"

/* Where an option that the command alone reads goes, and one of the library's. */
#define AT(member)  GT_OPT_FIELD(struct gt_eval_cli, member)
#define RUN(member) AT(eval.member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "What to measure" },
	{ "model", 0, GT_OPT_STRING, RUN(model), "MODEL",
	    "the architecture: NAME[:key=value,...], or a folder of Hugging Face's",
	    .otherwise = "what the run directory of --ckpt says",
	    .complete = GT_COMPLETE_MODEL },
	{ "ckpt", 0, GT_OPT_STRING, RUN(ckpt), "CKPT",
	    "checkpoint file, run directory, or a folder of Hugging Face's",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },
	{ "data", 0, GT_OPT_STRING, RUN(data), "DATA",
	    "data set to measure on: KIND:PATH[,key=value...]",
	    .complete = GT_COMPLETE_DATA, .flags = GT_OPT_REQUIRED },
	{ "vocab", 0, GT_OPT_STRING, RUN(vocab), "FILE", "vocabulary that training wrote",
	    .otherwise = "the one in the run directory of --ckpt",
	    .complete = GT_COMPLETE_FILE, .excludes = "tokenizer" },
	{ "tokenizer", 0, GT_OPT_STRING, AT(tokenizer), "TOKENIZER",
	    "tokenizer.json, or a folder with it or with GPT-2's vocab.json and merges.txt",
	    .otherwise = "the one in the run directory of --ckpt", .complete = GT_COMPLETE_FILE,
	    .excludes = "vocab" },

	{ .type = GT_OPT_HEADING, .help = "What to print" },
	{ "per-class", 0, GT_OPT_FLAG, AT(per_class),
	    .help = "how many samples of each class are right" },
	{ "confusion", 0, GT_OPT_FLAG, AT(confusion),
	    .help = "for each class, which classes its samples are taken for" },
	{ "predictions", 0, GT_OPT_STRING, AT(predictions), "FILE",
	    "write each sample's target and the model's answer as CSV",
	    .complete = GT_COMPLETE_FILE },

	{ .type = GT_OPT_HEADING, .help = "Loading the checkpoint" },
	{ "map", 0, GT_OPT_LIST, RUN(load.map), "REGEX=REPLACEMENT",
	    .help = "rename keys of the checkpoint; may be given several times" },
	GT_CMD_NAMES(struct gt_eval_cli, eval.load.names, "keys of the checkpoint"),
	{ "strict", 0, GT_OPT_YESNO, RUN(load.lenient),
	    .help = "no: list missing and unexpected keys and go on", .initial = "yes",
	    .flags = GT_OPT_INVERTED },

	{ .type = GT_OPT_HEADING, .help = "Machine and loading" },
	{ "batch", 0, GT_OPT_INT, RUN(how.batch), "N", "samples per batch", .initial = "64",
	    .min = 1, .max = 65536 },
	{ "amp", 0, GT_OPT_CHOICE, RUN(how.amp), .words = gt_amp_names, .initial = "off",
	    .help = "mixed precision: data type of products and convolutions" },
	GT_CMD_TF32(struct gt_eval_cli, eval.tf32),
	GT_CMD_DEVICE(struct gt_eval_cli, eval.device, "where to compute"),
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "threads that compute",
	    .otherwise = "one per core", .min = 1, .max = 4096 },
	{ "workers", 0, GT_OPT_INT, RUN(how.workers), "N",
	    "threads that read data; 0: the computing thread does", .initial = "2", .max = 256 },

	{ .type = GT_OPT_HEADING, .help = "Ranks" },
	GT_CMD_NPROC(
	    struct gt_eval_cli, nproc, "1", "processes that share the batches of the data set"),
	GT_CMD_BACKEND(struct gt_eval_cli, comm.backend),
	GT_CMD_TIMEOUT(struct gt_eval_cli, comm.timeout_s, "10m"),

	GT_CMD_COMMON(struct gt_eval_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_eval_options(void)
{
	return table;
}
