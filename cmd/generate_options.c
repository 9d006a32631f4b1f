/* generate_options.c - what `gtrain generate` is told. */
#include "cmd/generate_options.h"

#include <math.h>

#define AT(member) GT_OPT_FIELD(struct gt_generate_cli, member)

/* clang-format off */
static const struct gt_opt table[] = {
	{ .type = GT_OPT_HEADING, .help = "Model" },
	{ "ckpt", 0, GT_OPT_STRING, AT(ckpt), "CKPT",
	    "checkpoint file, run directory, or a folder of Hugging Face's",
	    .complete = GT_COMPLETE_FILE, .flags = GT_OPT_REQUIRED },
	{ "model", 0, GT_OPT_STRING, AT(model), "MODEL",
	    "the architecture: NAME[:key=value,...], or a folder of Hugging Face's",
	    .otherwise = "what the run directory of --ckpt says",
	    .complete = GT_COMPLETE_MODEL },
	{ "vocab", 0, GT_OPT_STRING, AT(vocab), "FILE", "vocabulary that training wrote",
	    .otherwise = "the one in the run directory of --ckpt", .complete = GT_COMPLETE_FILE,
	    .excludes = "tokenizer" },
	{ "tokenizer", 0, GT_OPT_STRING, AT(tokenizer), "TOKENIZER",
	    "tokenizer.json, or a folder with it or with GPT-2's vocab.json and merges.txt",
	    .otherwise = "the one in the run directory of --ckpt", .complete = GT_COMPLETE_FILE,
	    .excludes = "vocab" },

	{ .type = GT_OPT_HEADING, .help = "Text" },
	{ "prompt", 0, GT_OPT_STRING, AT(prompt), "TEXT", "text to go on from", .initial = "\n",
	    .otherwise = "a line break" },
	{ "tokens", 0, GT_OPT_INT, AT(tokens), "N", "tokens to write", .initial = "256", .min = 1,
	    .max = 1e9 },
	{ "temperature", 0, GT_OPT_DOUBLE, AT(sampling.temperature), "X",
	    "below 1 safer, above 1 wilder; 0: always the likeliest", .initial = "0.8",
	    .max = INFINITY },
	{ "top-k", 0, GT_OPT_INT, AT(sampling.top_k), "N",
	    "draw among the N likeliest tokens; 0: all", .initial = "0", .max = 1e9 },
	{ "top-p", 0, GT_OPT_DOUBLE, AT(sampling.top_p), "X",
	    "draw among the fewest likeliest tokens of this probability", .initial = "1",
	    .max = 1 },
	{ "seed", 0, GT_OPT_INT, AT(sampling.seed), "N", "key of the random numbers",
	    .initial = "0", .max = INFINITY },

	{ .type = GT_OPT_HEADING, .help = "Machine" },
	GT_CMD_DEVICE(struct gt_generate_cli, device, "where to compute"),
	GT_CMD_TF32(struct gt_generate_cli, tf32),
	{ "threads", 0, GT_OPT_INT, AT(threads), "N", "threads that compute",
	    .otherwise = "one per core", .min = 1, .max = 4096 },

	GT_CMD_COMMON(struct gt_generate_cli),
	{ 0 }
};
/* clang-format on */

const struct gt_opt *gt_cmd_generate_options(void)
{
	return table;
}
